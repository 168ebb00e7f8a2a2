"""Polling by hand: through a service of our own, or handed over to the one that runs (S10)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind
from headwater.engine.lanes import NULL_LANE
from headwater.engine.service import MANUAL_WAIT_SECONDS, Service
from headwater.errors import HeadwaterError, OnHold
from headwater.model import (
    FailureType,
    Hold,
    Outcome,
    OutcomeKind,
    PollRecord,
    SkipReason,
    Source,
    Subject,
)
from headwater.rules.failure import classify, one_line
from headwater.rules.politeness import hold_seconds, lane_of
from headwater.store import Store

_JUST_NOW = timedelta(seconds=5)
_LOOK_SECONDS = 0.25
_LOOKS_PER_REFUSAL = 8  # holds and removals are looked for less often than outcomes


@dataclass(frozen=True, slots=True)
class PollReport:
    """What came of one poll, as the contract tells it."""

    source: Source
    outcome: OutcomeKind
    new_posts: int
    skipped: dict[SkipReason, int]
    status: int | None
    failure_type: FailureType | None
    failure_kind: str | None  # `404`, `DNS`, `hold`, ...
    error: str | None
    duration_ms: int


def report_of(outcome: Outcome) -> PollReport:
    """A report of a poll of our own."""
    failure = outcome.failure
    return PollReport(
        source=outcome.source,
        outcome=outcome.kind,
        new_posts=len(outcome.posts),
        skipped=dict(outcome.skipped),
        status=outcome.status,
        failure_type=None if failure is None else failure.type,
        failure_kind=None if failure is None else failure.kind,
        error=None if failure is None else failure.message,
        duration_ms=outcome.duration_ms,
    )


async def poll_one(service: Service, source: Source, *, wait: bool) -> PollReport | None:
    """Poll a source in its lane; None if it stays requested and nobody waits longer (P10)."""
    seconds = MANUAL_WAIT_SECONDS if wait else 0.0
    outcome = await service.poll_now(source.id, wait_seconds=seconds)
    return None if outcome is None else report_of(outcome)


async def poll_sources(service: Service, subjects: Sequence[Subject]) -> AsyncIterator[PollReport]:
    """Poll these sources in their lanes, and report each as it ends.

    One whose host asks to be left alone meanwhile is reported so, and stays requested (P10).
    """
    polls = {
        asyncio.create_task(service.poll_now(s.source.id, wait_seconds=None)): s for s in subjects
    }
    try:
        while polls:
            await asyncio.wait(polls, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for poll, subject in list(polls.items()):
                report = await _ended(poll, subject) if poll.done() else _held(service, subject)
                if report is not None:
                    poll.cancel()
                    del polls[poll]
                    yield report
    finally:
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def poll_due(service: Service) -> AsyncIterator[PollReport]:
    """Run one tick, and report each poll it started as it ends.

    Lanes that wait for the end of a hold or of an outage are left to later ticks.
    """
    reports: asyncio.Queue[Outcome] = asyncio.Queue()

    def listen(event: Event) -> None:
        if event.kind is EventKind.POLL_FINISHED and event.outcome is not None:
            reports.put_nowait(event.outcome)

    stop_listening = service.events.listen(listen)
    try:
        await service.tick()
        while not (_is_at_rest(service) and reports.empty()):
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    outcome = await reports.get()
            except TimeoutError:
                continue
            yield report_of(outcome)
    finally:
        stop_listening()


async def hand_over(
    store: Store, clock: Clock, subjects: Sequence[Subject]
) -> AsyncIterator[PollReport]:
    """Ask the running service for these polls and report each as its outcome appears (S10)."""
    last = await store.polls.last_id()
    waiting: dict[str, Subject] = {}
    for subject in subjects:
        refusal = await _refusal(store, subject, clock.now())
        if refusal is not None:
            yield refusal
        else:
            waiting[subject.source.id] = subject
    await store.sources.request(list(waiting), clock.now())
    for look in itertools.count():
        for record in await store.polls.of_sources(list(waiting), since=last):
            if record.source_id in waiting:
                yield _reported(waiting.pop(record.source_id).source, record)
        if look % _LOOKS_PER_REFUSAL == 1:
            for subject in list(waiting.values()):
                refusal = await _refusal(store, subject, clock.now(), asked=True)
                if refusal is not None:
                    del waiting[subject.source.id]
                    yield refusal
        if not waiting:
            return
        await clock.sleep(_LOOK_SECONDS)


async def _refusal(
    store: Store, subject: Subject, now: datetime, *, asked: bool = False
) -> PollReport | None:
    """The report of a source that will not be polled soon: gone, on hold, not asked for (P10)."""
    current = await store.sources.subject(subject.source.id)
    if current is None:
        return _refused(subject.source, "the source was removed meanwhile")
    if asked and current.source.requested_at is None:
        polled = await store.polls.newest(current.source.id, limit=1)
        if not polled or polled[0].started_at < now - _JUST_NOW:
            return _refused(current.source, "the request was taken back")
    lane = lane_of(current.source, current.user_id) or NULL_LANE
    holds = (current.source.hold, (await store.hosts.get(lane)).hold)
    for hold in holds:
        if hold is not None and hold_seconds(hold, now) > 0:
            return _on_hold(current.source, hold)
    return None


def _is_at_rest(service: Service) -> bool:
    """Whether nothing runs and nothing can start soon."""
    if service.lanes.in_flight():
        return False
    held = service.gates.hold_of
    return service.guard.lasts or all(held(lane) is not None for lane in service.lanes.names())


async def _ended(poll: "asyncio.Task[Outcome | None]", subject: Subject) -> PollReport:
    try:
        outcome = await poll
    except HeadwaterError as error:  # removed meanwhile, or the database is away
        return _refused(subject.source, one_line(error))
    if outcome is None:
        return _refused(subject.source, "still waiting for its turn")
    return report_of(outcome)


def _held(service: Service, subject: Subject) -> PollReport | None:
    """The report of a source that waits in a lane on hold; None if its turn can still come."""
    lane = lane_of(subject.source, subject.user_id) or NULL_LANE
    hold = service.gates.hold_of(lane)
    if hold is None or service.lanes.in_flight().get(lane) == subject.source.id:
        return None
    return _on_hold(subject.source, hold)


def _reported(source: Source, record: PollRecord) -> PollReport:
    return PollReport(
        source=source,
        outcome=record.outcome,
        new_posts=record.new_posts,
        skipped=dict(record.skipped),
        status=record.status,
        failure_type=record.failure_type,
        failure_kind=record.failure_kind,
        error=record.error,
        duration_ms=record.duration_ms,
    )


def _on_hold(source: Source, hold: Hold) -> PollReport:
    failure = classify(OnHold(hold.until, hold.reason))
    return _refused(source, failure.message, kind=failure.kind)


def _refused(source: Source, message: str, *, kind: str | None = None) -> PollReport:
    return PollReport(
        source=source,
        outcome=OutcomeKind.FAILED,
        new_posts=0,
        skipped={},
        status=None,
        failure_type=FailureType.TRANSIENT,
        failure_kind=kind,
        error=message,
        duration_ms=0,
    )
