"""The time limit of searches on SQLite (B3): it also ends work within FTS5, and nothing later."""

import threading
from pathlib import Path
from typing import Any

import pytest

from headwater.engine.followers import Followers, all_followers
from headwater.errors import SearchTooSlow
from headwater.query.parser import parse_query
from headwater.store import Store
from headwater.store.content_filter import SHOWN
from headwater.store.search import SearchRequest
from headwater.store.sqlite import SqliteDatabase, SqliteSession
from tests.store.store_data import NOW, StoreClock
from tests.store.test_search import store_posts

ENDLESS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT count(*) FROM n"""
PATIENCE_SECONDS = 45  # only a test that fails waits for so long


class WatchedConnection:
    """A connection whose searches go on only once they were interrupted."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.is_searching = threading.Event()
        self.was_interrupted = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def interrupt(self) -> None:
        if self.is_searching.is_set():
            self.connection.interrupt()
            self.was_interrupted.set()

    def on_start(self, sql: str) -> None:
        """SQLite calls this within the statement, before its first step."""
        if "search_index f" in sql:
            self.is_searching.set()
            self.was_interrupted.wait(PATIENCE_SECONDS)


class WatchedDatabase(SqliteDatabase):
    """A database of such connections."""

    is_watching = False

    def connect(self, *, busy_seconds: float | None = None) -> SqliteSession:
        session = super().connect(busy_seconds=busy_seconds)
        session.connection = watched = WatchedConnection(session.connection)
        session.connection.set_trace_callback(
            lambda sql: watched.on_start(sql) if self.is_watching else None
        )
        return session


async def test_b3_a_search_within_fts5_is_cancelled(
    sqlite_template: Path, tmp_path: Path, clock: StoreClock
):
    path = tmp_path / "headwater.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = WatchedDatabase(path)
    async with Store(database, clock) as store:
        fields = [{"source": 0, "title": f"river {n}", "body": "water"} for n in range(30)]
        await store_posts(store, fields)
        await Followers(store, clock, all_followers()).catch_up()
        request = SearchRequest("default", parse_query("rive* water"), SHOWN, NOW, limit=50)
        store.search.seconds, database.is_watching = 0, True
        with pytest.raises(SearchTooSlow, match="takes too long"):
            await store.search.posts(request)
        store.search.seconds, database.is_watching = 600, False
        for _ in range(8):  # on all connections
            assert len((await store.search.posts(request)).items) == 30


def test_b3_the_time_may_end_between_two_statements(tmp_path: Path):
    session = SqliteSession(tmp_path / "headwater.db")
    with pytest.raises(SearchTooSlow), session.time_limit(0) as is_over:
        while not is_over():
            pass
        session.fetch(ENDLESS)
    session.close()


def test_b3_a_time_limit_interrupts_nothing_later(tmp_path: Path):
    session = SqliteSession(tmp_path / "headwater.db")
    for _ in range(20):
        with session.time_limit(0):
            pass
        assert "headwater-time-limit" not in [each.name for each in threading.enumerate()]
        assert session.fetch(f"{ENDLESS.replace('FROM n)', 'FROM n LIMIT 1000)')}") == [(1000,)]
    session.close()
