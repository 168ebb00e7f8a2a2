"""Polls take turns with everything else on the event loop (H2, H3)."""

import asyncio
from collections.abc import Callable
from random import Random

from headwater.engine.gates import Gates
from headwater.engine.lanes import Lanes
from headwater.model import DueSource, Outcome
from headwater.store.batch import Batcher
from tests.fakes import START, FakeClock, in_virtual_time

LANES = 100


def due_in(lane: str) -> DueSource:
    return DueSource(f"source of {lane}", lane, overdue_since=START, delay_seconds=0)


async def most_in_a_turn(count: Callable[[], int], wanted: int) -> int:
    """How many came at once at most, until there were as many as wanted."""
    most, before = 0, 0
    while before < wanted:
        await asyncio.sleep(0)
        most, before = max(most, count() - before), count()
    return most


def test_h3_polls_begin_few_at_a_time_and_stuck_ones_hold_up_nobody():
    begun: list[str] = []

    async def stuck(due: DueSource) -> Outcome | None:
        begun.append(due.id)
        await asyncio.Event().wait()
        return None

    async def story() -> int:
        lanes = Lanes(stuck, Gates([], FakeClock()), slots=LANES, rng=Random(1))
        lanes.offer(due_in(f"host{n}.example") for n in range(LANES))
        most = await most_in_a_turn(lambda: len(begun), LANES)
        await lanes.stop(0)
        return most

    assert in_virtual_time(story) <= 4
    assert len(set(begun)) == LANES


def test_h3_a_turn_that_took_long_is_followed_by_one_start():
    begun: list[float] = []

    async def story() -> list[int]:
        loop = asyncio.get_running_loop()

        async def slow(due: DueSource) -> Outcome | None:
            begun.append(loop.time())
            loop.jump(0.01)  # type: ignore[attr-defined]  # it takes the loop ten milliseconds
            await asyncio.Event().wait()
            return None

        lanes = Lanes(slow, Gates([], FakeClock()), slots=LANES, rng=Random(1))
        lanes.offer(due_in(f"host{n}.example") for n in range(LANES))
        per_turn = []
        while len(begun) < LANES:
            before = len(begun)
            await asyncio.sleep(0)
            per_turn.append(len(begun) - before)
        await lanes.stop(0)
        return per_turn

    assert set(in_virtual_time(story)[4:]) <= {0, 1}


async def test_h2_those_who_waited_for_one_commit_go_on_a_few_at_a_time():
    went_on: list[int] = []

    async def run(items):
        return items

    batcher: Batcher[int, int] = Batcher(run)

    async def caller(number: int) -> None:
        went_on.append(await batcher(number))

    callers = [asyncio.create_task(caller(number)) for number in range(LANES)]
    assert await most_in_a_turn(lambda: len(went_on), LANES) <= 8
    await asyncio.gather(*callers)
    assert went_on == list(range(LANES))
