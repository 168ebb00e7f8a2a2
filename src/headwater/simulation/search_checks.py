"""SearchChecks: how often and how much the sites of lost feeds are searched (Y5)."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from headwater.model import Outcome, SourceType
from headwater.rules.feed_search import SearchResult
from headwater.simulation.checker_state import (
    CheckerState,
    LaneRecord,
    SourceRecord,
    StormVerdict,
    VisitAnswer,
)
from headwater.simulation.storm_checks import StormChecks

_WEEK = timedelta(days=7)
_MOST_PAGES, _MOST_CANDIDATES = 2, 3
_GRACE_SECONDS = 2.0
UNREADABLE = "/not-a-feed/"  # in the addresses of candidates that are not feeds


@dataclass(slots=True)
class SearchRecord:
    """The last search for a source."""

    began_at: datetime | None = None  # by the wall clock
    is_open: bool = False
    pages: list[str] = field(default_factory=list)  # visited
    candidates: list[str] = field(default_factory=list)  # fetched
    visiting: str | None = None
    lane: str = ""  # of that visit
    lost_at: float | None = None  # when a poll showed that the feed is lost, until it is searched


class SearchChecks:
    """Counts the visits of searches."""

    def __init__(self, state: CheckerState, storms: StormChecks) -> None:
        self._state = state
        self._storms = storms
        self.searches: dict[str, SearchRecord] = {}  # by source

    def poll_stored(self, record: SourceRecord, answer: VisitAnswer, outcome: Outcome) -> None:
        """Note a feed that is lost: it fails permanently, and worked before or was given up."""
        source, result = record.source, answer.result
        search = self.searches.get(record.id)
        if result.kind == "ok" and search is not None:
            search.lost_at = None
        failure = outcome.failure
        is_own = result.permanent and failure is not None and not failure.local
        if not is_own or (failure is not None and failure.by_host):
            return
        is_lost = outcome.before.first_poll_done or (outcome.before.enabled and not source.enabled)
        if source.type is SourceType.RSS and is_lost:
            search = self.searches.setdefault(record.id, SearchRecord())
            if not search.is_open and not self._is_recent(search):
                search.lost_at = self._state.clock.monotonic()

    def started(self, source_id: str, now: datetime) -> None:
        """Check that the last search began at least a week ago."""
        search = self.searches.setdefault(source_id, SearchRecord())
        if self._is_recent(search):
            self._wrong(source_id, f"it is searched for again after {search.began_at}")
        if search.lost_at is None:
            self._wrong(source_id, "it is searched for and not lost")
        self.searches[source_id] = SearchRecord(now, is_open=True)

    def visit_started(self, lane: LaneRecord, record: SourceRecord, url: str) -> None:
        """Check a visit of a search."""
        search, source = self.searches.get(record.id), record.source
        parts = urlsplit(url)
        if search is None or not search.is_open:
            self._wrong(record.id, f"{url} is visited without a search")
            return
        if lane.name != parts.hostname:
            self._wrong(record.id, f"{url} is visited in the lane of {lane.name}")
        if not source.consecutive_failures or (not source.enabled and not source.disabled_reason):
            self._wrong(record.id, "it is searched for and not lost any more")
        if self._storms.lasts(record) is StormVerdict.YES:
            self._wrong(record.id, "it is searched for in a storm of its host")
        is_page = url == source.url or parts.path == "/"
        visited = search.pages if is_page else search.candidates
        visited.append(url)
        search.visiting, search.lane = url, lane.name
        if len(visited) > (_MOST_PAGES if is_page else _MOST_CANDIDATES):
            self._wrong(record.id, f"one search made the visits {visited}")

    def visit_interrupted(self, source_id: str) -> None:
        """Note that a step was not made: it is made again."""
        search = self.searches[source_id]
        for visited in (search.pages, search.candidates):
            if search.visiting in visited[-1:]:
                visited.pop()
        search.visiting = None

    def stored(self, result: SearchResult) -> None:
        """Check that exactly the candidates that are feeds are suggested."""
        source_id = result.before.source_id
        self.searches[source_id].visiting = None
        new = [one.url for one in result.after.found[len(result.before.found) :]]
        is_feed = result.before.is_candidate_next and result.outcome.failure is None
        if new != ([result.before.next_url] if is_feed else []):
            self._wrong(source_id, f"found {new} at {result.before.next_url}")
        if any(UNREADABLE in url for url in new):
            self._wrong(source_id, f"{new} is not a feed")

    def postponed(self, source_id: str) -> None:
        """Note that a search waits: its own network failed, or the host has a storm."""
        if self.searches[source_id].visiting is not None:
            self.visit_interrupted(source_id)

    def ended(self, source_id: str) -> None:
        """Note that a search is over."""
        search = self.searches[source_id]
        search.is_open, search.visiting = False, None

    def dropped(self, source_id: str) -> None:
        """Note that a search was ended without a visit: it does not count."""
        if self.searches[source_id].pages:
            self._wrong(source_id, "a search was forgotten after a visit")
        self.searches.pop(source_id)

    def stopped(self, *, clean: bool) -> None:
        """Note that running visits were lost, and the holds that they received."""
        for id_, search in self.searches.items():
            url = search.visiting
            if url is not None:
                self.visit_interrupted(id_)
                lane = self._state.lane(search.lane)
                if lane.held_by == url and not clean:
                    lane.held_until = lane.held_before

    def check_all(self) -> None:
        """Find lost feeds that are not searched for."""
        since = self._state.clock.monotonic() - _GRACE_SECONDS
        for id_, search in self.searches.items():
            if search.lost_at is not None and search.lost_at < since:
                self._wrong(id_, "it is lost and not searched for")

    def _is_recent(self, search: SearchRecord) -> bool:
        """Whether a search began within a week; not if the clock was set back before it."""
        began_at, now = search.began_at, self._state.clock.now()
        return began_at is not None and began_at <= now < began_at + _WEEK

    def _wrong(self, source_id: str, what: str) -> None:
        lane = self._state.sources[source_id].lane
        self._state.violate("Y5", lane, source_id, f"{source_id}: {what}")
