"""PageChecks: pages of new posts are read once, for stored posts only, and none is lost (T4)."""

from dataclasses import dataclass

from headwater.model import Outcome, SourceType
from headwater.rules.full_text import PageResult, PageVisit
from headwater.simulation.checker_state import CheckerState, LaneRecord, SourceRecord
from headwater.simulation.wait_checks import SPREAD_SECONDS
from headwater.source_settings import FullText

MAX_ATTEMPTS = 3
_RETRY_SECONDS = 3600.0  # the longest time between two attempts
_MAX_WAIT_SECONDS = 6 * 3600.0  # if a clock that was set back counts the wait
_GRACE_SECONDS = 1800.0  # polls, delays and other pages of the lane explain a shorter wait


@dataclass(slots=True)
class PageRecord:
    """The page of a stored post."""

    source: SourceRecord
    since: float  # when it was stored or last visited
    lane: str | None = None  # once it was visited
    is_visited: bool = False  # a visit has started and is not stored yet
    is_finished: bool = False
    held_until: float = 0.0  # P9, where holds are for one source


class PageChecks:
    """Compares visits to pages with the posts that were stored."""

    def __init__(self, state: CheckerState) -> None:
        self._state = state
        self._faults = state.fault_history
        self._pages: dict[tuple[str, str], PageRecord] = {}  # by source and URL

    def stored(self, outcome: Outcome, record: SourceRecord) -> None:
        """Expect visits to the pages of new posts."""
        source = outcome.source
        if source.full_text is FullText.ON and source.type is SourceType.RSS:
            at = self._state.clock.monotonic()
            self._pages |= {(source.id, post.url): PageRecord(record, at) for post in outcome.posts}

    def visit_started(self, lane: LaneRecord, record: SourceRecord, url: str, at: float) -> None:
        """Check that a page is to be visited."""
        page = self._pages.get((record.id, url))
        if page is None:
            self._wrong(lane, record, f"{url} is visited without a stored post")
            return
        if page.is_finished:
            self._wrong(lane, record, f"{url} is visited again")
        if not record.source.enabled:
            self._wrong(lane, record, f"{url} of a disabled source is visited", rule="S4")
        if at < page.held_until and not self._faults.clock_jumped_since(page.since):
            self._wrong(lane, record, f"{url} is visited during its hold", rule="P9")
        page.lane, page.since, page.is_visited = lane.name, at, True

    def held(self, record: SourceRecord, url: str, until: float) -> None:
        """Expect no visit to this page before then."""
        if (record.id, url) in self._pages:
            self._pages[record.id, url].held_until = until

    def visit_stored(self, result: PageResult) -> None:
        """Note that the result of a visit was stored."""
        page = self._page(result.visit)
        page.is_visited, page.is_finished = False, result.retry is None
        if result.retry is not None and result.retry.attempts >= MAX_ATTEMPTS:
            lane = self._state.lane(page.lane or "")
            self._wrong(lane, page.source, f"attempt {result.retry.attempts} is not the last")

    def visit_dropped(self, visit: PageVisit) -> None:
        """Check that only pages that were tried are given up."""
        page = self._page(visit)
        page.is_finished = True
        if not visit.attempts:
            lane = self._state.lane(page.lane or "")
            self._wrong(lane, page.source, f"{visit.post.url} is given up without an attempt")

    def stopped(self, *, clean: bool) -> None:
        """Note that running visits were lost, and the holds that they received."""
        for (_, url), page in self._pages.items():
            if page.is_visited:
                page.is_visited, page.held_until = False, 0.0
                lane = self._state.lane(page.lane or "")
                if lane.held_by == url and not clean:
                    lane.held_until = lane.held_before

    def check_all(self, at: float) -> None:
        """Find pages that should have been visited."""
        faults = self._faults
        if not faults.up or faults.outage is not None or faults.network_fault is not None:
            return
        began = max(faults.up_since, faults.full_at, faults.network_ok_since)
        began = max(began, faults.resumed_at + SPREAD_SECONDS)
        for (_, url), page in self._pages.items():
            if page.is_finished or page.is_visited or not page.source.source.enabled:
                continue
            lane = self._state.lane(page.lane or page.source.lane)
            since = max(page.held_until, page.source.edited_at, lane.held_until)
            since = max(since, page.since + (_RETRY_SECONDS if page.lane else 0))
            if faults.set_back_at >= page.since:
                since = max(since, faults.set_back_at + _MAX_WAIT_SECONDS)
            if at > max(since, began) + _GRACE_SECONDS:
                self._wrong(lane, page.source, f"{url} is pending for {at - page.since:.0f} s")

    def _page(self, visit: PageVisit) -> PageRecord:
        return self._pages[visit.post.source_id, visit.post.url]

    def _wrong(self, lane: LaneRecord, record: SourceRecord, what: str, rule: str = "T4") -> None:
        self._state.violate(rule, lane.name, record.id, what)
