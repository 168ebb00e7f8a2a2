"""A worker that ticks ten times a second while others tick as well."""

import asyncio
import sys
from contextlib import suppress

from headwater.__main__ import main
from headwater.engine.cluster.worker import ClusterWorker

_run = ClusterWorker.run


async def run_and_tick(self: ClusterWorker, stop: asyncio.Event) -> None:
    ticking = asyncio.create_task(tick(self))
    try:
        await _run(self, stop)
    finally:
        ticking.cancel()


async def tick(worker: ClusterWorker) -> None:
    while True:
        await asyncio.sleep(0.1)
        with suppress(Exception):  # the next tick tries again
            await worker.tick()


ClusterWorker.run = run_and_tick  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
