"""SQLite: one file, WAL, every commit on disk before it counts (K3)."""

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from headwater.errors import DatabaseCorrupt, DatabaseUnavailable, StoreError
from headwater.rules.lines import lowered
from headwater.store.database import NO_PARAMS, Database, Params, Row, Session

T = TypeVar("T")
_BUSY_SECONDS = 5
_WAL_ATTEMPTS = 5
_VALUES_PER_STATEMENT = 4000
# few, so that statements are found in the driver's cache, and so that few of them make any number
_CHUNK_SIZES = (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
_CHECKED_BYTES = 64 << 20
_TOLD_LENGTH = 300  # an error can quote a whole row
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PASSING = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
)


class SqliteSession:
    """One SQLite connection, used by one thread."""

    kind = "sqlite"

    def __init__(self, path: Path, *, wal: bool = True, patient: bool = True) -> None:
        _make_private(path)
        self.connection = sqlite3.connect(
            path,
            timeout=_BUSY_SECONDS if patient else 0,
            isolation_level=None,
            check_same_thread=False,  # closed by the thread that closes the database
            cached_statements=256,
        )
        try:
            if wal:
                _switch_to_wal(self.connection)
            for pragma in (
                "synchronous = FULL",  # a committed post survives a power cut (K3)
                "foreign_keys = ON",
                "temp_store = MEMORY",
                "cache_size = -32768",
                "journal_size_limit = 67108864",
            ):
                self.connection.execute(f"PRAGMA {pragma}")
            # SQLite's own knows the letters of ASCII only
            self.connection.create_function("lowered", 1, _lowered, deterministic=True)
        except BaseException:
            self.connection.close()
            raise

    def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Run a statement and answer how many rows it touched."""
        return self.connection.execute(sql, params).rowcount

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once per row."""
        self.connection.executemany(sql, rows)

    def fetch(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run a query and answer all its rows."""
        return self.connection.execute(sql, params).fetchall()

    def look_up(self, sql: str, params: Params) -> list[Row]:
        """Run a query that looks into an index for each of many values."""
        return self.fetch(sql, params)

    # The driver gives the interpreter lock away at every step of a statement and must win it back
    # from the event loop. Whole sets in one step spare a busy service that tug of war.

    def fetch_together(self, columns: str, rest: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run a query and answer all its rows, made one by SQLite itself."""
        sql = f"SELECT json_group_array(json_array({columns})) {rest}"
        rows: list[Row] = json.loads(self.connection.execute(sql, params).fetchone()[0])
        return rows

    def insert_rows(self, table: str, rows: Sequence[Params], conflict: str = "") -> None:
        """Insert rows that all have the same columns, many in a statement."""
        if not rows:
            return
        names = list(rows[0])
        for places, values in _chunks(rows, names):
            self.connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) VALUES {places} {conflict}", values
            )

    def update_rows(self, table: str, rows: Sequence[Params], also: str) -> None:
        """Set columns of rows by their `id`, many in a statement."""
        if not rows:
            return
        names = list(rows[0])
        changes = ", ".join([also, *(f"{n} = given.{n}" for n in names if n != "id")])
        for places, values in _chunks(rows, names):
            self.connection.execute(
                f"""WITH given ({", ".join(names)}) AS (VALUES {places})
                UPDATE {table} SET {changes} FROM given WHERE {table}.id = given.id""",
                values,
            )

    def array(self, values: Iterable[Any]) -> Any:
        """Values as a JSON array."""
        return json.dumps(list(values))

    def among(self, column: str, name: str) -> str:
        """The condition that a column is one of the values bound to `name`."""
        return f"{column} IN (SELECT value FROM json_each(:{name}))"

    def close(self) -> None:
        """Give the connection up."""
        self.connection.close()


def _make_private(path: Path) -> None:
    """Let a new file be its owner's alone: sources may have passwords in their addresses (U6)."""
    with suppress(OSError):  # whatever is wrong, opening it says so
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


class SqliteFile(SqliteSession):
    """A file beside the database, such as a backup: its errors are ours and name it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._named():
            super().__init__(path, wal=False)  # reading it changes nothing

    def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Run a statement and answer how many rows it touched."""
        with self._named():
            return super().execute(sql, params)

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once per row."""
        with self._named():
            super().execute_many(sql, rows)

    def fetch(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run a query and answer all its rows."""
        with self._named():
            return super().fetch(sql, params)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"the file {self._path} cannot be used: {error}") from error


class SqliteDatabase(Database):
    """A SQLite file."""

    migrations = Path(__file__).parent / "migrations" / "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._lock: int | None = None
        self._glancing: SqliteSession | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"there can be no folder {path.parent}: {error.strerror}") from error

    @property
    def address(self) -> str:
        """Where the file is, in full."""
        return f"sqlite:///{self.path.resolve()}"

    def connect(self) -> SqliteSession:
        """Open a connection for the calling thread."""
        return SqliteSession(self.path)

    async def glance(self, work: Callable[[Session], T]) -> T:
        """Look up a few rows on the event loop itself: microseconds, and never a wait for a lock.

        A thread would have to win the interpreter, and its answer the next turn of a busy loop.
        """
        try:
            if self._glancing is None:
                self._glancing = SqliteSession(self.path, patient=False)
                self._sessions.append(self._glancing)
            return self._in_read(self._glancing, work)
        except sqlite3.Error:  # locked, or worse: the threads have patience and know what to say
            if self._glancing is not None:
                self._sessions.remove(self._glancing)
                self._glancing.close()
                self._glancing = None
            return await self.read(work)

    def translate(self, error: Exception) -> Exception:
        """Tell damage and passing trouble from our own mistakes."""
        if not isinstance(error, sqlite3.Error | UnicodeDecodeError):
            return error
        told = "".join(c if c.isprintable() else " " for c in str(error)[:_TOLD_LENGTH])
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # a complaint about a name in the schema that is no text is none itself
        if code in _CORRUPT or isinstance(error, UnicodeDecodeError):
            return DatabaseCorrupt(
                f"the database {self.path} is damaged ({told}); run `headwater doctor`"
            )
        if code in _PASSING:
            return DatabaseUnavailable(f"the database {self.path} cannot be used now: {told}")
        return StoreError(f"the database {self.path} refused this: {told}")

    def is_broken(self, error: Exception) -> bool:
        """A connection is replaced after damage and input/output errors only."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code in (*_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)

    def claim(self, *, shared: bool = False) -> bool:
        """Lock the file beside the database that stands for the right to poll (S10)."""
        if shared:
            return False  # a file has one poller
        if self._lock is None:
            self._lock = self._locked()
        return self._lock is not None

    def _still_claimed(self) -> bool:
        """A lock file that was deleted or replaced guards nothing: take the new one."""
        with suppress(FileNotFoundError):
            if self._lock is not None:
                now, then = os.stat(self._lock_file), os.fstat(self._lock)
                if (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino):
                    return True
        self.release()
        return self.claim()

    @property
    def _lock_file(self) -> str:
        """Beside the file itself, whatever link leads there."""
        return f"{os.path.realpath(self.path)}.lock"

    def is_claimed(self) -> bool:
        """Whether another process holds the lock."""
        if self._lock is not None:
            return False
        handle = self._locked(fcntl.LOCK_SH)  # two may look at once
        if handle is None:
            return True
        os.close(handle)
        return False

    def release(self) -> None:
        """Unlock; the file stays, so that no two processes lock different files."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def faults(self) -> list[str]:
        """Run SQLite's own check, and look for rows that point nowhere."""
        try:
            session = self._session()
            found = [row[0] for row in session.fetch("PRAGMA integrity_check")]
            orphans = session.fetch("PRAGMA foreign_key_check")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _CORRUPT:
                raise
            return [f"too damaged to be checked: {error}"]
        return [f for f in found if f != "ok"] + [f"{row[0]}: row without owner" for row in orphans]

    def refuse_damage(self, session: Session) -> None:
        """Look a file of moderate size through before it is trusted (K6)."""
        if self.path.stat().st_size > _CHECKED_BYTES:
            return  # this would keep the start waiting; `headwater doctor` has the time
        found = session.fetch("PRAGMA quick_check(1)")[0][0]
        if found != "ok":
            told = " ".join(str(found).split())[:_TOLD_LENGTH]
            raise DatabaseCorrupt(
                f"the database {self.path} is damaged ({told}); run `headwater doctor`"
            )

    def _locked(self, how: int = fcntl.LOCK_EX) -> int | None:
        handle = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle

    def _in_transaction(self, session: Session, work: Callable[[Session], T]) -> T:
        session.execute("BEGIN IMMEDIATE")
        try:
            result = work(session)
            session.execute("COMMIT")
        except BaseException:
            _roll_back(session)
            raise
        return result

    def _in_read(self, session: Session, work: Callable[[Session], T]) -> T:
        session.execute("BEGIN")
        try:
            return work(session)
        finally:
            _roll_back(session)


def _lowered(text: str | None) -> str | None:
    return None if text is None else lowered(text)


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    for attempt in range(_WAL_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # two programs open a new file at once: the pragma gives up where a transaction waits
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or attempt == _WAL_ATTEMPTS - 1:
                raise
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return


def _roll_back(session: Session) -> None:
    try:
        session.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        # SQLite rolls back by itself on a full disk and the like
        if "no transaction is active" not in str(error):
            raise


def _chunks(rows: Sequence[Params], names: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Cut rows into statements' worth: the places to bind, and the values bound there."""
    most = max(_VALUES_PER_STATEMENT // len(names), 1)
    place = f"({', '.join('?' * len(names))})"
    values_of = itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],)
    first = 0
    while first < len(rows):
        left = min(len(rows) - first, most)
        size = next(size for size in _CHUNK_SIZES if size <= left)
        values = chain.from_iterable(map(values_of, rows[first : first + size]))
        yield ", ".join([place] * size), list(values)
        first += size
