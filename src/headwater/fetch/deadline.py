"""Deadline: `asyncio.timeout_at` in a third of its time, for what every poll waits for."""

import asyncio
from types import TracebackType
from typing import Any


class Deadline:
    """Ends the waiting inside a `with` block by TimeoutError, once its moment has come."""

    __slots__ = ("_at", "_cancelling", "_is_over", "_loop", "_task", "_timer")

    _task: "asyncio.Task[Any]"
    _timer: asyncio.TimerHandle

    def __init__(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self._loop = loop
        self._at = at
        self._is_over = False

    def __enter__(self) -> None:
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a deadline is for a task")
        self._task, self._cancelling = task, task.cancelling()
        self._timer = self._loop.call_at(self._at, self._end)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if not self._is_over:
            return
        # whoever else cancels the task means more than this block
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()
