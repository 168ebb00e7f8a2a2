"""Adding sources by URL: imports add each once, duplicates are found, first polls are stored."""

import asyncio
from dataclasses import replace

import pytest

from headwater.errors import DuplicateUrl, NotFound, TooMuch
from headwater.model import Podcast
from headwater.store import Store, open_database
from tests.store.store_data import (
    HOUR,
    NOW,
    StoreClock,
    a_polled_source,
    a_post_of,
    a_success,
    rows,
    stored,
)
from tests.store.test_due_plans import plans

MANY = 1000


async def test_existing_urls_are_reported_with_their_oldest_source(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    oldest = await stored(store, url="https://a.example/", created_at=NOW - HOUR)
    await stored(store, url="https://a.example/", created_at=NOW)
    await stored(store, url="https://b.example/", podcast_id="other")

    wanted = ["https://a.example/", "https://b.example/", "https://c.example/"]
    assert await store.sources.watched_urls("default", wanted) == {oldest.url: oldest.id}


async def test_two_concurrent_imports_of_one_list_add_it_once(store: Store, url: str):
    def the_list():
        return [a_polled_source(url=f"https://host{n}.example/feed") for n in range(50)]

    async with Store(open_database(url), StoreClock()) as other:
        there = await asyncio.gather(
            *(s.sources.add_missing("default", the_list(), most=MANY) for s in (store, other))
        )

    assert sorted(len(found) for found in there) == [0, 50]
    assert await rows(store, "SELECT count(*), count(DISTINCT url) FROM sources") == [(50, 50)]


async def test_j2_a_source_is_stored_with_its_first_poll_or_not_at_all(store: Store):
    source = a_polled_source(last_polled=None)
    good = a_success(source, [a_post_of(source)])
    bad = a_success(source, [replace(a_post_of(source), url=None)])  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"(?i)null"):
        await store.add_source(source, urls=[source.url], most=MANY, outcome=bad)
    assert await rows(store, "SELECT count(*) FROM sources") == [(0,)]
    there, outcome = await store.add_source(source, urls=[source.url], most=MANY, outcome=good)
    assert there is None
    assert outcome is not None
    assert (await store.sources.get(source.id)).first_poll_done
    assert await store.posts.count(source.id) == 1


async def test_j3_another_spelling_of_a_url_is_found(store: Store):
    there = await stored(store, url="https://a.example/feed")
    source = a_polled_source(url="https://A.example:443/feed")
    urls = [source.url, there.url]
    with pytest.raises(DuplicateUrl) as raised:
        await store.add_source(source, urls=urls, most=MANY, unique=True)
    assert raised.value.source_id == there.id
    assert await store.add_source(source, urls=urls, most=MANY) == (there.id, None)


async def test_u8_no_list_exceeds_the_limit_of_a_user(store: Store):
    await stored(store, url="https://a.example/")
    more = [a_polled_source(), a_polled_source(url="https://a.example/")]

    with pytest.raises(TooMuch, match="max-sources-per-user"):
        await store.sources.add_missing("default", more, most=1)

    assert await rows(store, "SELECT count(*) FROM sources") == [(1,)]
    await store.sources.add_missing("default", more, most=2)
    assert await rows(store, "SELECT count(*) FROM sources") == [(2,)]


async def test_u8_two_concurrent_lists_do_not_exceed_the_limit_of_a_user(store: Store, url: str):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    lists = [[a_polled_source(podcast_id=p) for _ in range(40)] for p in ("default", "other")]
    async with Store(open_database(url), StoreClock()) as other:
        done = await asyncio.gather(
            store.sources.add_missing("default", lists[0], most=60),
            other.sources.add_missing("other", lists[1], most=60),
            return_exceptions=True,
        )
    assert [type(one) for one in done if one] == [TooMuch]
    assert await rows(store, "SELECT count(*) FROM sources") == [(40,)]


async def test_a_podcast_deleted_at_the_same_time_gets_no_sources(store: Store):
    with pytest.raises(NotFound):
        await store.sources.add_missing("gone", [a_polled_source(podcast_id="gone")], most=MANY)


async def test_the_cost_of_url_lookups_does_not_depend_on_the_size_of_the_podcast(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    await store.sources.add_many([a_polled_source() for _ in range(2000)])
    await store.database.write(lambda s: s.execute("ANALYZE"))
    urls = [a_polled_source().url for _ in range(20)]
    for plan in await plans(
        store, lambda: store.sources.watched_urls("default", urls), monkeypatch
    ):
        assert "sources_url" in plan, plan
        assert "Seq Scan" not in plan, plan
        assert "sources_podcast" not in plan, plan
