"""What a worker of several needs of lanes, leases and clocks (K8, S8)."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from headwater.clock import SharedClock
from headwater.engine.gates import Gates
from headwater.engine.jobs import cron_of
from headwater.engine.lanes import Lanes
from headwater.engine.leases import Leases
from headwater.errors import DatabaseUnavailable, Overtaken
from headwater.model import DueSource, Fence, Outcome
from headwater.rules.shards import shard_of
from tests.fakes import START, FakeClock, in_virtual_time


def due_in(lane: str, number: int = 0) -> DueSource:
    return DueSource(f"{lane} {number}", lane, overdue_since=START, delay_seconds=0)


@pytest.mark.parametrize("stopped", [False, True])
def test_s8_what_is_withdrawn_is_not_polled_and_what_is_under_way_is_waited_for(stopped: bool):
    begun: list[str] = []

    async def poll(due: DueSource) -> Outcome | None:
        begun.append(due.id)
        await asyncio.sleep(5)
        gates.leave(due.lane or "", 0)
        return None

    gates = Gates([], FakeClock())

    async def story() -> None:
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

    in_virtual_time(story)
    assert begun == ["a.org 1", "b.org 0"]


def test_a_lane_that_waits_for_its_delay_is_empty_once_it_is_withdrawn():
    async def poll(due: DueSource) -> Outcome | None:
        raise AssertionError("it was not its turn")

    async def story() -> None:
        gates = Gates([], FakeClock())
        gates.mark_visited("a.org", 100)
        lanes = Lanes(poll, gates, slots=9, rng=Random(1))
        lanes.offer([due_in("a.org")])
        lanes.withdraw(["a.org"])
        assert await lanes.emptied(["a.org"], seconds=1)
        await lanes.wait_until_idle()

    in_virtual_time(story)


def test_s8_a_lane_that_stands_in_line_for_a_slot_is_let_go():
    async def poll(due: DueSource) -> Outcome | None:
        await asyncio.sleep(5)
        gates.leave(due.lane or "", 0)
        return None

    gates = Gates([], FakeClock())

    async def story() -> None:
        lanes = Lanes(poll, gates, slots=1, rng=Random(1))
        lanes.offer([due_in("a.org"), due_in("b.org")])
        await asyncio.sleep(1)
        lanes.close()
        lanes.withdraw(lanes.names())
        assert await lanes.emptied(["b.org"], seconds=1)
        assert await lanes.emptied(["a.org"], seconds=10)

    in_virtual_time(story)


class Table:
    """The shards table, for what a worker believes of it."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.is_away = False

    async def open(self, shard: int, worker: str) -> Fence:
        self.epochs[shard] = self.epochs.get(shard, 0) + 1
        return Fence(shard, self.epochs[shard])

    async def close(self, fence: Fence) -> bool:
        if self.is_away:
            raise DatabaseUnavailable("gone")
        return self.epochs.pop(fence.shard, None) is not None

    async def held_by(self, worker: str) -> dict[int, int]:
        return dict(self.epochs)


class Hosts:
    """Claims that are never cut."""

    def check(self, lanes: Collection[str]) -> None:
        assert not lanes


def test_k8_a_lease_that_cannot_be_confirmed_or_was_taken_over_begins_nothing():
    table, lane = Table(), "a.org"
    shard = shard_of(lane)

    async def story() -> None:
        clock = FakeClock()
        leases = Leases(table, Hosts(), clock, worker="me", seconds=10)  # type: ignore[arg-type]
        assert leases.fence(lane) is None, "not opened"
        fence = await leases.open(shard)
        assert leases.fence(lane) == fence
        await asyncio.sleep(5.9)
        assert leases.has(shard)
        leases.check(fence, ())
        await asyncio.sleep(0.2)
        assert not leases.has(shard), "0.6 of a lease without a look"
        with pytest.raises(Overtaken, match="cannot be known"):
            leases.check(fence, ())
        assert leases.fence(lane) is None
        await leases.confirm()
        assert leases.has(shard)
        table.epochs[shard] += 1  # another worker opened it
        await leases.confirm()
        assert not leases.has(shard)
        assert leases.lost == 1
        with pytest.raises(Overtaken, match="another worker"):
            leases.check(fence, ())  # fresh again, and somebody else's
        await leases.close(fence)
        assert table.epochs, "what is another's now is not ours to close"

    in_virtual_time(story)


def test_a_shard_that_could_not_be_closed_is_closed_by_the_next_look():
    table = Table()

    async def story() -> None:
        leases = Leases(table, Hosts(), FakeClock(), worker="me", seconds=10)  # type: ignore[arg-type]
        fence = await leases.open(7)
        table.is_away = True
        with pytest.raises(DatabaseUnavailable):
            await leases.close(fence)
        table.is_away = False
        await leases.confirm()
        assert (table.epochs, leases.lost) == ({}, 0)
        await leases.confirm()
        assert leases.lost == 0, "once"

    in_virtual_time(story)


def test_a_shared_clock_follows_whom_all_ask_and_does_not_go_back_by_a_little():
    clock = SharedClock()
    base, at = datetime(2026, 2, 16, 8, 0, tzinfo=UTC), clock.monotonic()
    clock.set(base, at, at)
    first = clock.now()
    assert timedelta(0) <= first - base < timedelta(seconds=60)
    clock.set(base - timedelta(milliseconds=300), at, at)
    assert clock.now() >= first
    clock.set(base - timedelta(hours=1), at, at)
    assert clock.now() < first - timedelta(minutes=50), "it was set anew"


@pytest.mark.parametrize(
    ("seconds", "line"),
    [(1, "* * * * * */1"), (5, "* * * * * */5"), (59.6, "*/1 * * * *"), (60, "*/1 * * * *"),
     (600, "*/10 * * * *"), (10**6, "*/59 * * * *")],
)  # fmt: skip
def test_ticks_come_at_the_pace_of_the_settings(seconds: float, line: str):
    assert cron_of(seconds) == line
