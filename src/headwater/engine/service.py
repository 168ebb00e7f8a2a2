"""Service: what the API, the dashboard and the commands need of the process that polls."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Self

from headwater.clock import Clock
from headwater.engine.cluster.worker_counters import WorkerCounters
from headwater.engine.events import Event, EventKind, Events
from headwater.engine.hosts.access import HostAccess
from headwater.engine.hosts.gates import Gates
from headwater.engine.lane_table import NULL_LANE, LaneTable
from headwater.engine.loops import repeat
from headwater.engine.metrics import COUNTED, Metrics
from headwater.engine.outage_guard import OutageStatus
from headwater.engine.pause_state import PauseState
from headwater.engine.poller import log_outcome
from headwater.engine.timeline import Timeline
from headwater.errors import DatabaseUnavailable, NotFound, OnHold
from headwater.model import EPOCH, DueSource, Failure, Outcome, PollRecord, Post, Source, Subject
from headwater.rules.failure_kinds import classify
from headwater.rules.incidents import Incident
from headwater.rules.outcome import untouched
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds
from headwater.store import Store

MANUAL_WAIT_SECONDS = 60.0  # P10
UNKNOWN_POST = Post("", "", "", "", "", None, None, "", EPOCH)
_SCHEMA_SECONDS = 10.0
_HISTORY_SECONDS = 1.0  # between queries for the outcome of a poll in another process


class Service(ABC):
    """Polling as seen from outside: LocalService polls here, RemoteService monitors workers."""

    gates: Gates
    guard: OutageStatus
    hosts: HostAccess  # for visits that are not polls, such as previews
    lanes: LaneTable  # of this process
    last_tick: datetime | None = None  # when due sources were last queried
    cleanup_paused_until: datetime | None = None  # C3
    workers: Sequence[WorkerCounters] = ()
    workers_alive: int | None = None  # None where this process polls
    unstored_incidents: Sequence[Incident] = ()  # begun while the database cannot be written to
    workers_all_draining: bool = False  # they are alive, but nothing is polled

    def __init__(self, store: Store, clock: Clock, policy: Policy, *, paused: bool = False) -> None:
        """`paused`: the setting; a stored choice of a user overrides it."""
        self._store = store
        self._clock = clock
        self._policy = policy
        self._pause_state = PauseState(store.key_values, paused=paused)
        self.events = Events(clock)
        self.metrics = Metrics(clock)
        self.events.listen(self.metrics.on_event, COUNTED)
        self.timeline = Timeline(clock)  # counts nothing until it listens to events

    @property
    def paused(self) -> bool:
        """Whether only requested polls start (G2)."""
        return self._pause_state.paused

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, *_error: object) -> None: ...

    @abstractmethod
    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""

    @abstractmethod
    def close(self) -> None:
        """Start no more polls and visits (S8)."""

    async def _schema_loop(self) -> None:
        """Raise SchemaTooNew once another process has upgraded the schema (K7)."""
        unexpected = "[Store] the schema version could not be read; trying again"
        await repeat(self._clock, _SCHEMA_SECONDS, self._store.refuse_newer_schema, unexpected)

    def refuse_when_stopping(self) -> None:
        """Raise Stopping after `close` (S8)."""
        self.hosts.refuse_when_closed()

    async def pause(self, *, paused: bool) -> None:
        """Start no polls but requested ones, or all again (G2)."""
        await self._pause_state.store(paused=paused)

    async def publish(self, subject: Subject, outcome: Outcome) -> None:
        """Log the first poll of a source that a visit made when it was added; emit its events."""
        log_outcome(outcome)
        for event in self._events_of(subject, outcome):
            self.events.forward(event)

    def _events_of(self, subject: Subject, outcome: Outcome) -> list[Event]:
        finished = Event(EventKind.POLL_FINISHED, self._clock.now(), subject, outcome, seconds=0.0)
        if not outcome.posts:
            return [finished]
        return [finished._replace(kind=EventKind.POST_CREATED, seconds=None), finished]

    async def poll_now(
        self, source_id: str, *, wait_seconds: float | None = MANUAL_WAIT_SECONDS
    ) -> Outcome | None:
        """Poll a source as soon as its lane allows; None: still waiting after that time (P10)."""
        self.refuse_when_stopping()
        due = await self._store.sources.due_one(source_id, self._policy)
        subject = await self._store.sources.subject(source_id)
        if subject is None:
            raise NotFound(f"there is no source {source_id}")
        lane, now = due.lane or NULL_LANE, self._clock.now()
        self.gates.learn(await self._store.hosts.get(lane))
        hold = self.gates.hold_of(lane) or subject.source.hold
        if hold is not None and hold_seconds(hold, now) > 0:
            return untouched(subject, classify(OnHold(hold.until, hold.reason)), started_at=now)
        return await self._request_poll(subject, due, now, wait_seconds)

    async def _request_poll(
        self, subject: Subject, _due: DueSource, now: datetime, wait_seconds: float | None
    ) -> Outcome | None:
        """Request a poll from the process that polls the source, and wait for its outcome (S9)."""
        source = subject.source
        polled: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def listener(event: Event) -> None:
            if event.source_id == source.id and event.outcome is not None and not polled.done():
                polled.set_result(event.outcome)

        stop_listening = self.events.listen(listener, (EventKind.POLL_FINISHED,))
        try:
            last = await self._store.polls.last_id()
            await self._store.sources.request([source.id], now)
            async with asyncio.timeout(wait_seconds):
                while True:
                    await asyncio.wait([polled], timeout=_HISTORY_SECONDS)
                    if polled.done():
                        return polled.result()
                    with suppress(DatabaseUnavailable):  # the event of a poll can be lost
                        records = await self._store.polls.of_sources([source.id], since=last)
                        if records:
                            return _outcome_of(records[0], source)
        except TimeoutError:
            return None
        finally:
            stop_listening()


def _outcome_of(record: PollRecord, source: Source) -> Outcome:
    """The outcome of a poll as far as the history has it; its posts have no content."""
    failure = None
    if record.failure_type is not None:
        kind, error = record.failure_kind or "", record.error or ""
        failure = Failure(record.failure_type, kind, error, status=record.status)
    return Outcome(
        before=source,
        source=source,
        kind=record.outcome,
        started_at=record.started_at,
        posts=(UNKNOWN_POST,) * record.new_posts,
        skipped=record.skipped,
        failure=failure,
        status=record.status,
        size=record.size,
        duration_ms=record.duration_ms,
        redirected_to=record.redirected_to,
    )
