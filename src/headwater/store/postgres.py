"""PostgreSQL through psycopg, one connection per database thread."""

import asyncio
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headwater.errors import DatabaseUnavailable, StoreError
from headwater.store.database import NO_PARAMS, Database, Params, Row, Session

T = TypeVar("T")
_POLLER_LOCK = zlib.crc32(b"headwater poller")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
# a server that is gone without a word is noticed within half a minute
CONNECTED: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    # a standby that is about to take over, or a server that lets nobody write as its disk is full
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


@lru_cache(maxsize=512)
def _native(sql: str) -> str:
    """Spell `:name` the way psycopg does."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


class PostgresSession:
    """One PostgreSQL connection, used by one thread."""

    kind = "postgres"

    def __init__(self, url: str, application_name: str = "headwater") -> None:
        self.connection = psycopg.connect(
            url,
            autocommit=True,
            application_name=application_name,
            **CONNECTED,
        )
        self._pause_seconds: float | None = None
        self._types: dict[tuple[str, str], str] = {}  # of the columns that rows were given for
        if self.connection.info.server_version >= 130_000:
            # without statistics it takes sorting a whole owner's rows for cheaper than one range
            self.connection.execute("SET enable_incremental_sort = off")

    def limit_pauses(self, seconds: float | None) -> None:
        """Have the server end this connection if a transaction stands still for so long."""
        if seconds != self._pause_seconds:
            ms = round((seconds or 0) * 1000)
            self.connection.execute(f"SET idle_in_transaction_session_timeout = {ms}".encode())
            self._pause_seconds = seconds

    def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Run a statement and answer how many rows it touched."""
        return self.connection.execute(_native(sql), params).rowcount

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once per row, in one pipeline."""
        with self.connection.cursor() as cursor:
            cursor.executemany(_native(sql), rows)

    def fetch(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run a query and answer all its rows."""
        return self.connection.execute(_native(sql), params).fetchall()

    def look_up(self, sql: str, params: Params) -> list[Row]:
        """Run a query that looks into an index for each of many values.

        It is planned anew every time: a plan that was kept from when the table was small would
        read all of a large one for each value.
        """
        return self.connection.execute(_native(sql), params, prepare=False).fetchall()

    def fetch_together(self, columns: str, rest: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run a query and answer all its rows."""
        return self.fetch(f"SELECT {columns} {rest}", params)

    def insert_rows(self, table: str, rows: Sequence[Params], conflict: str = "") -> None:
        """Insert rows that all have the same columns, in one statement."""
        if not rows:
            return
        names = list(rows[0])
        sql = f"INSERT INTO {table} ({', '.join(names)}) SELECT * FROM {self._given(table, names)}"
        self.connection.execute(f"{sql} {conflict}".encode(), _arrays(names, rows))

    def update_rows(self, table: str, rows: Sequence[Params], also: str) -> None:
        """Set columns of rows by their `id`, in one statement."""
        if not rows:
            return
        names = list(rows[0])
        changes = ", ".join([also, *(f"{n} = given.{n}" for n in names if n != "id")])
        sql = f"UPDATE {table} SET {changes} FROM {self._given(table, names)}"
        self.connection.execute(f"{sql} WHERE {table}.id = given.id".encode(), _arrays(names, rows))

    def _given(self, table: str, names: Sequence[str]) -> str:
        """Arrays, one per column, as rows; the order of values is the order of rows."""
        if any((table, name) not in self._types for name in names):
            self._types |= {
                (table, name): type_
                for name, type_ in self.fetch(
                    """SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
                    WHERE attrelid = CAST(:table AS REGCLASS) AND attnum > 0""",
                    {"table": table},
                )
            }
        # binary: as text, every quotation mark in every post would be looked for in Python
        arrays = ", ".join(f"%b::{self._types[table, name]}[]" for name in names)
        return f"unnest({arrays}) AS given ({', '.join(names)})"

    def array(self, values: Iterable[Any]) -> Any:
        """Values as a PostgreSQL array."""
        given = list(values)
        is_text = len(given) > 0 and all(type(value) is str for value in given)
        return _literal(given) if is_text else given

    def among(self, column: str, name: str) -> str:
        """The condition that a column is one of the values bound to `name`."""
        return f"{column} = ANY(:{name})"

    def close(self) -> None:
        """Give the connection up."""
        self.connection.close()


async def for_a_queue(connection: psycopg.AsyncConnection[Any]) -> None:
    """Prepare a connection for a queue of jobs, which may be lost with a server that crashes."""
    await connection.set_autocommit(True)
    await connection.execute("SET synchronous_commit = off")
    # Its tables are empty one moment and full the next: statistics are always wrong, and plans
    # that read all of a table for every row of it are what comes of that.
    await connection.execute("SET enable_seqscan = off")
    await connection.execute("SET enable_sort = off")


def _arrays(names: Sequence[str], rows: Sequence[Params]) -> list[list[Any]]:
    return [[row[name] for row in rows] for name in names]


def _literal(texts: Sequence[str]) -> str | Sequence[str]:
    """Texts as PostgreSQL writes an array of them: psycopg would go through them one by one."""
    together = "\0".join(texts)
    if together.count("\0") != len(texts) - 1:
        return texts  # no text of PostgreSQL has this character: psycopg tells whoever gave it
    escaped = together.replace("\\", r"\\").replace('"', r"\"").replace("\0", '","')
    return f'{{"{escaped}"}}'


class PostgresDatabase(Database):
    """A database on a PostgreSQL server."""

    migrations = Path(__file__).parent / "migrations" / "postgres"
    takes_workers = True

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="headwater-aside")
        self._lock: psycopg.Connection[Any] | None = None
        self._shared = False
        # A process that is stopped in the middle of a transaction keeps what it locked. Where
        # others wait for that, the server ends the transaction after this time.
        self.pause_seconds: float | None = None

    @property
    def address(self) -> str:
        """Which database of which server, without user and password."""
        told = conninfo_to_dict(self.url)
        host, port = told.get("host", "localhost"), told.get("port", 5432)
        return f"postgresql://{host}:{port}/{told.get('dbname', '')}"

    async def write_aside(self, work: Callable[[Session], T]) -> T:
        """Run a transaction that takes long on a connection of its own (H3)."""
        return await asyncio.get_running_loop().run_in_executor(self._aside, self._writing, work)

    def _threads(self) -> Sequence[ThreadPoolExecutor]:
        return *super()._threads(), self._aside

    def connect(self, application_name: str = "headwater") -> PostgresSession:
        """Open a connection for the calling thread."""
        return PostgresSession(self.url, application_name)

    def translate(self, error: Exception) -> Exception:
        """Tell passing trouble from our own mistakes."""
        if isinstance(error, _PASSING):
            line = " ".join(str(error).split())
            return DatabaseUnavailable(f"the PostgreSQL database cannot be used now: {line}")
        if isinstance(error, psycopg.Error):
            return StoreError(f"the database refused this: {' '.join(str(error).split())}")
        return error

    def is_broken(self, error: Exception) -> bool:
        """A connection that was cut off, or may not write, is replaced."""
        return isinstance(error, _PASSING)

    def claim(self, *, shared: bool = False) -> bool:
        """Take an advisory lock that lives as long as a connection of its own (S10)."""
        if self._lock is not None:
            return True
        self._shared = shared
        connection = self.connect().connection
        lock = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
        row = connection.execute(f"SELECT {lock}(%s)", (_POLLER_LOCK,)).fetchone()
        if row is None or not row[0]:
            connection.close()
            return False
        self._lock = connection
        return True

    def _still_claimed(self) -> bool:
        """The lock went with its connection if the server was restarted: take it again."""
        if self._lock is not None:
            try:
                self._lock.execute("SELECT 1")
            except psycopg.Error:
                self._lock.close()
                self._lock = None
            else:
                return True
        return self.claim(shared=self._shared)

    def is_claimed(self) -> bool:
        """Whether another process holds the lock."""
        if self._lock is not None:
            return False
        if not self.claim():
            return True
        self.release()
        return False

    def release(self) -> None:
        """Give the lock back, and close the connection that held it."""
        if self._lock is not None:
            with suppress(psycopg.Error):  # who only hangs up is missed a moment later
                self._lock.execute("SELECT pg_advisory_unlock_all()")
            self._lock.close()
            self._lock = None

    def faults(self) -> list[str]:
        """PostgreSQL checks its pages itself; being reachable is what can be told."""
        self._session().fetch("SELECT 1")
        return []

    def _in_transaction(self, session: Session, work: Callable[[Session], T]) -> T:
        own = cast(PostgresSession, session)
        own.limit_pauses(self.pause_seconds)
        with own.connection.transaction():
            return work(session)

    def _in_read(self, session: Session, work: Callable[[Session], T]) -> T:
        own = cast(PostgresSession, session)
        own.limit_pauses(self.pause_seconds)
        connection = own.connection
        if not connection.read_only:  # readers have connections of their own, and nobody writes
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
        with connection.transaction():
            return work(session)
