"""Runs the followers of stored posts, in one process at a time: see `store/followers.py`."""

from collections.abc import Sequence
from functools import partial

from headwater.clock import Clock
from headwater.errors import DatabaseUnavailable
from headwater.logs import get_logger
from headwater.store import Store
from headwater.store.followers import (
    POSTS_PER_BATCH,
    Follower,
    behind,
    follow,
    skip_next,
)
from headwater.store.search_followers import search_follower
from headwater.store.story_grouping import group, posts_to_group

log = get_logger()
STORIES = Follower("stories", group, read=posts_to_group)  # I1
FOLLOW_SECONDS = 1.0  # between checks for new posts
_PAUSE_SECONDS = 0.05  # between batches, so that polls and requests go first


def all_followers() -> tuple[Follower, ...]:
    """The followers of this program.

    Stories first: a new post is indexed once, rather than again after its story changed.
    """
    return (STORIES, search_follower())


class Followers:
    """All followers of one database."""

    def __init__(self, store: Store, clock: Clock, followers: Sequence[Follower]) -> None:
        self._store = store
        self._clock = clock
        self._all = tuple(followers)
        self.names = [follower.name for follower in followers]

    async def run(self, pause_seconds: float = _PAUSE_SECONDS) -> None:
        """Let every follower handle what was stored since, batch by batch."""
        if not self._all:
            return
        waiting = await self._store.database.read_single(partial(behind, followers=self._all))
        while waiting:  # in turn: a long one does not delay the others
            waiting = [
                follower for follower in waiting if await handle_batch(self._store, follower)
            ]
            if waiting:
                await self._clock.sleep(pause_seconds)

    async def catch_up(self) -> None:
        """Do the same without pauses, for a command that needs what followers make."""
        await self.run(pause_seconds=0)


async def handle_batch(store: Store, follower: Follower) -> bool:
    """Handle the next posts; True: there are more."""
    write = store.database.write_apart
    try:
        return await write(partial(follow, follower=follower))
    except DatabaseUnavailable:
        raise
    except Exception:  # one post must not stop the others (H4)
        log.exception("[Followers] a batch failed; its posts follow one by one", of=follower.name)
    for _ in range(POSTS_PER_BATCH):
        try:
            more = await write(partial(follow, follower=follower, limit=1))
        except DatabaseUnavailable:
            raise
        except Exception:
            post = await write(partial(skip_next, follower=follower))
            log.exception("[Followers] a post was skipped", of=follower.name, post=post)
            more = True
        if not more:
            return False
    return True
