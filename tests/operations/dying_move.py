"""Moves everything in processes that are killed, each one step later than the one before.

See test_moving_kill.py. All go on with the same copy. The last line on the standard output is the
number of processes that died before one came to the end.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from headwater.clock import SystemClock
from headwater.operations.moving import move
from headwater.store import Session, Store, open_database, tables
from tests.operations.moves import unclaimed
from tests.store.dying import DyingSession


class Mortal:
    """The target's transactions: the process may die before any statement, commit or answer."""

    def __init__(self, write: Callable[..., Any], steps: int) -> None:
        self._write = write
        self._left = steps

    async def __call__(self, work: Callable[[Session], Any]) -> Any:
        def dying(session: Session) -> Any:
            mortal: Any = DyingSession(session, self._left)
            mortal.kind = session.kind
            result = work(mortal)
            mortal.step()
            self._left = mortal._left
            return result

        result = await self._write(dying)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


async def run(source: str, target: str, steps: int) -> None:
    tables.ROWS_PER_BITE = 2
    clock = SystemClock()
    async with (
        Store(open_database(source), clock) as there,
        Store(open_database(target), clock) as here,
    ):
        await here.prepare()
        here.database.write = Mortal(here.database.write, steps)  # type: ignore[method-assign]
        moved = await move(there, here, clock, lambda _: None)
        assert not moved.differing


def main(source: str, target: str) -> None:
    """Fork a process after the other until one is not killed."""
    died = 0
    while True:
        pid = os.fork()  # no thread has been started yet
        if pid == 0:
            asyncio.run(run(source, target, died))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            break
        died += 1
        asyncio.run(unclaimed(source, target))
    print(died if status == 0 else f"exit {status}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
