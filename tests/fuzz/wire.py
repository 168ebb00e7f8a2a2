"""Answers byte by byte, without a network: what a connection makes of them."""

import asyncio
import atexit
import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import FetchError
from headwater.fetch.reading import MAX_HEADER_BYTES, MAX_HEADERS, Bounds
from headwater.fetch.wire import Wire

LIMIT = 20_000
_BOUNDS = Bounds(read_seconds=3600, max_body_bytes=LIMIT, max_wire_bytes=1_000_000)
_loop = asyncio.new_event_loop()
atexit.register(_loop.close)


@dataclass(frozen=True)
class Came:
    """What a question came to."""

    error: str | None
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    is_whole: bool
    all_read: bool  # nothing was left to be said when it was over


def answered(pieces: Sequence[bytes]) -> Came:
    """Ask, hear these pieces, and see the connection closed."""
    return _loop.run_until_complete(_answered(pieces))


async def _answered(pieces: Sequence[bytes]) -> Came:
    wire = Wire(_BOUNDS, None)
    transport = _Transport()
    wire.connection_made(transport)
    question = asyncio.create_task(
        wire.ask(b"GET / HTTP/1.1\r\n\r\n", shaken_by=math.inf, over_at=_loop.time() + 3600)
    )
    await asyncio.sleep(0)
    heard = 0
    for piece in pieces:
        wire.data_received(piece)
        heard += 1
        await asyncio.sleep(0)  # now and then, who waits gets a turn
        if question.done() or transport.is_closing():
            break
    wire.connection_lost(None)
    error = None
    try:
        await question
    except (FetchError, ConnectionError, TimeoutError) as failure:
        error = type(failure).__name__
    assert len(wire.body) <= LIMIT
    assert len(wire.headers) <= MAX_HEADERS
    assert sum(len(name) + len(value) for name, value in wire.headers) <= MAX_HEADER_BYTES
    dict(wire.taken())
    return Came(
        error,
        wire.status,
        tuple(wire.headers),
        bytes(wire.body),
        wire.is_complete,
        heard == len(pieces),
    )


class _Transport(asyncio.Transport):
    """Says nothing to anybody."""

    def __init__(self) -> None:
        super().__init__()
        self._is_closing = False

    def write(self, data: object) -> None:
        """Send nothing."""

    def abort(self) -> None:
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    def resume_reading(self) -> None:
        """Nothing comes by itself."""
