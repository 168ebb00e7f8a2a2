"""Poller: one source from its turn to the store: fetch, decide, record."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind, Events
from headwater.engine.gates import Gates
from headwater.engine.lanes import NULL_LANE
from headwater.engine.outage import OutageGuard
from headwater.engine.turns import VisitTurns
from headwater.errors import OnHold
from headwater.logs import get_logger
from headwater.model import Answer, DueSource, Outcome, Subject
from headwater.rules.admission import sift
from headwater.rules.failure import classify
from headwater.rules.outcome import failed, succeeded, untouched
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds
from headwater.rules.schedule import is_due
from headwater.rules.urls import masked
from headwater.store import Store

log = get_logger()
_MANY_ENTRIES = 500  # deciding on more than this would hold up the event loop (H2)


class Fetch(Protocol):
    """The network half of a poll."""

    async def __call__(
        self, subject: Subject, key: str | None, *, turns: VisitTurns, now: datetime
    ) -> Answer:
        """Visit the source and bring what it has."""
        ...


class Poller:
    """Visits sources and stores what came of it."""

    def __init__(
        self,
        *,
        store: Store,
        fetch: Fetch,
        key_for: Callable[[Subject], Awaitable[str | None]],
        gates: Gates,
        guard: OutageGuard,
        events: Events,
        clock: Clock,
        policy: Policy,
    ) -> None:
        self._store = store
        self._fetch = fetch
        self._key_for = key_for
        self._gates = gates
        self._guard = guard
        self._events = events
        self._clock = clock
        self._policy = policy
        self._recording: set[asyncio.Task[Outcome]] = set()

    async def poll(self, due: DueSource) -> Outcome | None:
        """Visit one source and store what came of it; None if it is not due any more."""
        lane = due.lane or NULL_LANE
        subject = await self._store.sources.subject(due.id)
        if subject is None or not self._is_wanted(subject, due):
            self._gates.leave(lane, 0)
            return None
        turns = VisitTurns(self._gates, lane, subject.source, self._policy)
        started_at, started = self._clock.now(), self._clock.monotonic()
        self._events.tell(Event(EventKind.POLL_STARTED, started_at, due.id))
        try:
            outcome = await self._visit(subject, turns, started_at)
        finally:
            visits = turns.end()
        duration_ms = round((self._clock.monotonic() - started) * 1000)
        visits = self._guard.with_evidence(outcome, visits)
        outcome = replace(outcome, duration_ms=duration_ms, visits=visits)
        return await self._record(outcome, turns)

    async def finish_recording(self, seconds: float) -> None:
        """Wait for results that are still on their way into the store (S8)."""
        if self._recording:
            await asyncio.wait(self._recording, timeout=seconds)

    async def _visit(self, subject: Subject, turns: VisitTurns, started_at: datetime) -> Outcome:
        """Fetch and decide; whatever a source does to us is its failure (F1)."""
        try:
            answer = await self._fetch(
                subject, await self._key_for(subject), turns=turns, now=started_at
            )
            return await self._decide(subject, answer, started_at)
        except Exception as error:  # noqa: BLE001 - a source may break in any way
            failure = self._guard.judge(subject, classify(error), error)
            now = self._clock.now()
            return failed(subject, failure, started_at=started_at, now=now, policy=self._policy)

    async def _decide(self, subject: Subject, answer: Answer, started_at: datetime) -> Outcome:
        now, policy = self._clock.now(), self._policy
        many = len(answer.entries) > _MANY_ENTRIES
        sift_args = (subject.source, answer.entries, now, policy)
        sifted = await asyncio.to_thread(sift, *sift_args) if many else sift(*sift_args)
        known = await self._store.posts.known(subject, sifted)

        def decided() -> Outcome:
            return succeeded(
                subject, answer, sifted, known, started_at=started_at, now=now, policy=policy
            )

        return await asyncio.to_thread(decided) if many else decided()

    async def _record(self, outcome: Outcome, turns: VisitTurns) -> Outcome:
        if outcome.hold is not None and outcome.hold_lane is not None:
            self._gates.hold(outcome.hold_lane, outcome.hold)
        recording = asyncio.create_task(self._store.record(outcome))
        self._recording.add(recording)
        recording.add_done_callback(self._recording.discard)
        # a poll that is being stopped still stores what it fetched (S8)
        stored = await asyncio.shield(recording)
        turns.end()
        self._guard.learn(stored)
        self._tell(stored)
        return stored

    def _is_wanted(self, subject: Subject, due: DueSource) -> bool:
        source = subject.source
        return due.requested or is_due(source, self._clock.now(), self._policy)

    def _tell(self, outcome: Outcome) -> None:
        source, now = outcome.source, self._clock.now()
        _log(outcome)
        self._events.tell(Event(EventKind.POLL_FINISHED, now, source.id, outcome))
        if outcome.recorded and outcome.disabled:
            log.warning("[Polling] disabled", url=masked(source.url), reason=source.disabled_reason)
            self._events.tell(Event(EventKind.SOURCE_DISABLED, now, source.id, outcome))
        elif outcome.recorded and outcome.recovered:
            self._events.tell(Event(EventKind.SOURCE_RECOVERED, now, source.id, outcome))


def on_hold(subject: Subject, gates: Gates, lane: str, now: datetime) -> Outcome | None:
    """The outcome of a manual poll that may not be sent yet; None if it may (P10)."""
    hold = gates.hold_of(lane) or subject.source.hold
    if hold is None or hold_seconds(hold, now) <= 0:
        return None
    return untouched(subject, classify(OnHold(hold.until, hold.reason)), started_at=now)


def _log(outcome: Outcome) -> None:
    """One line per poll (L1)."""
    url, ms = masked(outcome.source.url), outcome.duration_ms
    failure = outcome.failure
    if not outcome.recorded:
        log.info("[Polling] discarded: the source was edited meanwhile", url=url, ms=ms)
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
