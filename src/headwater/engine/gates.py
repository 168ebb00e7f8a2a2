"""Gates: one per lane, it knows whether and from when on the host may be asked (P3, P9).

Waiting is measured on the monotonic clock (H6); what is stored is in wall-clock time, with the
moment it was set, so that a clock that jumps shortens or lengthens nothing (O4).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil

from headwater.clock import Clock
from headwater.errors import HostBusy, OnHold
from headwater.model import Hold, HostState, Visit
from headwater.rules.politeness import hold_seconds, host_of_lane, wait_seconds

_ROUNDING = 1e-6  # milliseconds that only the arithmetic adds
TURN_SECONDS = 30.0  # how long a redirect, or a preview, waits for a host's turn (P3)


class Gate:
    """The state of one lane towards its host."""

    __slots__ = ("busy", "free_at", "held_until", "hold", "released")

    def __init__(self) -> None:
        self.busy = False  # a request is under way
        self.free_at = 0.0  # monotonic: the delay after the last visit is over
        self.held_until = 0.0  # monotonic: the hold is over
        self.hold: Hold | None = None
        self.released: list[asyncio.Future[None]] = []  # who waits for `busy` to end

    def opens_at(self, own_until: float = 0.0) -> float:
        """The monotonic moment from which the host may be asked.

        `own_until`: the end of a delay that is the visitor's own and so does not count (P3).
        """
        return self.held_until if self.free_at <= own_until else max(self.free_at, self.held_until)


class Gates:
    """All gates, made from what is stored and kept for the life of the process."""

    def __init__(
        self, states: Iterable[HostState], clock: Clock, *, unclean_stop: bool = False
    ) -> None:
        self.clock = clock
        self._gates: dict[str, Gate] = {}
        self._visited: set[str] = set()  # by this process; kept only after an unclean stop
        # the last visit before an unclean stop may not have been recorded (P3)
        self._assume_visit_at = clock.monotonic() if unclean_stop else None
        for state in states:
            self.learn(state)

    def gate(self, lane: str) -> Gate:
        """The gate of a lane."""
        found = self._gates.get(lane)
        if found is None:
            found = self._gates[lane] = Gate()
        return found

    def get(self, lane: str) -> Gate | None:
        """The gate of a lane, if anything is known of it."""
        return self._gates.get(lane)

    def names(self) -> list[str]:
        """The lanes of which something is known."""
        return list(self._gates)

    def learn(self, state: HostState) -> None:
        """Take over what is stored of a lane; no wait that is known becomes shorter (P3, P9)."""
        monotonic = self.clock.monotonic()
        now = earliest_now(self.clock)
        wait = wait_seconds(state.next_allowed_at, state.next_allowed_set_at, now)
        held = hold_seconds(state.hold, now)
        if wait <= 0 and held <= 0:
            return
        gate = self.gate(state.lane)
        gate.free_at = max(gate.free_at, monotonic + wait)
        if held > 0 and monotonic + held > gate.held_until:
            gate.held_until = monotonic + held
            gate.hold = state.hold

    def state(self, lane: str) -> HostState:
        """What is known of a lane's next visit and its hold, by the wall clock of now."""
        now, monotonic = self.clock.now(), self.clock.monotonic()
        gate = self._gates.get(lane) or Gate()
        state = HostState(lane)
        if gate.free_at > monotonic:
            free_at = now + timedelta(seconds=gate.free_at - monotonic)
            state = replace(state, next_allowed_at=free_at, next_allowed_set_at=now)
        if gate.hold is not None and gate.held_until > monotonic:
            until = now + timedelta(seconds=gate.held_until - monotonic)
            state = replace(state, hold=Hold(until, now, gate.hold.reason))
        return state

    def allow_for_lost_visit(self, lane: str, delay_seconds: float) -> None:
        """After an unclean stop, keep a lane's delay from the start of this process (P3)."""
        gate = self.gate(lane)
        if self._assume_visit_at is not None and lane not in self._visited:
            gate.free_at = max(gate.free_at, self._assume_visit_at + delay_seconds)

    def hold(self, lane: str, hold: Hold) -> None:
        """Leave a host alone for a while (P9)."""
        gate = self.gate(lane)
        gate.hold = hold
        left = (hold.until - hold.set_at).total_seconds()
        gate.held_until = self.clock.monotonic() + left

    def hold_of(self, lane: str) -> Hold | None:
        """The hold that a lane is under now, if any."""
        gate = self._gates.get(lane)
        if gate is None or gate.hold is None or gate.held_until <= self.clock.monotonic():
            return None
        return gate.hold

    def held(self) -> int:
        """How many lanes are under a hold now."""
        now = self.clock.monotonic()
        return sum(1 for g in self._gates.values() if g.hold is not None and g.held_until > now)

    def enter(self, lane: str) -> None:
        """Begin a visit."""
        self.gate(lane).busy = True
        if self._assume_visit_at is not None:
            self._visited.add(lane)

    def leave(self, lane: str, delay_seconds: float) -> Visit | None:
        """End a visit and answer what of it must outlive the process."""
        gate = self.gate(lane)
        gate.busy = False
        if gate.released:
            waiting, gate.released = gate.released, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
        return self.mark_visited(lane, delay_seconds)

    def mark_visited(self, lane: str, delay_seconds: float) -> Visit | None:
        """Count a lane's delay from now (P3); None if there is none to remember."""
        if delay_seconds <= 0:
            return None
        gate = self.gate(lane)
        gate.free_at = max(gate.free_at, self.clock.monotonic() + delay_seconds)
        return visit_ending_now(lane, self.clock, delay_seconds)

    def seconds_until_open(self, lane: str) -> float:
        """How long a lane still has to wait for its delay or a hold."""
        gate = self._gates.get(lane)
        return 0.0 if gate is None else gate.opens_at() - self.clock.monotonic()

    def is_open(self, lane: str) -> bool:
        """Whether a lane's host may be asked right now."""
        gate = self._gates.get(lane)
        return gate is None or (not gate.busy and gate.opens_at() <= self.clock.monotonic())

    def snapshot(self) -> list[Visit]:
        """What must outlive the process: every delay that is not over yet (P3)."""
        monotonic = self.clock.monotonic()
        return [
            visit_ending_now(lane, self.clock, gate.free_at - monotonic)
            for lane, gate in self._gates.items()
            if gate.free_at > monotonic
        ]

    def prune(self) -> None:
        """Forget gates that are open and have nothing left to remember."""
        now = self.clock.monotonic()
        idle = [
            lane
            for lane, gate in self._gates.items()
            if not gate.busy and not gate.released and gate.opens_at() <= now
        ]
        for lane in idle:
            del self._gates[lane]

    @asynccontextmanager
    async def turn(
        self,
        lane: str,
        delay_seconds: float,
        left: Callable[[Visit | None], None],
        *,
        own_until: float = 0.0,
    ) -> AsyncIterator[None]:
        """Wait for a host's turn, visit it, and mark it as visited (P3)."""
        await self.take_turn(lane, delay_seconds, own_until=own_until)
        try:
            yield
        finally:
            left(self.leave(lane, delay_seconds))

    async def take_turn(self, lane: str, delay_seconds: float, *, own_until: float = 0.0) -> None:
        """Wait for a host's turn, though not for ever, and begin a visit that `leave` ends.

        `own_until`: the end of the delay that the same visit left behind when it was here before.
        """
        self.allow_for_lost_visit(lane, delay_seconds)
        deadline = self.clock.monotonic() + TURN_SECONDS
        while True:
            gate, now = self.gate(lane), self.clock.monotonic()
            opens_at = gate.opens_at(own_until)
            if gate.hold is not None and gate.held_until > deadline:
                raise OnHold(gate.hold.until, gate.hold.reason)
            if not gate.busy and opens_at <= now:
                break
            if now >= deadline or opens_at > deadline:
                host = host_of_lane(lane)
                raise HostBusy(f"{host} had no turn for us within {TURN_SECONDS:.0f} s")
            if gate.busy:
                await _released(gate, deadline - now)
            else:
                await self.clock.sleep(opens_at - now)
        self.enter(lane)


def visit_ending_now(lane: str, clock: Clock, seconds: float) -> Visit:
    """A visit that keeps others away for so long from now on, whatever their clocks say."""
    milliseconds = ceil((seconds + clock.doubt_seconds) * 1000 - _ROUNDING)
    now = clock.now()
    return Visit(lane, now, now + timedelta(milliseconds=milliseconds))


def earliest_now(clock: Clock) -> datetime:
    """The earliest moment that other processes can take for now: no wait of theirs is cut short."""
    return clock.now() - timedelta(seconds=clock.doubt_seconds)


async def _released(gate: Gate, seconds: float) -> None:
    """Wait until whoever visits a host has left, but not for ever."""
    released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gate.released.append(released)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await released
