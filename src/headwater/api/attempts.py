"""Counts wrong tokens per address, so that nobody can try them in bulk (U1)."""

from headwater.clock import Clock

MOST = 20
WINDOW_SECONDS = 60.0
_MOST_ADDRESSES = 10_000


class Attempts:
    """Wrong attempts of the last minute, by address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: dict[str, tuple[float, int]] = {}  # since when, how many

    def seconds_to_wait(self, address: str) -> float:
        """How long an address has to wait before it may try again; 0: not at all."""
        since, count = self._failed.get(address, (0.0, 0))
        left = since + WINDOW_SECONDS - self._clock.monotonic()
        return left if count >= MOST and left > 0 else 0.0

    def failed(self, address: str) -> None:
        """Remember a wrong attempt."""
        now = self._clock.monotonic()
        since, count = self._failed.get(address, (now, 0))
        if since + WINDOW_SECONDS <= now:
            since, count = now, 0
        if len(self._failed) >= _MOST_ADDRESSES:
            self._forget(now)
        self._failed[address] = (since, count + 1)

    def _forget(self, now: float) -> None:
        old = [a for a, (since, _) in self._failed.items() if since + WINDOW_SECONDS <= now]
        for address in old or list(self._failed)[: _MOST_ADDRESSES // 2]:
            del self._failed[address]
