"""Event streams of a real `headwater serve`: their events and their end."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.system.conftest import Headwater, feed_site, web_of

pytestmark = pytest.mark.system


@asynccontextmanager
async def events_of(headwater: Headwater) -> AsyncIterator[asyncio.StreamReader]:
    """An open stream after its first line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", headwater.port)
    writer.write(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    try:
        async with asyncio.timeout(60):
            await reader.readuntil(b": headwater\n")
        yield reader
    finally:
        writer.close()


async def the_next(reader: asyncio.StreamReader, kind: str) -> Any:
    """The data of the next event of a kind."""
    async with asyncio.timeout(60):
        await reader.readuntil(f"event: {kind}\ndata: ".encode())
        return json.loads(await reader.readline())


async def test_k4_sigterm_ends_open_streams_and_exits_0_at_once(headwater: Headwater):
    await headwater.start()
    async with events_of(headwater) as first, events_of(headwater) as second:
        assert (await the_next(first, "tick"))["sources"] == 0
        assert await headwater.stop(signal.SIGTERM) == 0
        for reader in (first, second):  # ended properly, not cut off at the timeout
            assert (await reader.read()).endswith(b"0\r\n\r\n")
    assert "Traceback" not in headwater.log
    assert "timeout graceful shutdown exceeded" not in headwater.log


async def test_a_poll_of_the_command_line_is_an_event(headwater: Headwater):
    async with web_of(feeds=feed_site()) as web:
        await headwater.start()
        async with events_of(headwater) as reader:
            source_id = await headwater.add(web.url("feeds", "/a"), include_history=True)
            await headwater.cli("poll", "--source", source_id)
            assert (await the_next(reader, "post.created"))["sourceId"] == source_id
            finished = await the_next(reader, "poll.finished")
        assert (finished["sourceId"], finished["newPosts"]) == (source_id, 1)
        assert await headwater.stop() == 0
