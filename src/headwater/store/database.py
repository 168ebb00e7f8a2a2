"""Database: reads and transactions off the event loop, the same for both kinds.

SQL functions are plain functions of a `Session`; they run in a database thread. One writer
thread with one connection makes every write a short transaction of its own; readers have
connections of theirs. The right to poll is looked after in a thread that does nothing else: a
tick never waits for what somebody else has threads do.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from headwater.errors import DatabaseUnavailable

T = TypeVar("T")
Params = Mapping[str, Any]
Row = tuple[Any, ...]
NO_PARAMS: Params = dict[str, Any]()  # never changed
READERS = 4


class Session(Protocol):
    """One connection inside a transaction; statements name their parameters `:like_this`."""

    kind: str  # `sqlite` or `postgres`

    def execute(self, sql: str, params: Params = ...) -> int:
        """Run a statement and answer how many rows it touched."""
        ...

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        """Run a statement once per row."""
        ...

    def fetch(self, sql: str, params: Params = ...) -> list[Row]:
        """Run a query and answer all its rows."""
        ...

    def look_up(self, sql: str, params: Params) -> list[Row]:
        """Run a query that looks into an index for each of many values."""
        ...

    def fetch_together(self, columns: str, rest: str, params: Params = ...) -> list[Row]:
        """Run `SELECT columns rest` for many rows that are wanted at once."""
        ...

    def insert_rows(self, table: str, rows: Sequence[Params], conflict: str = ...) -> None:
        """Insert rows that all have the same columns."""
        ...

    def update_rows(self, table: str, rows: Sequence[Params], also: str) -> None:
        """Set columns of rows by their `id`; `also` is set in each of them."""
        ...

    def array(self, values: Iterable[Any]) -> Any:
        """Wrap values so that `among` can look them up."""
        ...

    def among(self, column: str, name: str) -> str:
        """The condition that a column is one of the values bound to `name`."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


class Database(ABC):
    """Runs SQL functions in threads; the two kinds say how to connect and what errors mean."""

    migrations: Path
    takes_workers = False  # several processes may poll it

    def __init__(self) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="headwater-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="headwater-reader")
        self._claimer = ThreadPoolExecutor(1, thread_name_prefix="headwater-claim")
        self._local = threading.local()
        self._sessions: list[Session] = []
        self.people_waiting = 0  # for an answer right now: polls take small steps meanwhile (H3)

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the database is, without what lets one in."""

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run a query function on a consistent view of the database."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._reading, work)

    async def glance(self, work: Callable[[Session], T]) -> T:
        """Look up a few rows of a small table, at once where a thread would take longer."""
        return await self.read(work)

    async def write(self, work: Callable[[Session], T]) -> T:
        """Run a function as one transaction: all of it is stored, or nothing."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, self._writing, work)

    async def write_aside(self, work: Callable[[Session], T]) -> T:
        """The same for what takes long, beside other transactions where there can be any (H3)."""
        return await self.write(work)

    async def close(self) -> None:
        """Finish what is under way and close every connection."""
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        for threads in self._threads():
            threads.shutdown(wait=True)
        for session in self._sessions:
            session.close()
        self._sessions.clear()

    def _threads(self) -> Sequence[ThreadPoolExecutor]:
        return self._writer, self._readers, self._claimer

    def _reading(self, work: Callable[[Session], T]) -> T:
        try:
            return self._translated(work, self._in_read)
        except DatabaseUnavailable:
            # the connection may have been cut while it was idle: a new one may do better
            return self._translated(work, self._in_read)

    def _writing(self, work: Callable[[Session], T]) -> T:
        return self._translated(work, self._in_transaction)

    def _translated(
        self, work: Callable[[Session], T], run: Callable[[Session, Callable[[Session], T]], T]
    ) -> T:
        try:
            return run(self._session(), work)
        except Exception as error:  # the kind knows which of its driver's errors mean what
            self._forget_if_broken(error)
            translated = self.translate(error)
            if translated is error:
                raise
            raise translated from error

    def _session(self) -> Session:
        """The calling thread's own connection, opened when first needed."""
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self.connect()
            self._local.session = session
            self._sessions.append(session)
        return session

    def _forget_if_broken(self, error: Exception) -> None:
        if not self.is_broken(error):
            return
        session = getattr(self._local, "session", None)
        if session is not None:
            self._local.session = None
            self._sessions.remove(session)
            session.close()

    @abstractmethod
    def connect(self) -> Session:
        """Open a connection for the calling thread."""

    @abstractmethod
    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; anything else comes back as it is."""

    @abstractmethod
    def is_broken(self, error: Exception) -> bool:
        """Whether the connection that raised this must be replaced."""

    @abstractmethod
    def _in_transaction(self, session: Session, work: Callable[[Session], T]) -> T: ...

    @abstractmethod
    def _in_read(self, session: Session, work: Callable[[Session], T]) -> T: ...

    async def try_claim(self, *, shared: bool = False) -> bool:
        """Take the right to poll, alone or beside others; the driver's errors made ours (S10)."""
        return await self._asked(partial(self.claim, shared=shared))

    async def keep_claim(self) -> bool:
        """Make sure that the right to poll is still ours; False if another process has it now."""
        return await self._asked(self._still_claimed)

    async def _asked(self, ask: Callable[[], bool]) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._claimer, self._ours, ask)

    def _ours(self, ask: Callable[[], bool]) -> bool:
        try:
            return ask()
        except Exception as error:
            translated = self.translate(error)
            if translated is error:
                raise
            raise translated from error

    def _still_claimed(self) -> bool:
        return True

    @abstractmethod
    def claim(self, *, shared: bool = False) -> bool:
        """Take the right to poll this database; False if another process has it (S10).

        `shared`: as one of several workers, none of which has it alone.
        """

    @abstractmethod
    def is_claimed(self) -> bool:
        """Whether some other process holds the right to poll."""

    @abstractmethod
    def release(self) -> None:
        """Give the right to poll back."""

    def refuse_damage(self, session: Session) -> None:  # noqa: B027 - a server checks itself
        """Raise DatabaseCorrupt if a quick look finds the data damaged (K6)."""

    @abstractmethod
    def faults(self) -> list[str]:
        """Check the stored data for damage and name what is wrong."""
