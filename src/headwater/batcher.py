"""Batcher: combines concurrent calls into one call to the database.

While one batch runs, the next one collects calls. Under load many polls share a commit; a single
call runs at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_Call = tuple[Any, asyncio.Future[Any]]  # the item, and the future that its caller awaits
_COLLECT_SECONDS = 0.005
# callers resumed in one turn of the event loop: all at once would block it (H2)
_RESUMED_AT_ONCE = 256
_RESUMED_AT_ONCE_IF_INTERACTIVE = 1  # H3


class Batcher(Generic[Item, Result]):
    """Runs `run` over the items of all concurrent calls, and returns each caller its result."""

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        max_weight: int = 500,
        weight: Callable[[Item], int] = lambda _: 1,
        yield_often: Callable[[], bool] = lambda: False,
        on_abandoned: Callable[[Item, Result], None] = lambda _item, _result: None,
    ) -> None:
        """`on_abandoned` receives the result of an item whose caller was cancelled meanwhile."""
        self._run = run
        self._on_abandoned = on_abandoned
        self._max_weight = max_weight
        self._weight = weight
        self._yield_often = yield_often
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()

    async def __call__(self, item: Item) -> Result:
        """Join the next batch and return the result for this item."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        try:
            return await future
        except asyncio.CancelledError:
            # the result may have arrived before this caller could resume
            if not future.cancelled() and future.exception() is None:
                self._on_abandoned(item, future.result())
            raise

    async def flush(self, seconds: float) -> None:
        """Wait until all items are processed, also those whose callers were cancelled."""
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=seconds)

    async def _work(self) -> None:
        busy = False
        try:
            while self._waiting:
                # a single call runs at once; under load a short wait makes far fewer commits
                await asyncio.sleep(_COLLECT_SECONDS if busy else 0)
                batch = self._next_batch()
                busy = len(batch) > 1
                await self._run_batch(batch)
        finally:
            self._worker = None

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        total, count = 0, 0
        for item, _ in self._waiting:
            total += self._weight(item)
            if count and total > self._max_weight:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._run([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - raised in every caller
            results = [error] * len(batch)
        if len(batch) <= _RESUMED_AT_ONCE_IF_INTERACTIVE:
            self._settle(batch, results)
            return
        # in a task, so that the next batch starts meanwhile
        settling = asyncio.create_task(self._settle_gradually(batch, results))
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)

    async def _settle_gradually(self, batch: Sequence[_Call], results: Sequence[Any]) -> None:
        first = 0
        while first < len(batch):
            many = not self._yield_often()
            end = first + (_RESUMED_AT_ONCE if many else _RESUMED_AT_ONCE_IF_INTERACTIVE)
            self._settle(batch[first:end], results[first:end])
            first = end
            await asyncio.sleep(0)

    def _settle(self, batch: Sequence[_Call], results: Sequence[Any]) -> None:
        for (item, future), result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                if not future.done():
                    future.set_exception(result)
            elif future.done():  # the caller was cancelled meanwhile
                self._on_abandoned(item, result)
            else:
                future.set_result(result)
