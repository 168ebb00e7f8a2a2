"""VisitTurns: the hosts that one poll visits, its own and those that redirects lead to (P3)."""

from contextlib import AbstractAsyncContextManager

from headwater.engine.gates import Gates
from headwater.model import Source, Visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import passing_delay, poll_delay


class VisitTurns:
    """Keeps one poll from asking two hosts at once, and any host out of turn."""

    def __init__(self, gates: Gates, lane: str, source: Source, policy: Policy) -> None:
        self._gates = gates
        self._lane = lane
        self._source = source
        self._policy = policy
        self._delay = poll_delay(source, policy).total_seconds() if lane else 0.0
        self._at_home = True
        self._visits: dict[str, Visit] = {}

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """Wait for another host's turn and mark it as visited.

        The poll's own host is let go first: two lanes that redirect to each other must not wait
        for each other.
        """
        self._leave_home()
        delay = passing_delay(host, self._source, self._policy).total_seconds()
        return self._gates.turn(host, delay, self._keep)

    def end(self) -> tuple[Visit, ...]:
        """End the poll's visit; its lane's delay is counted from here. Answers all visits."""
        if self._at_home:
            self._leave_home()
        else:
            self._keep(self._gates.mark_visited(self._lane, self._delay))
        return tuple(self._visits.values())

    def _leave_home(self) -> None:
        if self._at_home:
            self._at_home = False
            self._keep(self._gates.leave(self._lane, self._delay))

    def _keep(self, visit: Visit) -> None:
        self._visits[visit.lane] = visit
