"""Cached values: expensive ones are kept longer, and slightly old ones need no waiting."""

import asyncio

from headwater.operations.service_status import CachedValue
from tests.fakes import FakeClock, in_virtual_time


class CountingQuery:
    """A query that takes a given time and returns how often it was called."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self.asked = 0

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await self._clock.sleep(self.seconds)
        return number


def test_a_cheap_value_is_fresh_and_an_expensive_one_is_cached():
    async def scenario() -> None:
        clock = FakeClock()
        ask = CountingQuery(clock, 0.01)
        kept = CachedValue(ask, clock, 0.5, least_seconds=0.5)
        assert await kept.get_recent() == 1
        assert await kept.get_recent() == 1  # cached for a while
        await clock.sleep(1)
        assert await kept.get_recent() == 2  # queried again: that was fast
        ask.seconds = 2.0
        await clock.sleep(1)
        started = clock.monotonic()
        assert await kept.get_recent() == 2
        assert await kept.get_recent() == 2
        assert clock.monotonic() - started < 0.2  # returned without waiting for the expensive query
        await clock.sleep(2)
        assert await kept.get_recent() == 3
        assert ask.asked == 3  # two concurrent callers share one query

    in_virtual_time(scenario)


def test_an_expired_value_is_not_returned():
    async def scenario() -> None:
        clock = FakeClock()
        ask = CountingQuery(clock, 0.5)
        kept = CachedValue(ask, clock, 0.5, least_seconds=0.5)
        assert await kept.get_recent() == 1
        await clock.sleep(3600)
        first, second = await asyncio.gather(kept.get_recent(), kept.get_recent())
        assert (first, second) == (2, 2)

    in_virtual_time(scenario)
