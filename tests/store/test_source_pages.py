"""Sources in every sort order, page by page, and the cost of that."""

from datetime import timedelta
from typing import Any

import pytest

from headwater.store import Session, Store, source_pages
from headwater.store.source_pages import INDEXED_ORDERS, Position, SourceOrder
from headwater.store.sources import SourceFilter
from tests.store.store_data import HOUR, MINUTE, NOW, a_failure, a_polled_source, a_success, stored
from tests.store.test_due_plans import plans

EVERYTHING = SourceFilter(podcast_id="default")


async def walk(
    store: Store, order: SourceOrder, wanted: SourceFilter = EVERYTHING, *, many: bool = False
) -> list[list[str]]:
    """The ids of all pages of three."""
    pages: list[list[str]] = []
    after: Position | None = None
    while True:
        page = await store.sources.page(wanted, order, limit=3, after=after, many=many)
        pages.append([source.id for source in page.sources])
        if page.next is None:
            return pages
        after = page.next


async def mixed(store: Store) -> list[str]:
    """Sources with many equal sort values; their ids as added."""
    labels = (None, "beta", "Älpha", "alpha", None, "beta", "ALPHA", "日本")
    sources = [
        a_polled_source(
            label=label,
            created_at=NOW + (n // 3) * MINUTE,
            last_polled=None if n % 4 == 0 else NOW - (n % 3) * HOUR,
            consecutive_failures=n % 3,
            url=f"https://{'ab'[n % 2]}.example.org/{n // 2}",
            host=f"{'ab'[n % 2]}.example.org",
        )
        for n, label in enumerate(labels)
    ]
    await store.sources.add_many(sources)
    return [source.id for source in sources]


@pytest.mark.parametrize("order", list(SourceOrder))
async def test_every_order_shows_every_source_once(store: Store, order: SourceOrder):
    ids = await mixed(store)
    pages = await walk(store, order)
    assert [len(page) for page in pages] == [3, 3, 2]
    assert sorted(id_ for page in pages for id_ in page) == sorted(ids)
    assert await walk(store, order, many=True) == pages


async def test_each_order_sorts_by_its_field(store: Store):
    ids = await mixed(store)

    async def order_of(order: SourceOrder) -> list[int]:
        return [ids.index(id_) for page in await walk(store, order) for id_ in page]

    assert await order_of(SourceOrder.OLDEST) == list(range(8))
    assert await order_of(SourceOrder.NEWEST) == list(reversed(range(8)))
    assert await order_of(SourceOrder.URL) == [0, 2, 4, 6, 1, 3, 5, 7]
    assert (await order_of(SourceOrder.FAILURES))[:2] == [5, 2]
    assert set((await order_of(SourceOrder.POLLED))[-2:]) == {0, 4}  # never
    names = await order_of(SourceOrder.NAME)
    assert names.index(3) < names.index(1) < names.index(0)  # alpha, beta, https://…
    assert abs(names.index(3) - names.index(6)) == 1  # alpha and ALPHA


async def test_filter_and_order_can_be_combined(store: Store):
    ids = await mixed(store)
    wanted = SourceFilter(podcast_id="default", host="b.example.org")
    for many in (False, True):
        pages = await walk(store, SourceOrder.URL, wanted, many=many)
        assert [ids.index(id_) for page in pages for id_ in page] == [1, 3, 5, 7]
    assert await store.sources.count_up_to(wanted, 100) == 4
    assert await store.sources.count_up_to(wanted, 3) == 3


async def test_a_rare_filter_result_is_listed_by_url_like_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    sources = [a_polled_source(label="rare" if n % 7 == 0 else None) for n in range(100)]
    await store.sources.add_many(sources)
    wanted = SourceFilter(podcast_id="default", text="rare")
    pages = await walk(store, SourceOrder.URL, wanted)
    assert [len(page) for page in pages] == [3, 3, 3, 3, 3]
    for steps in (1, 10, 25, 1000):
        monkeypatch.setattr(source_pages, "SCANNED_URLS", steps)
        assert await walk(store, SourceOrder.URL, wanted, many=True) == pages
        whole = await walk(store, SourceOrder.URL, many=True)
        assert whole == await walk(store, SourceOrder.URL)


class ExplainingSession:
    """A session that returns the plan of its last query, with all settings of that time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.plan = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def fetch(self, sql: str, params: Any = None) -> Any:
        explain = "EXPLAIN QUERY PLAN " if self._session.kind == "sqlite" else "EXPLAIN "
        rows = self._session.fetch(explain + sql, params or {})
        self.plan = "\n".join(str(row[-1]) for row in rows)
        return self._session.fetch(sql, params or {})


@pytest.mark.parametrize("order", INDEXED_ORDERS)
@pytest.mark.parametrize("after", [None, "middle"])
async def test_sorted_pages_of_long_lists_read_what_they_show(
    store: Store, order: SourceOrder, after: str | None
):
    sources = [a_polled_source(created_at=NOW + n * MINUTE) for n in range(12_000)]
    await store.sources.add_many(sources)
    await store.database.write(lambda s: s.execute("ANALYZE"))
    middle = sources[6000]
    key = middle.url if order is SourceOrder.URL else round(middle.created_at.timestamp() * 1000)
    place = None if after is None else (key, middle.id)

    def query(session: Session) -> str:
        explaining = ExplainingSession(session)
        asked: Any = explaining
        page = source_pages.page(asked, EVERYTHING, order, limit=50, after=place, many=True)
        assert len(page.sources) == 50
        return explaining.plan

    plan = await store.database.read(query)
    assert ("sources_url" if order is SourceOrder.URL else "sources_podcast") in plan, plan
    assert "Seq Scan" not in plan, plan
    assert "TEMP B-TREE FOR ORDER BY" not in plan, plan


async def test_a_rare_filter_result_is_sorted_and_not_searched_along_the_urls(store: Store):
    await store.sources.add_many([a_polled_source() for _ in range(12_000)])
    await store.database.write(lambda s: s.execute("ANALYZE"))
    rare = SourceFilter(podcast_id="default", text="nothing has this")

    def query(session: Session) -> str:
        explaining = ExplainingSession(session)
        asked: Any = explaining
        assert not source_pages.page(
            asked, rare, SourceOrder.URL, limit=50, after=None, many=True
        ).sources
        return explaining.plan

    plan = await store.database.read(query)
    assert "sources_url" not in plan, plan


async def test_the_sources_of_one_host_are_found_by_index(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    sources = [a_polled_source() for _ in range(3000)]
    await store.sources.add_many(sources)
    await store.database.write(lambda s: s.execute("ANALYZE"))
    wanted = SourceFilter(podcast_id="default", host=sources[7].host)

    async def query() -> None:
        page = await store.sources.page(wanted, SourceOrder.NEWEST, limit=50)
        assert [source.id for source in page.sources] == [sources[7].id]

    (plan,) = await plans(store, query, monkeypatch)
    assert "sources_host" in plan, (kind, plan)


async def test_the_last_polls_of_many_sources_are_read_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    busy, quiet, never = [await stored(store) for _ in range(3)]
    for n in range(40):
        current = await store.sources.get(busy.id)
        outcome = a_failure(current) if n % 2 else a_success(current)
        await store.record(outcome)
    await store.record(a_success(quiet, started_at=NOW - timedelta(days=1)))
    ids = [busy.id, quiet.id, never.id]
    found = await store.polls.newest_of_each(ids, limit=12)
    assert list(found[busy.id]) == list(await store.polls.newest(busy.id, limit=12))
    assert [len(found[id_]) for id_ in ids] == [12, 1, 0]

    async def query() -> None:
        await store.polls.newest_of_each(ids, limit=12)

    for _ in range(40):
        await store.record(a_success(await store.sources.get(quiet.id)))
    (plan,) = await plans(store, query, monkeypatch)  # one query
    assert "SCAN p " not in plan, plan
    assert "SCAN polls" not in plan, plan
