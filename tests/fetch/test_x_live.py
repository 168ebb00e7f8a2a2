"""X timelines through the real client, from a server on loopback that replays the API."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headwater.errors import BadStatus, FetchError
from headwater.fetch.net.http_client import Client
from headwater.fetch.x.timeline import XTimelines
from headwater.model import Answer
from tests.factories import client_limits
from tests.fetch.scripted_x_api import KEY, NOW, USER, a_page, an_x_post, an_x_source

Answering = Callable[[str], tuple[int, dict[str, str], bytes]]


class Api:
    """A server that responds by path and records its requests with their headers."""

    def __init__(self, answer: Answering) -> None:
        self.answer = answer
        self.requests: list[str] = []
        self.base_url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(request)
        status, headers, body = self.answer(request.split(" ")[1])
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    @property
    def targets(self) -> list[str]:
        return [request.split(" ")[1] for request in self.requests]


@asynccontextmanager
async def serving(answer: Answering, host: str = "127.0.0.1") -> AsyncIterator[Api]:
    api = Api(answer)
    async with await asyncio.start_server(api.serve, host, 0) as server:
        api.base_url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
        yield api


async def polled(api: Api, last_seen_id: str | None = None) -> Answer:
    async with Client(client_limits(allow_private_networks=True)) as client:
        timelines = XTimelines(client, base_url=api.base_url)
        return await timelines.fetch(
            an_x_source(last_seen_id=last_seen_id), KEY, start_time=None, now=NOW
        )


def as_json(document: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()


async def test_x2_a_timeline_of_two_pages_is_fetched():
    def answer(target: str) -> tuple[int, dict[str, str], bytes]:
        if "/by/username/" in target:
            return as_json(USER)
        if "pagination_token=t%2F2" in target:
            return as_json(a_page(an_x_post(5, "水位 🌊")))
        return as_json(a_page(an_x_post(9, "one &amp; two"), next_token="t/2"))

    async with serving(answer) as api:
        found = await polled(api)
    assert [entry.body for entry in found.entries] == ["one & two", "水位 🌊"]
    assert found.last_seen_id == "42:9"
    assert found.size > 0
    assert api.targets[0] == "/2/users/by/username/river"
    assert all(f"Authorization: Bearer {KEY}" in request for request in api.requests)


async def test_p9_the_reset_of_a_rate_limit_is_found_in_headers_of_any_case():
    reset = str(int(NOW.timestamp()) + 300)
    async with serving(lambda _: (429, {"X-Rate-Limit-Reset": reset}, b"{}")) as api:
        with pytest.raises(BadStatus) as caught:
            await polled(api, "42:7")
    assert (caught.value.status, caught.value.hold_seconds) == (429, 300)


async def test_n10_a_truncated_response_fails_the_poll():
    body = json.dumps(a_page(an_x_post(9))).encode()[:-20]
    async with serving(lambda _: (200, {}, body)) as api:
        with pytest.raises(FetchError):
            await polled(api, "42:7")


async def test_n6_the_key_does_not_follow_a_redirect_to_another_origin():
    async with serving(lambda _: as_json(a_page(an_x_post(9))), "127.0.0.2") as elsewhere:
        location = {"Location": f"{elsewhere.base_url}/timeline"}
        async with serving(lambda _: (302, location, b"")) as api:
            await polled(api, "42:7")
    assert KEY in api.requests[0]
    assert elsewhere.targets == ["/timeline"]
    assert KEY not in elsewhere.requests[0]
