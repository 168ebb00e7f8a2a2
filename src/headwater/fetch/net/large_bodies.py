"""Bodies: decompressed within the limit, and only a few large ones at once (N8, H1)."""

import asyncio
from math import inf

from headwater.errors import BrokenBody, TooLarge
from headwater.fetch.net.decompression import encoding_of, inflate, inflate_start
from headwater.fetch.net.http_response_parser import SMALL_BODY
from headwater.fetch.net.limits import MAX_ERROR_BODY

MEDIUM_BODY = 1 << 21  # bytes; larger bodies have a semaphore of their own
_INLINE_INFLATE = 4096  # a larger body is decompressed in a thread (H2)


class LargeBodyPermit:
    """Permission to hold one large body in memory, until it is released."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore: asyncio.Semaphore | None = semaphore
        self._loop = asyncio.get_running_loop()

    def release(self) -> None:
        """Return the permit; a second call has no effect."""
        if self._semaphore is not None:
            self._semaphore.release()
            self._semaphore = None

    def __del__(self) -> None:
        """Return a permit whose body was dropped without `release`, from any thread."""
        if self._semaphore is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._semaphore.release)


class LargeBodyLimiter:
    """Limits how many large bodies are in memory at the same time; others wait (H1).

    Medium bodies, the usual size of large feeds, do not wait for the largest ones. Never wait for
    a second permit while holding one.
    """

    def __init__(self, *, medium: int, large: int) -> None:
        self._medium = asyncio.Semaphore(medium)
        self._large = asyncio.Semaphore(large)

    async def acquire(self, size: float) -> LargeBodyPermit:
        """Wait for a permit for a body of this size."""
        semaphore = self._large if size > MEDIUM_BODY else self._medium
        await semaphore.acquire()
        return LargeBodyPermit(semaphore)


async def inflated(
    body: bytes,
    encoded: str,
    *,
    limit: int,
    limiter: LargeBodyLimiter,
    permit: LargeBodyPermit | None,
) -> tuple[bytes, LargeBodyPermit | None]:
    """The body without its content encoding, and the permit that it holds if it is large."""
    encoding = encoding_of(encoded)
    if encoding is None:
        return body, permit
    if permit is None and limit > SMALL_BODY:
        # most bodies need no permit, or one of the more numerous for medium bodies
        if (small := await _inflate_within(SMALL_BODY, body, encoding, None)) is not None:
            return small, None
        permit = await limiter.acquire(MEDIUM_BODY)
        size = min(limit, MEDIUM_BODY)
        if (medium := await _inflate_within(size, body, encoding, permit)) is not None:
            return medium, permit
        permit = await limiter.acquire(inf)
    return await _inflate(body, encoding, limit, permit), permit


async def _inflate_within(
    limit: int, body: bytes, encoding: str, permit: LargeBodyPermit | None
) -> bytes | None:
    """The decompressed body, or None and no permit if it is larger.

    Not an exception: its traceback would keep the output while the caller waits (H1).
    """
    try:
        return await _inflate(body, encoding, limit, permit)
    except TooLarge:
        return None


async def _inflate(body: bytes, encoding: str, limit: int, permit: LargeBodyPermit | None) -> bytes:
    """The decompressed body; an error releases the permit."""
    try:
        if len(body) <= _INLINE_INFLATE:
            return inflate(body, encoding, limit=limit)
        return await asyncio.to_thread(inflate, body, encoding, limit=limit)
    except BaseException:
        if permit is not None:
            permit.release()
        raise


def start_of_error(start: bytes, encoded: str) -> bytes:
    """The readable part of the first bytes of an error response's body (N9)."""
    try:
        encoding = encoding_of(encoded)
    except BrokenBody:
        return b""
    return start if encoding is None else inflate_start(start, encoding, limit=MAX_ERROR_BODY)
