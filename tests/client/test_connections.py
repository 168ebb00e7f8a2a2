"""The connections of both clients: kept, lost, slow, refused, cancelled, with TLS (V4)."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from headwater.client import (
    AsyncHeadwater,
    HeadwaterClientError,
    HeadwaterProblem,
    HeadwaterTimeout,
    HeadwaterUnreachable,
)
from headwater.client.results.events import PostCreatedEvent, ResetEvent, TickEvent
from headwater.engine.events import EventKind
from tests.api.conftest import Served, settings_in
from tests.api.conftest import serving as serving_api
from tests.client.conftest import Driven
from tests.fetch.loopback_servers import Server, answer, redirect, serving
from tests.fetch.test_http_tls import a_certificate, server_context

HEALTH = json.dumps({"status": "ok", "version": "1", "schema": 1, "new": {"later": True}}).encode()
OK = answer("200 OK", HEALTH, "Content-Type: application/json")


async def health_of(kind: Any, url: str, **options: Any) -> Any:
    """What a client reads that is used once."""
    client = Driven(kind(url, **options))
    try:
        return await client.call("get_health")
    finally:
        await client.close()


async def test_v4_a_connection_is_used_again(kind: Any) -> None:
    async with serving(OK) as server:
        client = Driven(kind(server.origin))
        for _ in range(3):
            assert (await client.call("get_health")).version == "1"
        assert server.connections == 1
        assert server.sent("host") == f"127.0.0.1:{server.port}"
        await client.close()


async def test_v4_a_connection_that_was_closed_while_idle_is_replaced(kind: Any) -> None:
    async def last_answer(reader: Any, writer: Any) -> None:
        writer.write(OK)
        writer.close()

    async with serving(last_answer) as server:
        client = Driven(kind(server.origin))
        for _ in range(2):
            assert (await client.call("get_health")).status == "ok"
            await asyncio.wait_for(server.settled(), 30)
        assert server.connections == 2
        await client.close()


async def test_v4_a_repeatable_request_is_sent_again_on_another_connection(kind: Any) -> None:
    async def closed_instead(reader: Any, writer: Any) -> None:
        writer.close()

    async with serving(OK, closed_instead, OK) as server:
        client = Driven(kind(server.origin))
        await client.call("get_health")
        assert (await client.call("get_health")).status == "ok"
        assert server.connections == 2
        await client.close()
    async with serving(OK, closed_instead, OK) as server:
        client = Driven(kind(server.origin))
        await client.call("get_health")
        with pytest.raises(HeadwaterUnreachable, match="not known whether the request was handled"):
            await client.call("create_user", "ann")
        assert server.connections == 1
        await client.close()


async def test_v4_a_refused_connection_is_a_clear_error(kind: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(HeadwaterUnreachable, match=f"no connection to http://127.0.0.1:{port}"):
            await health_of(kind, f"http://127.0.0.1:{port}")


async def silence(reader: Any, writer: Any) -> None:
    await reader.read()


async def test_v4_a_service_that_does_not_respond_is_a_timeout(kind: Any) -> None:
    async with serving(silence) as server:
        with pytest.raises(HeadwaterTimeout, match=r"did not respond within 0\.2 s"):
            await health_of(kind, server.origin, timeout=0.2)


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"no HTTP at all\r\n\r\n",
        b"",
    ],
)
async def test_v4_a_broken_response_is_an_error(kind: Any, broken: bytes) -> None:
    async def breaking(reader: Any, writer: Any) -> None:
        writer.write(broken)
        writer.close()

    async with serving(breaking) as server:
        with pytest.raises(HeadwaterUnreachable, match="before the response was complete"):
            await health_of(kind, server.origin)


async def test_v4_what_another_program_answers_is_an_error_of_the_client(kind: Any) -> None:
    html = answer("502 Bad Gateway", b"<h1>Bad gateway</h1>", "Content-Type: text/html")
    for reply, text in (
        (
            html,
            "502 Bad Gateway: the response is not from a Headwater service: 20 bytes, text/html",
        ),
        (redirect("https://example.org/"), "it redirects to https://example.org/"),
        (answer("200 OK", b"<html>"), "the response is not from a Headwater service"),
    ):
        async with serving(reply) as server:
            with pytest.raises(HeadwaterProblem, match=text):
                await health_of(kind, server.origin)
    async with serving(answer("200 OK", b'{"status": "ok"}')) as server:
        with pytest.raises(HeadwaterClientError, match="'version'"):
            await health_of(kind, server.origin)


async def test_v4_a_chunked_response_after_an_interim_one_is_read(kind: Any) -> None:
    async def interim(reader: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n")
        half = len(HEALTH) // 2
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (HEALTH[:half], HEALTH[half:]))
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + chunks + b"0\r\n\r\n")
        writer.close()

    async with serving(interim) as server:
        assert (await health_of(kind, server.origin)).version == "1"


async def test_v4_a_service_may_be_below_a_path(kind: Any) -> None:
    async with serving(OK) as server:
        await health_of(kind, f"{server.origin}/poller/", token="secret")
        assert server.paths == ["/poller/api/health"]
        assert server.sent("authorization") == "Bearer secret"


async def test_v4_certificates_are_verified(kind: Any, tmp_path: Path) -> None:
    key, certificate = a_certificate(["localhost"])
    trusting = ssl.create_default_context(
        cadata=certificate.public_bytes(serialization.Encoding.PEM).decode()
    )
    async with serving(OK, tls=server_context(tmp_path, key, certificate)) as server:
        url = f"https://localhost:{server.port}"
        client = Driven(kind(url, ssl_context=trusting))
        for _ in range(3):
            assert (await client.call("get_health")).status == "ok"
        assert server.connections == 1
        await client.close()
        with pytest.raises(HeadwaterUnreachable, match="certificate of https://localhost"):
            await health_of(kind, url)
        with pytest.raises(HeadwaterUnreachable, match="certificate of https://127"):
            await health_of(kind, f"https://127.0.0.1:{server.port}", ssl_context=trusting)


async def test_v4_a_large_request_that_is_refused_early_is_a_problem(
    kind: Any, tmp_path: Path
) -> None:
    settings = settings_in(tmp_path, **{"app.limits.max-request-bytes": 10_000})
    async with serving_api(settings) as served:
        client = Driven(kind(served.url))
        with pytest.raises(HeadwaterProblem, match=r"^413 "):
            await client.call("import_opml", "default", "x" * 5_000_000)
        assert (await client.call("get_health")).status == "ok"
        await client.close()


async def test_v4_a_call_of_asyncio_can_be_cancelled() -> None:
    async with serving(silence) as server, AsyncHeadwater(server.origin) as client:
        call = asyncio.create_task(client.get_health())
        while not server.requests:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(server.settled(), 30)  # its connection is closed


async def test_v4_many_calls_at_once(served: Served, client: Driven) -> None:
    found = await asyncio.gather(*(client.call("get_user", "default") for _ in range(30)))
    assert {user.name for user in found} == {"default"}


def test_v4_a_client_of_asyncio_may_outlive_its_event_loop(tmp_path: Path) -> None:
    client = AsyncHeadwater("http://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(HeadwaterUnreachable):
            asyncio.run(client.get_health())


async def test_v4_events_arrive_as_they_happen(served: Served, client: Driven) -> None:
    async with asyncio.timeout(60), aclosing(client.items("events")) as events:
        ticking = asyncio.create_task(tick_forever(served))
        event = await anext(events)
        assert isinstance(event.data, TickEvent)
        assert event.event == "tick"
        assert event.id
        following = await anext(events)
        assert following.data.at >= event.data.at
        ticking.cancel()


async def tick_forever(served: Served) -> None:
    while True:
        await served.service.tick()
        await asyncio.sleep(0.01)


async def test_v4_events_are_chosen_and_resumed(served: Served, client: Driven) -> None:
    async with asyncio.timeout(60):
        ticking = asyncio.create_task(tick_forever(served))
        async with aclosing(client.items("events", types=["tick"])) as events:
            first = await anext(events)
        ticking.cancel()
        served.service.events.emit(EventKind.OUTAGE, text="DNS")
        options = {"types": ["outage"], "last_event_id": first.id}
        async with aclosing(client.items("events", **options)) as events:
            outage = await anext(events)
        assert outage.data.kind == "DNS"
        async with aclosing(client.items("events", last_event_id="1-1")) as events:
            assert isinstance((await anext(events)).data, ResetEvent)


async def test_v4_a_stream_that_cannot_begin_is_a_problem(served: Served, client: Driven) -> None:
    with pytest.raises(HeadwaterProblem, match=r"^404 "):
        await anext(aiter(client.items("events", podcast="nowhere")))
    with pytest.raises(HeadwaterProblem, match=r"^422 "):
        await anext(aiter(client.items("events", types=["nothing"])))


POST = {
    "at": "2026-02-16T08:00:00.412Z", "sourceId": "5f0c", "podcastId": "default",
    "userId": "default", "url": "https://example.org/2026/rivers", "host": None, "id": "019c",
    "title": "Water", "publishedAt": None, "author": None, "contentHash": "9f",
    "createdAt": "2026-02-16T08:00:00.412Z", "seq": 7, "language": "en", "imageUrl": None,
    "completeness": "full", "textFrom": "feed",
}  # fmt: skip
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 10\r\nid: 1-1\r\n\r\n"


def event_text(number: int, kind: str, data: Any) -> bytes:
    return f": comment\nid: 1-{number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


async def test_v4_a_stream_reconnects_after_the_last_event(kind: Any) -> None:
    async def interrupted(reader: Any, writer: Any) -> None:
        text = event_text(2, "post.created", POST) + event_text(3, "post.created", POST)
        writer.write(STREAM + text[:-20])  # the second one is cut off
        writer.close()

    async def resumed(reader: Any, writer: Any) -> None:
        writer.write(STREAM + event_text(3, "future.kind", {"a": 1}))
        await reader.read()

    busy = answer("503 Service Unavailable", b"", "Retry-After: 0")
    async with serving(interrupted, busy, resumed) as server:
        client = Driven(kind(server.origin))
        async with asyncio.timeout(60), aclosing(client.items("events")) as events:
            first, second = await anext(events), await anext(events)
        assert isinstance(first.data, PostCreatedEvent)
        assert (first.id, first.data.seq) == ("1-2", 7)
        assert (second.event, second.data) == ("future.kind", {"a": 1})
        assert resumptions(server) == [None, "1-2", "1-2"]
        await client.close()


def resumptions(server: Server) -> list[str | None]:
    return [server.sent("last-event-id", n) for n in range(len(server.requests))]


async def test_v4_following_waits_while_the_service_is_away(kind: Any) -> None:
    empty = json.dumps({"items": [], "nextCursor": None, "nextAfter": 5}).encode()
    document = json.dumps({"type": "x", "title": "No", "status": 403, "detail": "no"}).encode()
    page = answer("200 OK", empty)
    refused = answer("403 Forbidden", document)
    busy = answer("503 Service Unavailable", b"", "Retry-After: 0")
    async with serving(page, busy, page, refused) as server:
        client = Driven(kind(server.origin))
        with pytest.raises(HeadwaterProblem, match="403 No: no"):
            await client.all("follow", "default", poll_seconds=0.01)
        assert server.paths[-1] == "/api/users/default/podcasts/default/posts?after=5"
        assert len(server.requests) == 4
        await client.close()


def test_v4_the_client_loads_fast_and_without_the_service() -> None:
    code = (
        "import sys, time, headwater.client; print(time.process_time());"
        "print(*sorted({name.split('.')[0] for name in sys.modules}));"
        "print(*(name for name in sys.modules if name.startswith('headwater.')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, packages, modules = ran.stdout.splitlines()
    assert float(seconds) < 1.5  # some 0.1 s on an idle machine
    assert not {"fastapi", "pydantic", "starlette", "lxml", "sqlite3"} & set(packages.split())
    assert all(name.startswith("headwater.client") for name in modules.split())
