"""What every tick asks costs time proportional to what it finds (S5)."""

from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from headwater.rules.policy import Policy
from headwater.store import Session, Store
from headwater.store.sqlite import SqliteDatabase
from tests.store.pieces import NOW, a_source

POLICY = Policy()
SOURCES = ("sources", "s")
_IS_WATCHED = ContextVar("_IS_WATCHED", default=False)  # what a service does beside it is not


class Watching:
    """A session that notes every statement on its way."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.seen: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def fetch(self, sql: str, params: Any = None) -> Any:
        self.seen.append((sql, params or {}))
        return self._session.fetch(sql, params or {})

    def look_up(self, sql: str, params: Any) -> Any:
        return self.fetch(sql, params)

    def execute(self, sql: str, params: Any = None) -> int:
        self.seen.append((sql, params or {}))
        return self._session.execute(sql, params or {})


async def plans(store: Store, work: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of every statement that an operation of the store runs."""
    database = store.database
    watched: list[Watching] = []

    def watching(session: Session) -> Session:
        watched.append(Watching(session))
        return watched[-1]

    def watched_by(run: Any) -> Any:
        return lambda f: run((lambda s: f(watching(s))) if _IS_WATCHED.get() else f)

    read, write = database.read, database.write
    token = _IS_WATCHED.set(True)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(database, "read", watched_by(read))
            patch.setattr(database, "write", watched_by(write))
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

    found = await write(explained)  # a reader of SQLite may go by older statistics
    assert found
    return found


async def many_sources(store: Store) -> None:
    """Fill the table with sources in every state, few of them due."""
    states: list[dict[str, Any]] = [
        {},
        {"consecutive_failures": 4},
        {"consecutive_failures": 4, "max_backoff_hours": 2},
        {"enabled": False},
    ]
    quiet = [
        a_source(last_polled=NOW - timedelta(milliseconds=n), **states[n % len(states)])
        for n in range(8000)
    ]
    await store.sources.add_many([*quiet, a_source(), a_source(last_polled=None)])


async def both_plans(store: Store, work: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans as they are at first on SQLite, which nobody analyses, and with statistics."""
    await many_sources(store)
    found: list[str] = []
    if isinstance(store.database, SqliteDatabase):
        found = await plans(store, work, monkeypatch)
    await store.database.write(lambda s: s.execute("ANALYZE"))
    return found + await plans(store, work, monkeypatch)


async def test_s5_no_branch_of_due_reads_the_whole_table(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    async def look() -> None:
        assert len(await store.sources.due(NOW, POLICY)) == 1

    for plan in await both_plans(store, look, monkeypatch):
        for index in (
            "sources_backoff_due",
            "sources_cap_due",
            "sources_last_polled",
            "sources_requested",
        ):
            assert uses(plan, index), plan
        assert _full_scans(plan, kind) == [], plan


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.parametrize("name", ["due_in", "due_shards"])
async def test_s5_workers_read_what_is_due_in_their_shards(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch, name: str
):
    async def look() -> None:
        if name == "due_in":
            await store.sources.due_in([7, 8], NOW, POLICY)
        else:
            await store.sources.due_shards(NOW, POLICY, requested_only=False)

    for plan in await both_plans(store, look, monkeypatch):
        assert "sources_shard_due" in plan, plan
        assert _full_scans(plan, kind) == [], plan


@pytest.mark.parametrize("name", ["bring_back", "without_contact", "requested"])
async def test_s5_what_every_tick_asks_uses_an_index(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch, name: str
):
    work = {
        "bring_back": lambda: store.sources.bring_back(NOW),
        "without_contact": lambda: store.sources.without_contact(100),
        "requested": lambda: store.sources.requested(NOW, POLICY),
    }[name]

    for plan in await both_plans(store, work, monkeypatch):
        assert "sources_" in plan, plan
        assert _full_scans(plan, kind) == [], plan


def uses(plan: str, index: str) -> bool:
    """Whether a plan uses an index, or its twin by shard, which is as good where both are empty."""
    return index in plan or index.replace("sources_", "sources_shard_") in plan


def _full_scans(plan: str, kind: str) -> list[str]:
    """The lines of a plan that read all sources."""
    lines = [line.strip() for line in plan.splitlines()]
    if kind == "postgres":
        return [line for line in lines if "Seq Scan on sources" in line]
    return [line for line in lines if line.startswith("SCAN") and line.split()[1] in SOURCES]
