"""The tables that are copied whole: their keys, their columns, their rows bite by bite."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.store.database import Row, Session

# parents first, so that rows find what they point to; what tells their rows apart
KEYS = {
    "users": ("id",),
    "podcasts": ("id",),
    "api_keys": ("user_id", "provider"),
    "tokens": ("id",),
    "sessions": ("hash",),
    "sources": ("id",),
    "posts": ("id",),
    "tombstones": ("source_id", "mark"),
    "late_keys": ("source_id", "key"),
    "articles": ("id",),
    "post_articles": ("post_id", "article_id"),
    "polls": ("id",),
    "hosts": ("lane",),
    "facts": ("name",),
}
ROWS_PER_BITE = 2000
CHARACTERS_PER_BITE = 8_000_000  # what a process can easily have in memory several times
_FOLLOWING = {("sources", "shard")}  # kept up by a trigger
_LONG = ("text", "blob", "bytea")

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is read: which columns of which rows, and how long those may be."""

    name: str
    columns: tuple[str, ...]
    truths: frozenset[str]  # the columns that are true or false
    length: str
    condition: str = "TRUE"

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart, by which they are ordered."""
        return KEYS[self.name]

    def key_of(self, row: Row) -> Key:
        """What tells a row apart from all others."""
        return tuple(row[self.columns.index(name)] for name in self.key)

    def count(self, session: Session) -> int:
        """How many rows there are."""
        sql = f"SELECT count(*) FROM {self.name} WHERE {self.condition}"
        return int(session.fetch(sql)[0][0])

    def bite(self, session: Session, after: Key | None) -> list[Row]:
        """The next rows behind a key, in the order of this database, as many as are handy."""
        last = self._end_of_bite(session, after)
        if last is None:
            return []
        where, params = self._between(after, last)
        names = ", ".join(self.columns)
        order = ", ".join(self.key)
        return session.fetch(f"SELECT {names} FROM {self.name} {where} ORDER BY {order}", params)

    def _end_of_bite(self, session: Session, after: Key | None) -> Key | None:
        """The last key of the next bite: found first, for bodies can be a thousand times longer."""
        where, params = self._between(after, None)
        order = ", ".join(self.key)
        rows = session.fetch(
            f"""SELECT {order}, {self.length} FROM {self.name} {where}
            ORDER BY {order} LIMIT {ROWS_PER_BITE}""",
            params,
        )
        last, left = None, CHARACTERS_PER_BITE
        for *key, length in rows:
            left -= length
            if last is not None and left < 0:
                break
            last = tuple(key)
        return last

    def _between(self, after: Key | None, last: Key | None) -> tuple[str, dict[str, Any]]:
        conditions, params = [self.condition], dict[str, Any]()
        for sign, name, key in ((">", "after", after), ("<=", "last", last)):
            if key is not None:
                places = {f"{name}_{number}": value for number, value in enumerate(key)}
                bound = ", ".join(f":{place}" for place in places)
                conditions.append(f"({', '.join(self.key)}) {sign} ({bound})")
                params |= places
        return f"WHERE {' AND '.join(conditions)}", params


def table(session: Session, name: str, condition: str = "TRUE") -> Table:
    """A table as this database has it."""
    columns = sorted(columns_of(session, name))  # the same order on both kinds
    truths = frozenset(column for column, type_ in columns if type_ == "boolean")
    length = " + ".join(_lengths(session, columns)) or "0"
    return Table(name, tuple(column for column, _ in columns), truths, length, condition)


def columns_of(session: Session, name: str) -> list[tuple[str, str]]:
    """The columns that are stored, without those that follow from others, with their types."""
    if session.kind == "sqlite":
        rows = session.fetch(f"PRAGMA table_xinfo({name})")
        found = [(row[1], row[2].lower()) for row in rows if row[6] == 0]
    else:
        sql = """SELECT column_name, data_type FROM information_schema.columns
            WHERE table_name = :table AND table_schema = current_schema()
            AND is_generated = 'NEVER' ORDER BY ordinal_position"""
        found = [(row[0], row[1]) for row in session.fetch(sql, {"table": name})]
    return [(column, type_) for column, type_ in found if (name, column) not in _FOLLOWING]


def _lengths(session: Session, columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    # PostgreSQL knows the bytes of a long text without reading it, but not its characters
    length = "octet_length" if session.kind == "postgres" else "length"
    for column, type_ in columns:
        if type_ in _LONG:
            yield f"coalesce({length}({column}), 0)"
