"""Keyset pages, bounded in rows and characters of text (H2), without unreadable rows (H4)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from headwater.store.content_filter import ContentFilter
from headwater.store.database import Row, Session
from headwater.store.row_mapping import LENGTHS, columns

Item = TypeVar("Item")
Place = TypeVar("Place")  # the position of a row in a list
MAX_CHARACTERS = 4_000_000  # in the texts of one page, which is in memory as a whole (H2)


@dataclass(frozen=True, slots=True)
class KeysetPage(Generic[Item]):
    """A page of a list, and whether another one follows."""

    items: tuple[Item, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class PageBounds:
    """The rows of one owner, named by a column, ordered by id and after a given id."""

    column: str
    owner: str | None
    limit: int
    behind: object = None
    oldest_first: bool = False
    also: str = ""  # further conditions, each with a leading AND
    also_params: Mapping[str, object] = field(default_factory=dict)
    max_id: object = "zzzz"  # above every id; ids are UUIDs by default
    first_id: str | None = None  # the lowest one
    end_id: str | None = None  # above the highest one

    def within(self, chosen: ContentFilter, table: str) -> "PageBounds":
        """These rows, as far as a filter lets them through."""
        also, params = chosen.conditions(table)
        first, end = chosen.first_id, chosen.end_id
        return replace(self, also=also, also_params=params, first_id=first, end_id=end)

    @property
    def params(self) -> dict[str, object]:
        """The parameters of `sql`."""
        edge = "" if self.oldest_first else self.max_id
        behind = edge if self.behind is None else self.behind
        bounds = {"owner": self.owner, "behind": behind, "limit": self.limit}
        return {**self.also_params, **bounds, "first_id": self.first_id, "end_id": self.end_id}

    def sql(self, kind: str) -> str:
        """WHERE, ORDER BY and LIMIT; they read one range of the index on owner and id."""
        column, compared, direction = self.column, "<", " DESC"
        if self.oldest_first:
            compared, direction = ">", ""
        edges = [(compared, ":behind")]
        edges += [(">=", ":first_id")] if self.first_id is not None else []
        edges += [("<", ":end_id")] if self.end_id is not None else []
        ranges = " AND ".join(f"id {sign} {edge}" for sign, edge in edges)
        where, order = f"{column} = :owner AND {ranges}", f"id{direction}"
        if kind == "postgres":
            # A range instead of an equality keeps the owner in the ORDER BY. Otherwise the planner
            # might scan all rows by id until it finds enough of this owner.
            end = f"{column} {'<=' if self.oldest_first else '>='} :owner"
            ranges = " AND ".join(f"({column}, id) {sign} (:owner, {edge})" for sign, edge in edges)
            where = f"{end} AND {ranges}"
            order = f"{column}{direction}, id{direction}"
        return f"WHERE {where}{self.also} ORDER BY {order} LIMIT :limit"


def fetch_page(
    session: Session,
    table: str,
    names: Sequence[str],
    bounds: PageBounds,
    max_characters: float,
    read: Callable[[Sequence[Row]], Sequence[Item]],
) -> KeysetPage[Item]:
    """A page of items, fewer than its limit where bodies are long; the first column is the id."""
    rest = f"FROM {table} {bounds.sql(session.kind)}"
    while True:
        params = bounds.params
        # lengths first: bodies beyond the bound are never read into memory
        lengths = session.fetch(
            f"SELECT {LENGTHS[table]} {rest}", params | {"limit": bounds.limit + 1}
        )
        count = count_within([row[0] for row in lengths[: bounds.limit]], max_characters)
        rows = session.fetch(f"SELECT {columns(names)} {rest}", params | {"limit": count})
        items = tuple(read(rows))
        more = bool(rows) and count < len(lengths)  # the rows may have been deleted in between
        if items or not more:
            return KeysetPage(items, more)
        # no row is readable, but the caller needs an item to continue after
        bounds = replace(bounds, behind=rows[-1][0])


def fetch_items(
    fetch: Callable[[Place | None], Sequence[Row]],
    read: Callable[[Sequence[Row]], Sequence[Item]],
    position: Callable[[Row], Place],
    *,
    limit: int,
    after: Place | None,
) -> list[Item]:
    """The next `limit` items after a position; fewer only at the end of the list.

    `fetch` returns the next `limit` rows after a position. `read` leaves out unreadable ones;
    rows after them take their place, so that callers can rely on the number of items.
    """
    items: list[Item] = []
    while len(items) < limit:
        rows = fetch(after)
        items += read(rows)
        if len(rows) < limit:
            break
        after = position(rows[-1])
    return items[:limit]


def count_within(lengths: Sequence[int], most: float) -> int:
    """How many leading items have at most this total length; the first one always counts."""
    total = 0
    for count, length in enumerate(lengths):
        total += length
        if total > most and count > 0:
            return count
    return len(lengths)
