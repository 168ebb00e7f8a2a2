"""A part of a long list of posts or articles: bounded in rows, and in text that strangers wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.store.database import Row, Session
from headwater.store.rows import columns

Piece = TypeVar("Piece")
MOST_CHARACTERS = 4_000_000  # in the bodies of a part, all of which is in memory at once (H2)


@dataclass(frozen=True, slots=True)
class Part(Generic[Piece]):
    """Some of a list, and whether there is more behind the last one."""

    items: tuple[Piece, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows of one owner, named by a column, in the order of their ids behind a given one."""

    column: str
    owner: str
    limit: int
    behind: object = None
    oldest_first: bool = False
    also: str = ""  # a further condition
    beyond: object = "zzzz"  # what no id reaches; they are UUIDs

    @property
    def params(self) -> dict[str, object]:
        """What is bound in its SQL."""
        edge = "" if self.oldest_first else self.beyond
        behind = edge if self.behind is None else self.behind
        return {"owner": self.owner, "behind": behind, "limit": self.limit}

    def sql(self, kind: str) -> str:
        """All of a statement behind its FROM; it reads one range of the index on both columns."""
        column, compared, direction = self.column, "<", " DESC"
        if self.oldest_first:
            compared, direction = ">", ""
        where, order = f"{column} = :owner AND id {compared} :behind", f"id{direction}"
        if kind == "postgres":
            # With the owner in the order, which equality would take out again. Else it may walk
            # everybody's rows by their ids, hoping to meet the owner's soon.
            end = f"{column} {'<=' if self.oldest_first else '>='} :owner"
            where = f"{end} AND ({column}, id) {compared} (:owner, :behind)"
            order = f"{column}{direction}, id{direction}"
        return f"WHERE {where}{self.also} ORDER BY {order} LIMIT :limit"


def part_of(
    session: Session, table: str, names: Sequence[str], wanted: Stretch
) -> tuple[list[Row], bool]:
    """As many rows as are wanted, fewer where bodies are long; and whether more follow."""
    rest, params = f"FROM {table} {wanted.sql(session.kind)}", wanted.params
    # lengths first: megabytes that do not fit any more are not even read into our memory
    lengths = session.fetch(f"SELECT length(body) {rest}", params | {"limit": wanted.limit + 1})
    count = fitting([row[0] for row in lengths[: wanted.limit]], MOST_CHARACTERS)
    rows = session.fetch(f"SELECT {columns(names)} {rest}", params | {"limit": count})
    return rows, count < len(lengths)


def fitting(lengths: Sequence[int], most: int) -> int:
    """How many of these are within the bound together; the first one always is."""
    total = 0
    for count, length in enumerate(lengths):
        total += length
        if total > most and count > 0:
            return count
    return len(lengths)
