"""Manual polls: by a service in this process, or requested from the running one (S10)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind
from headwater.engine.lane_table import NULL_LANE
from headwater.engine.local_service import LocalService
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
from headwater.rules.failure_kinds import classify, one_line
from headwater.rules.politeness import hold_seconds, lane_of
from headwater.store import Store
from headwater.store.audit import describe

_Poll = asyncio.Future[Outcome | None]
_JUST_NOW = timedelta(seconds=5)
_CHECK_SECONDS = 0.25
_CHECKS_PER_REFUSAL = 8  # holds and removals are checked less often than outcomes


@dataclass(frozen=True, slots=True)
class PollReport:
    """The result of one poll; its fields are those of the API."""

    source: Source
    outcome: OutcomeKind
    new_posts: int = 0
    skipped: Mapping[SkipReason, int] = field(default_factory=dict)
    status: int | None = None
    failure_type: FailureType | None = None
    failure_kind: str | None = None  # `404`, `DNS`, `hold`, ...
    error: str | None = None
    duration_ms: int = 0


def report_of(outcome: Outcome) -> PollReport:
    """The report of a poll in this process."""
    failure = outcome.failure
    return PollReport(
        source=outcome.source,
        outcome=outcome.kind,
        new_posts=len(outcome.posts),
        skipped=outcome.skipped,
        status=outcome.status,
        failure_type=None if failure is None else failure.type,
        failure_kind=None if failure is None else failure.kind,
        error=None if failure is None else failure.message,
        duration_ms=outcome.duration_ms,
    )


async def poll_one(service: Service, source: Source, *, wait: bool) -> PollReport | None:
    """Poll a source in its lane; None if the poll is requested but did not end in time (P10)."""
    describe("source.poll", f"source {source.id}")
    seconds = MANUAL_WAIT_SECONDS if wait else 0.0
    outcome = await service.poll_now(source.id, wait_seconds=seconds)
    return None if outcome is None else report_of(outcome)


async def poll_sources(
    service: LocalService, subjects: Sequence[Subject]
) -> AsyncIterator[PollReport]:
    """Poll these sources in their lanes, and yield each report when its poll ends.

    A source whose host is on hold, or put on hold meanwhile, is reported as such (P10).
    """
    describe("sources.poll", "", sources=len(subjects))
    waiting = {}
    for subject in subjects:
        held = _held(service, subject)
        if held is None:
            waiting[subject.source.id] = subject
        else:
            yield held
    requested = await service.request_polls(list(waiting.values()))
    for source_id in waiting.keys() - requested.keys():
        yield _refused(waiting.pop(source_id).source, "the source was removed")
    async for report in _as_they_end(
        service, {poll: waiting[source_id] for source_id, poll in requested.items()}
    ):
        yield report


async def _as_they_end(
    service: LocalService, polls: dict[_Poll, Subject]
) -> AsyncIterator[PollReport]:
    ended: asyncio.Queue[_Poll] = asyncio.Queue()
    for poll in polls:
        poll.add_done_callback(ended.put_nowait)
    while polls:
        found = await _next_of(ended)
        for poll in found:
            if poll in polls:  # else its hold was reported
                yield await _ended(service, polls.pop(poll), poll)
        if found:  # looking at all of them each time would take a while
            continue
        for poll, held in [(poll, _held(service, one)) for poll, one in polls.items()]:
            if held is not None:
                del polls[poll]
                yield held


async def poll_due(service: LocalService) -> AsyncIterator[PollReport]:
    """Run one tick, and yield the report of each poll that it started.

    Lanes that wait for the end of a hold or of an outage are left to later ticks.
    """
    reports: asyncio.Queue[Outcome] = asyncio.Queue()

    def listen(event: Event) -> None:
        if event.kind is EventKind.POLL_FINISHED and event.outcome is not None:
            reports.put_nowait(event.outcome)

    describe("sources.poll", "due sources")
    stop_listening = service.events.listen(listen)
    try:
        await service.tick()
        while not (_is_idle(service) and reports.empty()):
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    outcome = await reports.get()
            except TimeoutError:
                continue
            yield report_of(outcome)
    finally:
        stop_listening()


async def hand_over(
    store: Store, clock: Clock, subjects: Sequence[Subject]
) -> AsyncIterator[PollReport]:
    """Request these polls from the running service, and yield their stored results (S10)."""
    describe("sources.poll", "", sources=len(subjects))
    last = await store.polls.last_id()
    waiting: dict[str, Subject] = {}
    for subject in subjects:
        refusal = await _refusal(store, subject, clock.now())
        if refusal is not None:
            yield refusal
        else:
            waiting[subject.source.id] = subject
    await store.sources.request(list(waiting), clock.now())
    for check in itertools.count():
        for record in await store.polls.of_sources(list(waiting), since=last):
            if record.source_id in waiting:
                yield _from_record(waiting.pop(record.source_id).source, record)
        if check % _CHECKS_PER_REFUSAL == 1:
            for subject in list(waiting.values()):
                refusal = await _refusal(store, subject, clock.now(), requested=True)
                if refusal is not None:
                    del waiting[subject.source.id]
                    yield refusal
        if not waiting:
            return
        await clock.sleep(_CHECK_SECONDS)


async def _refusal(
    store: Store, subject: Subject, now: datetime, *, requested: bool = False
) -> PollReport | None:
    """The report of a source that is removed, on hold or not requested any more (P10), or None."""
    current = await store.sources.subject(subject.source.id)
    if current is None:
        return _refused(subject.source, "the source was removed")
    if requested and current.source.requested_at is None:
        polled = await store.polls.newest(current.source.id, limit=1)
        if not polled or polled[0].started_at < now - _JUST_NOW:
            return _refused(current.source, "the request was cancelled")
    lane = lane_of(current.source, current.user_id) or NULL_LANE
    holds = (current.source.hold, (await store.hosts.get(lane)).hold)
    for hold in holds:
        if hold is not None and hold_seconds(hold, now) > 0:
            return _on_hold(current.source, hold)
    return None


def _is_idle(service: Service) -> bool:
    """Whether no poll runs and none can start soon."""
    if service.lanes.in_flight():
        return False
    held = service.gates.hold_of
    return service.guard.lasts or all(held(lane) is not None for lane in service.lanes.names())


async def _next_of(ended: asyncio.Queue[_Poll]) -> list[_Poll]:
    """The polls that have ended, once there is one; empty after a while without any."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CHECK_SECONDS):
            found = [await ended.get()]
            while not ended.empty():
                found.append(ended.get_nowait())
            return found
    return []


async def _ended(service: LocalService, subject: Subject, poll: _Poll) -> PollReport:
    try:
        outcome = await service.checked(subject, await poll)
    except HeadwaterError as error:  # the source was removed, or the database is unavailable
        return _refused(subject.source, one_line(error))
    if outcome is None:
        return _refused(subject.source, "still waiting for its turn")
    return report_of(outcome)


def _held(service: Service, subject: Subject) -> PollReport | None:
    """The report of a source that waits in a lane on hold; None if it may still be polled."""
    source = subject.source
    lane = lane_of(source, subject.user_id) or NULL_LANE
    hold = service.gates.hold_of(lane) or source.hold
    if hold is None or hold_seconds(hold, service.gates.clock.now()) <= 0:
        return None
    return None if source.id in service.lanes.in_flight().get(lane, ()) else _on_hold(source, hold)


def _from_record(source: Source, record: PollRecord) -> PollReport:
    names = (one.name for one in fields(PollReport) if one.name != "source")
    return PollReport(source, **{name: getattr(record, name) for name in names})


def _on_hold(source: Source, hold: Hold) -> PollReport:
    failure = classify(OnHold(hold.until, hold.reason))
    return _refused(source, failure.message, kind=failure.kind)


def _refused(source: Source, message: str, *, kind: str | None = None) -> PollReport:
    transient = FailureType.TRANSIENT
    return PollReport(
        source, OutcomeKind.FAILED, failure_type=transient, failure_kind=kind, error=message
    )
