"""RequestCounts: when requests and visits took place, and how long polls waited."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import copysign

MINUTES_A_DAY = 1440
SHARES = (0.5, 0.9, 0.99, 1.0)


class RequestCounts:
    """Counts requests and visits, and the waits of polls that were due by time."""

    def __init__(self) -> None:
        self._requests = array("d")  # when they began
        self._visits = array("d")  # when they began and, negative, when they ended
        self._waits = array("d")
        self.max_waits: dict[str, float] = {}  # in seconds, by lane

    @classmethod
    def of_all(cls, parts: Iterable["RequestCounts"]) -> "RequestCounts":
        """Return the counts of the parts of a simulation, which have different lanes."""
        counts = cls()
        for part in parts:
            counts._requests += part._requests
            counts._visits += part._visits
            counts._waits += part._waits
            counts.max_waits |= part.max_waits
        return counts

    def add_wait(self, seconds: float, lane: str) -> None:
        """Count how long a poll waited after it could have started."""
        self._waits.append(seconds)
        if seconds > self.max_waits.get(lane, 0.0):
            self.max_waits[lane] = seconds

    def add_request(self, at: float) -> None:
        """Count a request."""
        self._requests.append(at)

    def visit_started(self, at: float) -> None:
        """Note that a connection is in use from now on."""
        self._visits.append(at)

    def visit_ended(self, at: float) -> None:
        """Note that a connection is not in use any more."""
        self._visits.append(-at)

    def max_per_second(self) -> int:
        """Return the most requests that began in one second."""
        return max(Counter(map(int, self._requests)).values(), default=0)

    def max_at_once(self) -> int:
        """Return the most connections that were in use at once."""
        ordered = sorted(self._visits, key=abs)
        return int(max(accumulate(copysign(1.0, at) for at in ordered), default=0.0))

    def lateness(self, shares: Sequence[float] = SHARES) -> list[float]:
        """Return the wait in seconds that each share of the polls did not exceed."""
        waits = sorted(self._waits)
        if not waits:
            return [0.0 for _ in shares]
        return [max(waits[min(int(share * len(waits)), len(waits) - 1)], 0.0) for share in shares]

    def last_day(self, minutes: int) -> list[int]:
        """Return the requests per minute of the last full day, or of all minutes if shorter."""
        per_minute = Counter(int(at) // 60 for at in self._requests)
        length = max(minutes, max(per_minute, default=-1) + 1)
        end = length // MINUTES_A_DAY * MINUTES_A_DAY or length
        return [per_minute[minute] for minute in range(max(end - MINUTES_A_DAY, 0), end)]
