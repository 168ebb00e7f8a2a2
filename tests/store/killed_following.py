"""Follows posts in processes that are killed, each one step later; see test_followers.py."""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from headwater.engine.followers import STORIES
from headwater.model import Post
from headwater.store import Session, Store, open_database
from headwater.store.followers import Follower, follow
from headwater.store.search_followers import search_follower
from tests.store.killed_recording import KilledSession
from tests.store.store_data import StoreClock

BATCH = 3


def note(session: Session, posts: Sequence[Post]) -> None:
    """Store the ids of posts in the order they were handled."""
    session.insert_rows("followed", [{"post_id": post.id} for post in posts])


NOTES = Follower("notes", note)


FOLLOWERS = {follower.name: follower for follower in (NOTES, STORIES, search_follower())}


async def handle_posts(url: str, steps: int, name: str) -> None:
    """Handle batches until none is left; the process is killed after a number of statements."""
    async with Store(open_database(url), StoreClock()) as store:

        def dying(session: Session) -> bool:
            nonlocal steps
            mortal: Any = KilledSession(session, steps)
            more = follow(mortal, FOLLOWERS[name], BATCH)
            mortal.step()  # before the commit
            steps = mortal.left
            return more

        while await store.database.write(dying):
            pass


def main(url: str, processes: str, name: str = NOTES.name) -> None:
    """Fork processes, each of which is killed one step later than the one before."""
    for steps in range(int(processes)):
        pid = os.fork()  # no thread has been started yet
        if pid == 0:
            asyncio.run(handle_posts(url, steps, name))
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
