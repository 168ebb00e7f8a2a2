"""A podcast maker's whole workflow with a real service, through each interface (E1, V4, V5)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import pytest

from headwater.client import AsyncHeadwater
from headwater.client import Headwater as Client
from tests.client.conftest import Driven
from tests.mcp_server.conftest import Tools, connected, unmarked
from tests.system.browser_maker import browser_maker
from tests.system.conftest import Headwater, web_of
from tests.system.workflow import Material, PodcastMaker, feeds, make_an_episode

pytestmark = [pytest.mark.slow, pytest.mark.system]


class ApiMaker:
    """Sends the requests that the documentation of the API describes."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def add_source(self, url: str, *, digest: bool) -> None:
        body = {"url": url, "includeHistory": True, "aggregate": digest}
        await self._call("POST", "/sources", body)

    async def titles(self) -> set[str]:
        return {post["title"] for post in (await self._call("GET", "/posts"))["items"]}

    async def search(self, query: str) -> set[str]:
        found = await self._call("GET", "/posts", q=query)
        return {post["title"] for post in found["items"]}

    async def block(self, query: str) -> None:
        await self._call("PUT", "", {"name": "default", "block": query})

    async def aggregate(self) -> None:
        await self._call("POST", "/articles/aggregate")

    async def unprocessed(self, min_score: float | None = None) -> list[Material]:
        least = {} if min_score is None else {"minScore": str(min_score)}
        found = await self._call("GET", "/articles", processed="false", **least)
        return [Material(one["id"], one["title"], one["score"]) for one in found["items"]]

    async def set_score(self, article_id: str, score: float) -> None:
        await self._call("PATCH", f"/articles/{article_id}", {"score": score})

    async def mark(self, article_ids: list[str], batch: str) -> None:
        await self._call("POST", "/articles/processed", {"ids": article_ids, "batch": batch})

    async def undo(self, batch: str) -> None:
        await self._call("POST", "/articles/unprocessed", {"batch": batch})

    async def batches(self) -> dict[str, int]:
        found = (await self._call("GET", "/batches"))["items"]
        return {one["name"]: one["articles"] for one in found}

    async def _call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        url = f"/api/users/default/podcasts/default{path}"
        async with self._session.request(method, url, json=body, params=query) as answer:
            assert answer.status in (200, 201), await answer.text()
            return await answer.json()


class ClientMaker:
    """Uses the Python client."""

    def __init__(self, client: Driven) -> None:
        self._client = client

    async def add_source(self, url: str, *, digest: bool) -> None:
        await self._client.call(
            "add_source", "default", url, include_history=True, aggregate=digest
        )

    async def titles(self) -> set[str]:
        return {post.title for post in await self._client.all("posts", "default")}

    async def search(self, query: str) -> set[str]:
        return {post.title for post in await self._client.all("search", "default", query)}

    async def block(self, query: str) -> None:
        await self._client.call("replace_podcast", "default", "default", block=query)

    async def aggregate(self) -> None:
        await self._client.call("aggregate", "default")

    async def unprocessed(self, min_score: float | None = None) -> list[Material]:
        wanted = {"processed": False, "min_score": min_score}
        found = await self._client.all("articles", "default", **wanted)
        return [Material(one.id, one.title, one.score) for one in found]

    async def set_score(self, article_id: str, score: float) -> None:
        await self._client.call("annotate_article", "default", article_id, score=score)

    async def mark(self, article_ids: list[str], batch: str) -> None:
        await self._client.call("mark_processed", "default", article_ids, batch)

    async def undo(self, batch: str) -> None:
        await self._client.call("unprocess", "default", batch=batch)

    async def batches(self) -> dict[str, int]:
        found = await self._client.all("batches", "default")
        return {one.name: one.articles for one in found}


class McpMaker(ApiMaker):
    """Uses the tools for language models; what they do not offer is done with the API."""

    def __init__(self, session: aiohttp.ClientSession, tools: Tools) -> None:
        super().__init__(session)
        self._tools = tools

    async def add_source(self, url: str, *, digest: bool) -> None:
        added = await self._tools.call(
            "add_source", podcast="default", url=url, include_history=True
        )
        if digest:
            await self._call("PATCH", f"/sources/{added['id']}", {"aggregate": True})

    async def titles(self) -> set[str]:
        found = await self._tools.call("search_posts", podcast="default")
        return {unmarked(post["title"]) for post in found["items"]}

    async def search(self, query: str) -> set[str]:
        found = await self._tools.call("search_posts", podcast="default", query=query)
        return {unmarked(post["title"]) for post in found["items"]}

    async def unprocessed(self, min_score: float | None = None) -> list[Material]:
        found = await self._tools.call("unprocessed_articles", podcast="default", max_tokens=5000)
        assert found["leftOut"] == 0
        material = [
            Material(one["id"], unmarked(one["title"]), one.get("score")) for one in found["items"]
        ]
        return [
            one
            for one in material
            if min_score is None or (one.score is not None and one.score >= min_score)
        ]

    async def set_score(self, article_id: str, score: float) -> None:
        await self._tools.call("annotate", podcast="default", id=article_id, score=score)

    async def mark(self, article_ids: list[str], batch: str) -> None:
        await self._tools.call("mark_processed", podcast="default", ids=article_ids, batch=batch)


@asynccontextmanager
async def api_maker(url: str) -> AsyncIterator[PodcastMaker]:
    async with aiohttp.ClientSession(url) as session:
        yield ApiMaker(session)


@asynccontextmanager
async def mcp_maker(url: str) -> AsyncIterator[PodcastMaker]:
    async with aiohttp.ClientSession(url) as session, connected(url) as tools:
        yield McpMaker(session, tools)


@asynccontextmanager
async def client_maker(kind: Any, url: str) -> AsyncIterator[PodcastMaker]:
    client = Driven(kind(url))
    try:
        yield ClientMaker(client)
    finally:
        await client.close()


@pytest.mark.parametrize(
    "interface",
    [
        pytest.param(api_maker, id="api"),
        pytest.param(partial(client_maker, Client), id="client"),
        pytest.param(partial(client_maker, AsyncHeadwater), id="async-client"),
        pytest.param(mcp_maker, id="mcp"),
        pytest.param(browser_maker, id="browser"),
    ],
)
async def test_e1_v4_v5_a_podcast_maker_makes_an_episode(
    headwater: Headwater, interface: Callable[[str], AbstractAsyncContextManager[PodcastMaker]]
) -> None:
    async with web_of(news=feeds) as web:
        await headwater.start()
        async with interface(f"http://127.0.0.1:{headwater.port}") as maker:
            await make_an_episode(maker, partial(web.url, "news"))
        assert await headwater.stop() == 0
    assert "Traceback" not in headwater.log
