"""Sources are deleted with all their rows, in transactions that are short for others."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from headwater.errors import NotFound
from headwater.model import LateKeys, Source
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Session, Store, source_batches
from headwater.store.expired_rows import old_posts
from headwater.store.sources import BatchCounts, SourceFilter
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
from tests.store.test_due_plans import plans

TABLES = ("posts", "articles", "post_articles", "tombstones", "late_keys", "polls", "poll_days")
Count = dict[str, int]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_batches, "ROWS_PER_BATCH", 10)


async def busy(store: Store, **changes: Any) -> Source:
    """A source with dozens of rows in every table of source rows."""
    source = await stored(store, **changes)
    old = [a_post_of(source, f"old {n}", created_at=NOW - 30 * DAY) for n in range(25)]
    source = await with_posts(store, source, *old)
    await store.clean(old_posts(7), NOW, 1000)
    await with_posts(store, source, *(a_post_of(source, str(n)) for n in range(35)))
    make = partial(articles_from, now=NOW, policy=Policy())
    await store.articles.aggregate("default", created_after=NOW - DAY, make=make)
    for n in range(15):
        current = await store.sources.get(source.id)
        keys = LateKeys(tuple(f"{n} {k}" for k in range(2)))
        assert (await store.record(a_success(current, late_keys=keys))).recorded
    return await store.sources.get(source.id)


def count(session: Session) -> Count:
    return {t: session.fetch(f"SELECT count(*) FROM {t}")[0][0] for t in TABLES}


def watch_writes(
    store: Store, monkeypatch: pytest.MonkeyPatch, then: Callable[[int], None] = lambda _: None
) -> list[Count]:
    """The row count after each transaction; `then` is called with the number of transactions."""
    write, seen = store.database.write, list[Count]()

    async def watched(work: Callable[[Session], Any]) -> Any:
        then(len(seen))
        done = await write(work)
        seen.append(await store.database.read(count))
        return done

    monkeypatch.setattr(store.database, "write", watched)
    return seen


@pytest.mark.usefixtures("small_batches")
async def test_no_transaction_of_a_removal_exceeds_a_batch(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    other = await busy(store)
    before = await everything(store)
    source = await busy(store)
    start = await store.database.read(count)
    seen = watch_writes(store, monkeypatch)

    await store.sources.remove(source.id)

    steps = zip([start, *seen], seen, strict=False)
    taken = [{t: a[t] - b[t] for t in TABLES if t != "post_articles"} for a, b in steps]
    assert max(sum(one.values()) for one in taken) == 10
    assert len(taken) > 14  # some 140 rows were deleted
    monkeypatch.undo()
    after = await everything(store)
    hosts = before.pop("hosts"), after.pop("hosts")
    assert set(hosts[0]) <= set(hosts[1])
    assert after == before
    assert await store.sources.get(other.id) == other


async def test_long_posts_make_batches_shorter(store: Store, monkeypatch: pytest.MonkeyPatch):
    source = await stored(store)
    posts = [a_post_of(source, f"{n}" + "x" * 600_000) for n in range(7)]
    await with_posts(store, source, *posts)
    seen = watch_writes(store, monkeypatch)
    await store.sources.remove(source.id)
    # disabling, three batches, and the source itself
    assert [one["posts"] for one in seen] == [7, 4, 1, 0, 0]
    assert [one["polls"] for one in seen] == [1, 1, 1, 0, 0]


@pytest.mark.usefixtures("small_batches")
async def test_an_interrupted_deletion_can_be_continued(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    source = await busy(store)
    poll = a_success(source, [a_post_of(source, "fetched in the meantime")])

    def fail(writes: int) -> None:
        if writes == 4:
            raise SystemError("cut off")

    watch_writes(store, monkeypatch, fail)
    with pytest.raises(SystemError):
        await store.sources.remove(source.id)
    monkeypatch.undo()
    monkeypatch.setattr(source_batches, "ROWS_PER_BATCH", 10)

    assert 0 < await store.posts.count(source.id) < 35
    left = await store.sources.get(source.id)
    assert (left.enabled, left.requested_at) == (False, None)
    assert not (
        await store.record(poll)
    ).recorded  # results still on their way arrive too late (D4)

    await store.sources.remove(source.id)
    assert set((await store.database.read(count)).values()) == {0}
    with pytest.raises(NotFound):
        await store.sources.remove(source.id)


@pytest.mark.usefixtures("small_batches")
async def test_two_concurrent_deletions_of_a_source_both_succeed(store: Store):
    source = await busy(store)
    removing = (store.sources.remove(source.id) for _ in range(2))
    reported = await asyncio.gather(*removing, return_exceptions=True)
    # a later one has nothing left to delete
    assert [one for one in reported if one is not None and not isinstance(one, NotFound)] == []
    assert None in reported
    assert await rows(store, "SELECT count(*) FROM sources") == [(0,)]


@pytest.mark.parametrize("heavy", [True, False])
async def test_sources_that_do_not_match_stay_unchanged(
    store: Store, monkeypatch: pytest.MonkeyPatch, heavy: bool
):
    if heavy:
        monkeypatch.setattr(source_batches, "ROWS_PER_BATCH", 10)
    good, bad = await busy(store), await busy(store)
    await store.sources.edit(bad.id, lambda s: replace(s, consecutive_failures=2))
    bad = await store.sources.get(bad.id)
    wanted = SourceFilter(podcast_id="default", enabled=True, host=good.host)

    assert await store.sources.remove_many(wanted, [good.id, bad.id]) == BatchCounts(1, 1)

    assert await store.sources.get(bad.id) == bad
    assert await store.posts.count(bad.id) == await store.posts.count() == 35
    foreign = SourceFilter(podcast_id="other")
    assert await store.sources.remove_many(foreign, [bad.id]) == BatchCounts(0, 0)
    assert await store.sources.get(bad.id) == bad


@pytest.mark.usefixtures("small_batches")
async def test_a_batch_reads_nothing_of_other_sources(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    source = await busy(store)
    for _ in range(3):
        await busy(store)
    if kind == "postgres":  # otherwise small tables are scanned, whatever indexes there are
        sql = "SELECT set_config('enable_seqscan', 'off', FALSE)"
        await store.database.write(lambda s: s.fetch(sql))
        await asyncio.gather(*(store.database.read(lambda s: s.fetch(sql)) for _ in range(20)))
    for plan in await plans(store, lambda: store.sources.remove(source.id), monkeypatch):
        assert "Seq Scan" not in plan, plan
        assert not [x for x in plan.splitlines() if x.startswith("SCAN ") and "json" not in x], plan
