"""Batcher: many small calls at the same time become one call to the database.

While one batch is under way the next one gathers, so a busy service shares commits among many
polls and an idle one waits for nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_Call = tuple[Any, asyncio.Future[Any]]  # what was handed in, and who waits for what becomes of it
_GATHER_SECONDS = 0.005
# callers that go on in one turn of the event loop: all would hold it up (H2)
_AT_ONCE = 256
_AT_ONCE_WHILE_WATCHED = 1  # while somebody waits for an answer (H3)


class Batcher(Generic[Item, Result]):
    """Runs `run` over the items of all concurrent calls, and gives each caller its result."""

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        most: int = 500,
        weight: Callable[[Item], int] = lambda _: 1,
        gather_seconds: float = _GATHER_SECONDS,
        is_watched: Callable[[], bool] = lambda: False,
        unwanted: Callable[[Item, Result], None] = lambda _item, _result: None,
    ) -> None:
        """`unwanted` is told of what was done for somebody who was cancelled meanwhile."""
        self._run = run
        self._unwanted = unwanted
        self._most = most
        self._weight = weight
        self._gather_seconds = gather_seconds
        self._is_watched = is_watched
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()

    async def __call__(self, item: Item) -> Result:
        """Join the next batch and answer what it brought for this item."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:  # it came too late
                self._unwanted(item, future.result())
            raise

    def __len__(self) -> int:
        """How many wait for the next batch."""
        return len(self._waiting)

    async def flush(self, seconds: float) -> None:
        """Wait for what is under way, callers or not."""
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=seconds)

    async def _work(self) -> None:
        busy = False
        try:
            while self._waiting:
                # a lone call goes at once; under load a moment's wait makes far fewer commits
                await asyncio.sleep(self._gather_seconds if busy else 0)
                batch = self._next_batch()
                busy = len(batch) > 1
                await self._run_batch(batch)
        finally:
            self._worker = None

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        total, count = 0, 0
        for item, _ in self._waiting:
            total += self._weight(item)
            if count and total > self._most:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._run([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it belongs to the callers, every one of them
            results = [error] * len(batch)
        if len(batch) <= _AT_ONCE_WHILE_WATCHED:
            self._settle(batch, results)
            return
        settling = asyncio.create_task(
            self._settle_in_turns(batch, results)
        )  # the next one goes on
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)

    async def _settle_in_turns(self, batch: Sequence[_Call], results: Sequence[Any]) -> None:
        first = 0
        while first < len(batch):
            end = first + (_AT_ONCE_WHILE_WATCHED if self._is_watched() else _AT_ONCE)
            self._settle(batch[first:end], results[first:end])
            first = end
            await asyncio.sleep(0)

    def _settle(self, batch: Sequence[_Call], results: Sequence[Any]) -> None:
        for (item, future), result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                if not future.done():
                    future.set_exception(result)
            elif future.done():  # the caller was cancelled meanwhile
                self._unwanted(item, result)
            else:
                future.set_result(result)
