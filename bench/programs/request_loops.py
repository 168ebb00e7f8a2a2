"""Bare request loops: the lower limit of the cost of a poll."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import uvloop

from bench import feeds
from bench.programs.driver import Counts, MeasuredProgram, serve
from headwater.app import limits_from
from headwater.fetch.net.http_client import Client
from headwater.settings import load_settings

Get = Callable[[str, Mapping[str, str]], Awaitable[tuple[int, str | None]]]
_SLOTS = 256


class Loop:
    """Requests every URL once in a round, with a conditional request."""

    def __init__(self, config: dict[str, Any]) -> None:
        kind, port, scheme = config["kind"], config["port"], config["scheme"]
        self._urls = [feeds.url(n, kind, port, scheme) for n in range(config["feeds"])]
        self._etags: dict[str, str] = {}
        self._statuses: dict[str, int] = {}
        self._slots = config.get("slots", _SLOTS)
        self._open = AsyncExitStack()
        self._get: Get

    async def open(self) -> None:
        self._get = await self.getter(self._open)

    async def prepare(self) -> None: ...

    async def run(self) -> int:
        return await in_slots(self._urls, self._visit, self._slots)

    async def getter(self, stack: AsyncExitStack) -> Get:
        """Open a client and return its request function."""
        raise NotImplementedError

    async def counts(self) -> Counts:
        return self._statuses

    async def close(self) -> None:
        await self._open.aclose()

    async def _visit(self, url: str) -> None:
        etag = self._etags.get(url)
        status, new = await self._get(url, {} if etag is None else {"If-None-Match": etag})
        if new is not None and status == 200:
            self._etags[url] = new
        self._statuses[str(status)] = self._statuses.get(str(status), 0) + 1


class OurClient(Loop):
    """With the client that polls use, including its limits and its guard."""

    async def getter(self, stack: AsyncExitStack) -> Get:
        options = {
            "app.fetch.allow-private-networks": True,
            "app.fetch.max-connections": self._slots,
        }
        settings = load_settings(options=options, environ={})
        opened = Client(limits_from(settings))
        client = await stack.enter_async_context(opened)

        async def get(url: str, headers: Mapping[str, str]) -> tuple[int, str | None]:
            answer = await client.get(url, headers=headers)
            return answer.status, answer.headers.get("etag")

        return get


class Aiohttp(Loop):
    """With plain aiohttp."""

    async def getter(self, stack: AsyncExitStack) -> Get:
        connector = aiohttp.TCPConnector(limit=0, use_dns_cache=False)
        opened = aiohttp.ClientSession(connector=connector, headers={"User-Agent": "bench"})
        session = await stack.enter_async_context(opened)

        async def get(url: str, headers: Mapping[str, str]) -> tuple[int, str | None]:
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                await answer.read()
                return answer.status, answer.headers.get("ETag")

        return get


async def in_slots(urls: Sequence[str], visit: Callable[[str], Awaitable[None]], slots: int) -> int:
    """Run over all URLs, with the concurrency of the service."""
    rest = iter(urls)

    async def worker() -> None:
        for url in rest:
            await visit(url)

    await asyncio.gather(*(worker() for _ in range(slots)))
    return len(urls)


_PROGRAMS: Mapping[str, Callable[[dict[str, Any]], MeasuredProgram]] = {
    "client": OurClient,
    "aiohttp": Aiohttp,
}


if __name__ == "__main__":
    serve(lambda config: _PROGRAMS[config["program"]](config), uvloop.new_event_loop)
    sys.exit(0)
