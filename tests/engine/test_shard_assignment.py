"""Workers share the shards: each opens its share and hands over the surplus (K8, S8)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from random import Random

import pytest

from headwater.engine.cluster.leases import Leases
from headwater.engine.cluster.shard_assignment import HAND_OVER_SECONDS, ShardAssignment
from headwater.engine.hosts.gates import GateEntry, Gates
from headwater.engine.lanes import Lanes
from headwater.errors import DatabaseUnavailable, MustRestart
from headwater.model import DueSource, Fence, Outcome
from headwater.rules.shards import SHARDS, shard_of
from headwater.store.shards import ClusterState, DeadWorkers
from tests.fakes import START, FakeClock, in_virtual_time

BUSY = "slow.example"


class ShardsTable:
    """The tables of shards and workers, as one worker sees them."""

    def __init__(self) -> None:
        self.workers = 1
        self.count = SHARDS
        self.draining = False
        self.has_dead = False
        self.is_away = False
        self.held: set[int] = set()
        self.free = set(range(SHARDS))

    async def state(self, *_: object) -> ClusterState:
        takes_part = not self.draining
        numbers = (self.count, bool(self.free), set(self.held), self.workers, 0)
        return ClusterState(*numbers, takes_part, self.draining, self.has_dead)

    async def open_free(self, _worker: str, most: int) -> list[Fence]:
        opened = sorted(self.free)[:most]
        self.free -= set(opened)
        self.held |= set(opened)
        return [Fence(shard, 1) for shard in opened]

    async def close(self, _worker: str, shards: Collection[int]) -> int:
        if self.is_away:
            raise DatabaseUnavailable("gone")
        closed = self.held & set(shards)
        self.held -= closed
        self.free |= closed
        return len(closed)

    async def reap(self, *_: object) -> DeadWorkers:
        self.has_dead = False
        self.free = set(range(SHARDS)) - self.held
        return DeadWorkers(["dead"], sorted(self.free))


def an_assignment(table: ShardsTable, poll_seconds: float = 5.0, slots: int = 9) -> ShardAssignment:
    clock = FakeClock()
    gates = Gates([], clock)

    async def poll(_: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        await asyncio.sleep(poll_seconds)
        entry.leave()
        return {}

    return ShardAssignment(
        shards=table,  # type: ignore[arg-type]
        leases=Leases(None, clock, seconds=10**6),  # type: ignore[arg-type]
        lanes=Lanes(poll, gates, slots=slots, rng=Random(1)),
        clock=clock,
        worker="me",
        started_at=START,
        lease_seconds=30,
        on_opened=lambda: None,
    )


def test_k8_a_worker_opens_its_share_and_hands_over_the_surplus():
    table = ShardsTable()

    async def scenario() -> None:
        assignment = an_assignment(table)
        await assignment.balance()
        assert len(assignment.leases.open_shards) == SHARDS
        table.workers = 3
        await assignment.balance()
        assert len(table.held) == SHARDS // 3 + 1, "rank 0 has one of the rest"
        assert set(assignment.leases.open_shards) == table.held
        table.draining = True
        await assignment.balance()
        assert table.held == set()
        table.draining = False
        await assignment.balance()
        assert len(table.held) == SHARDS // 3 + 1

    in_virtual_time(scenario)


@pytest.mark.parametrize("slots", [50, 5])
def test_k8_a_new_worker_gets_its_part_of_the_shards_with_due_sources(slots: int):
    table = ShardsTable()
    hosts = [f"{n}.example" for n in range(50)]
    in_use = {shard_of(host) for host in hosts}

    async def scenario() -> None:
        assignment = an_assignment(table, slots=slots)
        await assignment.balance()
        assignment.lanes.offer([DueSource(host, host, START, delay_seconds=0) for host in hosts])
        await asyncio.sleep(1)
        assert len(assignment.lanes.in_flight()) == slots
        table.workers = 3
        await assignment.balance()
        assert len(table.held) == SHARDS // 3 + 1
        assert abs(len(in_use & table.held) - len(in_use) / 3) <= 1
        running = {shard_of(lane) for lane in assignment.lanes.in_flight()}
        assert running <= table.held, "a slow poll would be repeated elsewhere"
        await assignment.lanes.stop(0)

    in_virtual_time(scenario)


def test_k8_a_single_shard_is_handed_over_from_the_larger_group():
    """Else a new worker beside many others would get only shards without due sources."""
    table = ShardsTable()
    table.free = set(range(4))

    async def scenario() -> None:
        assignment = an_assignment(table)
        await assignment.balance()
        named = {shard_of(f"{n}.example"): f"{n}.example" for n in range(2000)}
        hosts = [named[shard] for shard in (0, 1, 3)]
        assignment.lanes.offer([DueSource(host, host, START, delay_seconds=0) for host in hosts])
        table.count, table.workers = 256, 85
        await assignment.balance()
        assert len(table.held) == 4, "the share of rank 0"
        table.workers = 86
        await assignment.balance()
        assert len(table.held) == 3
        assert 2 in table.held
        await assignment.lanes.stop(0)

    in_virtual_time(scenario)


def test_k8_the_shards_of_a_dead_worker_are_opened():
    table = ShardsTable()
    table.has_dead, table.free = True, set()

    async def scenario() -> None:
        assignment = an_assignment(table)
        await assignment.balance(may_reap=False)
        assert table.held == set(), "this worker itself was away"
        await assignment.balance()
        assert len(table.held) == SHARDS

    in_virtual_time(scenario)


@pytest.mark.parametrize("poll_seconds", [5.0, 10 * HAND_OVER_SECONDS])
def test_s8_a_busy_shard_waits_for_its_polls_within_bounds(poll_seconds: float):
    table, busy = ShardsTable(), shard_of(BUSY)

    async def scenario() -> None:
        assignment = an_assignment(table, poll_seconds)
        await assignment.balance()
        waiting = [DueSource(f"{n}", BUSY, START, delay_seconds=0) for n in range(3)]
        assignment.lanes.offer(waiting)
        await asyncio.sleep(1)
        table.draining = True
        draining = asyncio.create_task(assignment.balance())
        await asyncio.sleep(1)
        assert table.held == {busy}, "the others were closed at once"
        assert assignment.lanes.length(BUSY) == 1, "what waited was withdrawn"
        assert not assignment.leases.has(busy)
        await asyncio.sleep(min(poll_seconds, HAND_OVER_SECONDS) + 1)
        assert table.held == set()
        await draining
        await assignment.lanes.stop(0)

    in_virtual_time(scenario)


def test_a_shard_that_could_not_be_closed_is_closed_the_next_time():
    table = ShardsTable()

    async def scenario() -> None:
        assignment = an_assignment(table)
        await assignment.balance()
        table.draining = table.is_away = True
        with pytest.raises(DatabaseUnavailable):
            await assignment.balance()
        assert not assignment.leases.open_shards
        table.is_away = False
        await assignment.balance()
        assert table.held == set()
        assert assignment.leases.lost == 0

    in_virtual_time(scenario)


def test_k8_a_shard_whose_hand_over_failed_is_polled_again():
    table, busy = ShardsTable(), shard_of(BUSY)

    async def scenario() -> None:
        assignment = an_assignment(table)
        await assignment.balance()
        assignment.lanes.offer([DueSource("1", BUSY, START, delay_seconds=0)])
        await asyncio.sleep(1)
        table.draining = table.is_away = True
        with pytest.raises(DatabaseUnavailable):
            await assignment.balance()
        table.draining = table.is_away = False
        await assignment.balance()  # closes the others
        await assignment.balance()
        assert len(table.held) == SHARDS
        assert assignment.leases.has(busy), "it was open, and no poll could start in it"
        await assignment.lanes.stop(0)

    in_virtual_time(scenario)


def test_k8_a_shard_whose_hand_over_was_cancelled_is_polled_again():
    """As by the time limit of an assignment while the database does not respond."""
    table, busy = ShardsTable(), shard_of(BUSY)

    async def scenario() -> None:
        assignment = an_assignment(table)
        await assignment.balance()
        assignment.lanes.offer([DueSource("1", BUSY, START, delay_seconds=0)])
        await asyncio.sleep(1)
        handing_over = asyncio.create_task(assignment.hand_over(list(range(SHARDS))))
        await asyncio.sleep(1)
        assert not assignment.leases.has(busy)
        handing_over.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handing_over
        assert assignment.leases.has(busy), "it is open, and no poll could start in it"
        await assignment.balance()
        assert all(map(assignment.leases.has, range(SHARDS)))
        await assignment.lanes.stop(0)

    in_virtual_time(scenario)


def test_a_worker_exits_if_the_number_of_shards_has_changed():
    table = ShardsTable()

    async def scenario() -> None:
        assignment = an_assignment(table)
        await assignment.balance()
        table.count = 512
        with pytest.raises(MustRestart):
            await assignment.balance()

    in_virtual_time(scenario)
