"""Sources go with all that belongs to them, and nobody waits long for the database meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headwater.errors import NotFound
from headwater.model import LateKeys, Source
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Session, Store, removals
from headwater.store.cleanup import old_posts
from headwater.store.sources import SourceFilter, Tally
from tests.store.pieces import DAY, NOW, a_post, a_success, everything, rows, stored, with_posts
from tests.store.test_due_plans import plans

TABLES = ("posts", "articles", "post_articles", "tombstones", "late_keys", "polls")
Count = dict[str, int]


@pytest.fixture
def small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removals, "ROWS_PER_BITE", 10)


async def busy(store: Store, **changes: Any) -> Source:
    """A source with dozens of rows in every table that has some of sources."""
    source = await stored(store, **changes)
    old = [a_post(source, f"old {n}", created_at=NOW - 30 * DAY) for n in range(25)]
    source = await with_posts(store, source, *old)
    await store.clean(old_posts(7), NOW, 1000)
    await with_posts(store, source, *(a_post(source, str(n)) for n in range(35)))
    make = lambda s, p: articles_from(s, p, NOW, Policy())  # noqa: E731
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
    """How much there is after each transaction; `then` is told how many there were."""
    write, seen = store.database.write, list[Count]()

    async def watched(work: Callable[[Session], Any]) -> Any:
        then(len(seen))
        done = await write(work)
        seen.append(await store.database.read(count))
        return done

    monkeypatch.setattr(store.database, "write", watched)
    return seen


@pytest.mark.usefixtures("small_bites")
async def test_no_transaction_of_a_removal_takes_more_than_a_bite(
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
    assert len(taken) > 14  # some 140 rows went
    monkeypatch.undo()
    after = await everything(store)
    hosts = before.pop("hosts"), after.pop("hosts")
    assert set(hosts[0]) <= set(hosts[1])
    assert after == before
    assert await store.sources.get(other.id) == other


async def test_long_posts_make_bites_shorter(store: Store, monkeypatch: pytest.MonkeyPatch):
    source = await stored(store)
    posts = [a_post(source, f"{n}" + "x" * 600_000) for n in range(7)]
    await with_posts(store, source, *posts)
    seen = watch_writes(store, monkeypatch)
    await store.sources.remove(source.id)
    # switched off, three bites, and then the source itself
    assert [one["posts"] for one in seen] == [7, 4, 1, 0, 0]
    assert [one["polls"] for one in seen] == [1, 1, 1, 0, 0]


@pytest.mark.usefixtures("small_bites")
async def test_a_removal_that_was_cut_off_is_gone_on_with(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    source = await busy(store)
    poll = a_success(source, [a_post(source, "brought meanwhile")])

    def die(writes: int) -> None:
        if writes == 4:
            raise SystemError("cut off")

    watch_writes(store, monkeypatch, die)
    with pytest.raises(SystemError):
        await store.sources.remove(source.id)
    monkeypatch.undo()
    monkeypatch.setattr(removals, "ROWS_PER_BITE", 10)

    assert 0 < await store.posts.count(source.id) < 35
    left = await store.sources.get(source.id)
    assert (left.enabled, left.requested_at) == (False, None)
    assert not (await store.record(poll)).recorded  # what was on its way comes too late (D4)

    await store.sources.remove(source.id)
    assert set((await store.database.read(count)).values()) == {0}
    with pytest.raises(NotFound):
        await store.sources.remove(source.id)


@pytest.mark.usefixtures("small_bites")
async def test_two_that_remove_the_same_source_at_once_both_get_there(store: Store):
    source = await busy(store)
    removing = (store.sources.remove(source.id) for _ in range(2))
    told = await asyncio.gather(*removing, return_exceptions=True)
    # one that comes when all is done has nothing left to remove
    assert [one for one in told if one is not None and not isinstance(one, NotFound)] == []
    assert None in told
    assert await rows(store, "SELECT count(*) FROM sources") == [(0,)]


@pytest.mark.parametrize("heavy", [True, False])
async def test_what_does_not_fit_stays_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch, heavy: bool
):
    if heavy:
        monkeypatch.setattr(removals, "ROWS_PER_BITE", 10)
    good, bad = await busy(store), await busy(store)
    await store.sources.edit(bad.id, lambda s: replace(s, consecutive_failures=2))
    bad = await store.sources.get(bad.id)
    wanted = SourceFilter(podcast_id="default", enabled=True, host=good.host)

    assert await store.sources.remove_many(wanted, [good.id, bad.id]) == Tally(1, 1)

    assert await store.sources.get(bad.id) == bad
    assert await store.posts.count(bad.id) == await store.posts.count() == 35
    foreign = SourceFilter(podcast_id="other")
    assert await store.sources.remove_many(foreign, [bad.id]) == Tally(0, 0)
    assert await store.sources.get(bad.id) == bad


@pytest.mark.usefixtures("small_bites")
async def test_a_bite_reads_nothing_of_other_sources(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    source = await busy(store)
    for _ in range(3):
        await busy(store)
    if kind == "postgres":  # small tables are read whole otherwise, whatever indexes there are
        sql = "SELECT set_config('enable_seqscan', 'off', FALSE)"
        await store.database.write(lambda s: s.fetch(sql))
        await asyncio.gather(*(store.database.read(lambda s: s.fetch(sql)) for _ in range(20)))
    for plan in await plans(store, lambda: store.sources.remove(source.id), monkeypatch):
        assert "Seq Scan" not in plan, plan
        assert not [x for x in plan.splitlines() if x.startswith("SCAN ") and "json" not in x], plan
