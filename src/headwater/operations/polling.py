"""Polling by hand: through a service of our own, or handed over to the one that runs (S10)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind
from headwater.engine.service import Service
from headwater.errors import OnHold
from headwater.model import (
    FailureType,
    Outcome,
    OutcomeKind,
    PollRecord,
    SkipReason,
    Source,
)
from headwater.rules.failure import classify
from headwater.rules.politeness import hold_seconds, lane_of
from headwater.store import Store

_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class PollReport:
    """What came of one poll, as the contract tells it."""

    source: Source
    outcome: OutcomeKind
    new_posts: int
    skipped: dict[SkipReason, int]
    status: int | None
    failure_type: FailureType | None
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
        error=None if failure is None else failure.message,
        duration_ms=outcome.duration_ms,
    )


async def poll_sources(service: Service, sources: Sequence[Source]) -> AsyncIterator[PollReport]:
    """Poll these sources in their lanes, and report each as it ends."""
    polls = [asyncio.create_task(service.poll_now(s.id, wait_seconds=None)) for s in sources]
    try:
        for poll in asyncio.as_completed(polls):
            outcome = await poll
            if outcome is not None:
                yield report_of(outcome)
    finally:
        for task in polls:
            task.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def poll_due(service: Service) -> AsyncIterator[PollReport]:
    """Run one tick, and report each poll it started as it ends."""
    reports: asyncio.Queue[Outcome] = asyncio.Queue()

    def listen(event: Event) -> None:
        if event.kind is EventKind.POLL_FINISHED and event.outcome is not None:
            reports.put_nowait(event.outcome)

    stop_listening = service.events.listen(listen)
    try:
        await service.tick()
        idle = asyncio.create_task(service.lanes.wait_until_idle())
        while not (idle.done() and reports.empty()):
            got = asyncio.create_task(reports.get())
            await asyncio.wait([got, idle], return_when=asyncio.FIRST_COMPLETED)
            if got.done():
                yield report_of(got.result())
            else:
                got.cancel()
    finally:
        stop_listening()


async def hand_over(
    store: Store, clock: Clock, user_id: str, sources: Sequence[Source]
) -> AsyncIterator[PollReport]:
    """Ask the running service for these polls and report each as its outcome appears (S10)."""
    last = await store.polls.last_id()
    now = clock.now()
    waiting: dict[str, Source] = {}
    for source in sources:
        lane = lane_of(source, user_id) or ""
        hold = source.hold or (await store.hosts.get(lane)).hold
        if hold is not None and hold_seconds(hold, now) > 0:
            yield _refused(source, classify(OnHold(hold.until, hold.reason)).message)
        else:
            waiting[source.id] = source
    await store.sources.request(list(waiting), now)
    while waiting:
        await clock.sleep(_LOOK_SECONDS)
        for source in list(waiting.values()):
            records = await store.polls.since(source.id, last)
            if records:
                del waiting[source.id]
                yield _reported(source, records[0])


def _reported(source: Source, record: PollRecord) -> PollReport:
    return PollReport(
        source=source,
        outcome=record.outcome,
        new_posts=record.new_posts,
        skipped=dict(record.skipped),
        status=record.status,
        failure_type=record.failure_type,
        error=record.error,
        duration_ms=record.duration_ms,
    )


def _refused(source: Source, message: str) -> PollReport:
    return PollReport(
        source=source,
        outcome=OutcomeKind.FAILED,
        new_posts=0,
        skipped={},
        status=None,
        failure_type=FailureType.TRANSIENT,
        error=message,
        duration_ms=0,
    )
