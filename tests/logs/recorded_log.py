"""A logger that writes to a stream, at a fixed time."""

from datetime import UTC, datetime

from headwater.logs import configure, get_logger

NOW = datetime(2026, 2, 16, 8, 0, 0, 7000, tzinfo=UTC)
STAMP = "2026-02-16T08:00:00.007Z"


class StoppedClock:
    """A clock that does not move."""

    doubt_seconds: float = 0.0

    def now(self):
        return NOW

    def monotonic(self):
        return 0.0

    async def sleep(self, seconds):
        raise AssertionError("no test sleeps here")


def written(stream, form="text", level="info", **options):
    configure(form, level, stream=stream, clock=StoppedClock(), **options)
    return get_logger()
