"""VisitTurns: the hosts that one poll visits, its own and those that redirects lead to (P3)."""

from contextlib import AbstractAsyncContextManager
from functools import partial

from headwater.engine.gates import Gates
from headwater.model import Source, Visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds, host_of, host_of_lane, passing_delay


class VisitTurns:
    """Keeps one poll from asking two hosts at once, and any host out of turn."""

    _source: Source
    _policy: Policy

    def __init__(self, gates: Gates, lane: str) -> None:
        self._gates = gates
        self.lane = lane
        self._delay = 0.0
        self._at_home = True
        self._own_until: dict[str, float] = {}  # the ends of delays that this visit left behind
        self._visits: dict[str, Visit] = {}

    def begin(self, source: Source, policy: Policy) -> None:
        """Say which source the visit is for: from here on its delay counts."""
        self._source = source
        self._policy = policy
        if self.lane:  # the null lane has none (P4)
            own, host = source.poll_delay_seconds, host_of(source)
            self._delay = delay_seconds(own, source.type, host, policy)

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """Wait for the turn of a host that a redirect leads to, and mark it as visited.

        The poll's own host is let go first: two lanes that redirect to each other must not wait
        for each other. Whoever comes back to a host waits for those who are there meanwhile, but
        not for the delay that this poll itself left behind: all of it is one visit (P3).
        """
        self._leave_home()
        lane, delay = host, passing_delay(host, self._source, self._policy).total_seconds()
        if host == host_of_lane(self.lane):
            lane, delay = self.lane, self._delay
        own_until = self._own_until.get(lane, 0.0)
        return self._gates.turn(lane, delay, partial(self._left, lane), own_until=own_until)

    def end(self) -> tuple[Visit, ...]:
        """End the poll's visit; its lane's delay is counted from here.

        The answer holds the visits, its own and others, that must outlive the process.
        """
        if self._at_home:
            self._leave_home()
        elif self._delay > 0:
            self._keep(self._gates.mark_visited(self.lane, self._delay))
        return tuple(self._visits.values())

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
