"""Shards, leases and claims on hosts, as PostgreSQL keeps them (K8, P3)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DatabaseUnavailable, Overtaken
from headwater.model import Fence, Hold, HostState, SourceType, Visit
from headwater.rules.politeness import lane_of
from headwater.rules.shards import SHARDS, shard_of
from headwater.store import Session, Store, open_database
from headwater.store.claims import HostClaims
from headwater.store.facts import POLLER_FACT
from headwater.store.notices import Notices
from headwater.store.postgres import PostgresDatabase, PostgresSession
from headwater.store.shards import Buried, Shards
from tests.store.pieces import NOW, StoreClock, a_post, a_success, rows, stored

pytestmark = pytest.mark.postgres
LEASE = 30.0


@pytest.fixture
async def shared(new_postgres: Callable[[], str], clock: StoreClock) -> AsyncIterator[Store]:
    """A store that several workers share."""
    async with Store(open_database(new_postgres()), clock) as store:
        yield store


@given(st.text())
def test_every_lane_has_a_shard_and_always_the_same(lane: str):
    assert 0 <= shard_of(lane) < SHARDS
    assert shard_of(lane) == shard_of(lane)


def test_shards_stay_what_they_are():
    """Workers of different versions must agree."""
    assert [shard_of(lane) for lane in ("", "example.org", "x.com/default")] == [212, 27, 94]


async def test_the_database_knows_the_same_shards(shared: Store):
    lanes = ["", "example.org", "x.com/default", "bücher.example", *map(str, range(500))]
    sql = "SELECT headwater_shard(lane) FROM unnest(:lanes::TEXT[]) AS lane"
    found = await shared.database.read(lambda s: s.fetch(sql, {"lanes": lanes}))
    assert [row[0] for row in found] == [shard_of(lane) for lane in lanes]


async def test_a_source_is_in_the_shard_of_its_lane_wherever_it_moves(shared: Store):
    feed = await stored(shared)
    timeline = await stored(shared, type=SourceType.TWITTER, url="https://x.com/ada", host=None)
    moved = replace(feed, url="https://other.example/rss", host="other.example")
    await shared.sources.edit(feed.id, lambda _: moved)
    found = dict(await rows(shared, "SELECT id, shard FROM sources"))
    for source in (moved, timeline):
        assert found[source.id] == shard_of(lane_of(source, "default") or "")


async def test_k8_an_opening_makes_the_one_before_void(shared: Store):
    shards = Shards(shared.database)
    first = await shards.open(7, "a")
    second = await shards.open(7, "b")
    assert second.epoch == first.epoch + 1
    assert not await shards.close(first)  # too late to mean anything
    assert await shards.held_by("b") == {7: second.epoch}
    assert await shards.close(second)
    assert await shards.held_by("b") == {}


async def test_k8_openings_at_the_same_time_have_numbers_of_their_own(shared: Store):
    shards = Shards(shared.database)
    wanted = [(n % 40, worker) for n in range(50) for worker in ("a", "b")]
    opened = await asyncio.gather(*(shards.open(*one) for one in wanted))
    assert [one.shard for one in opened] == [shard for shard, _ in wanted]
    assert len(set(opened)) == len(wanted)
    closed = await asyncio.gather(*(shards.close(one) for one in opened))
    assert sum(closed) == 40, "the last opening of each shard is the one that counts"


async def test_k8_who_stands_still_in_a_transaction_keeps_nobody_waiting(shared: Store):
    """As a process that is stopped in the middle of one does."""
    database = _postgres(shared)
    database.pause_seconds = 0.1
    locked, others_went_on = threading.Event(), threading.Event()

    def stand_still(session: Session) -> None:
        session.execute("UPDATE shards SET worker = 'a' WHERE shard = 1")
        locked.set()
        others_went_on.wait(60)
        session.fetch("SELECT 1")

    standing = asyncio.create_task(database.write(stand_still))
    await asyncio.to_thread(locked.wait, 60)
    other = PostgresSession(database.url)
    try:
        other.execute("SET statement_timeout = '60s'")
        sql = "UPDATE shards SET worker = 'b' WHERE shard = 1"
        assert await asyncio.to_thread(other.execute, sql) == 1
    finally:
        others_went_on.set()
        other.close()
    with pytest.raises(DatabaseUnavailable):
        await standing
    assert await rows(shared, "SELECT worker FROM shards WHERE shard = 1") == [("b",)]


async def test_k8_the_result_of_an_opening_that_is_over_is_not_stored(shared: Store):
    shards = Shards(shared.database)
    late, timely = await stored(shared), await stored(shared)
    old, kept = await shards.open(1, "a"), await shards.open(2, "a")
    await shards.open(1, "b")
    discarded = await shared.record(a_success(late, [a_post(late)], fence=old))
    recorded = await shared.record(a_success(timely, [a_post(timely)], fence=kept))
    assert (discarded.recorded, recorded.recorded) == (False, True)
    assert await rows(shared, "SELECT source_id FROM posts") == [(timely.id,)]


async def test_k8_silent_workers_lose_their_shards_and_live_ones_do_not(shared: Store):
    shards = Shards(shared.database)
    hosts = HostClaims(_postgres(shared))
    try:
        await hosts.take("held.example", 0)
        for worker in ("dead", "alive", "me"):
            await shards.seen(_seen(worker, hosts.backend if worker == "dead" else None))
        opened = {
            worker: await shards.open(n, worker) for n, worker in enumerate(("dead", "alive"))
        }
        age = "UPDATE workers SET seen_at = seen_at - 60000 WHERE id = 'dead'"
        await shared.database.write(lambda s: s.execute(age))
        assert await shards.bury("me", LEASE) == Buried(["dead"], [0])
        assert [one.id for one in await shards.workers()] == ["alive", "me"]
        assert await shards.held_by("alive") == {1: opened["alive"].epoch}
        again = await shards.open(0, "me")
        assert again.epoch == opened["dead"].epoch + 2
        other = HostClaims(_postgres(shared))
        assert await other.take("held.example", 0) is not None, "its hosts were not freed"
        await other.close()
    finally:
        await hosts.close()


async def test_p3_an_older_visit_changes_nothing_about_a_newer_one(shared: Store):
    """Where others may have been since: a result that is stored late must not say otherwise."""
    now = await Shards(shared.database).now()
    older, newer = now - timedelta(seconds=9), now - timedelta(seconds=2)

    def visit(ended: datetime, *, is_last: bool) -> Visit:
        return Visit("a.example", ended, ended + timedelta(seconds=5), is_last=is_last)

    async def kept() -> datetime | None:
        return (await shared.hosts.get("a.example")).next_allowed_at

    await shared.hosts.keep([visit(newer, is_last=False)])
    await shared.hosts.keep([visit(older, is_last=False)])
    assert await kept() == newer + timedelta(seconds=5)
    await shared.hosts.keep([visit(older, is_last=True)])
    assert await kept() == older + timedelta(seconds=5), "who has the host knows best"
    hosts = HostClaims(_postgres(shared))
    try:
        await hosts.take("a.example", 40)
        half = await shared.hosts.get("a.example")
        assert half.next_allowed_set_at is None
        await shared.hosts.keep([visit(newer, is_last=False)])
        assert await shared.hosts.get("a.example") == half, "somebody is there"
    finally:
        await hosts.close()
    ahead = now + timedelta(hours=1)  # the clock was set back since
    await shared.hosts.keep([visit(ahead, is_last=True)])
    await shared.hosts.keep([visit(newer, is_last=False)])
    assert await kept() == newer + timedelta(seconds=5)


async def test_k8_an_overtaken_result_says_nothing_of_its_host_but_what_that_asked_for(
    shared: Store,
):
    shards, source = Shards(shared.database), await stored(shared)
    now = await shards.now()
    old = await shards.open(1, "a")
    await shards.open(1, "b")
    later = Visit("a.example", now, now + timedelta(seconds=5))
    await shared.hosts.keep([later])
    visits = (replace(later, ended_at=now - timedelta(seconds=40), next_allowed_at=now),)
    hold = Hold(now + timedelta(hours=1), now, "asked for it")
    outcome = replace(a_success(source, fence=old), visits=visits, hold=hold, hold_lane="a.example")
    assert not (await shared.record(outcome)).recorded
    found = await shared.hosts.get("a.example")
    assert (found.next_allowed_at, found.hold) == (later.next_allowed_at, hold)
    shorter = replace(hold, until=now + timedelta(minutes=1))
    await shared.record(replace(outcome, hold=shorter))
    assert (await shared.hosts.get("a.example")).hold == hold


async def test_p3_one_host_wanted_twice_at_once_is_given_back_twice(shared: Store):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        assert None not in await asyncio.gather(*(ours.take("a.example", 0) for _ in range(2)))
        await ours.give_back("a.example", None)
        assert await theirs.take("a.example", 0) is None, "the other one is still there"
        ours.check(["a.example"])
        await ours.give_back("a.example", None)
        assert await theirs.take("a.example", 0) is not None
        with pytest.raises(Overtaken):
            ours.check(["a.example"])
    finally:
        await ours.close()
        await theirs.close()


async def test_k8_a_host_that_another_took_when_the_connection_was_cut_is_theirs(shared: Store):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        await ours.take("a.example", 0)
        await _cut(shared, ours)
        assert await theirs.take("a.example", 0) is not None
        await ours.keep()
        with pytest.raises(Overtaken):
            ours.check(["a.example"])
        await ours.give_back("a.example", None)
        assert await ours.take("a.example", 0) is None, "it is not ours to give back"
        await theirs.give_back("a.example", None)
        assert await ours.take("a.example", 0) is not None
        ours.check(["a.example"])
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_after_the_death_of_who_polled_alone_every_host_is_half_visited(shared: Store):
    source = await stored(shared, url="https://b.example/feed", host="b.example")
    assert source.host == "b.example"
    shards, hosts = Shards(shared.database), HostClaims(_postgres(shared))
    try:
        await shared.facts.set(POLLER_FACT, "since eight")
        await shards.suspect_visits()
        assert await shared.facts.get(POLLER_FACT) is None
        found = await hosts.take("b.example", 40)
        assert found is not None
        assert found.next_allowed_at is not None
        assert found.next_allowed_at > await shards.now() + timedelta(seconds=10)
        await hosts.give_back("b.example", None)
        await shards.suspect_visits()
        assert (await shared.hosts.get("b.example")).next_allowed_set_at is not None, "once"
    finally:
        await hosts.close()


async def test_p3_a_host_belongs_to_one_process_until_it_is_given_back(shared: Store):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        assert await ours.take("a.example", 0) == HostState("a.example")
        assert await theirs.take("a.example", 0) is None
        assert await theirs.take("b.example", 0) == HostState("b.example")
        until = NOW + timedelta(seconds=5)
        await ours.give_back("a.example", Visit("a.example", NOW, until))
        found = await theirs.take("a.example", 0)
        assert found is not None
        assert found.next_allowed_at == until, "a visit is known before its host is free"
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_visits_under_way_keep_their_hosts_when_the_connection_is_cut(shared: Store):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        await ours.take("a.example", 0)
        await _cut(shared, ours)
        with pytest.raises(Exception, match="cannot be used now"):
            await ours.take("b.example", 0)
        assert await ours.take("b.example", 0) is not None
        assert await theirs.take("a.example", 0) is None
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_visits_under_way_keep_their_hosts_though_nobody_asks_for_another(shared: Store):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        await ours.take("a.example", 3)
        await _cut(shared, ours)
        await ours.keep()
        assert await theirs.take("a.example", 3) is None
        await ours.keep()
        await ours.give_back("a.example", None)
        assert await theirs.take("a.example", 3) is not None
    finally:
        await ours.close()
        await theirs.close()


@pytest.mark.parametrize("visited", [False, True], ids=["never visited", "visited before"])
async def test_p3_a_host_that_was_given_back_unused_costs_nobody_a_delay(
    shared: Store, visited: bool
):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        if visited:
            await shared.hosts.keep([Visit("a.example", NOW, NOW + timedelta(seconds=5))])
        before = await shared.hosts.get("a.example")
        taken = await ours.take("a.example", 40)
        assert taken == before
        assert (await shared.hosts.get("a.example")).next_allowed_at != before.next_allowed_at
        await ours.give_back_unused(before)
        assert await shared.hosts.get("a.example") == before
        taking = asyncio.create_task(ours.take("a.example", 40))
        await asyncio.sleep(0)
        taking.cancel()  # the claim comes too late for whoever wanted it
        while (found := await theirs.take("a.example", 0)) is None:
            await asyncio.sleep(0.01)
        assert found == before
    finally:
        await ours.close()
        await theirs.close()


@pytest.mark.parametrize("dies", [False, True], ids=["on its way", "dead on its way"])
async def test_p3_who_gives_back_after_a_cut_leaves_alone_that_another_set_out(
    shared: Store, dies: bool
):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        taken = await ours.take("a.example", 40)
        assert taken is not None
        await _cut(shared, ours)
        with pytest.raises(DatabaseUnavailable):
            await ours.take("b.example", 0)
        waiting = await theirs.take("a.example", 40)
        assert waiting is not None
        await theirs.take("a.example", 40, waiting.next_allowed_at)
        set_out = await shared.hosts.get("a.example")
        assert set_out.next_allowed_set_at is None
        if dies:
            await _cut(shared, theirs)
        await ours.give_back_unused(taken)
        assert await shared.hosts.get("a.example") == set_out
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_a_host_given_back_unused_by_one_of_us_is_still_visited_by_the_other(
    shared: Store,
):
    ours = HostClaims(_postgres(shared))
    try:
        states = await asyncio.gather(*(ours.take("a.example", 40) for _ in range(2)))
        assert states[0] is not None
        half = await shared.hosts.get("a.example")
        await ours.give_back_unused(states[0])
        assert await shared.hosts.get("a.example") == half
        assert half.next_allowed_set_at is None
    finally:
        await ours.close()


async def test_p3_who_dies_on_a_visit_leaves_its_delay_to_others(shared: Store):
    """Also on a host that a redirect led to, and also for a delay that outlasts every lease."""
    dying, others = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        assert await dying.take("a.example", 40) == HostState("a.example")
        assert await dying.take("b.example", 0) == HostState("b.example"), "it has no delay"
        await _cut(shared, dying)
        first = await others.take("a.example", 40)
        now = await Shards(shared.database).now()
        assert first is not None
        assert first.next_allowed_at is not None
        assert now + timedelta(seconds=10) < first.next_allowed_at <= now + timedelta(seconds=41)
        await others.give_back("a.example", None)
        again = await others.take("a.example", 40)
        assert again == first, "who was told to wait and left changes nothing"
        assert await others.take("b.example", 0) == HostState("b.example")
    finally:
        await dying.close()
        await others.close()


async def test_p3_a_visit_that_ended_is_waited_for_from_its_end(shared: Store):
    hosts = HostClaims(_postgres(shared))
    try:
        await hosts.take("a.example", 40)
        ended = await Shards(shared.database).now()
        until = ended + timedelta(seconds=40)
        await hosts.give_back("a.example", Visit("a.example", ended, until))
        found = await hosts.take("a.example", 40)
        assert found == HostState("a.example", until, ended)
    finally:
        await hosts.close()


async def test_p3_a_host_that_nobody_wants_any_more_is_given_back(shared: Store):
    ours, theirs = HostClaims(_postgres(shared)), HostClaims(_postgres(shared))
    try:
        for turns in range(6):  # cancelled before it is asked for, meanwhile, and behind it
            taking = asyncio.create_task(ours.take("a.example", 0))
            for _ in range(turns):
                await asyncio.sleep(0)
            taking.cancel()
            await asyncio.wait([taking])
            async with asyncio.timeout(60):
                while await theirs.take("a.example", 0) is None:
                    await asyncio.sleep(0.01)
            await theirs.give_back("a.example", None)
    finally:
        await ours.close()
        await theirs.close()


async def _cut(shared: Store, claims: HostClaims) -> None:
    """End a connection as a death does."""
    sql = "SELECT pg_terminate_backend(:pid, 60000)"
    await shared.database.write(lambda s: s.fetch(sql, {"pid": claims.backend}))


async def test_visits_of_one_host_in_one_transaction_are_one_row(shared: Store):
    later = NOW + timedelta(seconds=5)
    visits = [
        Visit("b.example", NOW, later),
        Visit("a.example", NOW, NOW),
        Visit("a.example", later, None, succeeded=True),
        Visit("a.example", NOW, later),
    ]
    await shared.hosts.keep(visits)
    found = await shared.hosts.get("a.example")
    assert (found.next_allowed_at, found.last_success_at) == (later, later)
    assert (await shared.hosts.get("b.example")).next_allowed_at == later


async def test_news_are_told_where_somebody_listens(shared: Store):
    notices = Notices(_postgres(shared))
    assert not await notices.are_heard()
    heard = notices.listen()
    first = asyncio.ensure_future(anext(heard))
    async with asyncio.timeout(60):
        while not await notices.are_heard():
            await asyncio.sleep(0.01)
        texts = ['["quoted \\ \\" and more"]', "plain"]
        await notices.tell(texts)
        assert [await first, await anext(heard)] == texts
        await heard.aclose()  # type: ignore[attr-defined]
        while await notices.are_heard():
            await asyncio.sleep(0.01)


async def test_there_is_no_fence_without_others(store: Store):
    source = await stored(store)
    assert (await store.record(a_success(source))).recorded


def _postgres(store: Store) -> PostgresDatabase:
    assert isinstance(store.database, PostgresDatabase)
    return store.database


def _seen(worker: str, backend: int | None) -> dict[str, object]:
    numbers = dict.fromkeys(("pid", "started", "in_flight", "polls", "lost"), 0)
    return {"id": worker, "machine": "here", "backend": backend, "counts": "{}", **numbers}


def test_a_fence_is_a_value():
    assert Fence(1, 2) == Fence(1, 2) != Fence(1, 3)
