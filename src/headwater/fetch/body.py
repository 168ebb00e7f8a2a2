"""Reading bodies: whole and within the limit, or not at all (N7, N8, N9, N10)."""

import asyncio
from typing import Protocol

from headwater.errors import BrokenBody, FetchError, TooLarge
from headwater.fetch.faults import NETWORK_ERRORS
from headwater.fetch.inflate import encoding_of, inflate, inflate_start

_SMALL_BODY = 1_048_576
_INLINE_INFLATE = 4096  # a larger body is inflated in a thread (H2)
_MAX_ERROR_BODY = 4096  # bytes of an error that are worth reading (N9)
_ERROR_BODY_SECONDS = 5.0


class Stream(Protocol):
    """A body on its way."""

    async def readany(self) -> bytes:
        """What has come since, or nothing at the end."""
        ...

    def at_eof(self) -> bool:
        """Whether all has been read."""
        ...


async def read_whole(
    stream: Stream, encoded: str, *, limit: int, large: asyncio.Semaphore
) -> tuple[bytes, int]:
    """The body inflated, and its bytes on the wire; both at most `limit`.

    Only so many bodies grow large at once, as `large` allows; the others pause (H1).
    """
    encoding = encoding_of(encoded)
    pieces: list[bytes] = []
    await _read_on(stream, pieces, limit=limit, stop=_SMALL_BODY)
    if stream.at_eof():
        return await _inflated(b"".join(pieces), encoding, limit)
    async with large:
        await _read_on(stream, pieces, limit=limit, stop=limit + 1)
        return await _inflated(b"".join(pieces), encoding, limit)


async def _read_on(stream: Stream, pieces: list[bytes], *, limit: int, stop: int) -> None:
    """Read to the end, or until there are `stop` bytes."""
    size = sum(map(len, pieces))
    while size < stop and not stream.at_eof():
        pieces.append(await stream.readany())
        size += len(pieces[-1])
        if size > limit:
            raise TooLarge(f"the body is larger than {limit} bytes")
        if len(pieces) % 4 == 0:
            await asyncio.sleep(0)  # a body in tiny pieces must not keep the loop busy (H2)


async def _inflated(body: bytes, encoding: str | None, limit: int) -> tuple[bytes, int]:
    if encoding is None:
        return body, len(body)
    if len(body) <= _INLINE_INFLATE:
        return inflate(body, encoding, limit=limit), len(body)
    return await asyncio.to_thread(inflate, body, encoding, limit=limit), len(body)


async def read_start(stream: Stream, encoded: str) -> tuple[bytes, int]:
    """The first bytes of an error's body, as far as they come: the status matters (N9)."""
    pieces = []
    size = 0
    try:
        async with asyncio.timeout(_ERROR_BODY_SECONDS):
            while size < _MAX_ERROR_BODY and not stream.at_eof():
                pieces.append(await stream.readany())
                size += len(pieces[-1])
    except (FetchError, *NETWORK_ERRORS):
        pass  # also the time limit; what has come so far will do
    start = b"".join(pieces)[:_MAX_ERROR_BODY]
    try:
        encoding = encoding_of(encoded)
    except BrokenBody:
        return b"", size
    if encoding is None:
        return start, size
    return inflate_start(start, encoding, limit=_MAX_ERROR_BODY), size
