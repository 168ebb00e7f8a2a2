"""Posts stored in batches are stored like single ones (D1, M6, K5)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headwater.model import Post, Source
from headwater.store import Store
from tests.store.store_data import (
    NOW,
    ODD_TEXT,
    a_post_of,
    a_success,
    newest_posts,
    stored,
    with_posts,
)

MANY = 30
ODD = (ODD_TEXT, "", "\\N", "\\.", "a\tb", "\\", "\\\\t", "\r\n", "NULL", '"', "{a,b}", "\x01", "é")


def many(source: Source, name: str = "", **changes: Any) -> list[Post]:
    return [a_post_of(source, f"{name} {n}", **changes) for n in range(MANY)]


async def kept(store: Store, source: Source) -> list[Post]:
    return list(await newest_posts(store, source_id=source.id, limit=1000))


async def test_m6_any_text_survives_a_round_trip(store: Store):
    source = await stored(store)
    odd = [a_post_of(source, f"{n} {text}", title=text, author=text) for n, text in enumerate(ODD)]
    bare = [a_post_of(source, f"bare {n}", author=None, published_at=None) for n in range(MANY)]
    await with_posts(store, source, *odd, *bare)
    assert sorted(await kept(store, source), key=str) == sorted(odd + bare, key=str)


async def test_d1_existing_posts_are_unchanged_and_the_others_are_stored(store: Store):
    one, other = await stored(store), await stored(store)
    first = many(one, title="First")
    one = await with_posts(store, one, *first)
    again = [replace(post, id=f"{post.id}x", title="Again") for post in first[::2]]
    new, elsewhere = many(one, "new"), many(other, "elsewhere")
    polls = [a_success(one, again + new), a_success(other, elsewhere)]
    results = await asyncio.gather(*map(store.record, polls))
    assert [result.recorded for result in results] == [True, True]
    assert sorted(await kept(store, one), key=str) == sorted(first + new, key=str)
    assert sorted(await kept(store, other), key=str) == sorted(elsewhere, key=str)


@pytest.mark.parametrize("title", [None, "\ud800"], ids=["no title", "surrogate"])
async def test_k5_a_post_that_cannot_be_stored_affects_no_other_poll(store: Store, title: Any):
    sources = [await stored(store) for _ in range(3)]
    brought = [many(source) for source in sources]
    brought[1][17] = replace(brought[1][17], title=title)
    polls = [a_success(source, posts) for source, posts in zip(sources, brought, strict=True)]
    results = await asyncio.gather(*map(store.record, polls), return_exceptions=True)
    assert isinstance(results[1], Exception)
    assert [len(await kept(store, source)) for source in sources] == [MANY, 0, MANY]
    assert await store.sources.get(sources[1].id) == sources[1]


async def test_k1_earlier_statements_of_a_transaction_are_kept_if_a_post_exists(store: Store):
    source = await stored(store)
    first = many(source)
    source = await with_posts(store, source, *first)
    result = await store.record(a_success(source, [*first, a_post_of(source, "new")], size=99))
    assert result.recorded
    assert (await store.polls.newest(source.id, limit=1))[0].size == 99
    assert (await store.sources.get(source.id)).last_polled == NOW
    assert len(await kept(store, source)) == MANY + 1
