"""The cost of a page of a long source list depends on what it shows, not on its position."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from headwater.api.schemas.pagination import cursor_for
from headwater.model import Health, SourceType
from headwater.operations.source_views import views
from headwater.rules.policy import Policy
from headwater.store import Session, Store
from headwater.store.sources import Position, SourceFilter
from tests.api.conftest import DEFAULT, Served
from tests.store.store_data import NOW
from tests.store.test_due_plans import plans

pytestmark = pytest.mark.slow  # stores 100,000 sources

SOURCES = 100_000
FEWER = 20_000
LIMIT = 50
FIRST: Position | None = None
LAST: Position = (SOURCES - LIMIT, f"s{SOURCES - LIMIT}")
PODCAST = SourceFilter(podcast_id="default")
_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {0})"
_SOURCES = """
    INSERT INTO sources (id, podcast_id, type, url, created_at, host)
    SELECT 's' || i, 'default', 'rss', 'https://h' || (i % 20000) || '.example/' || i, i,
        'h' || (i % 20000) || '.example' FROM n
    UNION ALL
    SELECT 'o' || i, 'other', 'rss', 'https://example.org', i, 'example.org'
    FROM n WHERE i % 10 = 1"""
_MORE = (
    "INSERT INTO hosts (lane, resolved_at) SELECT 'h' || i || '.example', 0 FROM n",
    """INSERT INTO posts (id, source_id, podcast_id, title, body, url, content_hash, created_at)
    SELECT 'p' || i, 's' || i, 'default', 't', 'b', 'u', 'h' || i, 0 FROM n""",
    """INSERT INTO articles (id, source_id, podcast_id, title, body, url, content_hash, created_at)
    SELECT 'a' || i, 's' || i, 'default', 't', 'b', 'u', 'h' || i, 0 FROM n""",
    """INSERT INTO polls (source_id, started_at, duration_ms, outcome)
    SELECT 's' || (i % 10 + 1), i, 0, 'failed' FROM n""",
)


async def filled(store: Store, sources: int) -> Store:
    """Sources that differ only by their history, and many rows that a wrong query would read."""

    def fill(session: Session) -> None:
        session.execute(
            "INSERT INTO podcasts (id, user_id, name) VALUES ('other', 'default', 'other')"
        )
        session.execute(_NUMBERS.format(sources) + _SOURCES)
        for sql in _MORE:
            session.execute(f"{_NUMBERS.format(20_000)} {sql}")
        session.execute("ANALYZE")

    await store.database.write(fill)
    return store


async def page(store: Store, wanted: SourceFilter, after: Position | None) -> list[str]:
    """The ids of a page, queried as the API does."""
    found = await store.sources.find(wanted, limit=LIMIT, after=after)
    shown = await views(store, "default", found, NOW, Policy())
    return [view.source.id for view in shown]


async def test_the_last_page_of_a_hundred_thousand_sources_costs_what_the_first_does(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch
):
    store = await filled(served_by_each.app.store, SOURCES)
    base = f"{DEFAULT}/sources?limit={LIMIT}"
    first = (await served_by_each.get(base)).json
    last = (await served_by_each.get(f"{base}&cursor={cursor_for(LAST)}")).json
    assert [one["id"] for one in first["items"]] == [f"s{n}" for n in range(1, 51)]
    assert [one["id"] for one in last["items"]] == [f"s{n}" for n in range(99_951, 100_001)]
    assert last["nextCursor"] is None

    await page(store, PODCAST, FIRST)  # one-time work is done
    at_first = await cost(store, lambda: page(store, PODCAST, FIRST), monkeypatch)
    in_the_middle = await cost(store, lambda: page(store, PODCAST, (50_000, "")), monkeypatch)
    at_last = await cost(store, lambda: page(store, PODCAST, LAST), monkeypatch)
    assert in_the_middle < 1.5 * at_first
    assert at_last < 1.5 * at_first

    for after in (FIRST, LAST):
        await _check_plans(store, PODCAST, after, monkeypatch)


async def test_a_filter_that_most_sources_match_costs_the_same_on_every_page(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch
):
    store = await filled(served_by_each.app.store, FEWER)
    for wanted in (
        SourceFilter(podcast_id="default", enabled=True),
        SourceFilter(podcast_id="default", health=Health.NEW),
        SourceFilter(podcast_id="default", enabled=True, type=SourceType.RSS),
    ):
        for after in (FIRST, (FEWER - LIMIT, "")):
            await _check_plans(store, wanted, after, monkeypatch)


async def test_showing_a_source_does_not_read_its_whole_history(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch
):
    store = await filled(served_by_each.app.store, FEWER)
    found = await store.sources.find(PODCAST, limit=1, after=FIRST)
    (view,) = await views(store, "default", found, NOW, Policy())
    assert view.polled_at is not None
    assert view.polled_at.timestamp() * 1000 == 20_000  # its newest poll
    await store.database.write(lambda s: s.execute("ANALYZE"))  # again, with everything committed

    async def query() -> None:
        await page(store, PODCAST, FIRST)
        await store.polls.newest("s2", limit=3)
        await store.polls.newest_of_each(["s2", "s3"], limit=3)

    for plan in await plans(store, query, monkeypatch):
        assert "polls_pkey" not in plan, plan  # polls of all users
    with_history = await cost(store, lambda: page(store, PODCAST, FIRST), monkeypatch)
    without = await cost(store, lambda: page(store, PODCAST, (10, "s10")), monkeypatch)
    assert with_history < 1.5 * without


async def test_a_batch_by_ids_does_not_read_the_whole_podcast(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch
):
    store = await filled(served_by_each.app.store, FEWER)
    few = [f"s{n}" for n in range(11, 16)]
    wanted = SourceFilter(podcast_id="default", enabled=True)

    async def query() -> None:
        assert await store.sources.first_unknown("default", few) is None
        assert (await store.sources.request_many(wanted, few, NOW)).changed == 5
        await store.sources.weights(few)
        assert (await store.sources.remove_many(wanted, few)).changed == 5

    for plan in await plans(store, query, monkeypatch):
        assert _whole_reads(plan) == [], plan
        assert "sources_podcast" not in plan, plan


async def cost(
    store: Store, work: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> int:
    """The cost of an operation in the database: SQLite steps or PostgreSQL blocks read."""
    spent: list[int] = []  # per read, since several may run at once
    read = store.database.read

    def counted(session: Session, ask: Callable[[Session], Any]) -> Any:
        spent.append((_steps if session.kind == "sqlite" else _blocks)(session, ask))
        return ask(session)

    with monkeypatch.context() as patch:
        patch.setattr(store.database, "read", lambda f: read(lambda s: counted(s, f)))
        await work()
    assert sum(spent) > 0
    return sum(spent)


def _steps(session: Session, ask: Callable[[Session], Any]) -> int:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection = session.connection
    connection.set_progress_handler(step, 1)
    try:
        ask(session)
    finally:
        connection.set_progress_handler(None, 1)
    return steps


class _Explaining:
    """A session that runs its queries and counts the blocks that they read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.blocks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def fetch(self, sql: str, params: Any = None) -> Any:
        rows = self._session.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params or {})
        lines = [row[0] for row in rows]
        top = next(line for line in lines if line.strip().startswith("Buffers:"))
        self.blocks += sum(int(n) for n in re.findall(r"(?:hit|read)=(\d+)", top))
        return self._session.fetch(sql, params or {})


def _blocks(session: Session, ask: Callable[[Session], Any]) -> int:
    explaining = _Explaining(session)
    ask(cast(Session, explaining))
    return explaining.blocks


async def _check_plans(
    store: Store, wanted: SourceFilter, after: Position | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await plans(store, lambda: page(store, wanted, after), monkeypatch)
    assert "sources_podcast" in found[0], found[0]
    for plan in found:
        assert _whole_reads(plan) == [], plan
    assert not re.search(r"TEMP B-TREE FOR ORDER BY|\bSort\b", found[0]), found[0]


def _whole_reads(plan: str) -> list[str]:
    """The lines of a plan that scan a whole table."""
    tables = r"(s|sources|hosts|posts|articles|polls)"
    whole = re.compile(rf"^SCAN {tables}\b|Seq Scan on {tables}\b")
    return [line.strip() for line in plan.splitlines() if whole.search(line.strip())]
