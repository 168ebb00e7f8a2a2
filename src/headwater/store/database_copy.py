"""The steps of copying one database into another; a copy may be interrupted at any time.

The target stores what it is a copy of. Rows are copied in the order of their keys, which both
databases compare by bytes: a later run continues after the target's last row of each table.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.errors import StoreError, UsageError
from headwater.store import sequence_numbers
from headwater.store.database import Row, Session
from headwater.store.key_values import POLLER_KEY, get_value, set_value
from headwater.store.keyset_pages import count_within
from headwater.store.search_index import CURSOR, clear_index

# primary keys by table; parents first, so that foreign keys are satisfied
KEYS = {
    "users": ("id",),
    "podcasts": ("id",),
    "api_keys": ("user_id", "provider"),
    "tokens": ("id",),
    "sessions": ("hash",),
    "idempotency_keys": ("id",),
    "sources": ("id",),
    "posts": ("id",),
    "page_visits": ("post_id",),
    "feed_searches": ("source_id",),
    "filter_changes": ("podcast_id", "source_id"),
    "tombstones": ("source_id", "mark"),
    "late_keys": ("source_id", "key"),
    "suggestions": ("source_id", "id"),
    "page_versions": ("source_id",),
    "saved_searches": ("podcast_id", "name"),
    "articles": ("id",),
    "post_articles": ("post_id", "article_id"),
    "polls": ("id",),
    "poll_days": ("source_id", "day"),
    "source_activity": ("source_id",),
    "incidents": ("id",),
    "incident_sources": ("incident_id", "source_id"),
    "incident_podcasts": ("incident_id", "podcast_id"),
    "storms": ("host",),
    "hosts": ("lane",),
    "webhooks": ("id",),
    "channels": ("id",),
    "deliveries": ("number",),
    "audit": ("id",),
    "facts": ("name",),
}
ROWS_PER_BATCH = 2000
CHARACTERS_PER_BATCH = 8_000_000  # small enough to be in memory several times
_SET_BY_TRIGGER = {("sources", "shard"), ("page_visits", "shard"), ("feed_searches", "shard")}
_LONG = ("text", "blob", "bytea")

Key = tuple[Any, ...]
COPIED_FROM = "copied_from"  # the key-value entry with the state of the copy
_TABLES_WITH_DEFAULTS = ("users", "podcasts")  # have a row in every new database
# entries of the target itself; an unclean stop of the source is passed on by `complete`. The search
# index is not copied but written again
_CONDITIONS = {"facts": f"name NOT IN ('{COPIED_FROM}', '{POLLER_KEY}', '{CURSOR}')"}
_DIGEST_BYTES = 16
Identity = Mapping[str, object]  # of the database to copy


@dataclass(frozen=True, slots=True)
class Table:
    """A table to read: its columns, a condition on its rows, and an expression for their length."""

    name: str
    key: tuple[str, ...]  # the columns of the primary key, by which rows are ordered
    columns: tuple[str, ...]
    booleans: frozenset[str]
    length: str
    condition: str = "TRUE"

    def key_of(self, row: Row) -> Key:
        """The primary key of a row."""
        return tuple(row[self.columns.index(name)] for name in self.key)

    def values_of(self, row: Row) -> dict[str, object]:
        """A row by column: SQLite stores booleans as numbers, which PostgreSQL refuses."""
        values = dict(zip(self.columns, row, strict=True))
        for name in self.booleans:
            if values[name] is not None:
                values[name] = bool(values[name])
        return values

    def count(self, session: Session) -> int:
        """The number of rows."""
        sql = f"SELECT count(*) FROM {self.name} WHERE {self.condition}"
        return int(session.fetch(sql)[0][0])

    def last_key(self, session: Session) -> Key | None:
        """The highest key, if there is a row."""
        names, order = ", ".join(self.key), ", ".join(f"{name} DESC" for name in self.key)
        sql = f"SELECT {names} FROM {self.name} WHERE {self.condition} ORDER BY {order} LIMIT 1"
        return next(iter(session.fetch(sql)), None)

    def batch(self, session: Session, after: Key | None) -> list[Row]:
        """The next rows after a key; bounded in rows and length."""
        order = ", ".join(self.key)
        where, params = self._between(after, None)
        # keys and lengths first: bodies beyond the bound are never read
        sql = f"""SELECT {order}, {self.length} FROM {self.name} {where}
            ORDER BY {order} LIMIT {ROWS_PER_BATCH}"""
        rows = session.fetch(sql, params)
        if not rows:
            return []
        count = count_within([row[-1] for row in rows], CHARACTERS_PER_BATCH)
        where, params = self._between(after, rows[count - 1][:-1])
        names = ", ".join(self.columns)
        return session.fetch(f"SELECT {names} FROM {self.name} {where} ORDER BY {order}", params)

    def batches(self, session: Session) -> Iterator[list[Row]]:
        """All rows, batch by batch."""
        after = None
        while rows := self.batch(session, after):
            yield rows
            after = self.key_of(rows[-1])

    def _between(self, after: Key | None, last: Key | None) -> tuple[str, dict[str, Any]]:
        conditions, params = [self.condition], dict[str, Any]()
        for sign, name, key in ((">", "after", after), ("<=", "last", last)):
            if key is not None:
                bound = {f"{name}_{number}": value for number, value in enumerate(key)}
                names = ", ".join(f":{each}" for each in bound)
                conditions.append(f"({', '.join(self.key)}) {sign} ({names})")
                params |= bound
        return f"WHERE {' AND '.join(conditions)}", params


@dataclass(frozen=True, slots=True)
class TableDigest:
    """A checksum of a table that depends neither on the order of rows nor on the database."""

    rows: int = 0
    sum: int = 0

    def with_rows(self, rows: Sequence[Row]) -> "TableDigest":
        """The digest with these rows added."""
        total = self.sum + sum(map(_row_hash, rows))
        return TableDigest(self.rows + len(rows), total % (1 << 8 * _DIGEST_BYTES))

    @property
    def hash(self) -> str:
        """The digest in hexadecimal."""
        return f"{self.sum:0{2 * _DIGEST_BYTES}x}"


def tables_of(session: Session) -> list[Table]:
    """The tables to copy, parents first."""
    return [table(session, name, _CONDITIONS.get(name, "TRUE")) for name in KEYS]


def identity_of(session: Session, address: str) -> Identity:
    """The address of a database, and when it was created: another one may be there later."""
    created = session.fetch("SELECT coalesce(min(created_at), 0) FROM users")[0][0]
    return {"address": address, "born": created}


def begin(session: Session, source: Identity) -> bool:
    """Begin a copy in an empty database, or continue it; True: it is complete already."""
    text = _locked_state(session)
    if text is None:
        _refuse_nonempty(session)
        for name in reversed(_TABLES_WITH_DEFAULTS):
            session.execute(f"DELETE FROM {name}")
        session.execute("DELETE FROM facts")
        clear_index(session)  # deleted posts may have had the numbers of those to copy
        _set_state(session, source, complete=False)
        return False
    state = json.loads(text)
    if state["origin"] != source:
        there = state["origin"]["address"]
        other = "another database that was there" if there == source["address"] else there
        raise UsageError(f"the target is a copy of {other}, not of {source['address']}")
    return bool(state["complete"])


def incomplete_copy_of(session: Session) -> str | None:
    """The address of the database that this one is an incomplete copy of, if it is one."""
    state = json.loads(get_value(session, COPIED_FROM) or '{"complete": true}')
    return None if state["complete"] else state["origin"]["address"]


def store_batch(session: Session, target: Table, rows: Sequence[Row]) -> None:
    """Insert a batch of rows."""
    _locked_state(session)
    session.insert_rows(target.name, [target.values_of(row) for row in rows])


def was_stopped_uncleanly(session: Session) -> bool:
    """Whether visits may be missing in `hosts`: the next start must allow for them (P3)."""
    if get_value(session, POLLER_KEY) is not None:
        return True
    unfinished = "next_allowed_at IS NOT NULL AND next_allowed_set_at IS NULL"
    return bool(session.fetch(f"SELECT 1 FROM hosts WHERE {unfinished} LIMIT 1"))


def complete(session: Session, source: Identity, *, unclean: bool, last_seq: int) -> None:
    """Mark the copy as complete; `unclean`: the next start allows for missing visits (P3).

    Posts are numbered on after `last_seq`, the source's last number (R9).
    """
    sequence_numbers.continue_after(session, last_seq)
    _set_state(session, source, complete=True)
    if unclean:
        set_value(session, POLLER_KEY, f"moved from {source['address']}")


def _locked_state(session: Session) -> str | None:
    """The state of the copy, locked until the transaction ends.

    A killed process may have left the server a transaction to finish: this waits for it.
    """
    sql = "SELECT value FROM facts WHERE name = :name FOR UPDATE"
    rows = session.fetch(sql, {"name": COPIED_FROM})
    return rows[0][0] if rows else None


def _set_state(session: Session, source: Identity, *, complete: bool) -> None:
    # other versions of this program read these names
    state = {"origin": source, "places": {}, "complete": complete}
    set_value(session, COPIED_FROM, json.dumps(state, sort_keys=True))


def _refuse_nonempty(session: Session) -> None:
    for name in KEYS:
        if name == "facts":
            continue
        condition = "id <> 'default'" if name in _TABLES_WITH_DEFAULTS else "TRUE"
        if session.fetch(f"SELECT 1 FROM {name} WHERE {condition} LIMIT 1"):
            what = name.replace("_", " ")
            raise UsageError(f"the target has {what} of its own: a move needs an empty database")


def _row_hash(row: Row) -> int:
    """A hash that is the same for equal rows of both databases."""
    text = repr([_plain(value) for value in row])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest())


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return value


def table(session: Session, name: str, condition: str = "TRUE") -> Table:
    """A table with the columns that it has in this database."""
    types = dict(sorted(_columns_of(session, name)))  # the same order in both databases
    if not types:
        raise StoreError(f"there is no table {name} to copy")
    booleans = frozenset(column for column in types if types[column] == "boolean")
    # PostgreSQL knows the number of bytes of a long text without reading it
    length = "octet_length" if session.kind == "postgres" else "length"
    lengths = [f"coalesce({length}({column}), 0)" for column in types if types[column] in _LONG]
    return Table(name, KEYS[name], tuple(types), booleans, " + ".join(lengths) or "0", condition)


def advance_sequence(session: Session, name: str) -> None:
    """Let a table's identity column continue after the highest value that was copied."""
    if session.kind == "sqlite":
        return  # SQLite does it itself
    sql = """SELECT column_name FROM information_schema.columns WHERE table_name = :table
        AND table_schema = current_schema() AND is_identity = 'YES'"""
    for (column,) in session.fetch(sql, {"table": name}):
        session.execute(
            f"""SELECT setval(pg_get_serial_sequence('{name}', '{column}'),
            coalesce(max({column}), 0) + 1, false) FROM {name}"""
        )


def _columns_of(session: Session, name: str) -> list[tuple[str, str]]:
    """The stored columns, without generated ones, with their types."""
    if session.kind == "sqlite":
        rows = session.fetch(f"PRAGMA table_xinfo({name})")
        found = [(row[1], row[2].lower()) for row in rows if row[6] == 0]
    else:
        sql = """SELECT column_name, data_type FROM information_schema.columns
            WHERE table_name = :table AND table_schema = current_schema()
            AND is_generated = 'NEVER'"""
        found = [(row[0], row[1]) for row in session.fetch(sql, {"table": name})]
    return [(column, type_) for column, type_ in found if (name, column) not in _SET_BY_TRIGGER]
