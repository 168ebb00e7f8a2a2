"""Sources on scripted hosts, and hosts that respond when a test allows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from headwater.demo.demo_web import Reply, Request
from tests.api.conftest import DEFAULT, Served
from tests.system.conftest import rss

RSS = "application/rss+xml"


def feed(*names: str) -> Reply:
    """A feed whose entries are dated ahead, so that a first poll stores them."""
    ahead = datetime.now(UTC) + timedelta(hours=1)
    entries = [(name, f"Body of {name}", ahead) for name in names or ("one",)]
    return Reply(200, rss("demo.invalid", *entries), RSS)


class GatedHost:
    """A host that responds to no request until the test opens it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, request: Request) -> Reply:
        self.asked.set()
        await self.open.wait()
        return feed(request.path[1:])


async def watch(served: Served, url: str, *, place: str = DEFAULT, **more: Any) -> str:
    """Add a source and return its path."""
    options = {name: more.pop(name) for name in ("token",) if name in more}
    made = await served.post(f"{place}/sources", {"type": "rss", "url": url} | more, **options)
    assert made.status == 201, made.json
    return f"{place}/sources/{made.json['id']}"


@asynccontextmanager
async def running(served: Served) -> AsyncIterator[None]:
    """Run the scheduler, not only the API."""
    stop = asyncio.Event()
    task = asyncio.create_task(served.service.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task
