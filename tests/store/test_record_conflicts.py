"""Outcomes of sources edited during the poll, and duplicates within a podcast (D4, D5)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headwater.model import (
    OutcomeKind,
    Podcast,
    SkipReason,
    SourceType,
)
from headwater.rules.outage_detection import with_failures_rolled_back
from headwater.store import POSTS_PER_COMMIT, Store
from tests.rules.poll_outcomes import CLEAR, FAILING
from tests.store.store_data import (
    NOW,
    a_failure,
    a_post_of,
    a_rich_success,
    a_success,
    bodies,
    everything,
    rows,
    stored,
    with_posts,
)


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "https://elsewhere.example.org/rss"},
        {"type": SourceType.WEBSITE},
        {"enabled": False},
        {"generation": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_d4_a_result_is_discarded_when_the_source_was_edited(
    store: Store, changes: dict[str, Any]
):
    source = await stored(store)
    edited = await store.sources.edit(source.id, lambda current: replace(current, **changes))
    before = await everything(store)

    result = await store.record(a_rich_success(source))

    assert not result.recorded
    assert result.posts == ()
    # the hold of the host applies nevertheless (P3, P9)
    assert (await everything(store)) | {"hosts": []} == before
    assert len(await store.hosts.all()) > 0
    assert await store.sources.get(source.id) == edited


async def test_d4_a_result_is_discarded_when_the_source_is_deleted(store: Store):
    source, other = await stored(store), await stored(store)
    await store.sources.remove(source.id)

    gone, kept = await asyncio.gather(
        store.record(a_rich_success(source)), store.record(a_success(other, [a_post_of(other)]))
    )

    assert not gone.recorded
    assert kept.recorded
    assert await store.posts.count() == 1
    assert len(await store.hosts.all()) > 0


async def test_d4_of_two_results_for_one_source_the_second_is_discarded(store: Store):
    source = await stored(store)
    first, second = (
        a_success(source, [a_post_of(source, "1")]),
        a_success(source, [a_post_of(source)]),
    )

    results = await asyncio.gather(store.record(first), store.record(second))
    late = await store.record(second)

    assert [result.recorded for result in (*results, late)] == [True, False, False]
    assert await bodies(store, source) == ["1"]
    assert (await store.sources.get(source.id)).generation == 1


async def test_d4_edited_settings_neither_discard_a_result_nor_are_overwritten(store: Store):
    source = await stored(store)
    settings: dict[str, Any] = {
        "label": "New label",
        "poll_interval_minutes": 5,
        "poll_delay_seconds": 0,
        "max_failures": 9,
        "max_backoff_hours": 3,
        "late_entry_hours": 4,
        "aggregate": False,
    }
    await store.sources.edit(source.id, lambda current: replace(current, **settings))

    result = await store.record(a_success(source, [a_post_of(source)]))

    assert result.recorded
    after = await store.sources.get(source.id)
    assert {name: getattr(after, name) for name in settings} == settings
    assert after.last_polled == NOW


@pytest.mark.parametrize("large", [False, True])
async def test_d4_o2_a_success_is_stored_if_failures_were_taken_back_meanwhile(
    store: Store, *, large: bool
):
    polled = await stored(store, **FAILING | {"permanent_failures": 0, "permanent_kind": None})
    before = replace(polled, consecutive_failures=1, permanent_failures=1, permanent_kind="DNS")
    await store.sources.edit(polled.id, lambda now: with_failures_rolled_back(now, before))

    count = POSTS_PER_COMMIT + 1 if large else 1
    outcome = a_success(polled, [a_post_of(polled, str(number)) for number in range(count)])
    result = await store.record(replace(outcome, source=replace(outcome.source, **CLEAR)))

    assert result.recorded
    assert len(result.posts) == count
    after = await store.sources.get(polled.id)
    assert {name: getattr(after, name) for name in CLEAR} == CLEAR


async def test_d4_o2_a_failure_is_discarded_if_failures_were_taken_back_meanwhile(store: Store):
    polled = await stored(store, **FAILING)
    before = replace(polled, **CLEAR)
    restored = await store.sources.edit(
        polled.id, lambda now: with_failures_rolled_back(now, before)
    )

    assert not (await store.record(a_failure(polled))).recorded
    assert await store.sources.get(polled.id) == restored
    assert (await store.record(a_failure(restored))).recorded


async def a_deduping_podcast(store: Store) -> Podcast:
    podcast = Podcast("p", "default", "Deduping", NOW, dedupe_across_sources=True)
    await store.accounts.save_podcast(podcast)
    return podcast


async def test_d5_within_one_batch_the_podcast_stores_a_hash_once(store: Store):
    podcast = await a_deduping_podcast(store)
    sources = [await stored(store, podcast_id=podcast.id) for _ in range(3)]
    outsider = await stored(store)
    outcomes = [
        a_success(source, [a_post_of(source, "same"), a_post_of(source, source.id)])
        for source in (*sources, outsider)
    ]
    outcomes = [replace(outcome, dedupe_in_podcast=True) for outcome in outcomes]

    results = await asyncio.gather(*map(store.record, outcomes))

    assert [len(result.posts) for result in results] == [2, 1, 1, 2]
    assert await rows(store, "SELECT count(*) FROM posts WHERE body = 'same'") == [(2,)]


async def test_d5_a_post_stored_after_the_lookup_counts_as_a_duplicate(store: Store):
    podcast = await a_deduping_podcast(store)
    first, second = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    await with_posts(store, first, a_post_of(first, "same"))
    outcome = a_success(second, [a_post_of(second, "same")], dedupe_in_podcast=True)

    result = await store.record(replace(outcome, skipped={SkipReason.DUPLICATE: 1}))

    assert result.recorded
    assert result.posts == ()
    assert result.kind is OutcomeKind.UNCHANGED
    assert result.skipped == {SkipReason.DUPLICATE: 2}
    (poll,) = await store.polls.newest(second.id, limit=1)
    assert (poll.outcome, poll.new_posts) == (OutcomeKind.UNCHANGED, 0)
    assert poll.skipped == result.skipped


async def test_d5_without_deduplication_every_source_stores_its_post(store: Store):
    first, second = await stored(store), await stored(store)

    await asyncio.gather(*(store.record(a_success(s, [a_post_of(s)])) for s in (first, second)))

    assert await store.posts.count() == 2
