"""Long answers in pieces: none of them keeps the event loop for long (H2)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TypeVar

from fastapi.responses import StreamingResponse

from headwater.api.schemas import Shape

Item = TypeVar("Item")
_PIECE = 65_536  # characters


def streamed(
    counts: Mapping[str, int], items: Iterable[Item], shown: Callable[[Item], Shape]
) -> StreamingResponse:
    """A JSON object of these counts, and of `items` as they are shown."""
    opening = json.dumps(counts)[:-1] + (", " if counts else "") + '"items": ['
    return StreamingResponse(_pieces(opening, items, shown), media_type="application/json")


async def _pieces(
    opening: str, items: Iterable[Item], shown: Callable[[Item], Shape]
) -> AsyncIterator[str]:
    piece, length, comma = [opening], 0, ""
    for item in items:
        text = shown(item).model_dump_json(by_alias=True)
        piece.append(comma + text)
        comma = ","
        length += len(text)
        if length > _PIECE:
            yield "".join(piece)
            piece, length = [], 0
            await asyncio.sleep(0)  # sending need not wait for anything, and others are in line
    yield "".join([*piece, "]}"])
