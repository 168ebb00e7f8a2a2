"""The API with /mcp on a free port, and the official client connected to it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from headwater.mcp_server.http_endpoint import add_mcp
from tests.api.conftest import Served, serving, settings_in

READ_TOOLS = [
    "list_podcasts",
    "list_sources",
    "source_health",
    "explain_source",
    "search_posts",
    "get_post",
    "unprocessed_articles",
]
WRITE_TOOLS = ["add_source", "mark_processed", "annotate"]


@dataclass
class Tools:
    """A connected client."""

    session: ClientSession

    async def names(self) -> list[str]:
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The result of a tool as JSON."""
        return json.loads(await self.text(tool, **arguments))

    async def text(self, tool: str, **arguments: Any) -> str:
        """The result of a tool as text."""
        done = await self.session.call_tool(tool, arguments)
        assert not done.is_error, done.content
        return _text(done)

    async def error(self, tool: str, **arguments: Any) -> str:
        """The error of a tool: one line."""
        done = await self.session.call_tool(tool, arguments)
        assert done.is_error, done.content
        text = _text(done)
        assert "\n" not in text
        assert "Traceback" not in text
        return text


def _text(result: Any) -> str:
    (content,) = result.content
    text: str = content.text
    return text


def unmarked(text: str) -> str:
    """A text without the marks of external text."""
    return re.sub(r"</?external-[0-9a-f]{8}>", "", text)


@asynccontextmanager
async def connected(url: str, token: str | None = None) -> AsyncIterator[Tools]:
    """The official client over HTTP."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as streams,
        ClientSession(*streams) as session,
    ):
        await session.initialize()
        yield Tools(session)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """The API with MCP over an empty SQLite database, without tokens."""
    async with serving(settings_in(tmp_path), add=lambda api, *_: add_mcp(api)) as running:
        yield running


@pytest.fixture
async def tools(served: Served) -> AsyncIterator[Tools]:
    """A client on this machine, without a token.

    It runs in a task of its own: its cancel scopes cannot end in another task than they began in.
    """
    opened: asyncio.Queue[Tools] = asyncio.Queue()
    done = asyncio.Event()

    async def hold() -> None:
        async with connected(served.url) as client:
            opened.put_nowait(client)
            await done.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold())
        yield await opened.get()
        done.set()
