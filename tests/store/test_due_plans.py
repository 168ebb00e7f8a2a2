"""Queries of every tick take time proportional to their result (S5)."""

from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from headwater.model import EPOCH
from headwater.rules.policy import Policy
from headwater.store import Session, Store
from headwater.store.sqlite import SqliteDatabase
from tests.store.store_data import NOW, a_polled_source

POLICY = Policy()
SOURCES = ("sources", "s")
_IS_WATCHED = ContextVar(
    "_IS_WATCHED", default=False
)  # background work of the service is not measured


class RecordingSession:
    """A session that records every statement."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.seen: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def fetch(self, sql: str, params: Any = None) -> Any:
        self.seen.append((sql, params or {}))
        return self._session.fetch(sql, params or {})

    def fetch_unprepared(self, sql: str, params: Any) -> Any:
        return self.fetch(sql, params)

    def execute(self, sql: str, params: Any = None) -> int:
        self.seen.append((sql, params or {}))
        return self._session.execute(sql, params or {})


async def plans(store: Store, work: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of every statement that a store operation runs."""
    database = store.database
    watched: list[RecordingSession] = []

    def watching(session: Session) -> Session:
        watched.append(RecordingSession(session))
        return cast(Session, watched[-1])

    def watched_by(run: Any) -> Any:
        return lambda f: run((lambda s: f(watching(s))) if _IS_WATCHED.get() else f)

    read, write, single = database.read, database.write, database.read_single
    token = _IS_WATCHED.set(True)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(database, "read", watched_by(read))
            patch.setattr(database, "write", watched_by(write))
            if store.database.takes_workers:  # else it is `read`
                patch.setattr(database, "read_single", watched_by(single))
            await work()
    finally:
        _IS_WATCHED.reset(token)

    def explained(session: Session) -> list[str]:
        explain = "EXPLAIN QUERY PLAN " if session.kind == "sqlite" else "EXPLAIN "
        return [
            "\n".join(str(row[-1]) for row in session.fetch(explain + sql, params))
            for one in watched
            for sql, params in one.seen
        ]

    found = await write(explained)  # a SQLite reader may use older statistics
    assert found
    return found


async def many_sources(store: Store) -> None:
    """Fill the table with sources in every state, few of them due."""
    states: list[dict[str, Any]] = [
        {},
        {"consecutive_failures": 4},
        {"consecutive_failures": 4, "max_backoff_hours": 2},
        {"enabled": False},
        {"enabled": False, "disabled_at": NOW},
    ]
    quiet = [
        a_polled_source(last_polled=NOW - timedelta(milliseconds=n), **states[n % len(states)])
        for n in range(8000)
    ]
    await store.sources.add_many([*quiet, a_polled_source(), a_polled_source(last_polled=None)])


async def both_plans(store: Store, work: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans without statistics, as on SQLite by default, and with statistics."""
    await many_sources(store)
    found: list[str] = []
    if isinstance(store.database, SqliteDatabase):
        found = await plans(store, work, monkeypatch)
    await store.database.write(lambda s: s.execute("ANALYZE"))
    return found + await plans(store, work, monkeypatch)


async def test_s5_no_branch_of_due_reads_the_whole_table(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    async def query() -> None:
        assert len(await store.sources.due(NOW, POLICY)) == 1

    for plan in await both_plans(store, query, monkeypatch):
        for index in (
            "sources_backoff_due",
            "sources_cap_due",
            "sources_last_polled",
            "sources_requested",
            "sources_probation_due",
        ):
            assert uses(plan, index), plan
        assert full_scans(plan, kind) == [], plan


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.parametrize("since", [None, EPOCH])
async def test_s5_workers_read_the_due_sources_of_their_shards(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch, since: datetime | None
):
    async def query() -> None:
        await store.sources.due_in([7, 8], NOW, POLICY, requested_since=since)

    for plan in await both_plans(store, query, monkeypatch):
        assert ("sources_shard_due" if since is None else "sources_shard_requested") in plan, plan
        assert full_scans(plan, kind) == [], plan


@pytest.mark.parametrize("name", ["clamp_future_polls", "without_contact", "requested"])
async def test_s5_every_query_of_a_tick_uses_an_index(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch, name: str
):
    work = {
        "clamp_future_polls": lambda: store.sources.clamp_future_polls(NOW),
        "without_contact": lambda: store.sources.without_contact(100),
        "requested": lambda: store.sources.requested(NOW, POLICY),
    }[name]

    for plan in await both_plans(store, work, monkeypatch):
        assert "sources_" in plan, plan
        assert full_scans(plan, kind) == [], plan


def uses(plan: str, index: str) -> bool:
    """Whether a plan uses an index, or the equivalent one by shard."""
    return index in plan or index.replace("sources_", "sources_shard_") in plan


def full_scans(plan: str, kind: str) -> list[str]:
    """The lines of a plan that read all sources."""
    lines = [line.strip() for line in plan.splitlines()]
    if kind == "postgres":
        return [line for line in lines if "Seq Scan on sources" in line]
    return [line for line in lines if line.startswith("SCAN") and line.split()[1] in SOURCES]
