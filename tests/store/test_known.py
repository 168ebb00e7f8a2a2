"""Hashes ever stored stay known, and are deleted with their source (D1, D5, R5, R8)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headwater.errors import NotFound
from headwater.model import Article, Entry, LateKeys, Podcast, Post, SkipReason, Source, Subject
from headwater.rules.admission import (
    Known,
    NewByDate,
    admit,
    content_hash,
    hash_prefix,
    link_key,
    new_by_date,
)
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.expired_rows import old_posts
from tests.store.store_data import (
    DAY,
    NOW,
    a_post_of,
    a_success,
    everything,
    rows,
    stored,
    with_posts,
)

POLICY = Policy()


def entry_of(post: Post, **changes: Any) -> Entry:
    """The entry of a post, undated so that only its hash identifies it."""
    return replace(Entry(None, post.title, post.url, None, None, post.body), **changes)


def sifted_from(source: Source, *entries: Entry) -> NewByDate:
    return new_by_date(source, entries, NOW, POLICY)


async def known_of(store: Store, source: Source, *entries: Entry) -> Known:
    subject = await store.sources.subject(source.id)
    assert subject is not None
    return await store.posts.known(subject, sifted_from(source, *entries))


async def expire_all(store: Store) -> None:
    """Delete everything as if it had expired."""
    assert await store.clean(old_posts(7), NOW + 30 * DAY, 1000) > 0
    assert await store.posts.count() == 0


@pytest.mark.parametrize("deleted", [False, True], ids=["stored", "cleaned up"])
async def test_d1_a_hash_that_was_ever_stored_is_known(store: Store, deleted: bool):
    source, other = await stored(store), await stored(store)
    post, stranger = a_post_of(source, "seen"), a_post_of(source, "unseen")
    await with_posts(store, source, post)
    if deleted:
        await expire_all(store)
    entries = entry_of(post), entry_of(stranger)

    known = await known_of(store, source, *entries)

    assert known.hash_prefixes == {hash_prefix(post.content_hash)}
    assert known.prefixes_at_link == {(hash_prefix(post.content_hash), link_key(post.url))}
    assert await known_of(store, other, *entries) == Known()
    admission = admit(Subject(source, "default"), sifted_from(source, *entries), known, NOW, POLICY)
    assert [post.body for post in admission.posts] == ["unseen"]
    assert admission.skipped == {SkipReason.DUPLICATE: 1}


@pytest.mark.parametrize("deleted", [False, True], ids=["stored", "cleaned up"])
async def test_r5_a_duplicate_is_known_at_the_same_link_only(store: Store, deleted: bool):
    source = await stored(store)
    post = a_post_of(source, "Comments", url="https://example.org/1")
    await with_posts(store, source, post)
    if deleted:
        await expire_all(store)
    same = Entry(None, "One", post.url, None, None, "One Comments", plain_body="Comments")
    elsewhere = replace(same, url="https://example.org/2")

    known = await known_of(store, source, same, elsewhere)

    sifted = sifted_from(source, same, elsewhere)
    reasons = admit(Subject(source, "default"), sifted, known, NOW, POLICY).reasons
    assert reasons == (SkipReason.DUPLICATE, None)


async def test_d1_tombstones_are_small(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source, "a" * 100_000))
    await expire_all(store)

    ((found, link),) = await rows(store, "SELECT mark, link FROM tombstones")

    assert (len(found), len(link)) == (32, 16)
    assert content_hash("a" * 100_000).startswith(found)


@pytest.mark.parametrize("deleted", [False, True], ids=["stored", "cleaned up"])
async def test_d5_the_hashes_of_a_podcast_s_other_sources_are_known(store: Store, deleted: bool):
    await store.accounts.save_podcast(Podcast("p", "default", "P", NOW, dedupe_across_sources=True))
    source, other = await stored(store, podcast_id="p"), await stored(store, podcast_id="p")
    outsider = await stored(store)
    mine, foreign = a_post_of(other, "other"), a_post_of(outsider, "foreign")
    await with_posts(store, other, mine)
    await with_posts(store, outsider, foreign)
    if deleted:
        await expire_all(store)

    known = await known_of(store, source, entry_of(mine), entry_of(foreign))

    assert known.hash_prefixes == {hash_prefix(mine.content_hash)}
    assert (
        known.prefixes_at_link == frozenset()
    )  # links distinguish entries within a source only (R5)


async def test_r8_the_keys_of_a_source_are_known(store: Store):
    source = await stored(store, late_entry_hours=24, late_keys_kept=True)
    entry = Entry("seen", "t", None, NOW - DAY, None, "b")
    keys = sifted_from(source, entry).late_keys
    await store.record(a_success(source, late_keys=LateKeys(remember=keys)))
    source = await store.sources.get(source.id)

    known = await known_of(store, source, entry, replace(entry, id="new"))

    assert known.late_keys == set(keys)


async def test_an_empty_answer_needs_no_query(store: Store):
    source = await stored(store)

    assert await known_of(store, source) == Known()


async def test_d1_deleting_a_source_deletes_its_hashes(store: Store):
    before = await everything(store)
    source, other = await stored(store), await stored(store)
    for one in (source, other):
        one = await with_posts(store, one, a_post_of(one, "old", created_at=NOW - 8 * DAY))
        assert await store.clean(old_posts(7), NOW, 1000) == 1
        outcome = a_success(one, [a_post_of(one, "new")], late_keys=LateKeys(remember=("k",)))
        await store.record(outcome)
    await store.articles.aggregate("default", created_after=NOW - DAY, make=_singles)
    whole = await everything(store)

    await store.sources.remove(source.id)

    after = await everything(store)
    assert after["sources"] == [row for row in whole["sources"] if other.id in row]
    for table in ("posts", "articles", "tombstones", "late_keys", "polls"):
        assert 0 < len(after[table]) == len(whole[table]) / 2, table
        assert all(other.id in row for row in after[table]), table
    assert len(after["post_articles"]) == 1
    await store.sources.remove(other.id)
    assert await everything(store) == before
    with pytest.raises(NotFound):
        await store.sources.remove(other.id)


def _singles(source: Source, posts: Sequence[Post], **_context: object) -> list[Article]:
    return articles_from(source, posts, NOW, POLICY)
