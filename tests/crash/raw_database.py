"""Direct access to a database of either kind, and a database of the first schema version."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from headwater.rules.admission import content_hash, timed_id, timestamp
from headwater.store.migrate import statements
from headwater.store.postgres import PostgresDatabase
from headwater.store.sqlite import SqliteDatabase
from tests.crash.growing_feeds import GrowingFeed

Row = tuple[Any, ...]


class RawSqlite:
    """A SQLite file."""

    migrations = SqliteDatabase.migrations

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    @property
    def exist(self) -> bool:
        return self.path.exists()

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        """A connection; it commits at the end."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            yield connection
            connection.commit()

    def rows(self, sql: str, *values: object) -> list[Row]:
        """The rows of a query with question marks as placeholders."""
        with self.open() as connection:
            return connection.execute(sql, values).fetchall()

    def change(self, sql: str, *values: object) -> None:
        """Run a statement."""
        self.rows(sql, *values)

    @property
    def version(self) -> int:
        """The schema version; 0 if there is none."""
        return _version(self) if self.exist else 0

    def tables(self) -> set[str]:
        return {row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def damage(self) -> list[str]:
        """The result of the database's own integrity check."""
        with self.open() as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
        return [text for text in found if text != "ok"] + [f"orphan in {row[0]}" for row in orphans]

    def wipe(self) -> None:
        """Delete everything."""
        for file in self.path.parent.glob(f"{self.path.name}*"):
            file.unlink()


class RawPostgres:
    """A database of a server, which checks foreign keys itself."""

    migrations = PostgresDatabase.migrations
    exist = True

    def __init__(self, url: str) -> None:
        self.url = url

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        """A connection; it commits at the end."""
        with psycopg.connect(self.url) as connection:
            yield connection

    def rows(self, sql: str, *values: object) -> list[Row]:
        """The rows of a query with question marks as placeholders."""
        with self.open() as connection:
            cursor = connection.execute(sql.replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []

    def change(self, sql: str, *values: object) -> None:
        """Run a statement."""
        self.rows(sql, *values)

    @property
    def version(self) -> int:
        """The schema version; 0 if there is none."""
        return _version(self)

    def tables(self) -> set[str]:
        return {
            row[0]
            for row in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        }

    def damage(self) -> list[str]:
        """Nothing: a server checks its own pages."""
        return []

    def wipe(self) -> None:
        """Delete everything."""
        self.change("DROP SCHEMA public CASCADE")
        self.change("CREATE SCHEMA public")


RawDatabase = RawSqlite | RawPostgres


def _version(database: RawDatabase) -> int:
    if "schema_version" not in database.tables():
        return 0
    return int(database.rows("SELECT coalesce(max(version), 0) FROM schema_version")[0][0])


def fill_as_first_version(
    database: RawDatabase, feeds: Sequence[GrowingFeed], urls: Sequence[str]
) -> None:
    """Create a database of the first schema whose sources were polled once, successfully."""
    mark = "?" if isinstance(database, RawSqlite) else "%s"
    first = database.migrations / "0001_initial.sql"
    now = datetime.now(UTC)

    def insert(connection: Any, table: str, row: dict[str, object]) -> None:
        places = ", ".join([mark] * len(row))
        names = ", ".join(row)
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", [*row.values()])

    with database.open() as connection:
        connection.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
        for statement in statements(first.read_text()):
            connection.execute(statement)
        insert(connection, "schema_version", {"version": 1})
        for feed, url in zip(feeds, urls, strict=True):
            insert(connection, "sources", _source(feed, url, now))
            for entry in feed.now.entries:
                insert(connection, "posts", _post(feed, entry, now))
            insert(connection, "polls", _poll(feed, now))
            feed.claimed.add(feed.now.number)


def _source(feed: GrowingFeed, url: str, now: datetime) -> dict[str, object]:
    version, polled = feed.now, _ms(now - timedelta(minutes=5))
    return {
        "id": feed.source_id,
        "podcast_id": "default",
        "type": "rss",
        "url": url,
        "created_at": _ms(now - timedelta(hours=1)),
        "aggregate": feed.digested,
        "include_history": True,
        "last_polled": polled,
        "last_success_at": polled,
        "last_seen_id": None if version.newest is None else timestamp(version.newest),
        "first_poll_done": True,
        "etag": version.etag,
        "last_modified": version.last_modified,
        "body_hash": version.body_hash,
        "host": url.split("/")[2].partition(":")[0],
    }


def _post(feed: GrowingFeed, entry: int, now: datetime) -> dict[str, object]:
    digest, date = content_hash(feed.text(entry)), feed.date(entry)
    return {
        "id": timed_id(date or now, feed.source_id, digest),
        "source_id": feed.source_id,
        "title": f"e{entry}",
        "body": feed.text(entry),
        "url": f"http://{feed.host}/{feed.name}/e{entry}",
        "published_at": None if date is None else _ms(date),
        "content_hash": digest,
        "created_at": _ms(now),
    }


def _poll(feed: GrowingFeed, now: datetime) -> dict[str, object]:
    return {
        "source_id": feed.source_id,
        "started_at": _ms(now - timedelta(minutes=5)),
        "duration_ms": 5,
        "outcome": "stored",
        "status": 200,
        "new_posts": len(feed.now.entries),
    }


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
