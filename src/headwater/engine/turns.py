"""VisitTurns: the hosts that one poll visits, its own and those that redirects lead to (P3)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from headwater.engine.claims import NOBODY_ELSE, Claims
from headwater.engine.gates import TURN_SECONDS, Gates, earliest_now
from headwater.errors import HostBusy, OnHold
from headwater.model import Fence, HostState, Source, Visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import (
    SOON_SECONDS,
    delay_seconds,
    hold_seconds,
    host_of,
    host_of_lane,
    passing_delay,
    wait_seconds,
)

_AGAIN_SECONDS = 0.1  # between looks at a host that another process visits


class VisitTurns:
    """Keeps one poll from asking two hosts at once, and any host out of turn."""

    _source: Source
    _policy: Policy

    def __init__(self, gates: Gates, lane: str, claims: Claims = NOBODY_ELSE) -> None:
        self._gates = gates
        self._claims = claims
        self.lane = lane
        self._delay = 0.0
        self._at_home = True
        self._own_until: dict[str, float] = {}  # the ends of delays that this visit left behind
        self._visits: dict[str, Visit] = {}
        self._claimed: set[str] = set()
        self._stored: set[str] = set()  # lanes whose visits were stored when they were given back
        self.fence: Fence | None = None  # where others poll too: what proves that the lane is ours

    def begin(self, source: Source, policy: Policy) -> None:
        """Say which source the visit is for: from here on its delay counts."""
        self._source = source
        self._policy = policy
        if self.lane:  # the null lane has none (P4)
            own, host = source.poll_delay_seconds, host_of(source)
            self._delay = delay_seconds(own, source.type, host, policy)

    async def arrive(self) -> bool:
        """Make sure that no other process asks the poll's host; False: one does, or just did."""
        if self._claims.alone:
            return True
        delay, self._delay = self._delay, 0.0  # who does not get there leaves nothing behind
        self.fence = self._claims.fence(self.lane)
        if self.fence is None:
            return False
        state = await self._claims.take(self.lane, delay)
        if state is None:
            return False
        self._claimed.add(self.lane)
        self._gates.learn(state)
        wait = self._gates.seconds_until_open(self.lane)
        if wait > SOON_SECONDS:
            await self._give_back(self.lane)
            return False
        if wait > 0:
            await self._gates.clock.sleep(wait)
        self._delay = delay
        return True

    async def claim_home(self) -> None:
        """Wait until no other process asks the visit's own host, for visits outside the lanes."""
        await self._claim(self.lane, self._delay)

    def check(self) -> None:
        """Raise Overtaken where nothing more may be asked: each request looks first (K8)."""
        self._claims.check(self.fence, self._claimed)

    async def depart(self, *, stored: bool) -> None:
        """Let other processes have what this poll still claims; `stored`: its visits are."""
        if stored:
            self._visits.clear()
        for lane in list(self._claimed):
            await self._give_back(lane)

    @asynccontextmanager
    async def at(self, host: str) -> AsyncIterator[None]:
        """Wait for the turn of a host that a redirect leads to, and mark it as visited.

        The poll's own host is let go first: two lanes that redirect to each other must not wait
        for each other. Whoever comes back to a host waits for those who are there meanwhile, but
        not for the delay that this poll itself left behind: all of it is one visit (P3).
        """
        self._leave_home()
        await self._give_back(self.lane)
        lane, delay = host, passing_delay(host, self._source, self._policy).total_seconds()
        if host == host_of_lane(self.lane):
            lane, delay = self.lane, self._delay
        own_until = self._own_until.get(lane, 0.0)
        await self._gates.take_turn(lane, delay, own_until=own_until)
        visited = 0.0
        try:
            await self._claim(lane, delay)
            visited = delay
            self._stored.discard(lane)
            yield
        finally:
            self._left(lane, self._gates.leave(lane, visited))
            await self._give_back(lane)

    def end(self) -> tuple[Visit, ...]:
        """End the poll's visit; its lane's delay is counted from here.

        The answer holds the visits, its own and others, that must outlive the process.
        """
        if self._at_home:
            self._leave_home()
        elif self._delay > 0:
            self._keep(self._gates.mark_visited(self.lane, self._delay))
        if self._claims.alone:
            return tuple(self._visits.values())
        return tuple(
            visit if lane in self._claimed else replace(visit, is_last=False)
            for lane, visit in self._visits.items()
            if lane not in self._stored
        )

    def _leave_home(self) -> None:
        if self._at_home:
            self._at_home = False
            self._left(self.lane, self._gates.leave(self.lane, self._delay))

    def _left(self, lane: str, visit: Visit | None) -> None:
        self._own_until[lane] = self._gates.gate(lane).free_at
        self._keep(visit)

    def _keep(self, visit: Visit | None) -> None:
        if visit is not None:
            self._visits[visit.lane] = visit
            self._stored.discard(visit.lane)

    async def _claim(self, lane: str, delay: float) -> None:
        """Wait until no other process is at a host, nor was there a moment ago; not for ever."""
        if self._claims.alone or lane in self._claimed:
            return
        deadline = self._gates.clock.monotonic() + TURN_SECONDS
        while True:
            wait = await self._tried(lane, delay)
            if lane in self._claimed:
                await self._gates.clock.sleep(wait)
                return
            if self._gates.clock.monotonic() + wait > deadline:
                raise HostBusy(f"{host_of_lane(lane)} had no turn for us in time")
            await self._gates.clock.sleep(wait)

    async def _tried(self, lane: str, delay: float) -> float:
        """Claim a host unless it must wait for long; answer how long to wait."""
        before = self._visits.get(lane)
        own_until = None if before is None else before.next_allowed_at
        state = await self._claims.take(lane, delay, own_until)
        if state is None:
            return _AGAIN_SECONDS
        self._claimed.add(lane)
        now, allowed_at = earliest_now(self._gates.clock), state.next_allowed_at
        held = hold_seconds(state.hold, now)
        left = wait_seconds(allowed_at, state.next_allowed_set_at, now)
        wait = max(held, 0.0 if self._is_ours(state) else left)
        if wait > SOON_SECONDS:
            await self._give_back(lane)
        if state.hold is not None and held > TURN_SECONDS:
            raise OnHold(state.hold.until, state.hold.reason)
        return wait

    def _is_ours(self, state: HostState) -> bool:
        """Whether the delay that is stored of a host is the one that this poll left behind."""
        visit = self._visits.get(state.lane)
        return visit is not None and visit.next_allowed_at == state.next_allowed_at

    async def _give_back(self, lane: str) -> None:
        if lane in self._claimed:
            self._claimed.discard(lane)
            visit = self._visits.get(lane)
            if visit is not None:
                self._stored.add(lane)
            await self._claims.give_back(lane, visit)
