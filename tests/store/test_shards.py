"""Shards, leases and host locks on PostgreSQL (K8, P3)."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DatabaseUnavailable, LeaseLost
from headwater.model import EPOCH, Fence, Hold, HostState, SourceType, Visit
from headwater.rules.politeness import lane_of
from headwater.rules.shards import SHARDS, shard_of, share_of
from headwater.store import Session, Store, open_database
from headwater.store.host_locks import HostLocks
from headwater.store.key_values import POLLER_KEY
from headwater.store.migrate import statements
from headwater.store.postgres import NotifyChannel, PostgresDatabase, PostgresSession
from headwater.store.shards import HAS_LISTENERS, DeadWorkers, Heartbeat, Shards, heartbeat
from tests.store.store_data import NOW, StoreClock, a_post_of, a_success, open_shard, rows, stored

pytestmark = pytest.mark.postgres
LEASE = 30.0


@pytest.fixture
async def shared(new_postgres: Callable[[], str], clock: StoreClock) -> AsyncIterator[Store]:
    """A store that several workers share."""
    async with Store(open_database(new_postgres()), clock) as store:
        yield store


@given(st.text())
def test_every_lane_has_a_shard_and_always_the_same(lane: str):
    assert shard_of(lane) == hashlib.md5(lane.encode()).digest()[0]
    for count in (300, 512, 4096):
        assert 0 <= shard_of(lane, count) < count
    assert shard_of(lane, 512) // 2 == shard_of(lane)


def test_shard_numbers_never_change():
    """Workers of different versions must agree."""
    assert [shard_of(lane) for lane in ("", "example.org", "x.com/default")] == [212, 27, 94]


@pytest.mark.parametrize("count", [256, 300, 4096])
async def test_the_database_computes_the_same_shards(shared: Store, count: int):
    await Shards(shared.database).resize(count)
    lanes = ["", "example.org", "x.com/default", "bücher.example", *map(str, range(500))]
    sql = "SELECT headwater_shard(lane) FROM unnest(:lanes::TEXT[]) AS lane"
    found = await shared.database.read(lambda s: s.fetch(sql, {"lanes": lanes}))
    assert [row[0] for row in found] == [shard_of(lane, count) for lane in lanes]


async def test_a_source_is_in_the_shard_of_its_lane_after_every_move(shared: Store):
    feed = await stored(shared)
    timeline = await stored(shared, type=SourceType.TWITTER, url="https://x.com/ada", host=None)
    moved = replace(feed, url="https://other.example/rss", host="other.example")
    await shared.sources.edit(feed.id, lambda _: moved)
    found = dict(await rows(shared, "SELECT id, shard FROM sources"))
    for source in (moved, timeline):
        assert found[source.id] == shard_of(lane_of(source, "default") or "")


async def test_k8_every_opening_of_a_shard_has_its_own_number(shared: Store):
    shards = Shards(shared.database)
    assert await shards.open_free("a", 1) == [], "it has no heartbeat"
    await beat_of(shared, "a")
    await beat_of(shared, "b")
    (first,) = await shards.open_free("a", 1)
    assert await shards.close("b", [first.shard]) == 0, "it is not theirs to close"
    assert await shards.close("a", [first.shard]) == 1
    (second,) = await shards.open_free("b", 1)
    assert second == Fence(first.shard, first.epoch + 1)


async def test_k8_a_free_shard_is_opened_by_one_worker(shared: Store):
    shards = Shards(shared.database)
    names = [f"worker {n}" for n in range(30)]
    for name in names:
        await beat_of(shared, name)
    opened = await asyncio.gather(*(shards.open_free(name, 9) for name in names))
    found = [fence.shard for fences in opened for fence in fences]
    assert sorted(found) == list(range(SHARDS))
    assert await shards.counts() == (SHARDS, SHARDS)
    for name, fences in zip(names, opened, strict=True):
        beat = await beat_of(shared, name)
        assert beat.held == {fence.shard: fence.epoch for fence in fences}


@given(st.integers(256, 4096), st.integers(1, 5000))
def test_k8_shares_differ_by_one_and_cover_all_shards(shards: int, workers: int):
    shares = [share_of(shards, workers, rank) for rank in range(workers)]
    assert sum(shares) == shards
    assert max(shares) - min(shares) <= 1


async def test_k8_silent_draining_and_older_workers_get_no_share(shared: Store):
    shards = Shards(shared.database)
    for name in ("silent", "draining", "older", "other", "me"):
        await beat_of(shared, name)
    await shared.database.execute(
        "UPDATE workers SET seen_at = seen_at - 12000 WHERE id = 'silent'"
    )
    await shared.database.execute("UPDATE workers SET ticked_at = NULL WHERE id = 'older'")
    await shards.drain("draining", True)
    state = await shards.state("me", EPOCH, LEASE)
    assert (state.workers, state.rank, state.takes_part, state.has_dead) == (2, 0, True, False)
    assert (await shards.state("other", EPOCH, LEASE)).rank == 1
    state = await shards.state("draining", EPOCH, LEASE)
    assert (state.takes_part, state.draining) == (False, True)
    assert (await beat_of(shared, "draining")).draining, "a heartbeat does not end it"


async def test_the_number_of_shards_can_be_changed(shared: Store):
    shards = Shards(shared.database)
    lanes = [f"host{n}.example" for n in range(50)]
    for lane in lanes:
        await stored(shared, url=f"https://{lane}/feed", host=lane)
    timeline = await stored(shared, type=SourceType.TWITTER, url="https://x.com/ada", host=None)
    await beat_of(shared, "a")
    (old,) = await shards.open_free("a", 1)
    for count in (1000, 4096, 256):
        await shards.resize(count)
        assert await shards.counts() == (count, 0)
        found = dict(await rows(shared, "SELECT id, shard FROM sources"))
        assert found.pop(timeline.id) == shard_of("x.com/default", count)
        assert sorted(found.values()) == sorted(shard_of(lane, count) for lane in lanes)
        later = await stored(shared, url="https://new.example/feed", host="new.example")
        sql = "SELECT shard FROM sources WHERE host = 'new.example'"
        assert await rows(shared, sql) == [(shard_of("new.example", count),)]
        await shared.sources.remove(later.id)
        (new,) = await shards.open_free("a", 1)
        assert new.epoch > old.epoch, "results under the old number are discarded"
        old = new


async def test_k8_a_stalled_transaction_delays_no_others(shared: Store):
    """Like a process that is stopped within a transaction."""
    database = _postgres(shared)
    database.idle_transaction_seconds = 0.1
    locked, others_went_on = threading.Event(), threading.Event()

    def stall(session: Session) -> None:
        session.execute("UPDATE shards SET worker = 'a' WHERE shard = 1")
        locked.set()
        others_went_on.wait(60)
        session.fetch("SELECT 1")

    standing = asyncio.create_task(database.write(stall))
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


async def test_k8_the_result_of_an_expired_opening_is_not_stored(shared: Store):
    late, timely = await stored(shared), await stored(shared)
    old, kept = await open_shard(shared, 1, "a"), await open_shard(shared, 2, "a")
    await open_shard(shared, 1, "b")
    discarded = await shared.record(a_success(late, [a_post_of(late)], fence=old))
    recorded = await shared.record(a_success(timely, [a_post_of(timely)], fence=kept))
    assert (discarded.recorded, recorded.recorded) == (False, True)
    assert await rows(shared, "SELECT source_id FROM posts") == [(timely.id,)]


async def test_k8_workers_without_heartbeat_lose_their_shards_and_live_ones_do_not(shared: Store):
    shards = Shards(shared.database)
    hosts = HostLocks(_postgres(shared))
    try:
        await hosts.lock("held.example", 0)
        for worker in ("dead", "alive", "me"):
            await beat_of(shared, worker, hosts.backend if worker == "dead" else None)
        opened = {
            worker: await open_shard(shared, n, worker)
            for n, worker in enumerate(("dead", "alive"))
        }
        age = "UPDATE workers SET seen_at = seen_at - 60000 WHERE id = 'dead'"
        await shared.database.write(lambda s: s.execute(age))
        assert await shards.reap("me", LEASE) == DeadWorkers(["dead"], [0])
        assert [one.id for one in await shards.workers()] == ["alive", "me"]
        assert (await beat_of(shared, "alive")).held == {1: opened["alive"].epoch}
        again = await open_shard(shared, 0, "me")
        assert again.epoch == opened["dead"].epoch + 2
        other = HostLocks(_postgres(shared))
        assert await other.lock("held.example", 0) is not None, "its hosts were not freed"
        await other.close()
    finally:
        await hosts.close()


async def test_p3_an_older_visit_does_not_change_a_newer_one(shared: Store):
    """Other processes may have visited since: a result stored late must not overwrite that."""
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
    assert await kept() == older + timedelta(seconds=5), "the lock holder decides"
    hosts = HostLocks(_postgres(shared))
    try:
        await hosts.lock("a.example", 40)
        half = await shared.hosts.get("a.example")
        assert half.next_allowed_set_at is None
        await shared.hosts.keep([visit(newer, is_last=False)])
        assert await shared.hosts.get("a.example") == half, "a visit is in progress"
    finally:
        await hosts.close()
    ahead = now + timedelta(hours=1)  # the clock was set back since
    await shared.hosts.keep([visit(ahead, is_last=True)])
    await shared.hosts.keep([visit(newer, is_last=False)])
    assert await kept() == newer + timedelta(seconds=5)


async def test_k8_an_overtaken_result_stores_only_the_hold_of_its_host(
    shared: Store,
):
    shards, source = Shards(shared.database), await stored(shared)
    now = await shards.now()
    old = await open_shard(shared, 1, "a")
    await open_shard(shared, 1, "b")
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


async def test_k8_the_server_releases_the_locks_of_a_silent_process(shared: Store):
    """A suspended process sends nothing, so its session ends and another one can lock the host."""
    silent = HostLocks(_postgres(shared), idle_seconds=0.5)
    other = HostLocks(_postgres(shared))
    try:
        assert await silent.lock("a.example", 0) is not None
        async with asyncio.timeout(30):
            while await other.lock("a.example", 0) is None:
                await asyncio.sleep(0.05)
        await silent.confirm()
        with pytest.raises(LeaseLost):
            silent.check(["a.example"])
    finally:
        await silent.close()
        await other.close()


async def test_p3_a_host_locked_twice_concurrently_is_unlocked_twice(shared: Store):
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        assert None not in await asyncio.gather(*(ours.lock("a.example", 0) for _ in range(2)))
        await ours.unlock("a.example", None)
        assert await theirs.lock("a.example", 0) is None, "the other one is still there"
        ours.check(["a.example"])
        await ours.unlock("a.example", None)
        assert await theirs.lock("a.example", 0) is not None
        with pytest.raises(LeaseLost):
            ours.check(["a.example"])
    finally:
        await ours.close()
        await theirs.close()


async def test_k8_a_host_locked_by_another_after_a_lost_connection_stays_theirs(shared: Store):
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        await ours.lock("a.example", 0)
        await _cut(shared, ours)
        assert await theirs.lock("a.example", 0) is not None
        await ours.confirm()
        with pytest.raises(LeaseLost):
            ours.check(["a.example"])
        await ours.unlock("a.example", None)
        assert await ours.lock("a.example", 0) is None, "it is not ours to give back"
        await theirs.unlock("a.example", None)
        assert await ours.lock("a.example", 0) is not None
        ours.check(["a.example"])
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_after_a_single_process_is_killed_every_host_counts_as_visited(shared: Store):
    source = await stored(shared, url="https://b.example/feed", host="b.example")
    assert source.host == "b.example"
    shards, hosts = Shards(shared.database), HostLocks(_postgres(shared))
    try:
        await shared.key_values.set(POLLER_KEY, "since eight")
        await shards.assume_unfinished_visits()
        assert await shared.key_values.get(POLLER_KEY) is None
        found = await hosts.lock("b.example", 40)
        assert found is not None
        assert found.next_allowed_at is not None
        assert found.next_allowed_at > await shards.now() + timedelta(seconds=10)
        await hosts.unlock("b.example", None)
        await shards.assume_unfinished_visits()
        assert (await shared.hosts.get("b.example")).next_allowed_set_at is not None, "once"
    finally:
        await hosts.close()


async def test_p3_a_host_is_locked_by_one_process_until_it_is_unlocked(shared: Store):
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        assert await ours.lock("a.example", 0) == HostState("a.example")
        assert await theirs.lock("a.example", 0) is None
        assert await theirs.lock("b.example", 0) == HostState("b.example")
        until = NOW + timedelta(seconds=5)
        await ours.unlock("a.example", Visit("a.example", NOW, until))
        found = await theirs.lock("a.example", 0)
        assert found is not None
        assert found.next_allowed_at == until, "a visit is known before its host is free"
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_running_visits_keep_their_hosts_when_the_connection_is_lost(shared: Store):
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        await ours.lock("a.example", 0)
        await _cut(shared, ours)
        with pytest.raises(Exception, match="cannot be used now"):
            await ours.lock("b.example", 0)
        assert await ours.lock("b.example", 0) is not None
        assert await theirs.lock("a.example", 0) is None
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_running_visits_keep_their_hosts_without_new_requests(shared: Store):
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        await ours.lock("a.example", 3)
        await _cut(shared, ours)
        await ours.confirm()
        assert await theirs.lock("a.example", 3) is None
        await ours.confirm()
        await ours.unlock("a.example", None)
        assert await theirs.lock("a.example", 3) is not None
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_a_host_that_is_unlocked_without_a_visit_keeps_its_delay(shared: Store):
    """As after a cancelled lock: whether a request was sent is not known later."""
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        assert await ours.lock("a.example", 40) == HostState("a.example")
        await ours.unlock("a.example", None)
        found = await theirs.lock("a.example", 40)
        assert found is not None
        assert found.next_allowed_at is not None
        assert found.next_allowed_at > await Shards(shared.database).now() + timedelta(seconds=10)
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_unlocking_after_a_lost_connection_keeps_the_unfinished_visit_of_another(
    shared: Store,
):
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        assert await ours.lock("a.example", 40) is not None
        await _cut(shared, ours)
        with pytest.raises(DatabaseUnavailable):
            await ours.lock("b.example", 0)
        waiting = await theirs.lock("a.example", 40)
        assert waiting is not None
        await theirs.lock("a.example", 40, waiting.next_allowed_at)
        unfinished = await shared.hosts.get("a.example")
        assert unfinished.next_allowed_set_at is None
        late = Visit("a.example", NOW, NOW + timedelta(seconds=5))
        for visit in (None, late):
            await ours.unlock("a.example", visit)
            assert await shared.hosts.get("a.example") == unfinished
    finally:
        await ours.close()
        await theirs.close()


async def test_p3_a_worker_killed_during_a_visit_leaves_its_delay(shared: Store):
    """Also on the target of a redirect, and also for a delay longer than every lease."""
    dying, others = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        assert await dying.lock("a.example", 40) == HostState("a.example")
        assert await dying.lock("b.example", 0) == HostState("b.example"), "it has no delay"
        await _cut(shared, dying)
        first = await others.lock("a.example", 40)
        now = await Shards(shared.database).now()
        assert first is not None
        assert first.next_allowed_at is not None
        assert now + timedelta(seconds=10) < first.next_allowed_at <= now + timedelta(seconds=41)
        await others.unlock("a.example", None)
        again = await others.lock("a.example", 40)
        assert again == first, "a process that gave up waiting changes nothing"
        assert await others.lock("b.example", 0) == HostState("b.example")
    finally:
        await dying.close()
        await others.close()


async def test_p3_the_delay_after_a_finished_visit_counts_from_its_end(shared: Store):
    hosts = HostLocks(_postgres(shared))
    try:
        await hosts.lock("a.example", 40)
        ended = await Shards(shared.database).now()
        until = ended + timedelta(seconds=40)
        await hosts.unlock("a.example", Visit("a.example", ended, until))
        found = await hosts.lock("a.example", 40)
        assert found == HostState("a.example", until, ended)
    finally:
        await hosts.close()


async def test_p3_a_host_whose_lock_was_cancelled_is_released(shared: Store):
    ours, theirs = HostLocks(_postgres(shared)), HostLocks(_postgres(shared))
    try:
        for turns in range(6):  # cancelled before the request is sent, during it, and after it
            taking = asyncio.create_task(ours.lock("a.example", 0))
            for _ in range(turns):
                await asyncio.sleep(0)
            taking.cancel()
            await asyncio.wait([taking])
            async with asyncio.timeout(60):
                while await theirs.lock("a.example", 0) is None:
                    await asyncio.sleep(0.01)
            await theirs.unlock("a.example", None)
    finally:
        await ours.close()
        await theirs.close()


async def _cut(shared: Store, locks: HostLocks) -> None:
    """Cut a connection as a killed process does."""
    sql = "SELECT pg_terminate_backend(:pid, 60000)"
    await shared.database.write(lambda s: s.fetch(sql, {"pid": locks.backend}))


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


async def test_notifications_are_sent_when_a_listener_exists(shared: Store):
    notices = NotifyChannel(_postgres(shared))

    async def has_listeners() -> bool:
        return bool((await rows(shared, f"SELECT {HAS_LISTENERS}"))[0][0])

    assert not await has_listeners()
    heard = notices.listen()
    first = asyncio.ensure_future(anext(heard))
    async with asyncio.timeout(60):
        while not await has_listeners():
            await asyncio.sleep(0.01)
        texts = ['["quoted \\ \\" and more"]', "plain"]
        await notices.send(texts)
        assert [await first, await anext(heard)] == texts
        await heard.aclose()  # type: ignore[attr-defined]
        while await has_listeners():
            await asyncio.sleep(0.01)


async def test_a_single_process_has_no_fence(store: Store):
    source = await stored(store)
    assert (await store.record(a_success(source))).recorded


def _postgres(store: Store) -> PostgresDatabase:
    assert isinstance(store.database, PostgresDatabase)
    return store.database


async def beat_of(store: Store, worker: str, backend: int | None = None) -> Heartbeat:
    numbers = dict.fromkeys(("pid", "started", "ticked", "in_flight", "polls", "lost"), 0)
    texts = {"id": worker, "machine": "here", "counts": "{}"}
    row = {**numbers, **texts, "backend": backend, "draining": False}
    return await store.database.write(lambda session: heartbeat(session, row))


_QUEUE = (
    "CREATE TYPE procrastinate_job_status AS ENUM ('todo', 'doing')",
    """CREATE TABLE procrastinate_jobs (id BIGSERIAL PRIMARY KEY, task_name TEXT, lock TEXT,
        status procrastinate_job_status DEFAULT 'todo')""",
    "CREATE TYPE procrastinate_job_to_defer_v1 AS (task_name TEXT)",
    "CREATE TABLE procrastinate_events (job_id BIGINT REFERENCES procrastinate_jobs)",
    """CREATE FUNCTION procrastinate_noted() RETURNS TRIGGER LANGUAGE plpgsql
        AS 'BEGIN RETURN NEW; END'""",
    """CREATE TRIGGER procrastinate_noting BEFORE INSERT ON procrastinate_jobs
        FOR EACH ROW EXECUTE FUNCTION procrastinate_noted()""",
    "CREATE INDEX headwater_jobs_lock ON procrastinate_jobs (lock)",
)


@pytest.mark.parametrize(("task", "left"), [("headwater.shard", 0), ("another.task", 6)])
async def test_k7_an_upgrade_removes_the_job_queue_of_older_versions(
    shared: Store, task: str, left: int
):
    """Unless another program uses it too."""
    (path,) = shared.database.migrations.glob("*_shard_assignment.sql")
    removal = statements(path.read_text(encoding="utf-8"))[-1]

    def upgrade(session: Session) -> None:
        for sql in _QUEUE:
            session.execute(sql)
        session.execute("INSERT INTO procrastinate_jobs (task_name) VALUES (:task)", {"task": task})
        for _ in range(2):  # also where there is no queue
            session.execute(removal)

    await shared.database.write(upgrade)
    sql = """SELECT count(*) FROM (
        SELECT relname FROM pg_class WHERE relkind IN ('r', 'c') UNION ALL
        SELECT proname FROM pg_proc UNION ALL SELECT typname FROM pg_type WHERE typtype = 'e'
    ) AS one (name) WHERE name LIKE 'procrastinate%' OR name LIKE 'headwater_jobs%'"""
    assert await rows(shared, sql) == [(left - 1 if left else 0,)]


def test_a_fence_is_a_value():
    assert Fence(1, 2) == Fence(1, 2) != Fence(1, 3)
