"""PageVisitor: visits the page of one post in the lane of the page's host (T4)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeVar

from headwater.clock import Clock
from headwater.engine.hosts.access import HostAccess, HostVisit
from headwater.engine.hosts.gates import GateEntry
from headwater.engine.outage_guard import OutageGuard
from headwater.engine.poller import Fetch
from headwater.errors import DatabaseUnavailable, HostBusy, NoContent, OnHold, StoreError
from headwater.logs import get_logger
from headwater.model import Answer, DueSource, Outcome, OutcomeKind, Source, Subject, changed
from headwater.rules.failure_kinds import classify, one_line
from headwater.rules.full_text import (
    PageResult,
    PageVisit,
    failed_visit,
    fetched_page,
    is_visit_due,
    postponed,
    result_of_page,
    visited_page,
)
from headwater.rules.outcome import failed
from headwater.rules.policy import Policy
from headwater.source_settings import FullText
from headwater.store import Store

log = get_logger()
T = TypeVar("T")
_LONG_TEXT = 50_000  # characters; comparing more would block the event loop (H2)


@dataclass(frozen=True, slots=True)
class PageVisitor:
    """Visits pages and stores the results."""

    store: Store
    fetch: Fetch
    hosts: HostAccess
    guard: OutageGuard
    clock: Clock
    policy: Policy
    count: Callable[[str], None]  # called with the kind of each result

    async def visit(self, dues: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        """Visit the page of one post and store the result; {}: not due any more, or not stored."""
        (due,) = dues
        outcome = await self._visit(due, entry)
        return {} if outcome is None else {due.id: outcome}

    async def _visit(self, due: DueSource, entry: GateEntry) -> Outcome | None:
        url = due.id
        try:
            pending = await self.store.page_visits.pending(due.id)
            if pending is None or not is_visit_due(pending, self.clock.now()):
                return None  # it was visited, or its post was deleted
            url = pending.post.url
            subject = await self.store.sources.subject_for_poll(pending.post.source_id)
            if subject is None or not subject.source.enabled:
                return None
            if not self._is_wanted(pending, subject.source):
                await self.store.page_visits.drop(due.id)
                return None
            page = visited_page(subject.source, url)
            async with self.hosts.visit(page, entry.lane, entry) as visit:
                result = await self._fetch_and_decide(pending, subject, page, visit)
                stored = await self._record(result)
                visit.is_stored = True
        except (HostBusy, OnHold):  # another process visits the host: the page is still pending
            return None
        except StoreError as error:  # still pending (K5)
            log.warning("[Pages] could not be stored; still due", url=url, error=str(error))
            return None
        self._publish(result, stored=stored)
        return result.outcome

    def _is_wanted(self, pending: PageVisit, source: Source) -> bool:
        """Whether a page is still to be visited: not if its attempts took too long.

        Nor if a filter that was changed meanwhile hides its post (B2).
        """
        gave_up = pending.give_up_at is not None and pending.give_up_at <= self.clock.now()
        is_hidden = pending.post.filtered_by is not None
        return source.full_text is FullText.ON and not gave_up and not is_hidden

    async def _fetch_and_decide(
        self, pending: PageVisit, subject: Subject, page: Source, visit: HostVisit
    ) -> PageResult:
        """Fetch the page as a website source; any exception but a StoreError is its failure."""
        subject = changed(subject, {"source": fetched_page(page)})

        async def request(now: datetime) -> tuple[Answer, PageResult]:
            answer = await self.fetch(subject, None, visit=visit, now=now)
            if answer.permit is not None:
                visit.keep(answer.permit)
            return answer, await _decide(pending, subject, answer, now)

        outcome, result = await outcome_of(self, subject, visit, request)
        if result is None:
            result = failed_visit(pending, outcome, self.clock.now())
        if result.page is not None:
            evidence = self.guard.evidence(outcome, visit.lane)
            outcome = changed(outcome, {"visits": (*outcome.visits, *evidence)})
        elif self.guard.lasts:  # a portal may have sent this page
            result = postponed(result, self.clock.now())
        return replace(result, outcome=outcome)

    async def _record(self, result: PageResult) -> bool:
        """Store a result; a page that cannot be stored is given up (H4, K5)."""
        try:
            return await self.store.record_page(result)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - else the page would be visited forever
            message = f"the page could not be stored: {one_line(error)}"
            given_up = replace(result, page=None, retry=None, error=message)
            return await self.store.record_page(given_up)

    def _publish(self, result: PageResult, *, stored: bool) -> None:
        """Log and count a result."""
        if result.page is not None:
            self.guard.learn(result.outcome)
        url, ms = result.visit.post.url, result.outcome.duration_ms
        if not stored:
            log.info("[Pages] discarded: the post was deleted or taken over", url=url, ms=ms)
            return
        self.count(result.kind)
        more = {} if result.error is None else {"reason": result.error}
        log.info(f"[Pages] {result.kind}", url=url, ms=ms, **more)


class PageVisiting(Protocol):
    """What visits to pages need of the engine."""

    @property
    def guard(self) -> OutageGuard:
        """Decides whether a failure is our own."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def policy(self) -> Policy:
        """The configured values."""
        ...


async def outcome_of(
    engine: PageVisiting,
    subject: Subject,
    visit: HostVisit,
    request: Callable[[datetime], Awaitable[tuple[Answer, T]]],
) -> tuple[Outcome, T | None]:
    """The outcome of a request as if its page were a source, and what the request returns.

    Any exception but a StoreError is a failure of the page.
    """
    clock, found = engine.clock, None
    started_at, started, source = clock.now(), clock.monotonic(), subject.source
    try:
        answer, found = await request(started_at)
        outcome = _success(source, answer, started_at)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a page may fail in any way (F1)
        failure, now = engine.guard.judge(subject, classify(error), error), clock.now()
        outcome = failed(subject, failure, started_at=started_at, now=now, policy=engine.policy)
    if outcome.hold is not None and outcome.hold_lane is not None:
        await visit.hold(outcome.hold_lane, outcome.hold)
    duration_ms = round((clock.monotonic() - started) * 1000)
    ended = {"duration_ms": duration_ms, "visits": visit.finish(), "fence": visit.fence}
    return changed(outcome, ended), found


def _success(source: Source, answer: Answer, started_at: datetime) -> Outcome:
    status, size = answer.status, answer.size
    return Outcome(source, source, OutcomeKind.UNCHANGED, started_at, status=status, size=size)


async def _decide(
    pending: PageVisit, subject: Subject, answer: Answer, started_at: datetime
) -> PageResult:
    if not answer.entries:
        raise NoContent("the page has no text")
    outcome, page = _success(subject.source, answer, started_at), answer.entries[0]
    if len(page.body) > _LONG_TEXT:
        return await asyncio.to_thread(result_of_page, pending, outcome, page)
    return result_of_page(pending, outcome, page)
