"""SQLite: one file in WAL mode; a commit is on disk before it is reported as stored (K3)."""

import fcntl
import json
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from headwater.errors import (
    DatabaseCorrupt,
    DatabaseReplaced,
    DatabaseUnavailable,
    SearchTooSlow,
    StoreError,
)
from headwater.logs import get_logger
from headwater.rules.text_checks import lowered
from headwater.store.database import NO_PARAMS, TOO_SLOW, Database, Params, Row, Session
from headwater.store.sqlite_files import (
    FileIdentity,
    beside,
    changed_files,
    create_private,
    identity_of,
    is_replaced,
    locked_file,
    log_files,
    switch_to_wal,
)

log = get_logger()
T = TypeVar("T")
BUSY_SECONDS = 5.0  # wait for another process's lock
_VALUES_PER_STATEMENT = 4000
_ROWS_PER_STATEMENT = 512
_ARRAY = re.compile(r"\bIN :(\w+)")
_ROW_LOCK = re.compile(r"\sFOR (NO KEY UPDATE|KEY SHARE|UPDATE|SHARE)\b.*", re.DOTALL)
_QUICK_CHECK_BYTES = 64 << 20
_INTERRUPT_SECONDS = 0.02  # between interrupts once a time limit is over
_MAX_MESSAGE = 300  # an SQLite error can quote a whole row
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TRANSIENT = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
)


@lru_cache(maxsize=512)
def _native(sql: str) -> str:
    """Remove locking clauses, and convert `IN :name` into a query of a JSON array."""
    return _ARRAY.sub(r"IN (SELECT value FROM json_each(:\1))", _ROW_LOCK.sub("", sql))


class SqliteSession(Session):
    """One SQLite connection, used by one thread."""

    kind = "sqlite"

    def __init__(self, path: Path, *, wal: bool = True, busy_seconds: float = BUSY_SECONDS) -> None:
        create_private(path)
        self.log_files: Mapping[str, FileIdentity] = {}  # the same until this connection is closed
        self.connection = sqlite3.connect(
            path,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,  # closed by the thread that closes the database
            cached_statements=256,
        )
        try:
            if wal:
                switch_to_wal(self.connection)
            for pragma in (
                "synchronous = FULL",  # a committed post survives a power cut (K3)
                "foreign_keys = ON",
                "temp_store = MEMORY",
                "cache_size = -8192",  # 8 MB; the system caches the file, too (H1)
                "journal_size_limit = 67108864",
            ):
                self.connection.execute(f"PRAGMA {pragma}")
            # SQLite's own lower() converts ASCII letters only
            self.connection.create_function("lowered", 1, _lowered, deterministic=True)
            if wal:  # a new file gets its log at the first read
                self.connection.execute("PRAGMA schema_version").fetchall()
                self.log_files = log_files(path)
        except BaseException:
            self.connection.close()
            raise

    native = staticmethod(_native)

    # The driver releases the GIL at every step of a statement and must win it back from the event
    # loop. Transferring whole sets in one step avoids that contention (decision 16).

    def fetch_bulk(self, columns: str, rest: str, params: Params = NO_PARAMS) -> list[Row]:
        """Run a query whose rows SQLite returns as one JSON array."""
        sql = f"SELECT json_group_array(json_array({columns})) {rest}"
        try:
            rows: list[Row] = json.loads(self.fetch(sql, params)[0][0])
        except sqlite3.OperationalError as error:
            if "BLOB" not in str(error):  # that another program wrote: JSON cannot contain it
                raise
            return super().fetch_bulk(columns, rest, params)
        return rows

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[Callable[[], bool]]:
        """Interrupt statements from another thread: FTS5 works for seconds in one step of SQLite.

        Once this ends, nothing is interrupted any more.
        """
        ends_at = monotonic() + seconds
        is_done = threading.Event()

        def interrupt() -> None:
            wait = seconds
            while not is_done.wait(wait):
                self.connection.interrupt()  # does nothing between two statements: repeat it
                wait = _INTERRUPT_SECONDS

        interrupter = threading.Thread(target=interrupt, name="headwater-time-limit", daemon=True)
        interrupter.start()
        try:
            yield lambda: monotonic() > ends_at
        except sqlite3.OperationalError as error:
            if _primary_code(error) == sqlite3.SQLITE_INTERRUPT:
                raise SearchTooSlow(TOO_SLOW) from error
            raise
        finally:
            is_done.set()
            interrupter.join()

    def given(self, _table: str, rows: Sequence[Params]) -> Iterator[tuple[str, list[Any]]]:
        """VALUES of many rows per statement."""
        first = 0
        while first < len(rows):
            names = list(rows[0])
            most = min(_ROWS_PER_STATEMENT, max(_VALUES_PER_STATEMENT // len(names), 1))
            # powers of two: few sizes, so that the driver's statement cache holds them
            size = 1 << (min(len(rows) - first, most).bit_length() - 1)
            places = ", ".join([f"({', '.join('?' * len(names))})"] * size)
            yield f"VALUES {places}", [row[n] for row in rows[first : first + size] for n in names]
            first += size

    def array(self, values: Collection[Any]) -> Any:
        """Values as a JSON array."""
        return json.dumps(list(values))


class SqliteFile(SqliteSession):
    """An SQLite file other than the database, such as a backup: errors name the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._translated():
            super().__init__(path, wal=False)  # reading a backup must not change it

    def run(self, sql: str, params: Any, **options: Any) -> Any:
        """Run a statement and return its cursor."""
        with self._translated():
            return super().run(sql, params, **options)

    @contextmanager
    def _translated(self) -> Iterator[None]:
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
        self.busy_seconds = BUSY_SECONDS  # of connections opened from now on
        self._lock: int | None = None
        self._identity: FileIdentity | None = None  # of the file that the first connection opened
        self._replaced: str | None = None  # what happened to a file; final until a restart
        self._inline: SqliteSession | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the folder {path.parent}: {error.strerror}") from error

    def free_bytes(self) -> int | None:
        """The free space on the disk of the file."""
        return shutil.disk_usage(self.path.absolute().parent).free

    @property
    def address(self) -> str:
        """The file's absolute path."""
        return f"sqlite:///{self.path.resolve()}"

    def connect(self, *, busy_seconds: float | None = None) -> SqliteSession:
        """Open a connection for the calling thread."""
        self.refuse_replaced()  # else it would create or use another file than the writer
        wait = self.busy_seconds if busy_seconds is None else busy_seconds
        session = SqliteSession(self.path, busy_seconds=wait)
        if self._identity is None:
            self._identity = identity_of(self.path)
        return session

    def refuse_replaced(self, session: Session | None = None) -> None:
        """Raise DatabaseReplaced if a file was deleted or replaced since it was opened (K5).

        SQLite would continue writing to the old file, which is lost when the process ends. This is
        final: others may have changed a file that is put back. `session`, which is in no
        transaction, saves what is only in a deleted log.
        """
        if self._replaced is None:
            self._replaced = self._replacement()
            if self._replaced is None:
                return
            log.error(f"[Store] {self._replaced}")
        if session is not None:
            self._save_log(session)
        raise DatabaseReplaced(self._replaced)

    def _replacement(self) -> str | None:
        """Which file was deleted or replaced, and what to do."""
        what = "was deleted or replaced while Headwater was running: nothing is stored any more"
        if self._identity is not None and is_replaced(self.path, self._identity):
            return (
                f"the database file {self.path} {what}; stop it, put the file back (or accept the "
                "new one: then remove the old -wal and -shm files) and start again"
            )
        sessions = [one for one in self._sessions if isinstance(one, SqliteSession)]
        changed = changed_files(session.log_files for session in sessions)
        for session in sessions if changed else ():
            lost = sorted(changed & session.log_files.items())
            # a session leaves the list before it is closed, which may delete these files
            if lost and session in self._sessions:
                return f"the file {lost[0][0]} {what}; stop it (do not kill it) and start again"
        return None

    def _save_log(self, session: Session) -> None:
        """Copy what is only in a deleted log into the database file, before a kill loses it."""
        successor = identity_of(beside(self.path, "-wal"))  # another process uses it
        if successor is None and identity_of(self.path) == self._identity:
            with suppress(sqlite3.Error):  # as far as readers allow it; stopping does the rest
                session.fetch("PRAGMA wal_checkpoint(PASSIVE)")

    async def read_inline(self, work: Callable[[Session], T]) -> T:
        """Read a few rows on the event loop: microseconds, and it never waits for a lock.

        A thread would have to win the GIL first, and its result the next turn of a busy loop.
        """
        try:
            if self._inline is None:
                self._inline = self.connect(busy_seconds=0)
                self._sessions.append(self._inline)
            return self.in_read(self._inline, work)
        except sqlite3.Error:  # locked or broken: a reader thread waits, and reports errors
            if self._inline is not None:
                self._sessions.remove(self._inline)
                self._inline.close()
                self._inline = None
            return await self.read(work)

    def translate(self, error: Exception) -> Exception:
        """Distinguish damage and transient errors from programming errors."""
        if not isinstance(error, sqlite3.Error | UnicodeDecodeError):
            return error
        message = "".join(c if c.isprintable() else " " for c in str(error)[:_MAX_MESSAGE])
        code = _primary_code(error)
        # a schema name that is not valid UTF-8 raises UnicodeDecodeError in the driver
        if code in _CORRUPT or isinstance(error, UnicodeDecodeError):
            return self._corrupt(message)
        if code in _TRANSIENT:
            return DatabaseUnavailable(f"the database {self.path} cannot be used now: {message}")
        return StoreError(f"the database {self.path} refused this: {message}")

    def _corrupt(self, message: str) -> DatabaseCorrupt:
        return DatabaseCorrupt(
            f"the database {self.path} is damaged ({message}); run `headwater doctor`"
        )

    def is_broken(self, error: Exception) -> bool:
        """Whether this was damage or an input/output error; no other needs a new connection."""
        return _primary_code(error) in (*_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)

    def take_poll_lock(self, *, shared: bool = False) -> bool:
        """Lock the file beside the database that represents the right to poll (S10)."""
        if shared:
            return False  # a file has one poller
        if self._lock is None:
            self._lock = locked_file(self._lock_path)
        return self._lock is not None

    def _reacquire_poll_lock(self) -> bool:
        """A lock file that was deleted or replaced protects nothing: lock the new one."""
        if self._lock is not None and identity_of(self._lock_path) == identity_of(self._lock):
            return True
        self.release()
        return self.take_poll_lock()

    @property
    def _lock_path(self) -> str:
        return beside(self.path, ".lock")

    def is_poll_locked(self) -> bool:
        """Whether another process holds the lock."""
        if self._lock is not None:
            return False
        handle = locked_file(
            self._lock_path, fcntl.LOCK_SH
        )  # shared: two processes may check at once
        if handle is None:
            return True
        os.close(handle)
        return False

    def release(self) -> None:
        """Unlock; the file stays, so that no two processes lock different files."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def integrity_errors(self) -> list[str]:
        """Run SQLite's own check, and find rows whose foreign key matches no row."""
        try:
            session = self._session()
            found = [row[0] for row in session.fetch("PRAGMA integrity_check")]
            orphans = session.fetch("PRAGMA foreign_key_check")
        except sqlite3.DatabaseError as error:
            if _primary_code(error) not in _CORRUPT:
                raise
            return [f"too damaged to be checked: {error}"]
        return [f for f in found if f != "ok"] + [f"{row[0]}: row without owner" for row in orphans]

    def quick_check(self, session: Session) -> None:
        """Check a file of moderate size before it is used (K6)."""
        if self.path.stat().st_size > _QUICK_CHECK_BYTES:
            return  # it would delay the start; `headwater doctor` checks files of any size
        found = session.fetch("PRAGMA quick_check(1)")[0][0]
        if found != "ok":
            raise self._corrupt(" ".join(str(found).split())[:_MAX_MESSAGE])

    def in_transaction(self, session: Session, work: Callable[[Session], T]) -> T:
        """Run a function between BEGIN and COMMIT, or roll back."""
        self.refuse_replaced(session)
        session.execute("BEGIN IMMEDIATE")
        try:
            result = work(session)
            session.execute("COMMIT")
        except BaseException:
            _roll_back(session)
            raise
        return result

    def in_read(self, session: Session, work: Callable[[Session], T]) -> T:
        """Run a function on a consistent snapshot."""
        session.execute("BEGIN")
        try:
            return work(session)
        finally:
            _roll_back(session)


def _primary_code(error: Exception) -> int:
    """SQLite's primary result code, without the bits of the extended one."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _lowered(text: str | None) -> str | None:
    return None if text is None else lowered(text)


def _roll_back(session: Session) -> None:
    try:
        session.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        # SQLite rolls back by itself on a full disk and the like
        if "no transaction is active" not in str(error):
            raise
