"""PostgreSQL through psycopg, one connection per database thread; and NOTIFY."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headwater.errors import (
    AlreadyPolling,
    ConfigError,
    DatabaseUnavailable,
    DuplicateKey,
    SearchTooSlow,
    StoreError,
)
from headwater.store.database import TOO_SLOW, Database, Params, Row, Session
from headwater.store.shards import LISTENERS_LOCK

T = TypeVar("T")
_EVENTS_CHANNEL = "headwater_events"
_NOTIFY = f"SELECT pg_notify('{_EVENTS_CHANNEL}', text) FROM unnest(%b::TEXT[]) AS text"
_POLLER_LOCK = zlib.crc32(b"headwater poller")
_ARRAY = re.compile(r"\bIN :(\w+)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
# an unreachable server is detected within half a minute
CONNECT_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_TRANSIENT = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    # a standby before its promotion, or a server that is read-only because its disk is full
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
)
_MISSING_RIGHTS = (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName)


@lru_cache(maxsize=512)
def _native(sql: str) -> str:
    """Convert `IN :name` into a comparison with an array, and `:name` into `%(name)s`."""
    return _PARAMETER.sub(r"%(\1)s", _ARRAY.sub(r"= ANY(:\1)", sql.replace("%", "%%")))


class PostgresSession(Session):
    """One PostgreSQL connection, used by one thread."""

    kind = "postgres"

    def __init__(self, url: str, **options: Any) -> None:
        self.connection = psycopg.connect(url, autocommit=True, **CONNECT_OPTIONS | options)
        self._idle_seconds: float | None = None
        self._types: dict[tuple[str, str], str] = {}  # column types by table and column
        if self.connection.info.server_version >= 130_000:
            # without statistics the planner prefers sorting all rows of an owner to one index range
            self.connection.execute("SET enable_incremental_sort = off")

    def limit_idle_transactions(self, seconds: float | None) -> None:
        """Let the server end this connection if a transaction is idle for this long."""
        if seconds != self._idle_seconds:
            ms = round((seconds or 0) * 1000)
            self.connection.execute(f"SET idle_in_transaction_session_timeout = {ms}".encode())
            self._idle_seconds = seconds

    native = staticmethod(_native)

    def fetch_unprepared(self, sql: str, params: Params) -> list[Row]:
        """Run a query without a prepared statement.

        A generic plan made while the table was small would scan a large one for each value.
        """
        rows: list[Row] = self.run(_native(sql), self.bound(params), prepare=False).fetchall()
        return rows

    def given(self, table: str, rows: Sequence[Params]) -> Iterator[tuple[str, list[Any]]]:
        """Rows made of arrays, one array per column, in one statement."""
        if not rows:
            return
        if any((table, name) not in self._types for name in rows[0]):
            self._types |= {
                (table, name): type_
                for name, type_ in self.fetch(
                    """SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
                    WHERE attrelid = CAST(:table AS REGCLASS) AND attnum > 0""",
                    {"table": table},
                )
            }
        # binary: psycopg would escape texts character by character in Python
        arrays = ", ".join(f"%b::{self._types[table, name]}[]" for name in rows[0])
        yield f"SELECT * FROM unnest({arrays})", [[row[n] for row in rows] for n in rows[0]]

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[Callable[[], bool]]:
        """Let the server cancel a statement of this transaction."""
        ends_at = monotonic() + seconds
        self.connection.execute(f"SET LOCAL statement_timeout = {round(seconds * 1000)}".encode())
        try:
            yield lambda: monotonic() > ends_at
        except psycopg.errors.QueryCanceled as error:
            raise SearchTooSlow(TOO_SLOW) from error

    def array(self, values: Collection[Any]) -> Any:
        """Values as a PostgreSQL array."""
        items = list(values)
        is_text = len(items) > 0 and all(type(value) is str for value in items)
        return _array_literal(items) if is_text else items


def _array_literal(texts: Sequence[str]) -> str | Sequence[str]:
    """Texts as a PostgreSQL array literal, faster than psycopg's adaptation one by one."""
    joined = "\0".join(texts)
    if joined.count("\0") != len(texts) - 1:
        return texts  # PostgreSQL text cannot contain NUL: psycopg raises the error
    escaped = joined.replace("\\", r"\\").replace('"', r"\"").replace("\0", '","')
    return f'{{"{escaped}"}}'


class PostgresDatabase(Database):
    """A database on a PostgreSQL server."""

    migrations = Path(__file__).parent / "migrations" / "postgres"
    takes_workers = True

    def __init__(self, url: str, program: str = "headwater") -> None:
        """`program`: the name of the sessions, unless the URL has one."""
        super().__init__()
        self.url = url
        self.connect_options = CONNECT_OPTIONS | {"fallback_application_name": program}
        self._long_writer = ThreadPoolExecutor(1, thread_name_prefix="headwater-long-writer")
        self._threads.append(self._long_writer)
        self._lock: PostgresSession | None = None
        self._shared = False
        # A process suspended inside a transaction keeps its locks. Where other workers wait for
        # them, the server ends the transaction after this time.
        self.idle_transaction_seconds: float | None = None

    @property
    def address(self) -> str:
        """Server and database name, without user and password."""
        parts = conninfo_to_dict(self.url)
        host, port = parts.get("host", "localhost"), parts.get("port", 5432)
        return f"postgresql://{host}:{port}/{parts.get('dbname', '')}"

    async def read_single(self, work: Callable[[Session], T]) -> T:
        """Run a function with a single query, without the round trips of a transaction."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self.retried, work, _run_directly)

    def connect(self, **options: Any) -> PostgresSession:
        """Open a connection for the calling thread; `options` override those of the URL."""
        return PostgresSession(self.url, **self.connect_options | options)

    def translate(self, error: Exception) -> Exception:
        """Distinguish transient errors from programming errors."""
        if isinstance(error, _TRANSIENT):
            line = " ".join(str(error).split())
            return DatabaseUnavailable(f"the PostgreSQL database cannot be used now: {line}")
        if isinstance(error, psycopg.errors.UniqueViolation):
            return DuplicateKey(f"the database refused this: {' '.join(str(error).split())}")
        if isinstance(error, psycopg.Error):
            advice = "; run `headwater doctor`" if isinstance(error, _MISSING_RIGHTS) else ""
            return StoreError(f"the database refused this: {' '.join(str(error).split())}{advice}")
        return error

    def missing_grant(self, session: Session) -> str | None:
        """The statement that would let this user create tables; None if it already may."""
        # without USAGE on any schema of the search path there is no current schema
        rows = session.fetch(
            """SELECT 'GRANT CREATE, USAGE ON SCHEMA '
                || quote_ident(coalesce(current_schema(), 'public'))
                || ' TO ' || quote_ident(current_user)
            WHERE NOT coalesce(has_schema_privilege(current_schema(), 'CREATE'), FALSE)"""
        )
        return rows[0][0] if rows else None

    def is_broken(self, error: Exception) -> bool:
        """Whether the connection was cut or became read-only."""
        return isinstance(error, _TRANSIENT)

    async def refuse_shared_sessions(self) -> None:
        """Raise ConfigError if a proxy shares sessions between clients, which breaks locks."""
        await self._in_lock_thread(self._check_sessions)

    def _check_sessions(self) -> bool:
        with closing(self.connect()) as one:
            if _backend_pid(one) == one.connection.info.backend_pid:
                return True  # connected directly: a proxy reports a pid of its own at the start
            with closing(self.connect()) as other:
                refuse_transaction_pooling(_backend_pids(one, other))
        return True

    def take_poll_lock(self, *, shared: bool = False) -> bool:
        """Take an advisory lock on a dedicated connection; both end together (S10)."""
        if self._lock is not None:
            return True
        self._shared = shared
        session = self.connect()
        lock = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
        if not session.fetch(f"SELECT {lock}({_POLLER_LOCK})")[0][0]:
            session.close()
            return False
        # a heartbeat need not survive a crash of the server
        session.execute("SET synchronous_commit = off")
        self._lock = session
        return True

    async def with_poll_lock(self, work: Callable[[Session], T]) -> T:
        """Run a function with a single statement on the session that holds the poll lock.

        A lost lock is acquired again; raises AlreadyPolling if another process holds it.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._lock_thread, self._run_with_lock, work)

    def _run_with_lock(self, work: Callable[[Session], T]) -> T:
        try:
            if self._lock is not None:
                with suppress(psycopg.Error):  # the connection was lost: one attempt on a new one
                    return work(self._lock)
                self.release()
            if self.take_poll_lock(shared=self._shared) and self._lock is not None:
                return work(self._lock)
        except Exception as error:
            self.release()
            self._raise_translated(error)
            raise
        raise AlreadyPolling("a headwater process polls this database alone; stop it first")

    def _reacquire_poll_lock(self) -> bool:
        """Take the lock again if its connection was lost, as in a server restart."""
        if self._lock is not None:
            try:
                self._lock.fetch("SELECT 1")
            except psycopg.Error:
                self._lock.close()
                self._lock = None
            else:
                return True
        return self.take_poll_lock(shared=self._shared)

    def is_poll_locked(self) -> bool:
        """Whether another process holds the lock."""
        if self._lock is not None:
            return False
        if not self.take_poll_lock():
            return True
        self.release()
        return False

    def release(self) -> None:
        """Release the lock and close its connection."""
        if self._lock is not None:
            with suppress(psycopg.Error):  # the server notices a closed connection with a delay
                self._lock.execute("SELECT pg_advisory_unlock_all()")
            self._lock.close()
            self._lock = None

    def integrity_errors(self) -> list[str]:
        """PostgreSQL checks its own pages: only verify that it can be reached."""
        self._session().fetch("SELECT 1")
        return []

    def in_transaction(self, session: Session, work: Callable[[Session], T]) -> T:
        """Run a function between BEGIN and COMMIT, or roll back."""
        cast(PostgresSession, session).limit_idle_transactions(self.idle_transaction_seconds)
        with session.connection.transaction():
            return work(session)

    def in_read(self, session: Session, work: Callable[[Session], T]) -> T:
        """Run a function on a consistent snapshot."""
        if not session.connection.read_only:  # reader threads never write on their connections
            session.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            session.connection.read_only = True
        return self.in_transaction(session, work)


def _run_directly(session: Session, work: Callable[[Session], T]) -> T:
    return work(session)


def _backend_pid(session: Session) -> int:
    return int(session.fetch("SELECT pg_backend_pid()")[0][0])


def _backend_pids(one: Session, other: Session) -> Iterator[tuple[int, int]]:
    """The server processes of two connections, outside and inside transactions of the other."""
    yield _backend_pid(one), _backend_pid(other)
    with other.connection.transaction():
        other_pid = _backend_pid(other)  # a pooler gives this process to no other client meanwhile
        yield _backend_pid(one), other_pid


def refuse_transaction_pooling(pids: Iterable[tuple[int, int]]) -> None:
    """Raise ConfigError unless each of two connections has its own server process all the time."""
    first: tuple[int, int] | None = None
    for one, other in pids:
        first = first or (one, other)
        if one == other or (one, other) != first:
            raise ConfigError(
                "app.database-url leads to a proxy that shares sessions between clients "
                "(transaction pooling); connect to PostgreSQL directly or use session pooling"
            )


class NotifyChannel:
    """One channel that workers send on and API servers listen to; delivery is best effort."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def send(self, texts: Sequence[str]) -> None:
        """Send texts to all current listeners."""
        await self._database.write(lambda s: _send(s, texts))

    async def listen(self) -> AsyncIterator[str]:
        """Texts sent from now on; raises a StoreError when the connection ends."""
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._database.url,
                autocommit=True,
                **self._database.connect_options
                | {"fallback_application_name": "headwater listener"},
            )
            async with connection:
                await connection.execute(f"LISTEN {_EVENTS_CHANNEL}")
                await connection.execute(f"SELECT pg_advisory_lock_shared({LISTENERS_LOCK})")
                async for notice in connection.notifies():
                    yield notice.payload
        except psycopg.Error as error:
            raise self._database.translate(error) from error


def _send(session: Session, texts: Sequence[str]) -> None:
    session.execute("SET LOCAL synchronous_commit = off")  # notifications are not written to disk
    session.connection.execute(_NOTIFY, [list(texts)])
