"""Records polls in processes that are killed at one step after the other; see test_kill.py.

Every line on the standard output is the id of a source whose poll was reported as stored.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from headwater.model import Outcome
from headwater.store import Session, Store, open_database, posts
from headwater.store.record import record, record_large
from tests.store.pieces import StoreClock, a_rich_success

STATEMENTS = (
    "execute", "execute_many", "fetch", "fetch_together", "insert_rows", "update_rows",
)  # fmt: skip


class DyingSession:
    """A session whose process is killed right before its n-th statement, or before the commit."""

    def __init__(self, session: Session, steps: int) -> None:
        self._session = session
        self._left = steps

    def __getattr__(self, name: str) -> Any:
        if name in STATEMENTS:
            self.step()
        return getattr(self._session, name)

    def step(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


async def poll(url: str, source_id: str, steps: int, way: str) -> None:
    """Record one poll of a source; the process dies after so many steps."""
    async with Store(open_database(url), StoreClock()) as store:
        outcome = a_rich_success(await store.sources.get(source_id))

        def dying(session: Session) -> Outcome:
            mortal: Any = DyingSession(session, steps)
            large = way == "large"
            result = record_large(mortal, outcome) if large else record(mortal, [outcome])[0]
            mortal.step()
            return result

        write = store.database.write_aside if way == "large" else store.database.write
        assert (await write(dying)).recorded
        print(source_id, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, way: str, *source_ids: str) -> None:
    """Fork a process per source, each of which dies one step later than the one before.

    The `large` way stores posts in bites, of one each.
    """
    posts._MOST_TOGETHER = 1
    for steps, source_id in enumerate(source_ids):
        pid = os.fork()  # no thread has been started yet
        if pid == 0:
            asyncio.run(poll(url, source_id, steps, way))
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
