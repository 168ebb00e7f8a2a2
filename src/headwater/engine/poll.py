"""Poller: one source from its turn to the store: fetch, decide, record."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Protocol

from headwater.clock import Clock
from headwater.engine.claims import Claims
from headwater.engine.events import EventKind, Events
from headwater.engine.gates import Gates
from headwater.engine.lanes import NULL_LANE
from headwater.engine.outage import OutageGuard
from headwater.engine.turns import VisitTurns
from headwater.errors import DatabaseUnavailable, OnHold, StoreError
from headwater.logs import get_logger
from headwater.model import Answer, DueSource, Leave, Outcome, Subject, changed
from headwater.rules.admission import NO_ENTRIES, NOTHING, sift
from headwater.rules.failure import classify
from headwater.rules.outcome import discarded, failed, succeeded, untouched
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds, lane_of
from headwater.rules.schedule import is_due
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
        claims: Claims,
        guard: OutageGuard,
        events: Events,
        clock: Clock,
        policy: Policy,
    ) -> None:
        self._store = store
        self._fetch = fetch
        self._key_for = key_for
        self._gates = gates
        self._claims = claims
        self._guard = guard
        self._events = events
        self._clock = clock
        self._policy = policy

    async def poll(self, due: DueSource) -> Outcome | None:
        """Visit one source and store what came of it; None if it is not due any more."""
        lane, url = due.lane or NULL_LANE, due.id
        turns, recorded = VisitTurns(self._gates, lane, self._claims), False
        held: list[Leave] = []
        try:
            subject = await self._store.sources.subject_for_poll(due.id)
            if subject is None or not self._is_wanted(subject, due):
                return None
            url = subject.source.url
            turns.begin(subject.source, self._policy)
            if not await turns.arrive():
                return None  # another process is at the host: the source is simply still due
            stored = await self._record(subject, await self._visit(subject, turns, held))
            recorded = True
        except StoreError as error:  # not the source's fault: it is simply still due (K5)
            log.warning("[Polling] could not be stored; still due", url=url, error=str(error))
            return None
        finally:
            turns.end()  # the lane's delay counts from the end of the whole poll (P3)
            for leave in held:
                leave.let_go()
            await turns.depart(stored=recorded)
        self._guard.learn(stored)
        if not stored.recorded:
            stored = discarded(stored)
        self._tell(subject, stored, due)
        return stored

    async def _visit(self, subject: Subject, turns: VisitTurns, held: list[Leave]) -> Outcome:
        """Fetch and decide; what is `held` is let go when all is stored."""
        started_at, started = self._clock.now(), self._clock.monotonic()
        self._events.tell(EventKind.POLL_STARTED, subject)
        try:
            key = await self._key_for(subject)  # None unless the type needs one
            answer = await self._fetch(subject, key, turns=turns, now=started_at)
            if answer.leave is not None:
                held.append(answer.leave)
            outcome = await self._decide(subject, answer, started_at)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a source does is its failure (F1)
            failure = self._guard.judge(subject, classify(error), error)
            now = self._clock.now()
            outcome = failed(subject, failure, started_at=started_at, now=now, policy=self._policy)
        if outcome.hold is not None and outcome.hold_lane is not None:
            self._gates.hold(outcome.hold_lane, outcome.hold)
            if not self._claims.alone:  # others may go there before the outcome is stored
                await self._store.hosts.keep_hold(outcome.hold_lane, outcome.hold)
        duration_ms = round((self._clock.monotonic() - started) * 1000)
        visits = (*turns.end(), *self._guard.evidence(outcome, turns.lane))
        return changed(
            outcome, {"duration_ms": duration_ms, "visits": visits, "fence": turns.fence}
        )

    async def _decide(self, subject: Subject, answer: Answer, started_at: datetime) -> Outcome:
        now, policy = self._clock.now(), self._policy
        if answer.unchanged:
            return succeeded(
                subject, answer, NO_ENTRIES, NOTHING, started_at=started_at, now=now, policy=policy
            )
        sifting = partial(sift, subject.source, answer.entries, now, policy)
        many = len(answer.entries) > _MANY_ENTRIES or answer.leave is not None
        sifted = await asyncio.to_thread(sifting) if many else sifting()
        known = await self._store.known(subject, sifted)
        deciding = partial(succeeded, subject, answer, sifted, known)
        deciding = partial(deciding, started_at=started_at, now=now, policy=policy)
        return await asyncio.to_thread(deciding) if many else deciding()

    async def _record(self, subject: Subject, outcome: Outcome) -> Outcome:
        """Store an outcome; one that cannot be stored is a failure of its source (H4, K5)."""
        try:
            return await self._store.record(outcome)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - its source would be polled in vain for ever
            now, started_at = self._clock.now(), outcome.started_at
            failure = classify(error)
            told = failed(subject, failure, started_at=started_at, now=now, policy=self._policy)
            kept = {"visits": outcome.visits, "fence": outcome.fence}
            return await self._store.record(changed(told, kept))

    def _is_wanted(self, subject: Subject, due: DueSource) -> bool:
        """Whether the source still belongs to this lane, and is due or was asked for."""
        source = subject.source
        if lane_of(source, subject.user_id) != due.lane:  # moved: it is for another lane now
            return False
        now = self._clock.now()
        # by what is stored now: a request may have been answered or taken back since
        return is_due(source, now, self._policy) and hold_seconds(source.hold, now) <= 0

    def _tell(self, subject: Subject, outcome: Outcome, due: DueSource) -> None:
        tell, source = self._events.tell, outcome.source
        _log(outcome)
        if outcome.posts:
            tell(EventKind.POST_CREATED, subject, outcome=outcome)
        waited = (outcome.started_at - due.overdue_since).total_seconds()
        tell(EventKind.POLL_FINISHED, subject, outcome=outcome, seconds=waited)
        if not outcome.recorded:
            return
        if outcome.disabled:
            log.warning("[Polling] disabled", url=source.url, reason=source.disabled_reason)
            tell(EventKind.SOURCE_DISABLED, subject, outcome=outcome)
        elif outcome.recovered:
            tell(EventKind.SOURCE_RECOVERED, subject, outcome=outcome)


def on_hold(subject: Subject, gates: Gates, lane: str, now: datetime) -> Outcome | None:
    """The outcome of a manual poll that may not be sent yet; None if it may (P10)."""
    hold = gates.hold_of(lane) or subject.source.hold
    if hold is None or hold_seconds(hold, now) <= 0:
        return None
    return untouched(subject, classify(OnHold(hold.until, hold.reason)), started_at=now)


def _log(outcome: Outcome) -> None:
    """One line per poll; the logger masks the URL (L1)."""
    url, ms = outcome.source.url, outcome.duration_ms
    failure = outcome.failure
    if not outcome.recorded:
        why = "the source was edited or removed meanwhile"
        if outcome.fence is not None:
            why = "the source was edited, removed, or taken over by another worker meanwhile"
        log.info(f"[Polling] discarded: {why}", url=url, ms=ms)
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
