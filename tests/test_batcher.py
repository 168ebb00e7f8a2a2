"""Concurrent calls share a batch, and each gets its own result (K5)."""

import asyncio
from collections.abc import Sequence

import pytest

from headwater.batcher import Batcher


class Recorder:
    """Doubles numbers, batch by batch; can be blocked."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(items))
        await self.gate.wait()
        return [ValueError(f"bad {item}") if item < 0 else item * 2 for item in items]

    async def is_running(self, batches: int) -> None:
        while len(self.batches) < batches:
            await asyncio.sleep(0)


@pytest.fixture
def run() -> Recorder:
    return Recorder()


async def test_a_single_call_gets_its_result(run: Recorder):
    call = Batcher(run)

    assert await call(3) == 6
    assert await call(4) == 8
    assert run.batches == [[3], [4]]


async def test_concurrent_calls_share_a_batch_in_their_order(run: Recorder):
    call = Batcher(run)

    results = await asyncio.gather(*map(call, range(100)))

    assert results == [2 * number for number in range(100)]
    assert run.batches == [list(range(100))]


async def test_calls_during_a_batch_form_the_next_one(run: Recorder):
    call = Batcher(run)
    run.gate.clear()
    first = asyncio.create_task(call(0))
    await run.is_running(1)
    others = [asyncio.create_task(call(number)) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    assert run.batches == [[0]]
    run.gate.set()

    assert await asyncio.gather(first, *others) == [0, 2, 4, 6]
    assert run.batches == [[0], [1, 2, 3]]


@pytest.mark.parametrize("when", ["waiting", "under way", "answered"])
async def test_results_of_cancelled_callers_are_reported(run: Recorder, when: str):
    unwanted: list[tuple[int, int]] = []

    async def doubled(items: Sequence[int]) -> Sequence[int | Exception]:
        results = await run(items)
        if when == "answered":  # the result is there, but its caller has not resumed yet
            asyncio.get_running_loop().call_soon(task.cancel)
        return results

    call = Batcher(doubled, on_abandoned=lambda item, result: unwanted.append((item, result)))
    task = asyncio.create_task(call(3))
    await asyncio.sleep(0)
    if when != "answered":
        if when == "under way":
            run.gate.clear()
            await run.is_running(1)
        task.cancel()
        run.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await call.flush(60)
    assert unwanted == [(3, 6)]


async def test_the_weight_of_a_batch_is_limited(run: Recorder):
    call = Batcher(run, max_weight=10, weight=lambda item: item)

    results = await asyncio.gather(*map(call, [4, 4, 3, 99, 1, 9, 1]))

    assert results == [8, 8, 6, 198, 2, 18, 2]
    assert run.batches == [[4, 4], [3], [99], [1, 9], [1]]


async def test_an_error_reaches_its_own_caller_only(run: Recorder):
    call = Batcher(run)

    results = await asyncio.gather(*map(call, [1, -2, 3]), return_exceptions=True)

    assert [results[0], results[2]] == [2, 6]
    assert str(results[1]) == "bad -2"
    assert await call(5) == 10


async def test_an_error_of_the_whole_batch_reaches_every_caller():
    async def broken(items: Sequence[int]) -> Sequence[int]:
        raise ConnectionError("cut")

    call = Batcher(broken)

    results = await asyncio.gather(*map(call, [1, 2]), return_exceptions=True)

    assert [str(result) for result in results] == ["cut", "cut"]
    with pytest.raises(ConnectionError):
        await call(3)


@pytest.mark.parametrize("when", ["waiting", "running"])
async def test_a_cancelled_caller_does_not_affect_others(run: Recorder, when: str):
    call = Batcher(run)
    run.gate.clear()
    tasks = [asyncio.create_task(call(number)) for number in (1, -2, 3)]
    await (run.is_running(1) if when == "running" else asyncio.sleep(0))
    tasks[1].cancel()
    run.gate.set()

    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [results[0], results[2]] == [2, 6]
    assert isinstance(results[1], asyncio.CancelledError)
    # submitted work is done nevertheless: no result is half stored (S8)
    assert run.batches == [[1, -2, 3]]
    assert await call(4) == 8


async def test_s8_flushing_waits_for_submitted_calls(run: Recorder):
    call = Batcher(run)
    await call.flush(1)
    run.gate.clear()
    task = asyncio.create_task(call(1))
    await run.is_running(1)
    task.cancel()
    await call.flush(0)  # its time is bounded
    flushing = asyncio.create_task(call.flush(60))
    await asyncio.sleep(0)
    assert not flushing.done()
    run.gate.set()

    await flushing
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_many_rounds_of_calls_lose_none(run: Recorder):
    call = Batcher(run, max_weight=7)

    async def caller(number: int) -> list[int]:
        return [await call(number * 100 + turn) for turn in range(20)]

    results = await asyncio.gather(*map(caller, range(20)))

    assert results == [[2 * (n * 100 + turn) for turn in range(20)] for n in range(20)]
    assert max(map(len, run.batches)) <= 7
    assert sum(map(len, run.batches)) == 400
