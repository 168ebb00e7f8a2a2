"""WaitingWork: what waits for the database, and the log lines about a stall (K5)."""

import asyncio
from collections.abc import Awaitable, Callable

from headwater.clock import Clock
from headwater.logs import get_logger

log = get_logger()
STALLED_SECONDS = 8.0  # after which waiting work is reported, then after twice this time …
_CHECK_SECONDS = 2.0  # between checks while work waits
# the log lines during a stall and at its end; the scheduler's queries wait for locks, too
RESULTS = ("[Store] results are waiting to be stored", "[Store] results are stored again")
QUERIES = (
    "[Store] the scheduler is waiting for the database",
    "[Store] the database responds to the scheduler again",
)


class WaitingWork:
    """When each result that is not stored yet, or each query, began to wait.

    `texts` are `RESULTS` or `QUERIES`, `error` is that of the last attempt.
    """

    def __init__(
        self, clock: Clock, error: Callable[[], str | None], texts: tuple[str, str]
    ) -> None:
        self._clock = clock
        self._error = error
        self._stalled, self._recovered = texts
        self._check: asyncio.TimerHandle | None = None
        self._started: dict[object, float] = {}  # oldest first
        self._next_report_seconds = STALLED_SECONDS
        self._stalled_since: float | None = None

    def __len__(self) -> int:
        return len(self._started)

    def begin(self) -> object:
        """Count a piece of work; return the key for `end`."""
        key = object()
        self._started[key] = self._clock.monotonic()
        if self._check is None:
            self._schedule_check()
        return key

    def end(self, key: object) -> None:
        """Stop counting it: it is done or given up."""
        del self._started[key]

    async def watch(self, work: Awaitable[None]) -> None:
        """Do a piece of work; its success ends a stall."""
        key = self.begin()
        try:
            await work
        finally:
            self.end(key)
        self.done()

    def oldest_seconds(self) -> float:
        """How long the oldest piece of work has waited; 0 if none waits."""
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
            self._stalled,
            count=len(self),
            seconds=round(seconds),
            error=self._error() or "the database does not respond",
        )

    def done(self) -> None:
        """Log the end of a stall after a success, once no old work waits any more."""
        if self._stalled_since is None or self.oldest_seconds() >= STALLED_SECONDS:
            return
        after = round(self._clock.monotonic() - self._stalled_since)
        log.info(self._recovered, after=after)
        self._stalled_since = None
        self._next_report_seconds = STALLED_SECONDS
