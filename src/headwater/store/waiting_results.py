"""WaitingResults: poll results that are not stored yet, and the log lines about a stall (K5)."""

import asyncio
from collections.abc import Callable

from headwater.clock import Clock
from headwater.logs import get_logger

log = get_logger()
STALLED_SECONDS = 8.0  # after which a waiting result is reported, then after twice this time …
_CHECK_SECONDS = 2.0  # between checks while results wait


class WaitingResults:
    """When each result that is not stored yet began to wait."""

    def __init__(self, clock: Clock, error: Callable[[], str | None]) -> None:
        self._clock = clock
        self._error = error  # of the last attempt to store a result
        self._check: asyncio.TimerHandle | None = None
        self._started: dict[object, float] = {}  # oldest first
        self._next_report_seconds = STALLED_SECONDS
        self._stalled_since: float | None = None

    def __len__(self) -> int:
        return len(self._started)

    def begin(self) -> object:
        """Count a result; return the key for `end`."""
        key = object()
        self._started[key] = self._clock.monotonic()
        if self._check is None:
            self._schedule_check()
        return key

    def end(self, key: object) -> None:
        """Count a result no more: it was stored or given up."""
        del self._started[key]

    def oldest_seconds(self) -> float:
        """How long the oldest result has waited; 0 if none waits."""
        now = self._clock.monotonic()
        return now - next(iter(self._started.values()), now)

    def _schedule_check(self) -> None:
        self._check = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._run_check)

    def _run_check(self) -> None:
        self._check = None
        self.report()
        if self._started:
            self._schedule_check()

    def report(self) -> None:
        """Log a stall, again each time it has lasted twice as long."""
        seconds = self.oldest_seconds()
        if seconds < self._next_report_seconds:
            return
        if self._stalled_since is None:
            self._stalled_since = self._clock.monotonic() - seconds
        while self._next_report_seconds <= seconds:
            self._next_report_seconds *= 2
        log.warning(
            "[Store] results are waiting to be stored",
            count=len(self),
            seconds=round(seconds),
            error=self._error() or "the database does not respond",
        )

    def stored(self) -> None:
        """Log the end of a stall after a result was stored, once no old one waits any more."""
        if self._stalled_since is None or self.oldest_seconds() >= STALLED_SECONDS:
            return
        after = round(self._clock.monotonic() - self._stalled_since)
        log.info("[Store] results are stored again", after=after)
        self._stalled_since = None
        self._next_report_seconds = STALLED_SECONDS
