"""Gates: per lane, whether and from when on its host may be visited by this process (P3, P9).

Waiting is measured on the monotonic clock (H6). What is stored is wall-clock time, together with
the time at which it was set: a clock that jumps neither shortens nor extends a wait (O4).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil

from headwater.clock import Clock
from headwater.errors import HostBusy, OnHold
from headwater.model import Hold, HostState, Visit
from headwater.rules.politeness import hold_seconds, host_of_lane, wait_seconds

_ROUNDING = 1e-6  # milliseconds added by floating-point arithmetic alone
MAX_WAIT_SECONDS = 30.0  # how long a redirect or a preview waits for a host (P3)


class Gate:
    """The state of one lane towards its host."""

    __slots__ = ("busy", "free_at", "held_until", "hold", "released")

    def __init__(self) -> None:
        self.busy = False  # a visit is under way
        self.free_at = 0.0  # monotonic: end of the delay after the last visit
        self.held_until = 0.0  # monotonic: end of the hold
        self.hold: Hold | None = None
        self.released: list[asyncio.Future[None]] = []  # waiters for the end of `busy`

    def opens_at(self, own_until: float = 0.0) -> float:
        """The monotonic time from which the host may be visited.

        `own_until`: end of a delay that the same visit caused and need not wait for (P3).
        """
        return self.held_until if self.free_at <= own_until else max(self.free_at, self.held_until)


class GateEntry:
    """The right to send requests to one lane's host, until `leave`."""

    def __init__(self, gates: "Gates", lane: str) -> None:
        self._gates = gates
        self.lane = lane
        self.is_open = True

    def leave(self, delay_seconds: float = 0.0) -> Visit | None:
        """Free the lane for the next visitor, after its delay; return the record to store."""
        if not self.is_open:
            return None
        self.is_open = False
        gate = self._gates.gate(self.lane)
        gate.busy = False
        waiters, gate.released = gate.released, []
        for future in waiters:
            if not future.done():
                future.set_result(None)
        return self._gates.mark_visited(self.lane, delay_seconds)


class Gates:
    """All gates of this process, initialised from the stored host states."""

    def __init__(
        self, states: Iterable[HostState], clock: Clock, *, unclean_stop: bool = False
    ) -> None:
        self.clock = clock
        self._gates: dict[str, Gate] = {}
        self._visited: set[str] = set()  # by this process; recorded only after an unclean stop
        # the last visit before an unclean stop may not have been stored (P3)
        self._assume_visit_at = clock.monotonic() if unclean_stop else None
        for state in states:
            self.learn(state)

    def gate(self, lane: str) -> Gate:
        """The gate of a lane, created if there is none."""
        found = self._gates.get(lane)
        if found is None:
            found = self._gates[lane] = Gate()
        return found

    def get(self, lane: str) -> Gate | None:
        """The gate of a lane, or None if it is open and nothing is known about it."""
        return self._gates.get(lane)

    def names(self) -> list[str]:
        """The lanes that have a gate."""
        return list(self._gates)

    def learn(self, state: HostState) -> None:
        """Apply the stored state of a lane; a known wait never becomes shorter (P3, P9)."""
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
        """The delay and the hold of a lane that are not over yet, in wall-clock time."""
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
        """Allow no visit to a host until its hold ends (P9)."""
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

    def enter(self, lane: str) -> GateEntry:
        """Begin a visit at once; the caller has checked that the gate is open."""
        self.gate(lane).busy = True
        if self._assume_visit_at is not None:
            self._visited.add(lane)
        return GateEntry(self, lane)

    async def enter_when_open(
        self, lane: str, delay_seconds: float, *, own_until: float = 0.0
    ) -> GateEntry:
        """Wait until a lane may be visited, and begin the visit.

        `own_until`: see `Gate.opens_at`. Raises HostBusy or OnHold after MAX_WAIT_SECONDS.
        """
        self.allow_for_lost_visit(lane, delay_seconds)
        deadline = self.clock.monotonic() + MAX_WAIT_SECONDS
        while True:
            gate, now = self.gate(lane), self.clock.monotonic()
            opens_at = gate.opens_at(own_until)
            if gate.hold is not None and gate.held_until > deadline:
                raise OnHold(gate.hold.until, gate.hold.reason)
            if not gate.busy and opens_at <= now:
                return self.enter(lane)
            if now >= deadline or opens_at > deadline:
                raise HostBusy(f"{host_of_lane(lane)} was not free within {MAX_WAIT_SECONDS:.0f} s")
            if gate.busy:
                released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                gate.released.append(released)
                await asyncio.wait([released], timeout=deadline - now)
            else:
                await self.clock.sleep(opens_at - now)

    def mark_visited(self, lane: str, delay_seconds: float) -> Visit | None:
        """Count a lane's delay from now (P3); return the record to store, None without a delay."""
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
        """Whether a lane's host may be visited right now."""
        gate = self._gates.get(lane)
        return gate is None or (not gate.busy and gate.opens_at() <= self.clock.monotonic())

    def snapshot(self) -> list[Visit]:
        """Records of all delays that are not over yet, to be stored at shutdown (P3)."""
        monotonic = self.clock.monotonic()
        return [
            visit_ending_now(lane, self.clock, gate.free_at - monotonic)
            for lane, gate in self._gates.items()
            if gate.free_at > monotonic
        ]

    def prune(self) -> None:
        """Remove gates that are open and have no state left."""
        now = self.clock.monotonic()
        for lane, gate in list(self._gates.items()):
            if not gate.busy and not gate.released and gate.opens_at() <= now:
                del self._gates[lane]


def visit_ending_now(lane: str, clock: Clock, seconds: float) -> Visit:
    """The record of a visit that ends now; the clock's inaccuracy is added to the delay."""
    milliseconds = ceil((seconds + clock.doubt_seconds) * 1000 - _ROUNDING)
    now = clock.now()
    return Visit(lane, now, now + timedelta(milliseconds=milliseconds))


def earliest_now(clock: Clock) -> datetime:
    """The earliest time that another process may read as now: no stored wait is cut short."""
    return clock.now() - timedelta(seconds=clock.doubt_seconds)
