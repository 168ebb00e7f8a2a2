"""Runs HTTP responses through a connection without a network."""

import asyncio
import atexit
import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import FetchError
from headwater.fetch.net.http_connection import Deadlines, HttpConnection
from headwater.fetch.net.limits import MAX_HEADER_BYTES, MAX_HEADERS
from tests.factories import client_limits

LIMIT = 20_000
_LIMITS = client_limits(read_timeout_seconds=3600, max_body_bytes=LIMIT)
_loop = asyncio.new_event_loop()
atexit.register(_loop.close)


@dataclass(frozen=True)
class ParsedResponse:
    """The result of a request."""

    error: str | None
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    is_whole: bool
    all_read: bool  # every piece was received before the end


def answered(pieces: Sequence[bytes]) -> ParsedResponse:
    """Send a request, receive these pieces, then close the connection."""
    return _loop.run_until_complete(_answered(pieces))


async def _answered(pieces: Sequence[bytes]) -> ParsedResponse:
    connection = HttpConnection(_LIMITS, None)
    transport = _Transport()
    connection.connection_made(transport)
    over_at = _loop.time() + 3600
    sending = asyncio.create_task(
        connection.send(b"GET / HTTP/1.1\r\n\r\n", Deadlines(math.inf, over_at))
    )
    await asyncio.sleep(0)
    received = 0
    for piece in pieces:
        connection.data_received(piece)
        received += 1
        await asyncio.sleep(0)  # let the waiting task run
        if sending.done() or transport.is_closing():
            break
    connection.connection_lost(None)
    error = None
    try:
        await sending
    except (FetchError, ConnectionError, TimeoutError) as failure:
        error = type(failure).__name__
    response = connection.response
    assert len(response.body) <= LIMIT
    assert len(response.headers) <= MAX_HEADERS
    assert sum(len(name) + len(value) for name, value in response.headers) <= MAX_HEADER_BYTES
    response.first_headers()
    return ParsedResponse(
        error,
        response.status,
        tuple(response.headers),
        bytes(response.body),
        response.is_complete,
        received == len(pieces),
    )


class _Transport(asyncio.Transport):
    """Sends nothing."""

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
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""
