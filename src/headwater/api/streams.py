"""Long answers in pieces: none of them keeps the event loop for long (H2)."""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from typing import TypeVar

from fastapi.responses import StreamingResponse

from headwater.api.schemas import Shape

Item = TypeVar("Item")
_PIECE = 65_536  # bytes
_LARGE = 262_144  # characters; what has more is written in a thread


def streamed(
    counts: Mapping[str, int],
    items: Iterable[Item] | AsyncIterable[Item],
    shown: Callable[[Item], Shape],
) -> StreamingResponse:
    """A JSON object of these counts, and of `items` as they are shown."""
    opening = json.dumps(counts)[:-1] + (", " if counts else "") + '"items": ['
    pieces = _pieces(opening.encode(), _each(items), shown)
    return StreamingResponse(pieces, media_type="application/json")


async def _pieces(
    opening: bytes, items: AsyncIterator[Item], shown: Callable[[Item], Shape]
) -> AsyncIterator[bytes]:
    piece, comma = bytearray(opening), b""
    async for item in items:
        piece += comma
        piece += await _written(shown(item))
        comma = b","
        while len(piece) > _PIECE:
            yield bytes(piece[:_PIECE])
            del piece[:_PIECE]
            await asyncio.sleep(0)  # sending need not wait for anything, and others are in line
    piece += b"]}"
    yield bytes(piece)


async def _each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    for item in items:
        yield item


async def _written(shape: Shape) -> bytes:
    length = sum(len(value) for _, value in shape if isinstance(value, str))
    return await asyncio.to_thread(_json, shape) if length > _LARGE else _json(shape)


def _json(shape: Shape) -> bytes:
    return shape.model_dump_json(by_alias=True).encode()
