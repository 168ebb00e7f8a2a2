"""Lists come in pages; a cursor names the last row seen, so that new rows disturb nothing."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query

from headwater.api.schemas import Shape
from headwater.errors import UsageError
from headwater.store.parts import Part

Item = TypeVar("Item")
Out = TypeVar("Out", bound=Shape)
Position = tuple[int | str, ...]
DEFAULT_LIMIT = 50
Cursor = Annotated[str | None, Query(max_length=500)]


def limit_up_to(most: int) -> Any:
    """The parameter `limit` of a list whose pages are no longer than this."""
    return Query(default=min(DEFAULT_LIMIT, most), ge=1, le=most)


class Page(Shape, Generic[Out]):
    """A part of a list, and where the next part begins."""

    items: tuple[Out, ...]
    next_cursor: str | None = None


def page_of(
    found: Sequence[Item],
    limit: int,
    shown: Callable[[Item], Out],
    position: Callable[[Item], Position],
) -> Page[Out]:
    """A page of what a store found when asked for one row more than `limit`."""
    kept = found[:limit]
    more = len(found) > limit
    return Page(
        items=tuple(shown(item) for item in kept),
        next_cursor=cursor_for(position(kept[-1])) if more else None,
    )


def page_of_part(
    part: Part[Item], shown: Callable[[Item], Out], position: Callable[[Item], Position]
) -> Page[Out]:
    """A page of what a store found to fit on one."""
    return Page(
        items=tuple(shown(item) for item in part.items),
        next_cursor=cursor_for(position(part.items[-1])) if part.more else None,
    )


def cursor_for(position: Position) -> str:
    """A position as an opaque word."""
    text = json.dumps(position, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(moment: datetime, id_: str) -> Position:
    """The position of something that is listed by a moment, and by its id where those agree."""
    return round(moment.timestamp() * 1000), id_


def position_in(cursor: str | None, *kinds: type[int] | type[str]) -> Position | None:
    """The position that a cursor stands for; None at the beginning of a list."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        values = None
    fits = isinstance(values, list) and [type(value) for value in values] == list(kinds)
    if not fits or not all(_is_storable(value) for value in values):
        raise UsageError("this is no cursor of ours; begin without one", field="cursor")
    return tuple(values)


def place_in(cursor: str | None) -> tuple[int, str] | None:
    """The place, as `place_of` makes them, that a cursor stands for."""
    match position_in(cursor, int, str):
        case (int(moment), str(id_)):
            return moment, id_
    return None


def id_in(cursor: str | None) -> str | None:
    """The id that a cursor of a list ordered by ids stands for."""
    (id_,) = position_in(cursor, str) or (None,)
    assert id_ is None or isinstance(id_, str)
    return id_


def _is_storable(value: int | str) -> bool:
    """Whether a database can compare with a value that somebody may have made up."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value.isprintable() and value.isascii()
