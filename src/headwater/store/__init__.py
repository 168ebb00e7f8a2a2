"""Store: opens the database, groups the tables, and records outcomes (D4, K5)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from headwater.batcher import Batcher
from headwater.clock import Clock
from headwater.errors import (
    ConfigError,
    DatabaseUnavailable,
    SchemaTooNew,
    SchemaTooOld,
    StoreError,
)
from headwater.logs import get_logger
from headwater.model import Outcome, Source, Subject
from headwater.rules.admission import Known, NewByDate
from headwater.rules.feed_search import SearchResult
from headwater.rules.full_text import PageResult
from headwater.rules.page_versions import PageVersions
from headwater.store import feed_searches, page_visits
from headwater.store.annotations import Annotations
from headwater.store.api_keys import ApiKeys
from headwater.store.articles import Articles
from headwater.store.audit import AuditLog
from headwater.store.channels import Channels
from headwater.store.database import Database, Session
from headwater.store.database_copy import incomplete_copy_of
from headwater.store.expired_rows import CleanupBatch
from headwater.store.feed_searches import FeedSearches
from headwater.store.headlines import Headlines
from headwater.store.hosts import Hosts
from headwater.store.idempotency_keys import IdempotencyKeys
from headwater.store.incidents import Incidents
from headwater.store.key_values import KeyValues
from headwater.store.migrate import migrate, newest_version, schema_version, too_new
from headwater.store.page_visits import PageVisits
from headwater.store.poll_days import PollDays
from headwater.store.poll_history import PollHistory
from headwater.store.posts import Posts
from headwater.store.record_outcomes import WriteConflict, record, record_large
from headwater.store.row_mapping import from_ms, log_unreadable_rows_again, to_ms
from headwater.store.saved_searches import SavedSearches
from headwater.store.search import Search
from headwater.store.source_batches import add_one, add_one_large
from headwater.store.source_counts import SourceCounts
from headwater.store.sources import Sources
from headwater.store.sqlite import SqliteDatabase
from headwater.store.stories import Stories
from headwater.store.storms import Storms
from headwater.store.suggestions import Suggestions
from headwater.store.tokens import Sessions, Tokens, TokenUses
from headwater.store.users_and_podcasts import UsersAndPodcasts
from headwater.store.waiting_work import QUERIES, RESULTS, WaitingWork
from headwater.store.webhooks import Webhooks

T = TypeVar("T")
Item = TypeVar("Item")
log = get_logger()
POSTS_PER_COMMIT = 1000
_RETRY_FOR_SECONDS = 300.0  # how long a result waits for an unavailable database (K5)
_RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)


class Store:
    """Access to every table, and the recording of outcomes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.sources = Sources(database)
        self.source_counts = SourceCounts(database)
        self.posts = Posts(database)
        self.stories = Stories(database)
        self.articles = Articles(database)
        self.annotations = Annotations(database)
        self.search = Search(database)
        self.saved_searches = SavedSearches(database)
        self.page_visits = PageVisits(database)
        self.feed_searches = FeedSearches(database)
        self.suggestions = Suggestions(database)
        self.hosts = Hosts(database)
        self.polls = PollHistory(database)
        self.poll_days = PollDays(database)
        self.incidents = Incidents(database)
        self.storms = Storms(database)
        self.headlines = Headlines(database)
        self.accounts = UsersAndPodcasts(database)
        self.api_keys = ApiKeys(database)
        self.tokens = Tokens(database)
        self.token_uses = TokenUses(self.tokens)
        self.sessions = Sessions(database)
        self.idempotency_keys = IdempotencyKeys(database)
        self.webhooks = Webhooks(database)
        self.channels = Channels(database)
        self.key_values = KeyValues(database)
        self.audit = AuditLog(database, clock)
        self.database_error: str | None = None  # of the last attempt to record, if it failed
        self.results_waiting = 0  # for an unavailable database (K5)
        # results also of the first attempt
        self.waiting = WaitingWork(clock, lambda: self.database_error, RESULTS)
        self.queries = WaitingWork(clock, lambda: self.database_error, QUERIES)
        # called after every commit of results with their number and the seconds it took
        self.on_commit: Callable[[int, float], None] = lambda _results, _seconds: None
        # now: later there may be no file descriptor left to list the migrations (O1)
        self._newest_version = newest_version(database.migrations)
        self._clock = clock
        self._record = Batcher(
            partial(self._record_many, record),
            max_weight=POSTS_PER_COMMIT,
            weight=lambda o: 2 + len(o.posts),
            yield_often=lambda: database.interactive_requests > 0,
        )
        self._record_large = Batcher(self._record_one_large, max_weight=1)
        self._record_pages = Batcher(partial(self._record_many, page_visits.record))
        self._record_searches = Batcher(partial(self._record_many, feed_searches.record))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def prepare(self, *, creates: bool = True, upgrades: bool = True) -> tuple[int, int]:
        """Bring the schema up to date; return its versions before and after (K7).

        SchemaTooOld if that needs new tables without `creates`, or an upgrade without `upgrades`.
        """
        folder, now = self.database.migrations, self._clock.now()
        (version, _), newest = await self.schema(), newest_version(folder)
        if version == newest:
            return version, newest
        if version == 0 and not creates:
            raise SchemaTooOld(
                f"the database {self.database.address} has no tables yet: `headwater migrate`, "
                "`serve` or `worker` creates them"
            )
        if 0 < version < newest and not upgrades:
            raise SchemaTooOld(
                f"the database has schema {version}, this program needs {newest}: stop all "
                "processes of the older version, then run `headwater migrate` (`serve` and "
                "`worker` upgrade it too)"
            )
        return await self.database.write(lambda session: _prepare(session, folder, now))

    async def refuse_newer_schema(self) -> None:
        """Raise SchemaTooNew if another process has upgraded the schema since the start (K7)."""
        sql, newest = "SELECT max(version) FROM schema_version", self._newest_version
        rows = await self.database.read_inline(lambda session: session.fetch(sql))
        version = rows[0][0] or 0
        if version > newest:
            message = too_new(version, newest)
            log.error(f"[Store] {message}; no more polls start, and this process stops")
            raise SchemaTooNew(message)

    async def check(self) -> None:
        """Raise if a quick check finds damage (K6), or if this database cannot be polled."""
        await self.database.refuse_shared_sessions()
        await self.database.read(self.database.quick_check)
        address = await self.database.read(incomplete_copy_of)
        if address is not None:
            raise StoreError(
                f"this database is an unfinished copy of {address}: first let `headwater migrate "
                "--from … --to …` come to its end"
            )

    async def schema(self) -> tuple[int, int]:
        """The schema version of the database, and the newest that this program knows."""

        def version(session: Session) -> int:
            self.database.refuse_replaced()
            return schema_version(session)

        return await self.database.read(version), self._newest_version

    async def record(self, outcome: Outcome) -> Outcome:
        """Store an outcome as a whole or not at all, and return it as stored (D4).

        Retries while the database is unavailable; raises DatabaseUnavailable after minutes (K5).
        """
        is_large = len(outcome.posts) > POSTS_PER_COMMIT
        write = self._record_large if is_large else self._record
        stored = await self._retried(lambda: write(outcome))
        self.database_error = None
        self.waiting.done()
        return stored

    async def record_page(self, result: PageResult) -> bool:
        """Store the result of a page visit, retried like `record`; False: it was too late (T4)."""
        stored = await self._retried(lambda: self._record_pages(result))
        self.database_error = None
        self.waiting.done()
        return stored

    async def record_search(self, result: SearchResult) -> bool:
        """Store a step of a search for a lost feed in the same way (Y5)."""
        stored = await self._retried(lambda: self._record_searches(result))
        self.database_error = None
        self.waiting.done()
        return stored

    async def add_source(
        self,
        source: Source,
        *,
        urls: Collection[str],
        most: int,
        unique: bool = False,
        outcome: Outcome | None = None,
    ) -> tuple[str | None, Outcome | None]:
        """Insert a source and the outcome of its first poll in one transaction; see `add_one`."""
        new: dict[str, Any] = {"source": source, "urls": urls, "most": most, "unique": unique}
        if outcome is None or len(outcome.posts) <= POSTS_PER_COMMIT:
            return await self.database.write(partial(add_one, **new, outcome=outcome))
        return await self.database.write_long(partial(add_one_large, **new, outcome=outcome))

    async def known(self, subject: Subject, new_by_date: NewByDate) -> Known:
        """Which entries of an answer were stored before; retries like `record` (K5)."""
        return await self._retried(lambda: self.posts.known(subject, new_by_date))

    async def page_versions(self, source: Source) -> PageVersions:
        """What was stored of a page before; retries like `record` (K5)."""
        return await self._retried(lambda: self.posts.versions(source))

    async def flush(self, seconds: float) -> None:
        """Wait until all outcomes passed to `record` are stored, also of cancelled polls (S8)."""
        batchers = (
            self._record, self._record_large, self._record_pages, self._record_searches
        )  # fmt: skip
        await asyncio.gather(*(batcher.flush(seconds) for batcher in batchers))

    def stalled_seconds(self) -> float:
        """How long the oldest result or query of the scheduler has waited for the database (K5)."""
        return max(self.waiting.oldest_seconds(), self.queries.oldest_seconds())

    async def newest_at(self) -> datetime | None:
        """When the newest poll began, else when the newest post was stored; None without both."""
        return await self.database.read(_newest_at)

    async def clean(self, batch: CleanupBatch, now: datetime, limit: int) -> int:
        """Run one batch of cleanup and return how many rows it handled; 0: nothing is left."""
        found = await self.database.read(lambda session: batch.find(session, now, limit))
        if not found:
            return 0
        return await self.database.write(lambda session: batch.remove(session, found, limit))

    async def close(self) -> None:
        """Finish running transactions, release the poll lock and close the database."""
        await self.token_uses.flush()
        await asyncio.to_thread(self.database.release)
        await self.database.close()

    async def _retried(self, work: Callable[[], Awaitable[T]]) -> T:
        deadline = self._clock.monotonic() + _RETRY_FOR_SECONDS
        attempts = 0
        waiting = self.waiting.begin()
        try:
            while True:
                try:
                    return await work()
                except DatabaseUnavailable as error:
                    self.database_error = str(error)
                    if self._clock.monotonic() >= deadline:
                        raise
                self.results_waiting += attempts == 0
                attempts += 1
                await self._clock.sleep(_RETRY_SECONDS[min(attempts, len(_RETRY_SECONDS)) - 1])
        finally:
            self.results_waiting -= attempts > 0
            self.waiting.end(waiting)

    async def _record_one_large(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome | Exception]:
        started = self._clock.monotonic()
        try:
            stored = await self.database.write_long_apart(lambda s: record_large(s, outcomes[0]))
        except WriteConflict:
            return await self._record_many(record, outcomes)  # stores the visits and holds only
        self.on_commit(1, self._clock.monotonic() - started)
        return [stored]

    async def _record_many(
        self, write: Callable[[Session, Sequence[Item]], Sequence[T]], results: Sequence[Item]
    ) -> Sequence[T | Exception]:
        """Store results in one transaction, or one by one if that fails (K5)."""
        started = self._clock.monotonic()
        try:
            stored = await self.database.write(lambda s: write(s, results))
        except Exception as error:  # noqa: BLE001 - one of them failed; find out which (K5)
            if len(results) == 1 or isinstance(error, DatabaseUnavailable):
                return [error] * len(results)
        else:
            self.on_commit(len(results), self._clock.monotonic() - started)
            return stored
        return [(await self._record_many(write, [result]))[0] for result in results]


def _prepare(session: Session, folder: Path, now: datetime) -> tuple[int, int]:
    before, after = migrate(session, folder)
    if before == 0:  # the migrations insert a default user and podcast
        for table in ("users", "podcasts"):
            session.execute(f"UPDATE {table} SET created_at = :now", {"now": to_ms(now)})
    return before, after


def _newest_at(session: Session) -> datetime | None:
    # by id, which grows with time and has an index; polls may all have been cleaned up
    rows = session.fetch(
        """SELECT coalesce(
            (SELECT started_at FROM polls ORDER BY id DESC LIMIT 1),
            (SELECT created_at FROM posts ORDER BY id DESC LIMIT 1))"""
    )
    return None if rows[0][0] is None else from_ms(rows[0][0])


def open_database(url: str, program: str = "headwater") -> Database:
    """The database at a `sqlite:///` or `postgresql://` URL, as this program."""
    log_unreadable_rows_again()
    if url.startswith("sqlite:///"):
        return SqliteDatabase(Path(url.removeprefix("sqlite:///")))
    if url.startswith(("postgresql://", "postgres://")):
        # imported here: the driver is loaded only if it is used
        from headwater.store.postgres import PostgresDatabase

        return PostgresDatabase(url, program)
    raise ConfigError(f"app.database-url: {url!r} is neither sqlite:///… nor postgresql://…")


__all__ = ["Database", "Session", "Store", "open_database"]
