"""Records polls in processes that are killed, each one step later; see test_kill.py.

Every line on the standard output is the id of a source whose poll was reported as stored.
"""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from typing import Any

from headwater.model import Outcome
from headwater.store import Session, Store, open_database, posts
from headwater.store.record_outcomes import record, record_large
from tests.store.store_data import StoreClock, a_rich_success

STATEMENTS = (
    "execute", "execute_many", "fetch", "fetch_bulk", "fetch_unprepared", "insert_rows",
    "update_rows",
)  # fmt: skip


class KilledSession:
    """A session whose process is killed right before its n-th statement, or before the commit."""

    def __init__(self, session: Session, steps: int) -> None:
        self._session = session
        self.left = steps

    def __getattr__(self, name: str) -> Any:
        if name in STATEMENTS:
            self.step()
        return getattr(self._session, name)

    def step(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


async def poll(url: str, source_id: str, steps: int, way: str) -> None:
    """Record one poll of a source; the process is killed after a number of steps."""
    async with Store(open_database(url), StoreClock()) as store:
        outcome = a_rich_success(await store.sources.get(source_id))
        # numbered when they are stored, as in a poll: forked processes count from the same number
        outcome = replace(outcome, posts=tuple(replace(post, seq=None) for post in outcome.posts))

        def dying(session: Session) -> Outcome:
            mortal: Any = KilledSession(session, steps)
            large = way == "large"
            result = record_large(mortal, outcome) if large else record(mortal, [outcome])[0]
            mortal.step()
            return result

        write = store.database.write_long if way == "large" else store.database.write
        assert (await write(dying)).recorded
        print(source_id, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, way: str, *source_ids: str) -> None:
    """Fork a process per source, each of which is killed one step later than the one before.

    With `large`, posts are stored in batches of one each.
    """
    posts.ROWS_PER_STATEMENT = 1
    for steps, source_id in enumerate(source_ids):
        pid = os.fork()  # no thread has been started yet
        if pid == 0:
            asyncio.run(poll(url, source_id, steps, way))
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
