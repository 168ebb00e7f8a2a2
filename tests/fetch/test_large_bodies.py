"""H1: bodies that wait for a permit need little memory."""

import asyncio
import gzip
import tracemalloc

from headwater.fetch.net.large_bodies import (
    MEDIUM_BODY,
    LargeBodyLimiter,
    LargeBodyPermit,
    inflated,
)

_MEGABYTE = 1 << 20


class RecordingLimiter(LargeBodyLimiter):
    """A limiter that knows how many have asked for a permit for a large body."""

    requests = 0

    async def acquire(self, size: float) -> LargeBodyPermit:
        """Count the request, then wait as usual."""
        self.requests += size > MEDIUM_BODY
        return await super().acquire(size)

    async def are_waiting(self, count: int) -> None:
        """Wait until so many have asked, after the first one."""
        while self.requests <= count:
            await asyncio.sleep(0)


async def test_h1_a_compressed_body_that_waits_keeps_none_of_its_output():
    limiter = RecordingLimiter(medium=2, large=1)
    held = await limiter.acquire(MEDIUM_BODY + 1)
    body = gzip.compress(bytes(9 * _MEGABYTE))

    async def wait() -> int:
        text, permit = await inflated(
            body, "gzip", limit=10 * _MEGABYTE, limiter=limiter, permit=None
        )
        assert permit is not None
        permit.release()
        return len(text)

    tracemalloc.start()
    try:
        waiting = [asyncio.create_task(wait()) for _ in range(8)]
        await limiter.are_waiting(len(waiting))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    held.release()
    assert kept < _MEGABYTE, "eight partial outputs of two megabytes"
    assert await asyncio.gather(*waiting) == [9 * _MEGABYTE] * 8
