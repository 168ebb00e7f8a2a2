"""Copies everything in processes that are killed, each one step later than the one before.

See test_copy_database_kill.py. All continue the same copy. The last line on the standard output is
the number of processes that were killed before one finished.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from headwater.clock import SystemClock
from headwater.operations.copy_database import copy_database
from headwater.store import Session, Store, database_copy, open_database
from tests.operations.copy_cases import unclaimed
from tests.store.killed_recording import KilledSession


class KilledTransactions:
    """The target's transactions: killed before any statement, commit or result."""

    def __init__(self, write: Callable[..., Any], steps: int) -> None:
        self._write = write
        self._left = steps

    async def __call__(self, work: Callable[[Session], Any]) -> Any:
        def dying(session: Session) -> Any:
            mortal: Any = KilledSession(session, self._left)
            mortal.kind = session.kind
            result = work(mortal)
            mortal.step()
            self._left = mortal.left
            return result

        result = await self._write(dying)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


async def run(source: str, target: str, steps: int) -> None:
    database_copy.ROWS_PER_BATCH = 2
    await unclaimed(source, target)  # in this process: the forking process starts no thread
    clock = SystemClock()
    async with (
        Store(open_database(source), clock) as there,
        Store(open_database(target), clock) as here,
    ):
        await here.prepare()
        here.database.write = KilledTransactions(here.database.write, steps)  # type: ignore[method-assign]
        moved = await copy_database(there, here, clock, lambda _: None)
        assert not moved.differing


def main(source: str, target: str) -> None:
    """Fork one process after another until one is not killed."""
    died = 0
    while True:
        pid = os.fork()
        if pid == 0:
            asyncio.run(run(source, target, died))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            break
        died += 1
    print(died if status == 0 else f"exit {status}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
