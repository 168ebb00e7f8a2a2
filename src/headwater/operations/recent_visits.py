"""Visits of previews, kept for some minutes so that nothing is fetched twice (J2, W4)."""

from dataclasses import dataclass
from datetime import datetime

from headwater.clock import Clock
from headwater.errors import NoContent
from headwater.fetch.net.http_response import Response
from headwater.fetch.page.feed_links import FeedLink
from headwater.model import Answer, Source, SourceType, Subject

MAX_KEPT_BYTES = 1 << 20  # of one response
_KEPT_SECONDS = 600.0
_MAX_KEPT = 64  # visits


@dataclass(frozen=True, slots=True)
class FirstVisit:
    """The one visit to a source that is not stored yet, of a known or a detected type (J2)."""

    subject: Subject
    started_at: datetime
    duration_ms: int
    answer: Answer
    recognised_as: str | None = None
    feeds: tuple[FeedLink, ...] = ()  # linked by a page
    error: NoContent | None = None  # of a page that links feeds, or whose parts are chosen
    response: Response | None = None  # of a page that is not long


class RecentVisits:
    """The last visits of previews, by podcast, type and URL."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._visits: dict[tuple[object, ...], tuple[float, FirstVisit]] = {}  # in order of time

    def page(self, podcast_id: str, url: str) -> FirstVisit | None:
        """The visit to a page, if its response is kept."""
        self._forget_old()
        _, visited = self._visits.get((podcast_id, SourceType.WEBSITE, url), (0, None))
        return visited if visited is not None and visited.response is not None else None

    def take(self, source: Source) -> FirstVisit | None:
        """The visit of a preview with the settings of this source, once (J2)."""
        self._forget_old()
        _, visited = self._visits.pop(_identity(source), (0, None))
        if visited is None or visited.error is not None:
            return None
        return visited if visited.subject.source.watch == source.watch else None

    def keep(self, visited: FirstVisit) -> None:
        """Keep a visit for the source that may be added, and for other parts of its page.

        Not a large one, nor a timeline: the preview leaves out its older posts.
        """
        answer, source = visited.answer, visited.subject.source
        is_large = answer.permit is not None or answer.size > MAX_KEPT_BYTES
        is_failed = visited.error is not None and visited.response is None
        if is_large or is_failed or source.type is SourceType.TWITTER:
            return
        self._forget_old()
        self._visits.pop(_identity(source), None)
        if len(self._visits) >= _MAX_KEPT:
            del self._visits[next(iter(self._visits))]
        self._visits[_identity(source)] = (self._clock.monotonic() + _KEPT_SECONDS, visited)

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        while self._visits and self._visits[first := next(iter(self._visits))][0] <= now:
            del self._visits[first]


def _identity(source: Source) -> tuple[object, ...]:
    return source.podcast_id, source.type, source.url
