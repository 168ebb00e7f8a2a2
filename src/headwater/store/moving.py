"""Moving: the parts of copying one database into another, which may be interrupted at any time.

The target keeps in a fact what it is a copy of and how far each table is. A bite of rows and the
place where it ends are stored in one transaction: whoever goes on finds both, or neither.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from headwater.errors import StoreError, UsageError
from headwater.store.database import Row, Session
from headwater.store.facts import POLLER_FACT
from headwater.store.tables import KEYS, Key, Table, table

COPIED_FROM = "copied_from"  # the fact
_BEGINNINGS = ("users", "podcasts")  # have a row in every new database
# of the house, not of what moves; an unclean stop has a way of its own
_CONDITIONS = {"facts": f"name NOT IN ('{COPIED_FROM}', '{POLLER_FACT}')"}
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Origin:
    """Which database a copy is of: where it is, and when it was made (another may be there)."""

    address: str
    born: int


@dataclass(frozen=True, slots=True)
class Place:
    """How far a table was copied."""

    rows: int = 0
    after: Key | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy under way, as the target remembers it."""

    origin: Origin
    places: Mapping[str, Place] = field(default_factory=dict)
    complete: bool = False

    def place(self, name: str) -> Place:
        """How far a table is."""
        return self.places.get(name, Place())

    def text(self) -> str:
        """The copy as the fact has it."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, slots=True)
class Digest:
    """What a table holds in short: equal for equal rows, whatever their order and database."""

    rows: int = 0
    sum: int = 0

    def with_rows(self, rows: Sequence[Row]) -> "Digest":
        """The digest of some rows more."""
        total = self.sum + sum(map(_number, rows))
        return Digest(self.rows + len(rows), total % (1 << 8 * _DIGEST_BYTES))

    @property
    def hash(self) -> str:
        """The digest in hexadecimal."""
        return f"{self.sum:0{2 * _DIGEST_BYTES}x}"


def tables_of(session: Session) -> list[Table]:
    """The tables that move, parents first."""
    return [table(session, name, _CONDITIONS.get(name, "TRUE")) for name in KEYS]


def refuse_unlike(there: Table, here: Table) -> None:
    """Both sides must have the same columns: all that one stores finds its place in the other."""
    missing = set(there.columns) ^ set(here.columns)
    if missing:
        raise StoreError(f"only one side's {there.name} have {', '.join(sorted(missing))}")


def origin_of(session: Session, address: str) -> Origin:
    """Which database this is."""
    return Origin(address, session.fetch("SELECT coalesce(min(created_at), 0) FROM users")[0][0])


def begin(session: Session, origin: Origin) -> Copy:
    """Begin a copy in an empty database, or answer how far this very one is; refuse any other."""
    text = _stored(session, lock=session.kind == "postgres")
    if text is None:
        _refuse_full(session)
        for name in reversed(_BEGINNINGS):
            session.execute(f"DELETE FROM {name}")
        session.execute("DELETE FROM facts")
        copy = Copy(origin)
        sql = "INSERT INTO facts (name, value) VALUES (:name, :value)"
        session.execute(sql, {"name": COPIED_FROM, "value": copy.text()})
        return copy
    copy = _copy(text)
    if copy.origin != origin:
        there = copy.origin.address
        other = "another database that was there" if there == origin.address else there
        raise UsageError(f"the target is a copy of {other}, not of {origin.address}")
    return copy


def unfinished(session: Session) -> str | None:
    """Where the rest of this database still is, if it is a copy that was not completed."""
    text = _stored(session)
    if text is None:
        return None
    copy = _copy(text)
    return None if copy.complete else copy.origin.address


def take(session: Session, here: Table, rows: Sequence[Row], copy: Copy) -> Copy:
    """Store a bite of rows, and how far the copy is with them."""
    place = Place(copy.place(here.name).rows + len(rows), here.key_of(rows[-1]))
    after = replace(copy, places={**copy.places, here.name: place})
    _remember(session, copy, after)
    session.insert_rows(here.name, [_fitting(here, row) for row in rows])
    return after


def follow_on(session: Session, name: str) -> None:
    """Let the numbers that a table gives out itself go on behind those that were copied."""
    if session.kind == "sqlite":
        return  # sees to it itself
    sql = """SELECT column_name FROM information_schema.columns WHERE table_name = :table
        AND table_schema = current_schema() AND is_identity = 'YES'"""
    for (column,) in session.fetch(sql, {"table": name}):
        session.execute(
            f"""SELECT setval(pg_get_serial_sequence('{name}', '{column}'),
            coalesce(max({column}), 0) + 1, false) FROM {name}"""
        )


def was_stopped_uncleanly(session: Session) -> bool:
    """Whether visits were made of which nothing is stored: the next start allows for them (P3)."""
    sql = "SELECT 1 FROM facts WHERE name = :name"
    if session.fetch(sql, {"name": POLLER_FACT}):
        return True
    half = "next_allowed_at IS NOT NULL AND next_allowed_set_at IS NULL"
    return bool(session.fetch(f"SELECT 1 FROM hosts WHERE {half} LIMIT 1"))


def complete(session: Session, copy: Copy, *, unclean: bool) -> None:
    """Note that everything is here; `unclean`: let the next start allow for lost visits (P3)."""
    _remember(session, copy, replace(copy, complete=True))
    if not unclean:
        return
    values = {"name": POLLER_FACT, "value": f"moved from {copy.origin.address}"}
    session.execute("INSERT INTO facts (name, value) VALUES (:name, :value)", values)


def _refuse_full(session: Session) -> None:
    """What is in the target already would be mixed with what comes: nobody wants that."""
    for name in KEYS:
        if name == "facts":
            continue
        condition = "id <> 'default'" if name in _BEGINNINGS else "TRUE"
        if session.fetch(f"SELECT 1 FROM {name} WHERE {condition} LIMIT 1"):
            what = name.replace("_", " ")
            raise UsageError(f"the target has {what} of its own: a move needs an empty database")


def _stored(session: Session, *, lock: bool = False) -> str | None:
    # a process that was killed may have left the server a bite to finish: what that says counts
    sql = f"SELECT value FROM facts WHERE name = :name {'FOR UPDATE' if lock else ''}"
    rows = session.fetch(sql, {"name": COPIED_FROM})
    return rows[0][0] if rows else None


def _copy(text: str) -> Copy:
    told = json.loads(text)
    places = {
        name: Place(place["rows"], tuple(place["after"])) for name, place in told["places"].items()
    }
    return Copy(Origin(**told["origin"]), places, complete=told["complete"])


def _remember(session: Session, before: Copy, after: Copy) -> None:
    sql = "UPDATE facts SET value = :after WHERE name = :name AND value = :before"
    values = {"name": COPIED_FROM, "before": before.text(), "after": after.text()}
    if session.execute(sql, values) != 1:
        raise StoreError("another process has gone on with this copy: run this again")


def _fitting(here: Table, row: Row) -> dict[str, object]:
    """A row as the target takes it: SQLite keeps truth as a number, PostgreSQL does not."""
    values = dict(zip(here.columns, row, strict=True))
    for name in here.truths:
        if values[name] is not None:
            values[name] = bool(values[name])
    return values


def _number(row: Row) -> int:
    """A row as a number, the same for both kinds of database."""
    text = repr([_plain(value) for value in row])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest())


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return value
