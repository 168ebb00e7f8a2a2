"""Poller: one poll of one source: load, visit, fetch, decide, record, publish."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from headwater.clock import Clock
from headwater.engine.events import EventKind, Events
from headwater.engine.fault_attribution import FaultAttribution
from headwater.engine.hosts.access import HostAccess, HostVisit
from headwater.engine.hosts.gates import GateEntry
from headwater.engine.outage_guard import OutageGuard
from headwater.errors import DatabaseUnavailable, HostBusy, NotFound, OnHold, StoreError
from headwater.logs import get_logger
from headwater.model import Answer, DueSource, Hold, Outcome, Subject, Visit, changed
from headwater.rules.admission import Known, NewByDate, new_by_date
from headwater.rules.failure_kinds import classify
from headwater.rules.filters import has_filters
from headwater.rules.moves import move_suggestion
from headwater.rules.outcome import (
    discarded,
    failed,
    moved_source,
    succeeded,
    without_filtered_posts,
)
from headwater.rules.page_versions import is_new_version
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds, lane_of
from headwater.rules.schedule import is_due
from headwater.rules.shared_requests import answer_for, longest_delay, may_share, shared_request
from headwater.store import Store

log = get_logger()
_MANY_ENTRIES = 500  # deciding on more than this would block the event loop (H2)
_POSTS_IN_MEMORY = 500  # of sources that share a request, before they are recorded (H1)
Report = Callable[[str, str, Outcome], None]  # with lane and id of a source
Batch = list[tuple[tuple[DueSource, Subject], Outcome]]
_MANY_FILTERED = 20  # the same where their texts are searched (B2)


class Fetch(Protocol):
    """The network half of a poll."""

    async def __call__(
        self, subject: Subject, key: str | None, *, visit: HostVisit, now: datetime
    ) -> Answer:
        """Fetch a source; any exception is a failure of the source."""
        ...


@dataclass(frozen=True, slots=True)
class SharedResponse:
    """What a request returned or raised, for all sources that share it."""

    result: Answer | Exception
    started_at: datetime
    started: float  # on the monotonic clock
    at: datetime


@dataclass(frozen=True, slots=True)
class Poller:
    """Polls sources and stores the outcomes."""

    store: Store
    fetch: Fetch
    key_for: Callable[[Subject], Awaitable[str | None]]  # None unless the type needs a key
    hosts: HostAccess
    guard: OutageGuard
    faults: FaultAttribution
    events: Events
    clock: Clock
    policy: Policy
    report: Report  # called for each source of a shared request as soon as it is stored

    async def poll(self, dues: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        """Poll sources that share one request, and store the outcomes (Y7).

        Returns them by id, without sources that are not due any more or could not be stored. Those
        of a shared request are reported one by one, and returned without their posts.
        """
        url = dues[0].id
        try:
            polls = await self._still_due(dues)
            if not polls:
                return {}
            subjects = [subject for _, subject in polls]
            url = subjects[0].source.url
            visited = longest_delay(subjects, self.policy)
            async with self.hosts.visit(visited, entry.lane, entry) as visit:
                batches = self._decided(polls, await self._fetch_once(subjects, visit), visit)
                finished = await self._finish_all(batches, visit, is_shared=len(polls) > 1)
                visit.is_stored = True
        except (HostBusy, OnHold):  # another process visits the host: the sources are still due
            return {}
        except StoreError as error:  # not the sources' fault: they are still due (K5)
            log.warning("[Polling] could not be stored; still due", url=url, error=str(error))
            return {}
        if self.policy.adopt_moves:
            await self._adopt_moves(finished.values())
        return finished

    async def _still_due(self, dues: Sequence[DueSource]) -> list[tuple[DueSource, Subject]]:
        """The sources as they are now; not those that were polled, edited or removed meanwhile."""
        found: list[tuple[DueSource, Subject]] = []
        for due in dues:
            subject = await self.store.sources.subject_for_poll(due.id)
            if subject is None or lane_of(subject.source, subject.user_id) != due.lane:
                continue  # it was removed, or its URL was edited
            source, now = subject.source, self.clock.now()
            if due.requested and source.requested_at is None:
                continue  # another poll has fulfilled the request; a pause may hold now (G2)
            if hold_seconds(source.hold, now) > 0 or not is_due(source, now, self.policy):
                continue
            if not found or may_share(found[0][1].source, source):
                found.append((due, subject))
        return found

    async def _fetch_once(self, subjects: Sequence[Subject], visit: HostVisit) -> SharedResponse:
        """The response of one request; any exception but a StoreError is a failure of all."""
        started_at, started = self.clock.now(), self.clock.monotonic()
        for subject in subjects:
            self.events.emit(EventKind.POLL_STARTED, subject)
        request = shared_request(subjects)
        result: Answer | Exception
        try:
            key = await self.key_for(request)
            result = await self.fetch(request, key, visit=visit, now=started_at)
            if result.permit is not None:
                visit.keep(result.permit)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a source may fail in any way (F1)
            result = error
        return SharedResponse(result, started_at, started, self.clock.now())

    async def _finish_all(
        self, batches: AsyncIterator[Batch], visit: HostVisit, *, is_shared: bool
    ) -> dict[str, Outcome]:
        """Record and publish for each source; many posts are in memory once only (H1).

        Leaves out what could not be stored; raises the error if that is all.
        """
        finished: dict[str, Outcome] = {}
        error: BaseException | None = None
        async for batch in batches:
            recorded = await self._record_all(batch)
            for ((due, subject), _), outcome in zip(batch, recorded, strict=True):
                if isinstance(outcome, BaseException):
                    error = outcome
                    continue
                outcome = self._finished(subject, outcome, due)
                if is_shared:
                    self.report(visit.lane, due.id, outcome)
                    outcome = changed(outcome, {"posts": ()})
                finished[due.id] = outcome
        if error is not None and not finished:
            raise error
        return finished

    async def _record_all(self, batch: Batch) -> Sequence[Outcome | BaseException]:
        """Store outcomes concurrently, so that they share a commit; errors are returned."""
        recording = [self._record(subject, outcome) for (_, subject), outcome in batch]
        if len(recording) > 1:
            return await asyncio.gather(*recording, return_exceptions=True)
        try:  # nearly every poll: a task of its own would be 6 % of its CPU
            return [await recording[0]]
        except Exception as error:  # noqa: BLE001 - returned, as by gather
            return [error]

    async def _decided(
        self, polls: Sequence[tuple[DueSource, Subject]], response: SharedResponse, visit: HostVisit
    ) -> AsyncIterator[Batch]:
        """The outcomes in batches, of one source if it has many posts: they are stored together."""
        hold: Hold | None = None
        duration_ms = 0
        visits: tuple[Visit, ...] = ()
        batch: Batch = []
        for number, poll in enumerate(polls):
            outcome = await self._decide(poll[1], response)
            if number == 0:
                hold = outcome.hold  # of the source that made the request
                if hold is not None and outcome.hold_lane is not None:
                    await visit.hold(outcome.hold_lane, hold)
                duration_ms = round((self.clock.monotonic() - response.started) * 1000)
                visits = visit.finish()
            if number == len(polls) - 1:
                del response  # its entries need as much memory as the posts (H1)
            details = {
                "duration_ms": duration_ms,
                "visits": (*visits, *self.guard.evidence(outcome, visit.lane)),
                "fence": visit.fence,
                "hold": hold if outcome.hold_lane is not None else outcome.hold,
                "shared": number > 0,
            }
            batch.append((poll, changed(outcome, details)))
            if sum(len(one.posts) for _, one in batch) > _POSTS_IN_MEMORY:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _decide(self, subject: Subject, response: SharedResponse) -> Outcome:
        """The outcome for a source; any exception but a StoreError is its failure (F1)."""
        answer, started_at = response.result, response.started_at
        if isinstance(answer, Answer):
            answer = answer_for(subject.source, answer)
            try:
                return await decide(
                    self.store, subject, answer, started_at, response.at, self.policy
                )
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - a source may fail in any way (F1)
                answer = error
        failure = await self.faults.judge(subject, classify(answer), answer)
        now = self.clock.now()
        return failed(subject, failure, started_at=started_at, now=now, policy=self.policy)

    async def _record(self, subject: Subject, outcome: Outcome) -> Outcome:
        """Store an outcome; one that cannot be stored is a failure of its source (H4, K5)."""
        try:
            return await self.store.record(outcome)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - else its source would be polled again forever
            now, started_at = self.clock.now(), outcome.started_at
            failure = classify(error)
            failing = failed(subject, failure, started_at=started_at, now=now, policy=self.policy)
            kept = {"visits": outcome.visits, "fence": outcome.fence}
            return await self.store.record(changed(failing, kept))

    async def _adopt_moves(self, outcomes: Iterable[Outcome]) -> None:
        """Change the URLs of sources that have moved, unless a user dismissed that (Y4)."""
        for outcome in outcomes:
            source, now = outcome.source, self.clock.now()
            redirect = source.redirect
            if not outcome.recorded or redirect is None or not redirect.is_suggested:
                continue
            suggestion = move_suggestion(source, redirect, now)
            change = partial(moved_source, url=redirect.url, now=now)
            try:
                adopted = await self.store.sources.accept_suggestion(
                    source.id, suggestion.id, change, now
                )
            except (NotFound, StoreError) as error:  # the next poll tries again
                log.warning("[Polling] not adopted", url=source.url, error=str(error))
                continue
            if adopted is not None:
                log.warning("[Polling] moved: its URL is changed", url=source.url, to=redirect.url)

    def _finished(self, subject: Subject, outcome: Outcome, due: DueSource) -> Outcome:
        self.faults.learn(outcome)
        if not outcome.recorded:
            outcome = discarded(outcome)
        self.publish(subject, outcome, due)
        return outcome

    def publish(self, subject: Subject, outcome: Outcome, due: DueSource) -> None:
        """Log the outcome and emit its events."""
        emit, source = self.events.emit, outcome.source
        log_outcome(outcome)
        if any(post.filtered_by is None for post in outcome.posts):
            emit(EventKind.POST_CREATED, subject, outcome=without_filtered_posts(outcome))
        waited = (outcome.started_at - due.overdue_since).total_seconds()
        emit(EventKind.POLL_FINISHED, subject, outcome=outcome, seconds=waited)
        if not outcome.recorded:
            return
        if outcome.disabled:
            log.warning("[Polling] disabled", url=source.url, reason=source.disabled_reason)
            emit(EventKind.SOURCE_DISABLED, subject, outcome=outcome)
        elif outcome.recovered:
            emit(EventKind.SOURCE_RECOVERED, subject, outcome=outcome)


async def decide(
    store: Store,
    subject: Subject,
    answer: Answer,
    started_at: datetime,
    now: datetime,
    policy: Policy,
) -> Outcome:
    """The outcome of a successful fetch."""
    many = len(answer.entries) > _MANY_ENTRIES or answer.permit is not None
    dated, known = NewByDate((), 0), Known()
    if answer.entries:
        dating = partial(new_by_date, subject.source, answer.entries, now, policy)
        dated = await asyncio.to_thread(dating) if many else dating()
        known = await store.known(subject, dated)
    many = many or (len(dated.candidates) > _MANY_FILTERED and has_filters(subject))
    versions = None
    if is_new_version(subject.source, dated, known):
        versions = await store.page_versions(subject.source)
        many = many or bool(versions.posts or versions.text)  # to compare: they may be long (H2)
    deciding = partial(
        succeeded, subject, answer, dated, known,
        started_at=started_at, now=now, policy=policy, versions=versions,
    )  # fmt: skip
    return await asyncio.to_thread(deciding) if many else deciding()


def log_outcome(outcome: Outcome) -> None:
    """Log one line per poll; the logger masks the URL (L1)."""
    url, ms = outcome.source.url, outcome.duration_ms
    failure = outcome.failure
    if not outcome.recorded:
        reason = "the source was edited or removed meanwhile"
        if outcome.fence is not None:
            reason = "the source was edited, removed, or taken over by another worker meanwhile"
        log.info(f"[Polling] discarded: {reason}", url=url, ms=ms)
    elif failure is not None:
        log.warning(
            "[Polling] failed",
            url=url,
            type=failure.type.value,
            kind=failure.kind,
            error=failure.message,
            failures=outcome.source.consecutive_failures,
            ms=ms,
        )
    else:
        skipped = sum(outcome.skipped.values())
        new = len(outcome.posts)
        log.info(f"[Polling] {outcome.kind}", url=url, new_posts=new, skipped=skipped, ms=ms)
