"""RequestCounts: requests per minute, and how long polls waited."""

from array import array
from collections.abc import Sequence

MINUTES_A_DAY = 1440
SHARES = (0.5, 0.9, 0.99, 1.0)


class RequestCounts:
    """Counts requests, and the waits of polls that were due by time."""

    def __init__(self) -> None:
        self._per_minute = array("L")
        self._waits = array("d")
        self.max_waits: dict[str, float] = {}  # in seconds, by lane
        self._second = -1
        self._in_second = 0
        self.max_per_second = 0

    def add_wait(self, seconds: float, lane: str) -> None:
        """Count how long a poll waited after it could have started."""
        self._waits.append(seconds)
        if seconds > self.max_waits.get(lane, 0.0):
            self.max_waits[lane] = seconds

    def add_request(self, at: float) -> None:
        """Count a request."""
        second = int(at)
        minute = second // 60
        while len(self._per_minute) <= minute:
            self._per_minute.append(0)
        self._per_minute[minute] += 1
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        self.max_per_second = max(self.max_per_second, self._in_second)

    def lateness(self, shares: Sequence[float] = SHARES) -> list[float]:
        """Return the wait in seconds that each share of the polls did not exceed."""
        waits = sorted(self._waits)
        if not waits:
            return [0.0 for _ in shares]
        return [max(waits[min(int(share * len(waits)), len(waits) - 1)], 0.0) for share in shares]

    def last_day(self, minutes: int) -> list[int]:
        """Return the requests per minute of the last full day, or of all minutes if shorter."""
        counts = [*self._per_minute, *[0] * (minutes - len(self._per_minute))]
        end = len(counts) // MINUTES_A_DAY * MINUTES_A_DAY or len(counts)
        return counts[max(end - MINUTES_A_DAY, 0) : end]
