"""Rotates master keys in processes that are killed, each one step later.

See test_key_rotation.py. Every line on the standard output is a folder whose rotation finished.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.operations.key_rotation import rotate_master_key
from headwater.store import Session, Store, open_database
from headwater.vault import MasterKeys
from tests.store.store_data import StoreClock

DATABASE, KEYS = "test.db", "test.db.key"


class KillCountdown:
    """Kills the process after a number of steps."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def step(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.step()
            return work(*args, **options)

        return counted

    def around(self, write: Callable[..., Any]) -> Callable[..., Any]:
        """A transaction whose process may be killed before it, before its commit, and after it."""

        async def counted(work: Callable[[Session], Any]) -> Any:
            def counted_transaction(session: Session) -> Any:
                result = work(session)
                self.step()
                return result

            self.step()
            result = await write(counted_transaction)
            self.step()
            return result

        return counted


async def rotate(folder: Path, countdown: KillCountdown) -> None:
    async with Store(open_database(f"sqlite:///{folder / DATABASE}"), StoreClock()) as store:
        store.database.write = countdown.around(store.database.write)  # type: ignore[method-assign]
        for name in ("fsync", "replace", "unlink"):
            setattr(os, name, countdown.before(getattr(os, name)))
        await rotate_master_key(store, MasterKeys(folder / KEYS))
        print(folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def main(*folders: str) -> None:
    """Fork a process per folder, each of which is killed one step later than the one before."""
    for steps, folder in enumerate(folders):
        pid = os.fork()  # no thread has been started yet
        if pid == 0:
            asyncio.run(rotate(Path(folder), KillCountdown(steps)))
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
