"""Rolls up a batch of old polls in a process that is killed at one step; see test_poll_days.py."""

import asyncio
import os
import signal
import sys
from typing import Any

from headwater.store import Session, Store, open_database
from headwater.store.expired_rows import old_polls
from tests.store.killed_recording import KilledSession
from tests.store.store_data import NOW, StoreClock


async def main(url: str, steps: int) -> None:
    """Kill this process before the n-th statement, before the commit, or after it."""
    async with Store(open_database(url), StoreClock()) as store:
        batch = old_polls(14)
        found = await store.database.read(lambda s: batch.find(s, NOW, 9))

        def dying(session: Session) -> int:
            mortal: Any = KilledSession(session, steps)
            count = batch.remove(mortal, found, 9)
            mortal.step()
            return count

        await store.database.write(dying)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
