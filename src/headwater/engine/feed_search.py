"""FeedSearcher: searches the sites of lost feeds for other feeds, one visit at a time (Y5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headwater.clock import Clock
from headwater.engine.hosts.access import HostAccess, HostVisit
from headwater.engine.hosts.gates import GateEntry
from headwater.engine.outage_guard import OutageGuard
from headwater.engine.page_visits import outcome_of
from headwater.engine.poller import Fetch
from headwater.errors import HostBusy, OnHold, StoreError
from headwater.logs import get_logger
from headwater.model import Answer, DueSource, Outcome, Source, SourceType, Subject, changed
from headwater.rules.feed_search import (
    RETRY_AFTER,
    FeedSearch,
    SearchResult,
    after_candidate,
    after_page,
    after_unreadable_page,
    is_still_wanted,
    result_text,
)
from headwater.rules.full_text import fetched_page, visited_page
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.page_visits import source_of_search

if TYPE_CHECKING:  # parsers take a while to import (decision 14)
    from headwater.fetch.page.feed_links import FeedLink

log = get_logger()


class FindFeeds(Protocol):
    """The network half of a visit to a page."""

    async def __call__(
        self, source: Source, *, visit: HostVisit, now: datetime
    ) -> tuple[Answer, "Sequence[FeedLink]"]:
        """The feeds that a page links to; any exception is a failure of the page."""
        ...


@dataclass(frozen=True, slots=True)
class FeedSearcher:
    """Takes the steps of searches and stores their results."""

    store: Store
    fetch: Fetch
    find_feeds: FindFeeds
    hosts: HostAccess
    guard: OutageGuard
    clock: Clock
    policy: Policy

    async def visit(self, dues: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        """Take the next step of one search; {}: it is not due any more, or not stored."""
        (due,) = dues
        try:
            outcome = await self._step(source_of_search(due), entry)
        except (HostBusy, OnHold):  # another process visits the host: the step is still due
            return {}
        except StoreError as error:  # still due (K5)
            log.warning("[Search] could not be stored; still due", error=str(error))
            return {}
        return {} if outcome is None else {due.id: outcome}

    async def _step(self, source_id: str, entry: GateEntry) -> Outcome | None:
        search = await self.store.feed_searches.pending(source_id)
        subject = await self.store.sources.subject_for_poll(source_id)
        if search is None or subject is None or search.next_url is None:
            return None
        if search.not_before > self.clock.now():
            return None  # it was postponed, or is taken
        if not is_still_wanted(search, subject.source):
            await self._end(search)
            return None
        if self.guard.lasts or await self._is_in_storm(subject):
            await self._postpone(search)
            return None
        page = visited_page(subject.source, search.next_url)
        async with self.hosts.visit(page, entry.lane, entry) as visit:
            result = await self._result(search, changed(subject, {"source": page}), visit)
            if result is None:  # our own network failed
                await self._postpone(search)
                return None
            stored = await self.store.record_search(result)
            visit.is_stored = True
        self._log(result, stored=stored)
        return result.outcome

    async def _end(self, search: FeedSearch) -> None:
        """End a search that is not wanted any more; one without a visit does not count."""
        if search.visited:
            result = "ended: the source works again, or was changed"
            await self.store.feed_searches.end(search.source_id, result)
        else:
            await self.store.feed_searches.drop([search.source_id])

    async def _is_in_storm(self, subject: Subject) -> bool:
        host = subject.source.host
        return host is not None and await self.store.storms.lasting(host) is not None

    async def _postpone(self, search: FeedSearch) -> None:
        await self.store.feed_searches.postpone(search.source_id, self.clock.now() + RETRY_AFTER)

    async def _result(
        self, search: FeedSearch, subject: Subject, visit: HostVisit
    ) -> SearchResult | None:
        """Visit a page or fetch a candidate; None if a failure is our own."""
        is_candidate, source = search.is_candidate_next, fetched_page(subject.source)
        if is_candidate:
            source = changed(source, {"type": SourceType.RSS})
        subject = changed(subject, {"source": source})
        request = partial(self._candidate if is_candidate else self._page, search, subject, visit)
        outcome, after = await outcome_of(self, subject, visit, request)
        now, failure = self.clock.now(), outcome.failure
        if failure is not None and failure.local:
            return None
        if after is None and is_candidate:
            after = after_candidate(search, now, is_feed=False)
        elif after is None:
            problem = "" if failure is None else failure.message
            after = after_unreadable_page(search, problem, now)
        return SearchResult(search, after, outcome)

    async def _candidate(
        self, search: FeedSearch, subject: Subject, visit: HostVisit, now: datetime
    ) -> tuple[Answer, FeedSearch]:
        answer = await self.fetch(subject, None, visit=visit, now=now)
        if answer.permit is not None:
            visit.keep(answer.permit)
        return answer, after_candidate(search, now, is_feed=True, title=answer.title)

    async def _page(
        self, search: FeedSearch, subject: Subject, visit: HostVisit, now: datetime
    ) -> tuple[Answer, FeedSearch]:
        answer, links = await self.find_feeds(subject.source, visit=visit, now=now)
        return answer, after_page(search, [(one.url, one.title) for one in links], now)

    def _log(self, result: SearchResult, *, stored: bool) -> None:
        after, url = result.after, result.before.feed_url
        if not stored:
            log.info("[Search] discarded: the source was changed or removed", url=url)
        elif after.next_url is None:
            log.info("[Search] for a lost feed ended", url=url, result=result_text(after))
