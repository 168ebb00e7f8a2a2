"""Tally: how many requests there were in each minute, and how long polls waited."""

from array import array
from collections.abc import Sequence

MINUTES_A_DAY = 1440
SHARES = (0.5, 0.9, 0.99, 1.0)


class Tally:
    """Counts requests, and the waits of polls that fell due by time."""

    def __init__(self) -> None:
        self._minutes = array("L")
        self._late = array("d")
        self._worst: dict[str, float] = {}
        self._in_second = 0
        self._second = -1
        self.most_in_a_second = 0

    def waited(self, late: float, lane: str) -> None:
        """Count how long a poll waited from when on it could have begun."""
        self._late.append(late)
        if late > self._worst.get(lane, 0.0):
            self._worst[lane] = late

    def asked(self, at: float) -> None:
        """Count a request."""
        second = int(at)
        minute = second // 60
        while len(self._minutes) <= minute:
            self._minutes.append(0)
        self._minutes[minute] += 1
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second > self.most_in_a_second:
            self.most_in_a_second = self._in_second

    def lateness(self, shares: Sequence[float] = SHARES) -> list[float]:
        """The wait that these shares of all polls did not exceed, in seconds."""
        values = sorted(self._late)
        if not values:
            return [0.0 for _ in shares]
        return [
            max(values[min(int(share * len(values)), len(values) - 1)], 0.0) for share in shares
        ]

    def worst(self, lane: str) -> float:
        """The longest that a source of a lane waited, in seconds."""
        return self._worst.get(lane, 0.0)

    def day(self, minutes: int) -> list[int]:
        """Requests in each minute of the last whole day of a story, else of what there was."""
        known = [*self._minutes, *[0] * (minutes - len(self._minutes))]
        days = len(known) // MINUTES_A_DAY
        last = days * MINUTES_A_DAY or len(known)
        return known[max(last - MINUTES_A_DAY, 0) : last]
