"""Sources are added by URL once, whoever adds them at the same time."""

import asyncio

import pytest

from headwater.errors import NotFound, TooMuch
from headwater.model import Podcast
from headwater.store import Store, open_database
from tests.store.pieces import HOUR, NOW, StoreClock, a_source, rows, stored
from tests.store.test_due_plans import plans

MANY = 1000


async def test_urls_that_are_watched_are_told_with_their_oldest_source(store: Store):
    await store.people.save_podcast(Podcast("other", "default", "Other", NOW))
    oldest = await stored(store, url="https://a.example/", created_at=NOW - HOUR)
    await stored(store, url="https://a.example/", created_at=NOW)
    await stored(store, url="https://b.example/", podcast_id="other")

    wanted = ["https://a.example/", "https://b.example/", "https://c.example/"]
    assert await store.subscriptions.watched("default", wanted) == {oldest.url: oldest.id}


async def test_two_programs_that_add_one_list_at_once_add_it_once(store: Store, url: str):
    def the_list():
        return [a_source(url=f"https://host{n}.example/feed") for n in range(50)]

    async with Store(open_database(url), StoreClock()) as other:
        there = await asyncio.gather(
            *(s.subscriptions.add_missing("default", the_list(), most=MANY) for s in (store, other))
        )

    assert sorted(len(found) for found in there) == [0, 50]
    assert await rows(store, "SELECT count(*), count(DISTINCT url) FROM sources") == [(50, 50)]


async def test_u8_no_list_brings_a_user_beyond_the_limit(store: Store):
    await stored(store, url="https://a.example/")
    more = [a_source(), a_source(url="https://a.example/")]

    with pytest.raises(TooMuch, match="max-sources-per-user"):
        await store.subscriptions.add_missing("default", more, most=1)

    assert await rows(store, "SELECT count(*) FROM sources") == [(1,)]
    await store.subscriptions.add_missing("default", more, most=2)
    assert await rows(store, "SELECT count(*) FROM sources") == [(2,)]


async def test_u8_two_lists_at_once_do_not_bring_a_user_beyond_the_limit_together(
    store: Store, url: str
):
    await store.people.save_podcast(Podcast("other", "default", "Other", NOW))
    lists = [[a_source(podcast_id=p) for _ in range(40)] for p in ("default", "other")]
    async with Store(open_database(url), StoreClock()) as other:
        done = await asyncio.gather(
            store.subscriptions.add_missing("default", lists[0], most=60),
            other.subscriptions.add_missing("other", lists[1], most=60),
            return_exceptions=True,
        )
    assert [type(one) for one in done if one] == [TooMuch]
    assert await rows(store, "SELECT count(*) FROM sources") == [(40,)]


async def test_a_podcast_that_is_gone_meanwhile_takes_no_sources(store: Store):
    with pytest.raises(NotFound):
        await store.subscriptions.add_missing("gone", [a_source(podcast_id="gone")], most=MANY)


async def test_looking_urls_up_costs_the_same_however_many_a_podcast_watches(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    await store.sources.add_many([a_source() for _ in range(2000)])
    await store.database.write(lambda s: s.execute("ANALYZE"))
    urls = [a_source().url for _ in range(20)]
    for plan in await plans(
        store, lambda: store.subscriptions.watched("default", urls), monkeypatch
    ):
        assert "sources_url" in plan, plan
        assert "Seq Scan" not in plan, plan
        assert "sources_podcast" not in plan, plan
