"""A worker that ticks ten times a second by itself, whoever else ticks at the same time."""

import asyncio
import sys

from headwater.__main__ import main
from headwater.engine.cluster import ClusterWorker

_reap = ClusterWorker._reap_loop


async def reap_and_tick(self: ClusterWorker) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_reap(self))
        group.create_task(tick(self))


async def tick(self: ClusterWorker) -> None:
    while True:
        await asyncio.sleep(0.1)
        await self._tried(self.tick(), "a tick failed")


ClusterWorker._reap_loop = reap_and_tick  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
