"""What cluster workers need of lanes, leases and clocks (K8, S8)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from headwater.clock import SharedClock
from headwater.engine.cluster.leases import Leases
from headwater.engine.hosts.gates import GateEntry, Gates
from headwater.engine.lanes import Lanes
from headwater.errors import LeaseLost
from headwater.model import DueSource, Fence, Outcome
from headwater.rules.shards import shard_of
from tests.fakes import START, FakeClock, in_virtual_time


def due_in(lane: str, number: int = 0) -> DueSource:
    return DueSource(f"{lane} {number}", lane, overdue_since=START, delay_seconds=0)


@pytest.mark.parametrize("stopped", [False, True])
def test_s8_withdrawn_sources_are_not_polled_and_running_polls_are_awaited(stopped: bool):
    begun: list[str] = []

    async def poll(dues: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        begun.append(dues[0].id)
        await asyncio.sleep(5)
        entry.leave()
        return {}

    gates = Gates([], FakeClock())

    async def scenario() -> None:
        lanes = Lanes(poll, gates, slots=9, rng=Random(1))
        lanes.offer([due_in("a.org", 1), due_in("a.org", 2), due_in("b.org")])
        assert not await lanes.emptied(["a.org", "b.org", "never.org"], seconds=1)
        if stopped:
            lanes.close()
        lanes.withdraw(["a.org", "never.org"])
        assert not await lanes.emptied(["a.org"], seconds=1)
        assert await lanes.emptied(["a.org"], seconds=10)
        assert await lanes.emptied(["b.org"])
        assert await lanes.emptied(lanes.names())

    in_virtual_time(scenario)
    assert begun == ["a.org 1", "b.org 0"]


def test_a_lane_that_waits_for_its_delay_is_empty_once_it_is_withdrawn():
    async def poll(_: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        raise AssertionError("it was not its turn")

    async def scenario() -> None:
        gates = Gates([], FakeClock())
        gates.mark_visited("a.org", 100)
        lanes = Lanes(poll, gates, slots=9, rng=Random(1))
        lanes.offer([due_in("a.org")])
        lanes.withdraw(["a.org"])
        assert await lanes.emptied(["a.org"], seconds=1)
        await lanes.emptied(lanes.names())

    in_virtual_time(scenario)


def test_s8_a_lane_that_waits_for_a_slot_can_be_withdrawn():
    async def poll(_: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        await asyncio.sleep(5)
        entry.leave()
        return {}

    gates = Gates([], FakeClock())

    async def scenario() -> None:
        lanes = Lanes(poll, gates, slots=1, rng=Random(1))
        lanes.offer([due_in("a.org"), due_in("b.org")])
        await asyncio.sleep(1)
        lanes.close()
        lanes.withdraw(lanes.names())
        assert await lanes.emptied(["b.org"], seconds=1)
        assert await lanes.emptied(["a.org"], seconds=10)

    in_virtual_time(scenario)


class HostLocks:
    """Host locks that are never lost."""

    def check(self, lanes: Collection[str]) -> None:
        assert not lanes


def some_leases(clock: FakeClock) -> Leases:
    return Leases(HostLocks(), clock, seconds=10)  # type: ignore[arg-type]


def test_k8_no_poll_starts_without_a_confirmed_lease():
    lane = "a.org"
    shard = shard_of(lane)
    fence = Fence(shard, 1)

    async def scenario() -> None:
        leases = some_leases(FakeClock())
        assert leases.fence(lane) is None, "not opened"
        leases.opened([fence])
        assert leases.fence(lane) == fence
        await asyncio.sleep(5.9)
        assert leases.has(shard)
        leases.check(fence, ())
        await asyncio.sleep(0.2)
        assert not leases.has(shard), "0.6 of a lease without a confirmation"
        with pytest.raises(LeaseLost, match="not confirmed"):
            leases.check(fence, ())
        assert leases.fence(lane) is None
        assert leases.confirm(leases.snapshot(), {shard: 1}) == []
        assert leases.has(shard)
        assert leases.confirm(leases.snapshot(), {shard: 2}) == [shard]  # opened by another worker
        assert not leases.has(shard)
        assert leases.lost == 1
        with pytest.raises(LeaseLost, match="another worker"):
            leases.check(fence, ())  # renewed, but owned by another worker

    in_virtual_time(scenario)


def test_k8_a_shard_opened_while_leases_were_read_is_not_lost():
    async def scenario() -> None:
        leases = some_leases(FakeClock())
        before = leases.snapshot()
        leases.opened([Fence(7, 1)])
        assert leases.confirm(before, {}) == []
        assert leases.has(7)

    in_virtual_time(scenario)


def test_k8_running_polls_of_a_closing_shard_go_on_and_no_other_starts():
    lane = "a.org"
    fence = Fence(shard_of(lane), 1)

    async def scenario() -> None:
        leases = some_leases(FakeClock())
        leases.opened([fence])
        leases.close([fence.shard])
        assert leases.fence(lane) is None
        leases.check(fence, ())
        leases.closed([fence.shard])
        with pytest.raises(LeaseLost):
            leases.check(fence, ())
        leases.opened([Fence(fence.shard, 3)])
        assert leases.fence(lane) == Fence(fence.shard, 3), "opened again"

    in_virtual_time(scenario)


def test_a_shared_clock_follows_the_server_and_does_not_go_back_slightly():
    clock = SharedClock()
    base, at = datetime(2026, 2, 16, 8, 0, tzinfo=UTC), clock.monotonic()
    clock.set(base, at, at)
    first = clock.now()
    assert timedelta(0) <= first - base < timedelta(seconds=60)
    clock.set(base - timedelta(milliseconds=300), at, at)
    assert clock.now() >= first
    clock.set(base - timedelta(hours=1), at, at)
    assert clock.now() < first - timedelta(minutes=50), "it was set again"
