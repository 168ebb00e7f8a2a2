"""POST requests of the client, for messages of webhooks (V2)."""

import asyncio

import pytest

from headwater.errors import AddressRefused, BadRedirect, LeaseLost
from tests.fetch.loopback_servers import VisitRecorder, answer, redirect, serving, visitor

BODY = '{"title": "Flüsse"}'.encode()


async def test_v2_a_post_sends_its_body_and_headers():
    received = []

    async def receive(reader, writer):
        received.append(await reader.readexactly(len(BODY)))
        writer.write(answer("204 No Content"))

    async with serving(receive) as server, visitor() as client:
        response = await client.post(server.url("/hook"), BODY, {"webhook-id": "msg_1"})
        assert response.status == 204
        assert server.requests[0].startswith(b"POST /hook HTTP/1.1\r\n")
        assert server.sent("Content-Length") == str(len(BODY))
        assert server.sent("webhook-id") == "msg_1"
    assert received == [BODY]


async def test_v2_a_post_follows_no_redirect():
    async with serving() as other, serving(redirect(other.url())) as server:
        async with visitor() as client:
            with pytest.raises(BadRedirect, match="which a POST does not follow"):
                await client.post(server.url(), b"", {})
        assert other.requests == []


@pytest.mark.parametrize("status", ["400 Bad Request", "410 Gone", "503 Service Unavailable"])
async def test_v2_the_status_of_an_error_is_returned(status: str):
    async with serving(answer(status, b"sorry")) as server, visitor() as client:
        response = await client.post(server.url(), b"", {})
    assert response.status == int(status[:3])


async def test_v2_n3_a_post_to_a_private_address_is_refused():
    async with serving() as server, visitor(allow_private_networks=False) as client:
        with pytest.raises(AddressRefused):
            await client.post(server.url(), b"", {})
        assert server.connections == 0


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "response",
    [
        answer("200 OK", b"x" * 100_000),
        b"HTTP/1.1 201 Created\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 5000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000,
        CHUNKED + b"186a0\r\n" + b"x" * 100_000 + b"\r\n0\r\n\r\n",
        answer("202 Accepted", b"x" * 100_000, "Content-Encoding: gzip"),
        answer("206 Partial Content", b"x" * 100),
    ],
)
async def test_v2_n9_a_success_counts_whatever_its_body(response: bytes):
    async with serving(response) as server, visitor(max_body_bytes=1000) as client:
        sent = await client.post(server.url(), b"", {})
        assert 200 <= sent.status < 300
        assert len(sent.body) <= 4096
        await client.post(server.url(), b"", {})
    assert len(server.requests) == 2


async def test_v2_n11_a_connection_is_used_again_after_a_short_body_only():
    async def long(_reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 5000)
        await asyncio.Event().wait()

    short = answer("200 OK", b"x" * 4000)
    async with serving(short, short, long, short) as server, visitor() as client:
        for _ in range(4):
            await client.post(server.url(), b"", {})
        assert server.connections == 2


@pytest.mark.parametrize("start", [b"", b"x" * 10])
async def test_v2_a_success_whose_body_does_not_end_counts(start: bytes):
    async def stall(_reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + start)
        await asyncio.Event().wait()

    async with serving(stall) as server, visitor(read_timeout_seconds=1) as client:
        assert (await client.post(server.url(), b"", {})).status == 200


async def test_v2_k8_nothing_is_posted_once_the_lease_is_lost():
    for checks in (0, 1):  # before the connection is opened, and before the request is sent
        visit = VisitRecorder()
        visit.checks_left = checks
        async with serving() as server, visitor() as client:
            with pytest.raises(LeaseLost):
                await client.post(server.url(), b"", {}, visit=visit)
        assert server.requests == []
