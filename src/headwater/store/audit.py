"""The audit log: who changed what and when, stored in the transaction of the change itself (U9).

An interface says who acts (`AuditLog.acting`), an operation describes what it changes (`describe`),
and the next transaction of the acting task stores both as one entry.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import datetime

from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.logs import get_logger
from headwater.store.database import Database, Row, Session
from headwater.store.keyset_pages import fetch_items
from headwater.store.row_mapping import columns, encoded, row_reader, to_ms

log = get_logger()
COMMAND_LINE = "command line"
LOOPBACK = "loopback"
_MAX_DETAIL = 1000  # characters


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change by a person, or a login."""

    id: int
    at: datetime
    who: str
    action: str
    target: str
    detail: str


_NAMES = tuple(field.name for field in fields(AuditEntry))
_read_entry = row_reader(AuditEntry, "audit")


@dataclass
class Change:
    """What a person changes in one request or command: at most one entry."""

    who: str
    clock: Clock
    action: str | None = None  # None: nothing is described yet
    target: str = ""
    detail: str = ""
    entry_id: int | None = None  # once it is stored
    is_current: bool = True  # False: the stored entry lacks the latest detail
    # tasks that this one starts, such as polls, store nothing for it
    task: "asyncio.Task[object] | None" = field(default_factory=asyncio.current_task)

    def insert(self, session: Session) -> int:
        """Insert the entry, and return its id."""
        row = {"at": to_ms(self.clock.now()), "who": self.who, "action": self.action}
        sql = """INSERT INTO audit (at, who, action, target, detail)
            VALUES (:at, :who, :action, :target, :detail) RETURNING id"""
        return int(session.fetch(sql, row | {"target": self.target, "detail": self.detail})[0][0])


_current: ContextVar[Change | None] = ContextVar("change", default=None)


def describe(action: str, target: str, **detail: object) -> None:
    """Describe what the calling person is about to change, without secrets.

    The first description counts: a change may consist of others. A later one with the same
    action replaces the detail, as with numbers that are known at the end.
    """
    change = _current.get()
    if change is None or change.action not in (None, action):
        return
    change.action, change.target = action, target
    given = [
        f"{_camel(name)}={_text(value)}" for name, value in detail.items() if value is not None
    ]
    change.detail = " ".join(", ".join(given).split())[:_MAX_DETAIL]
    change.is_current = False


def _camel(name: str) -> str:
    """A name as the API spells it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return str(encoded(value))


def described_change() -> Change | None:
    """The change of the current task that is described and not stored yet."""
    change = _current.get()
    if change is None or change.action is None or change.entry_id is not None:
        return None
    return change if change.task is asyncio.current_task() else None


class AuditLog:
    """The audit table."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self.changes = 0  # by people, in this process
        database.described_change = described_change

    @asynccontextmanager
    async def acting(self, who: str) -> AsyncIterator[Change]:
        """Attribute what is changed inside to a person.

        What fails has no entry, unless a part of it is stored.
        """
        change = Change(who, self._clock)
        token = _current.set(change)
        try:
            yield change
            await self.complete(change)
        except Exception:
            if change.entry_id is not None:
                await self.complete(change)
            raise
        finally:
            self.changes += change.action is not None
            _current.reset(token)

    async def complete(self, change: Change) -> None:
        """Store what is described and no transaction has stored, such as the final numbers."""
        if change.action is None or change.is_current:
            return
        token = _current.set(None)  # this is not a change of its own
        try:
            if change.entry_id is None:
                change.entry_id = await self._database.write(change.insert)
            else:
                params = {"id": change.entry_id, "detail": change.detail}
                sql = "UPDATE audit SET detail = :detail WHERE id = :id"
                await self._database.execute(sql, params)
            change.is_current = True
        except HeadwaterError as error:  # the change itself is stored
            log.warning("[Audit] entry is incomplete", action=change.action, error=str(error))
        finally:
            _current.reset(token)

    async def add(self, who: str, action: str, target: str = "", **detail: object) -> None:
        """Store an entry that no other transaction belongs to."""
        async with self.acting(who):
            describe(action, target, **detail)

    async def newest(
        self, *, limit: int, since: datetime | None = None, before: int | None = None
    ) -> Sequence[AuditEntry]:
        """Entries, newest first; `before` continues after an id."""
        return await self._database.read(lambda s: _newest(s, limit, since, before))


def _newest(
    session: Session, limit: int, since: datetime | None, before: int | None
) -> list[AuditEntry]:
    conditions = ["TRUE"] if since is None else ["at >= :since"]

    def fetch(after: int | None) -> list[Row]:
        bound = [] if after is None else ["id < :after"]
        sql = f"""SELECT {columns(_NAMES)} FROM audit WHERE {" AND ".join(conditions + bound)}
            ORDER BY id DESC LIMIT :limit"""
        params = {"since": since and to_ms(since), "after": after, "limit": limit}
        return session.fetch(sql, params)

    return fetch_items(fetch, _read_entry.all, lambda row: int(row[0]), limit=limit, after=before)
