"""Store: opens the database, groups the tables, records what polls decided."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from headwater.batch import Batcher
from headwater.clock import Clock
from headwater.errors import ConfigError, DatabaseUnavailable, StoreError
from headwater.model import Outcome, Subject
from headwater.rules.admission import Known, Sifted
from headwater.store.articles import Articles
from headwater.store.census import Census
from headwater.store.cleanup import Bite
from headwater.store.database import Database, Session
from headwater.store.facts import Facts
from headwater.store.hosts import Hosts
from headwater.store.migrate import migrate, newest_version, schema_version
from headwater.store.moving import unfinished
from headwater.store.people import People
from headwater.store.polls import Polls
from headwater.store.posts import Posts
from headwater.store.record import Overtaken, record, record_large
from headwater.store.rows import to_ms
from headwater.store.secrets import Secrets
from headwater.store.sessions import Sessions
from headwater.store.sources import Sources
from headwater.store.sqlite import SqliteDatabase
from headwater.store.subscriptions import Subscriptions
from headwater.store.tokens import Tokens

T = TypeVar("T")
_POSTS_PER_COMMIT = 1000
_PATIENCE_SECONDS = 300.0  # how long a result waits for a database that is away (K5)
_RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)


class Store:
    """All that is stored, table by table."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.sources = Sources(database)
        self.posts = Posts(database)
        self.articles = Articles(database)
        self.hosts = Hosts(database)
        self.polls = Polls(database)
        self.people = People(database)
        self.facts = Facts(database)
        self.tokens = Tokens(database)
        self.sessions = Sessions(database)
        self.subscriptions = Subscriptions(database)
        self.secrets = Secrets(database)
        self.census = Census(database)
        self.trouble: str | None = None  # why the last attempt to record did not work, if so
        self.waiting = 0  # results that wait for a database that is away (K5)
        # told of every commit of results: how many, and the seconds it took
        self.on_commit: Callable[[int, float], None] = lambda _results, _seconds: None
        self._newest: int | None = None  # looked up once: there may be no file to spare later (O1)
        self._clock = clock
        self._record = Batcher(
            self._record_many,
            most=_POSTS_PER_COMMIT,
            weight=lambda o: 2 + len(o.posts),
            is_watched=lambda: database.people_waiting > 0,
        )
        self._record_large = Batcher(self._record_aside, most=1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def prepare(self) -> tuple[int, int]:
        """Bring the schema up to date; answer its versions before and after (K7)."""
        folder, now = self.database.migrations, self._clock.now()
        before, after = await self.database.write(lambda session: _prepare(session, folder, now))
        self._newest = after
        return before, after

    async def check(self) -> None:
        """Raise if a quick look finds damage (K6), or if this is half a copy of another."""
        await self.database.read(self.database.refuse_damage)
        rest = await self.database.read(unfinished)
        if rest is not None:
            raise StoreError(
                f"this database is an unfinished copy of {rest}: first let `headwater migrate "
                "--from … --to …` come to its end"
            )

    async def schema(self) -> tuple[int, int]:
        """The schema's version in the database, and the one this program knows."""
        if self._newest is None:
            self._newest = newest_version(self.database.migrations)
        return await self.database.read(schema_version), self._newest

    async def record(self, outcome: Outcome) -> Outcome:
        """Store what a poll decided, all of it or nothing, and answer what became of it (D4).

        A database that is away is waited for; DatabaseUnavailable means it stayed away (K5).
        """
        try:
            stored = await self._stored(outcome)
        except DatabaseUnavailable as error:
            self.trouble = str(error)
            stored = await self._later(lambda: self._stored(outcome))
        self.trouble = None
        return stored

    async def known(self, subject: Subject, sifted: Sifted) -> Known:
        """What of an answer was ever stored; the answer waits for a database that is away (K5)."""
        try:
            return await self.posts.known(subject, sifted)
        except DatabaseUnavailable as error:
            self.trouble = str(error)
            return await self._later(lambda: self.posts.known(subject, sifted))

    async def flush(self, seconds: float) -> None:
        """Wait until what was handed in for recording is stored, its poll cut off or not (S8)."""
        await asyncio.gather(self._record.flush(seconds), self._record_large.flush(seconds))

    async def clean(self, bite: Bite, now: datetime, limit: int) -> int:
        """Run one bite of cleanup and answer how many rows it took; 0: nothing is left to take."""
        found = await self.database.read(lambda session: bite.find(session, now, limit))
        if not found:
            return 0
        return await self.database.write(lambda session: bite.remove(session, found, limit))

    async def close(self) -> None:
        """Finish what is under way and let go of the database."""
        await asyncio.to_thread(self.database.release)
        await self.database.close()

    async def _later(self, work: Callable[[], Awaitable[T]]) -> T:
        deadline = self._clock.monotonic() + _PATIENCE_SECONDS
        attempt = 0
        self.waiting += 1
        try:
            while True:
                wait = _RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]
                await self._clock.sleep(wait)
                try:
                    return await work()
                except DatabaseUnavailable as error:
                    self.trouble = str(error)
                    if self._clock.monotonic() >= deadline:
                        raise
                attempt += 1
        finally:
            self.waiting -= 1

    async def _stored(self, outcome: Outcome) -> Outcome:
        is_large = len(outcome.posts) > _POSTS_PER_COMMIT
        return await (self._record_large if is_large else self._record)(outcome)

    async def _record_aside(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome | Exception]:
        started = self._clock.monotonic()
        try:
            stored = await self.database.write_aside(lambda s: record_large(s, outcomes[0]))
        except Overtaken:
            return await self._record_many(outcomes)  # nothing but what hosts asked for
        self.on_commit(1, self._clock.monotonic() - started)
        return [stored]

    async def _record_many(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome | Exception]:
        started = self._clock.monotonic()
        try:
            stored = await self.database.write(lambda s: record(s, outcomes))
        except Exception as error:  # noqa: BLE001 - one of them is bad; find out which (K5)
            if len(outcomes) == 1 or isinstance(error, DatabaseUnavailable):
                return [error] * len(outcomes)
        else:
            self.on_commit(len(outcomes), self._clock.monotonic() - started)
            return stored
        return [(await self._record_many([outcome]))[0] for outcome in outcomes]


def _prepare(session: Session, folder: Path, now: datetime) -> tuple[int, int]:
    before, after = migrate(session, folder)
    if before == 0:  # those that every database starts with
        for table in ("users", "podcasts"):
            session.execute(f"UPDATE {table} SET created_at = :now", {"now": to_ms(now)})
    return before, after


def open_database(url: str) -> Database:
    """The kind of database that a URL names."""
    if url.startswith("sqlite:///"):
        return SqliteDatabase(Path(url.removeprefix("sqlite:///")))
    if url.startswith(("postgresql://", "postgres://")):
        # the driver is loaded where there is a server to talk to
        from headwater.store.postgres import PostgresDatabase

        return PostgresDatabase(url)
    raise ConfigError(f"app.database-url: {url!r} is neither sqlite:///… nor postgresql://…")


__all__ = ["Database", "Session", "Store", "open_database"]
