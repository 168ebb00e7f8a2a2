"""Of a long backlog workers read what they can poll soon, from every host (S5)."""

import itertools
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.model import DueSource, Hold, Source
from headwater.rules.policy import Policy
from headwater.rules.shards import SHARDS, shard_of
from headwater.store import Store
from headwater.store.due_sources import is_partial
from tests.store.store_data import DAY, HOUR, NOW, a_polled_source, a_success

pytestmark = pytest.mark.postgres
SHARD, PER_LANE, PER_SHARD = 7, 3, 12


@pytest.fixture
def kind() -> str:
    """Workers share PostgreSQL only."""
    return "postgres"


@pytest.fixture(autouse=True)
def short_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.store.due_sources.PER_LANE", PER_LANE)
    monkeypatch.setattr("headwater.store.due_sources.PER_SHARD", PER_SHARD)


def hosts_of_shard(count: int) -> list[str]:
    names = (f"host{n}.example.org" for n in itertools.count())
    return list(itertools.islice((name for name in names if shard_of(name) == SHARD), count))


def backlog(host: str, count: int, days: int) -> list[Source]:
    """Sources of a host that are due for this many days, each a moment longer than the next."""
    return [
        a_polled_source(host=host, last_polled=NOW - days * DAY + timedelta(seconds=n))
        for n in range(count)
    ]


async def query(store: Store) -> list[DueSource]:
    return await store.sources.due_in([SHARD], NOW, Policy())


async def test_s5_a_host_with_a_long_backlog_does_not_displace_others(store: Store):
    large, *small = hosts_of_shard(5)
    first = backlog(large, 50, days=9)
    await store.sources.add_many([*first, *(one for h in small for one in backlog(h, 1, days=1))])

    due = await query(store)

    assert Counter(one.lane for one in due) == {large: PER_LANE, **dict.fromkeys(small, 1)}
    assert {one.id for one in due if one.lane == large} == {one.id for one in first[:PER_LANE]}
    assert is_partial(due, SHARDS)
    assert not is_partial([one for one in due if one.lane != large], SHARDS)


async def test_s5_repeated_queries_return_everything(store: Store):
    hosts = hosts_of_shard(20)
    sources = [one for n, h in enumerate(hosts) for one in backlog(h, 1 + n % 7, days=1 + n)]
    await store.sources.add_many(sources)
    seen = list[str]()
    turns = Counter[str]()

    while due := await query(store):
        assert len(due) <= PER_SHARD
        assert is_partial(due, SHARDS) or len(seen) + len(due) == len(sources)
        assert max(Counter(one.lane for one in due).values()) <= PER_LANE
        for one in due:
            turns[one.lane or ""] += 1
            seen.append(one.id)
            await store.record(a_success(await store.sources.get(one.id)))
        if len(seen) == PER_SHARD:
            assert set(turns.values()) == {1}, "the first of a host before the second of any"

    assert sorted(seen) == sorted(source.id for source in sources)


async def test_s5_sources_that_cannot_be_polled_yet_take_no_slot(store: Store):
    resting, asked, *others = hosts_of_shard(PER_SHARD + 2)
    held = [replace(one, hold=Hold(NOW + HOUR, NOW, "429")) for one in backlog(asked, 5, days=9)]
    free = backlog(asked, 1, days=1)
    sources = [*backlog(resting, PER_LANE, days=9), *held, *free]
    last = [one for host in others[1:] for one in backlog(host, 1, days=2)]
    await store.sources.add_many([*sources, *last])
    await store.hosts.keep_hold(resting, Hold(NOW + HOUR, NOW, "429"))

    due = {one.id for one in await query(store)}

    assert due >= {one.id for one in (*free, *last)}
    assert not due & {one.id for one in held}


async def test_s5_hosts_without_pollable_sources_take_no_slot(store: Store):
    *resting, free = hosts_of_shard(PER_SHARD + 1)
    hold = Hold(NOW + HOUR, NOW, "429")
    held = [replace(one, hold=hold) for host in resting for one in backlog(host, 1, days=9)]
    last = backlog(free, 1, days=1)
    await store.sources.add_many([*held, *last])
    await store.sources.request([one.id for one in held], NOW)

    assert [one.id for one in await query(store)] == [last[0].id]


async def test_s9_requested_polls_come_first(store: Store):
    hosts = hosts_of_shard(PER_SHARD + 1)
    sources = [one for host in hosts for one in backlog(host, 5, days=1)]
    await store.sources.add_many(sources)
    wanted = sources[-1]
    await store.sources.request([wanted.id], NOW)

    assert wanted.id in {one.id for one in await query(store)}
