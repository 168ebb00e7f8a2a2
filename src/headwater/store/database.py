"""Database: reads and transactions off the event loop, the same for SQLite and PostgreSQL.

SQL functions are plain functions of a `Session` and run in a database thread. One writer thread
with one connection makes every write a short transaction; reader threads have their own
connections. The poll lock (the right to poll) has a separate thread, so renewing it never waits for
queries.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from headwater.errors import DatabaseUnavailable

T = TypeVar("T")
P = ParamSpec("P")
Params = Mapping[str, Any]
Row = tuple[Any, ...]
NO_PARAMS: Params = dict[str, Any]()  # never changed
READERS = 4
TOO_SLOW = "this search takes too long: add a source, dates or rarer words"


class Session(ABC):
    """One connection inside a transaction.

    Statements name their parameters `:like_this`; `IN :names` compares with all values of a list.
    Locking clauses such as FOR UPDATE end a statement; SQLite, which has one writer, ignores them.
    """

    kind: str  # `sqlite` or `postgres`
    connection: Any  # of the driver

    def run(self, sql: str, params: Any, **options: Any) -> Any:
        """Run a statement with the driver's own parameters and return its cursor."""
        return self.connection.execute(sql, params, **options)

    @abstractmethod
    def native(self, sql: str) -> str:
        """A statement in the dialect and with the parameters of this database."""

    def bound(self, params: Params) -> Params:
        """Parameters for the driver: a list, tuple or set as the array of `IN :name`."""
        return {
            name: self.array(value) if isinstance(value, list | tuple | set) else value
            for name, value in params.items()
        }

    def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Run a statement and return the number of affected rows."""
        return int(self.run(self.native(sql), self.bound(params)).rowcount)

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once per row."""
        self.connection.cursor().executemany(self.native(sql), rows)

    def fetch(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run a query and return all its rows."""
        rows: list[Row] = self.run(self.native(sql), self.bound(params)).fetchall()
        return rows

    def fetch_unprepared(self, sql: str, params: Params) -> list[Row]:
        """Run a query that PostgreSQL must plan for these very parameters."""
        return self.fetch(sql, params)

    def fetch_bulk(self, columns: str, rest: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run `SELECT columns rest` and transfer all rows in one driver step."""
        return self.fetch(f"SELECT {columns} {rest}", params)

    def insert_rows(self, table: str, rows: Sequence[Params], conflict: str = "") -> None:
        """Insert rows that all have the same columns."""
        for given, values in self.given(table, rows):
            names = ", ".join(rows[0])
            self.run(f"INSERT INTO {table} ({names}) {given} {conflict}", values)

    def update_rows(self, table: str, rows: Sequence[Params], also: str = "") -> None:
        """Set columns of rows by their `id`; the assignment `also` applies to each of them."""
        for given, values in self.given(table, rows):
            changes = [f"{name} = given.{name}" for name in rows[0] if name != "id"]
            self.run(
                f"""WITH given ({", ".join(rows[0])}) AS ({given})
                UPDATE {table} SET {", ".join([*filter(None, [also]), *changes])}
                FROM given WHERE {table}.id = given.id""",
                values,
            )

    @abstractmethod
    def time_limit(self, seconds: float) -> AbstractContextManager[Callable[[], bool]]:
        """Cancel a statement that takes longer, with SearchTooSlow; yields: is the time over?"""

    @abstractmethod
    def given(self, table: str, rows: Sequence[Params]) -> Iterator[tuple[str, list[Any]]]:
        """Queries that together return these rows, with their values in the driver's order."""

    @abstractmethod
    def array(self, values: Collection[Any]) -> Any:
        """The parameter that stands for these values."""

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class DescribedChange(Protocol):
    """A change whose entry of the audit log is stored in the same transaction."""

    entry_id: int | None
    is_current: bool

    def insert(self, session: Session) -> int:
        """Insert the entry, and return its id."""
        ...


class Database(ABC):
    """Runs SQL functions in threads; subclasses define connections and error translation."""

    migrations: Path
    takes_workers = False  # several processes may poll it

    def __init__(self) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="headwater-writer")
        self._long_writer = self._writer  # a separate one where two can write at a time
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="headwater-reader")
        self._lock_thread = ThreadPoolExecutor(1, thread_name_prefix="headwater-poll-lock")
        self._threads = [self._writer, self._readers, self._lock_thread]
        self._local = threading.local()
        self._sessions: list[Session] = []
        # functions that join each write transaction of a task
        self.added_to_writes: dict[asyncio.Task[Any] | None, Callable[[Session], None]] = {}
        # API and web requests in progress: batches yield to the event loop more often then (H3)
        self.interactive_requests = 0
        # what a person is changing now, for the audit log; None for the service itself (U9)
        self.described_change: Callable[[], DescribedChange | None] = lambda: None

    def free_bytes(self) -> int | None:
        """The free space on the disk of the database; None: it is on its own server."""
        return None

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the database is, without credentials."""

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run a query function on a consistent snapshot."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._run_read, work)

    async def read_inline(self, work: Callable[[Session], T]) -> T:
        """Read a few rows of a small table, on the event loop where that is faster."""
        return await self.read(work)

    async def read_single(self, work: Callable[[Session], T]) -> T:
        """Run a function with a single query, which needs no transaction for its snapshot."""
        return await self.read(work)

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run one query and return all its rows."""
        return await self.read_single(lambda session: session.fetch(sql, params))

    async def write(self, work: Callable[[Session], T]) -> T:
        """Run a function as one transaction: all of it is stored, or nothing."""
        return await self._write_change(self._writer, work)

    async def write_long(self, work: Callable[[Session], T]) -> T:
        """Run a long transaction, concurrently with other writes where possible (H3)."""
        return await self._write_change(self._long_writer, work)

    async def write_apart(self, work: Callable[[Session], T]) -> T:
        """Run a transaction that is not a change by a person, such as to the state of a host."""
        return await self._transaction_in(self._writer, work)

    async def write_long_apart(self, work: Callable[[Session], T]) -> T:
        """Run a long transaction that is not a change by a person, such as a poll (H3)."""
        return await self._transaction_in(self._long_writer, work)

    async def _write_change(self, thread: ThreadPoolExecutor, work: Callable[[Session], T]) -> T:
        """Run a transaction with what the current task adds to it, and its audit entry (U9)."""
        if self.added_to_writes:
            work = self._with_added(work)
        change = self.described_change()
        if change is None:
            return await self._transaction_in(thread, work)
        insert = change.insert
        result, entry_id = await self._transaction_in(thread, lambda s: (work(s), insert(s)))
        change.entry_id, change.is_current = entry_id, True
        return result

    def _with_added(self, work: Callable[[Session], T]) -> Callable[[Session], T]:
        """The function followed by what the current task adds to its transactions."""
        added = self.added_to_writes.get(asyncio.current_task())
        if added is None:
            return work

        def both(session: Session) -> T:
            result = work(session)
            added(session)
            return result

        return both

    async def _transaction_in(self, thread: ThreadPoolExecutor, work: Callable[[Session], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(thread, self.run_transaction, work)

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Run one statement as a transaction and return the number of affected rows."""
        return await self.write(lambda session: session.execute(sql, params))

    async def close(self) -> None:
        """Finish running transactions and close every connection."""
        await asyncio.to_thread(self.shut_down)

    def shut_down(self) -> None:
        """Do the same from a thread without an event loop."""
        for threads in self._threads:
            threads.shutdown(wait=True)
        while self._sessions:
            self._sessions.pop().close()

    def _run_read(self, work: Callable[[Session], T]) -> T:
        return self.retried(work, self.in_read)

    def retried(
        self, work: Callable[[Session], T], run: Callable[[Session, Callable[[Session], T]], T]
    ) -> T:
        """Run a function on the calling thread's connection.

        An idle connection may have been cut: it is run again on a new one.
        """
        try:
            return self._translated(work, run)
        except DatabaseUnavailable:
            return self._translated(work, run)

    def run_transaction(self, work: Callable[[Session], T]) -> T:
        """Run a function as one transaction on the calling thread's connection."""
        return self._translated(work, self.in_transaction)

    def _translated(
        self, work: Callable[[Session], T], run: Callable[[Session, Callable[[Session], T]], T]
    ) -> T:
        try:
            return run(self._session(), work)
        except Exception as error:  # the subclass knows which driver errors mean what
            self._discard_broken(error)
            self._raise_translated(error)
            raise

    def _raise_translated(self, error: Exception) -> None:
        translated = self.translate(error)
        if translated is not error:
            raise translated from error

    def _session(self) -> Session:
        """The calling thread's own connection, opened on first use."""
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self.connect()
            self._local.session = session
            self._sessions.append(session)
        return session

    def _discard_broken(self, error: Exception) -> None:
        """Close the calling thread's connection if this error makes it unusable."""
        session = getattr(self._local, "session", None)
        if session is not None and self.is_broken(error):
            self._local.session = None
            self._sessions.remove(session)
            session.close()

    @abstractmethod
    def connect(self) -> Session:
        """Open a connection for the calling thread."""

    @abstractmethod
    def translate(self, error: Exception) -> Exception:
        """Convert a driver's error into one of ours; return any other error as it is."""

    @abstractmethod
    def is_broken(self, error: Exception) -> bool:
        """Whether the connection that raised this must be replaced."""

    @abstractmethod
    def in_transaction(self, session: Session, work: Callable[[Session], T]) -> T:
        """Run a function between BEGIN and COMMIT, or roll back."""

    @abstractmethod
    def in_read(self, session: Session, work: Callable[[Session], T]) -> T:
        """Run a function on a consistent snapshot."""

    async def acquire_poll_lock(self, *, shared: bool = False) -> bool:
        """Acquire the poll lock without blocking; False if another process holds it (S10)."""
        return await self._in_lock_thread(partial(self.take_poll_lock, shared=shared))

    async def renew_poll_lock(self) -> bool:
        """Verify the poll lock, or acquire it again; False if another process holds it now."""
        return await self._in_lock_thread(self._reacquire_poll_lock)

    async def _in_lock_thread(self, work: Callable[[], bool]) -> bool:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._lock_thread, work)
        except Exception as error:
            self._raise_translated(error)
            raise

    def _reacquire_poll_lock(self) -> bool:
        return True

    async def refuse_shared_sessions(self) -> None:  # noqa: B027 - a file has no proxy
        """Raise ConfigError if a proxy shares sessions, which breaks locks (S10)."""

    @abstractmethod
    def take_poll_lock(self, *, shared: bool = False) -> bool:
        """Acquire the right to poll this database; False if another process holds it (S10).

        `shared`: held together with other workers.
        """

    @abstractmethod
    def is_poll_locked(self) -> bool:
        """Whether another process holds the poll lock."""

    @abstractmethod
    def release(self) -> None:
        """Release the poll lock."""

    def refuse_replaced(self) -> None:  # noqa: B027 - a server's database has no such file
        """Raise DatabaseReplaced if the file was deleted or replaced while it was open (K5)."""

    def quick_check(self, session: Session) -> None:  # noqa: B027 - a server checks its own data
        """Raise DatabaseCorrupt if a quick check finds damaged data (K6)."""

    def missing_grant(self, _session: Session) -> str | None:
        """The statement that would let this user create tables; None if it already may."""
        return None

    @abstractmethod
    def integrity_errors(self) -> list[str]:
        """Run a full check of the stored data and describe each error found."""


class Tables:
    """Access to some tables: methods made of SQL functions by `reads` and `writes`."""

    def __init__(self, database: Database) -> None:
        self.database = database


_Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]  # of a subclass of Tables


def _method_maker(how: str) -> Callable[[Callable[Concatenate[Session, P], T]], _Method[P, T]]:
    def make(function: Callable[Concatenate[Session, P], T]) -> _Method[P, T]:
        @wraps(function)
        async def method(self: Tables, /, *args: P.args, **options: P.kwargs) -> T:
            run = getattr(self.database, how)
            result: T = await run(lambda session: function(session, *args, **options))
            return result

        return method

    return make


# A method of `Tables` made of a function: of queries, one query, few rows, a transaction, or a
# transaction that is not a change by a person.
reads = _method_maker("read")
reads_single = _method_maker("read_single")
reads_inline = _method_maker("read_inline")
writes = _method_maker("write")
writes_apart = _method_maker("write_apart")


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Split a sequence into slices of at most `size` items."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def grouped_by_columns(rows: Iterable[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Group rows that have the same columns, as bulk inserts and updates require."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row), []).append(row)
    return groups.values()
