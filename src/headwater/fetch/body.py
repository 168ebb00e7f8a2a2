"""Bodies: inflated within the limit, and only so many large ones at once (N8, H1)."""

import asyncio
from math import inf

from headwater.errors import BrokenBody, TooLarge
from headwater.fetch.inflate import encoding_of, inflate, inflate_start
from headwater.fetch.reading import MAX_ERROR_BODY
from headwater.fetch.wire import SMALL_BODY

MEDIUM_BODY = 2 * SMALL_BODY  # what is larger still has places of its own
_INLINE_INFLATE = 4096  # a larger body is inflated in a thread (H2)


class Place:
    """Leave for one body to be large, until it is let go."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places
        self._loop = asyncio.get_running_loop()

    def let_go(self) -> None:
        """Let another one be large."""
        if self._places is not None:
            self._places.release()
            self._places = None

    def __del__(self) -> None:
        """A body that nobody has any more takes no place, whichever thread finds that out."""
        if self._places is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._places.release)


class Room:
    """How many bodies may be large at the same time; the others wait (H1).

    Medium ones, which are what large feeds usually are, do not wait for the largest. Nobody who
    has a place waits for another one.
    """

    def __init__(self, *, medium: int, large: int) -> None:
        self._medium = asyncio.Semaphore(medium)
        self._large = asyncio.Semaphore(large)

    async def place(self, size: float) -> Place:
        """Wait for a place for a body of this size."""
        places = self._large if size > MEDIUM_BODY else self._medium
        await places.acquire()
        return Place(places)

    def free(self) -> tuple[int, int]:
        """How many places nobody has."""
        return self._medium._value, self._large._value


async def inflated(
    body: bytes, encoded: str, *, limit: int, room: Room, place: Place | None
) -> tuple[bytes, Place | None]:
    """The body without its content encoding, and the place that it takes if it is large."""
    encoding = encoding_of(encoded)
    if encoding is None:
        return body, place
    if place is None and limit > SMALL_BODY:
        try:
            return await _inflate(body, encoding, SMALL_BODY), None
        except TooLarge:
            place = await room.place(MEDIUM_BODY)
        try:
            return await _inflate(body, encoding, min(limit, MEDIUM_BODY)), place
        except TooLarge:
            place.let_go()
            place = await room.place(inf)
        except BaseException:
            place.let_go()
            raise
    try:
        return await _inflate(body, encoding, limit), place
    except BaseException:
        if place is not None:
            place.let_go()
        raise


async def _inflate(body: bytes, encoding: str, limit: int) -> bytes:
    if len(body) <= _INLINE_INFLATE:
        return inflate(body, encoding, limit=limit)
    return await asyncio.to_thread(inflate, body, encoding, limit=limit)


def start_of_error(start: bytes, encoded: str) -> bytes:
    """What can be read of the first bytes of an error's body (N9)."""
    try:
        encoding = encoding_of(encoded)
    except BrokenBody:
        return b""
    return start if encoding is None else inflate_start(start, encoding, limit=MAX_ERROR_BODY)
