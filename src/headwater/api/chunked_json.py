"""Long JSON responses, serialized in chunks so that the event loop is never blocked (H2)."""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from fastapi.responses import StreamingResponse

from headwater.api.schemas.outputs import ResponseModel

Item = TypeVar("Item")
_CHUNK_BYTES = 65_536
_LARGE_CHARACTERS = 262_144  # items with more are serialized in a thread


def streamed(
    counts: Mapping[str, int],
    items: Iterable[Item] | AsyncIterable[Item],
    shown: Callable[[Item], ResponseModel],
) -> StreamingResponse:
    """A JSON object of these counts and the list `items`, each converted by `shown`."""
    opening = json.dumps(counts)[:-1] + (", " if counts else "") + '"items": ['
    chunks = _chunks(opening.encode(), _each(items), shown)
    return StreamingResponse(chunks, media_type="application/json")


async def _chunks(
    opening: bytes, items: AsyncIterator[Item], shown: Callable[[Item], ResponseModel]
) -> AsyncIterator[bytes]:
    chunk, comma = bytearray(opening), b""
    async for item in items:
        model = shown(item)
        length = sum(len(value) for _, value in model if isinstance(value, str))
        write = partial(model.model_dump_json, by_alias=True)
        text = await asyncio.to_thread(write) if length > _LARGE_CHARACTERS else write()
        chunk += comma + text.encode()
        comma = b","
        while len(chunk) > _CHUNK_BYTES:
            yield bytes(chunk[:_CHUNK_BYTES])
            del chunk[:_CHUNK_BYTES]
            await asyncio.sleep(0)  # sending may not suspend; let other tasks run
    chunk += b"]}"
    yield bytes(chunk)


async def _each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    for item in items:
        yield item
