"""Keyset pagination: a cursor encodes the position of the last row of a page."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import ConfigDict, Field

from headwater.api.schemas.inputs import ONE_LINE, NullOmitted
from headwater.api.schemas.outputs import ResponseModel
from headwater.errors import UsageError
from headwater.model import Podcast, Source, Token, User
from headwater.store.content_filter import Filtered
from headwater.store.keyset_pages import KeysetPage
from headwater.store.numbered_rows import NumberedPage
from headwater.store.search import Position as SearchPosition
from headwater.store.search import SearchPage

Item = TypeVar("Item")
Out = TypeVar("Out", bound=ResponseModel)
Position = tuple[Any, ...]  # texts and integers
DEFAULT_LIMIT = 50
QueryText = Annotated[Annotated[str, ONE_LINE] | None, NullOmitted()]
Cursor = Annotated[
    QueryText, Query(max_length=500, description="`nextCursor` of the previous page.")
]

WithFiltered = Annotated[
    Filtered,
    Query(
        description="`true`: only posts that a filter hides; `any`: these too. By default they are "
        "left out. No article is made of them."
    ),
]
MinScore = Annotated[
    Annotated[float, Field(allow_inf_nan=False)] | None,
    NullOmitted(),
    Query(alias="minScore", description="Only items with at least this score."),
]


class ListPage(ResponseModel, Generic[Out]):
    """A page of a list."""

    # pydantic does not describe generic models by their docstring
    model_config = ConfigDict(json_schema_extra={"description": "A page of a list."})
    items: tuple[Out, ...] = Field(description="The items of this page, in order.")
    next_cursor: str | None = Field(
        default=None,
        description="Send it as `cursor` to get the next page; null: this is the last page.",
        examples=[None],
    )


class NumberedListPage(ListPage[Out], Generic[Out]):
    """A page of posts or articles, which can also be read by their numbers (V1)."""

    next_after: int | None = Field(
        default=None,
        description="With `after`: send it as `after` to continue, now or later. It may be beyond "
        "the last item.",
        examples=[4711],
    )
    next_changed_after: int | None = Field(
        default=None, description="The same with `changedAfter`.", examples=[None]
    )


@dataclass(frozen=True, slots=True)
class NumberedQuery:
    """The number after which posts or articles are read."""

    seq: int
    changes: bool  # by the number of the last change

    def page_of(
        self, part: NumberedPage[Item], shown: Callable[[Item], Out]
    ) -> NumberedListPage[Out]:
        """The response, with the number to continue after."""
        items = tuple(shown(item) for item in part.items)
        if self.changes:
            return NumberedListPage(items=items, next_changed_after=part.next_after)
        return NumberedListPage(items=items, next_after=part.next_after)


def page_of(
    found: Sequence[Item],
    limit: int,
    shown: Callable[[Item], Out],
    position: Callable[[Item], Position],
) -> ListPage[Out]:
    """The first `limit` rows of a query that asked for one more."""
    page = KeysetPage(tuple(found[:limit]), more=len(found) > limit)
    return page_of_part(page, shown, position)


def page_of_part(
    part: KeysetPage[Item], shown: Callable[[Item], Out], position: Callable[[Item], Position]
) -> ListPage[Out]:
    """A page that the store has cut itself."""
    return ListPage(
        items=tuple(shown(item) for item in part.items),
        next_cursor=cursor_for(position(part.items[-1])) if part.more else None,
    )


def numbered_page_of_part(
    part: KeysetPage[Item], shown: Callable[[Item], Out], position: Callable[[Item], Position]
) -> NumberedListPage[Out]:
    """The same for a list that can also be read by numbers."""
    page = page_of_part(part, shown, position)
    return NumberedListPage(items=page.items, next_cursor=page.next_cursor)


def searched_page(found: SearchPage[Item], shown: Callable[[Item], Out]) -> NumberedListPage[Out]:
    """A page of search results."""
    cursor = None if found.next is None else cursor_for(found.next)
    return NumberedListPage(items=tuple(map(shown, found.items)), next_cursor=cursor)


def place_in(cursor: str | None) -> SearchPosition | None:
    """The decoded position in search results."""
    position = position_in(cursor, int, int)
    return None if position is None else (position[0], position[1])


def cursor_for(position: Position) -> str:
    """A position as an opaque, URL-safe text."""
    text = json.dumps(position, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def position_of(row: User | Podcast | Source | Token) -> Position:
    """The position of a row in a list ordered by the time it was added, then id."""
    return round(row.created_at.timestamp() * 1000), row.id


def position_in(cursor: str | None, *kinds: type[int] | type[str]) -> Position | None:
    """The decoded position; None without a cursor. `kinds` are the expected types."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        values = None
    fits = isinstance(values, list) and [type(value) for value in values] == list(kinds)
    if not fits or not all(_is_storable(value) for value in values):
        raise UsageError("the cursor is not valid; start without one", field="cursor")
    return tuple(values)


def id_in(cursor: str | None) -> str | None:
    """The decoded position in a list ordered by id."""
    position = position_in(cursor, str)
    return None if position is None else position[0]


def _is_storable(value: int | str) -> bool:
    """Whether a database can compare with the value, which a client may have invented."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value.isprintable() and value.isascii()
