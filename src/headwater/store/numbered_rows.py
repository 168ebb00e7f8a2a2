"""Pages of posts and articles in the order of their numbers, without gaps (V1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.store.content_filter import EVERYTHING, ContentFilter
from headwater.store.database import Row, Session, Tables, reads_single
from headwater.store.keyset_pages import MAX_CHARACTERS, count_within
from headwater.store.row_mapping import LENGTHS, columns
from headwater.store.sequence_numbers import horizon

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class NumberedPage(Generic[Item]):
    """Items in the order of their numbers, and the number to continue after.

    That number may be beyond the last item: no item has a number in between.
    """

    items: tuple[Item, ...]
    next_after: int
    more: bool


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Rows of a podcast, or of all, with a number above `after` and at most `until`."""

    after: int
    until: int  # the horizon: see `sequence_numbers.horizon`
    podcast_id: str | None = None
    column: str = "seq"  # or `changed_seq`
    chosen: ContentFilter = EVERYTHING
    condition: str = ""  # another one, with a leading AND

    def sql(self, table: str) -> tuple[str, str, dict[str, object]]:
        """The condition, the order and the parameters; they read one range of an index."""
        where, order = self._range()
        conditions, params = self.chosen.conditions(table)
        where += conditions + self.condition
        where += " AND id >= :first_id" if self.chosen.first_id is not None else ""
        where += " AND id < :end_id" if self.chosen.end_id is not None else ""
        params |= {"after": self.after, "until": self.until, "podcast": self.podcast_id}
        params |= {"first_id": self.chosen.first_id, "end_id": self.chosen.end_id}
        return where, order, params

    def _range(self) -> tuple[str, str]:
        column = self.column
        if self.podcast_id is None:
            return f"{column} > :after AND {column} <= :until", column
        # A range of pairs: otherwise the planner might read the rows of all podcasts. Indexes of
        # changes have rows with a number only.
        pair = f"podcast_id, {column}"
        bounds = f"({pair}) > (:podcast, :after) AND ({pair}) <= (:podcast, :until)"
        return f"{bounds} AND {column} IS NOT NULL", pair


class NumberedTable(Tables, Generic[Item], ABC):
    """A table whose rows are numbered as they are stored and as they change."""

    horizon = reads_single(horizon)

    @staticmethod
    @abstractmethod
    def numbered(session: Session, wanted: NumberRange, limit: int) -> NumberedPage[Item]:
        """The first items of a range of numbers, in order."""

    async def after(
        self,
        podcast_id: str | None,
        seq: int,
        limit: int,
        *,
        chosen: ContentFilter = EVERYTHING,
        column: str = "seq",
    ) -> NumberedPage[Item]:
        """Items of a podcast, or of all, stored after a number, oldest first; without gaps (V1)."""
        wanted = NumberRange(seq, await self.horizon(), podcast_id, column, chosen)
        return await self.database.read(lambda session: self.numbered(session, wanted, limit))

    async def changed_after(
        self, podcast_id: str | None, seq: int, limit: int, *, chosen: ContentFilter = EVERYTHING
    ) -> NumberedPage[Item]:
        """The same by the number of the last change to a stored item."""
        return await self.after(podcast_id, seq, limit, chosen=chosen, column="changed_seq")


def fetch_numbered(
    session: Session,
    table: str,
    names: Sequence[str],
    wanted: NumberRange,
    limit: int,
    read: Callable[[Sequence[Row]], Sequence[Item]],
    max_characters: float = MAX_CHARACTERS,
) -> NumberedPage[Item]:
    """The first items of a range, fewer than `limit` where texts are long (H2)."""
    where, order, params = wanted.sql(table)
    # lengths first: texts beyond the bound are never read into memory
    sql = f"""SELECT {wanted.column}, {LENGTHS[table]} FROM {table}
        WHERE {where} ORDER BY {order} LIMIT :limit"""
    found = session.fetch(sql, params | {"limit": limit + 1})
    count = count_within([row[1] for row in found[:limit]], max_characters)
    if not count:
        return NumberedPage((), max(wanted.after, wanted.until), more=False)
    more = count < len(found)
    last = found[count - 1][0]
    sql = f"SELECT {columns(names)} FROM {table} WHERE {where} ORDER BY {order} LIMIT :limit"
    rows = session.fetch(sql, params | {"until": last, "limit": count})
    return NumberedPage(tuple(read(rows)), last if more else wanted.until, more)
