"""Both clients behind one interface, and a served API for them."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.client import AsyncHeadwater, Headwater
from tests.api.conftest import Served, serving, settings_in


@dataclass
class Driven:
    """A client; calls of the blocking one run in a thread."""

    client: Headwater | AsyncHeadwater

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method such as `get_post` or `posts.page`."""
        method: Any = self.client
        for part in name.split("."):
            method = getattr(method, part)
        if isinstance(self.client, Headwater):
            return await asyncio.to_thread(method, *args, **kwargs)
        return await method(*args, **kwargs)

    async def all(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """All items that a method yields."""
        found = getattr(self.client, name)(*args, **kwargs)
        if isinstance(self.client, Headwater):
            return await asyncio.to_thread(list, found)
        return [item async for item in found]

    async def items(self, name: str, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """The items that a method yields, one by one."""
        found = getattr(self.client, name)(*args, **kwargs)
        if isinstance(self.client, Headwater):
            try:
                while batch := await asyncio.to_thread(list, itertools.islice(found, 1)):
                    yield batch[0]
            finally:
                found.close()
            return
        async with aclosing(found):
            async for item in found:
                yield item

    async def close(self) -> None:
        if isinstance(self.client, Headwater):
            self.client.close()
        else:
            await self.client.close()


@pytest.fixture(params=[Headwater, AsyncHeadwater], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Any:
    """The class of the client."""
    return request.param


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(settings_in(tmp_path)) as running:
        yield running


@pytest.fixture
async def client(kind: Any, served: Served) -> AsyncIterator[Driven]:
    """A client of an API over an empty database, without tokens."""
    driven = Driven(kind(served.url, timeout=60))
    yield driven
    await driven.close()
