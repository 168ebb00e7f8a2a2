"""Connections: kept alive for a moment, verified, counted, and all closed (N11)."""

import asyncio
import gc
import gzip
import os

import pytest

from headwater.errors import (
    AddressRefused,
    ConnectFailed,
    FetchError,
    LeaseLost,
    LocalFault,
)
from tests.fetch.loopback_servers import VisitRecorder, answer, redirect, serving, visit, visitor


async def test_n11_a_connection_is_kept_for_the_next_visit():
    async with serving(answer("200 OK", b"hello")) as server, visitor() as client:
        for _ in range(3):
            assert (await client.get(server.url())).body == b"hello"
        assert (server.connections, len(server.requests)) == (1, 3)


async def test_n11_a_connection_with_an_unread_response_is_closed():
    async with serving(answer("404 Not Found", b"x" * 200_000)) as server, visitor() as client:
        for _ in range(2):
            assert (await client.get(server.url())).status == 404
        assert server.connections == 2


async def test_n11_a_redirect_that_was_read_keeps_its_connection():
    async with serving(redirect("/new"), answer("200 OK", b"hello")) as server:
        async with visitor() as client:
            await client.get(server.url())
        assert server.connections == 1


async def test_n11_a_stale_connection_is_replaced_without_a_failure():
    async def hang_up(reader, writer):
        pass

    async with serving(answer(), hang_up, answer("200 OK", b"again")) as server:
        async with visitor() as client:
            await client.get(server.url())
            response = await client.get(server.url())
        assert response.body == b"again"
        assert (server.connections, len(server.requests)) == (2, 3)


async def test_n11_a_stale_connection_is_replaced_only_once():
    async def hang_up(reader, writer):
        pass

    async with serving(answer(), hang_up, hang_up, answer()) as server, visitor() as client:
        await client.get(server.url())
        with pytest.raises(ConnectFailed):
            await client.get(server.url())
        assert (server.connections, len(server.requests)) == (2, 3)


@pytest.mark.parametrize(
    "unasked",
    [answer("200 OK", b"poison"), b"garbage\r\n", b"\r\n", b"HTTP/1.1 200 OK\r\n"],
    ids=["an answer", "garbage", "a blank line", "half an answer"],
)
@pytest.mark.parametrize("first", [answer("200 OK", b"first"), answer("304 Not Modified")])
async def test_n11_unrequested_bytes_close_the_connection(first, unasked):
    closed = asyncio.Event()

    async def chatty(reader, writer):
        writer.write(first)
        await writer.drain()
        await go_on.wait()
        writer.write(unasked)
        await reader.read()  # ends when the client has closed
        closed.set()

    go_on = asyncio.Event()
    async with serving(chatty, answer("200 OK", b"second")) as server, visitor() as client:
        await client.get(server.url())
        go_on.set()
        await closed.wait()
        assert (await client.get(server.url())).body == b"second"
        assert server.connections == 2


@pytest.mark.parametrize("behind", [b"<html>", answer("200 OK", b"poison")])
async def test_n11_bytes_after_a_response_without_body_are_not_read(behind):
    async with serving(answer("304 Not Modified") + behind, answer("200 OK", b"second")) as server:
        async with visitor() as client:
            assert (await client.get(server.url())).status == 304
            assert (await client.get(server.url())).body == b"second"
        assert server.connections == 2


@pytest.mark.parametrize("behind", [b"<html>", b"\r\n", answer("200 OK", b"poison")])
async def test_n10_a_complete_response_is_valid_whatever_follows_it(behind):
    replies = (answer("200 OK", b"first") + behind, answer("200 OK", b"second"))
    async with serving(*replies) as server, visitor() as client:
        assert (await client.get(server.url())).body == b"first"
        assert (await client.get(server.url())).body == b"second"


async def test_n11_cookies_are_neither_kept_nor_sent():
    async with serving(answer("200 OK", b"", "Set-Cookie: a=b; Path=/")) as server:
        async with visitor() as client:
            for _ in range(2):
                await client.get(server.url())
        assert server.sent("Cookie") is None


async def test_n11_the_number_of_kept_connections_is_limited():
    async with visitor(max_idle_connections=2) as client:
        servers = [serving(answer("200 OK", b"x"), host=f"127.0.1.{n}") for n in range(1, 6)]
        opened = [await server.__aenter__() for server in servers]
        for server in opened:
            await client.get(server.url())
        assert len(client.connector.idle) == 2
        for manager in servers:
            await manager.__aexit__(None, None, None)


async def test_s6_open_connections_are_limited_and_waiting_does_not_count_as_visit_time():
    at_once = most = 0

    async def counted(reader, writer):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.4)
        at_once -= 1
        writer.write(answer("200 OK", b"x", "Connection: close"))
        await writer.drain()

    # the last two wait longer than a whole visit may take, and each visit has time to spare
    limits = {"max_connections": 2, "total_timeout_seconds": 5, "connect_timeout_seconds": 5}
    async with serving(counted) as server, visitor(**limits) as client:
        await asyncio.gather(*(client.get(server.url(f"/{n}")) for n in range(28)))
    assert most == 2


async def test_h1_the_number_of_concurrent_large_bodies_is_limited():
    sending = most = 0

    async def large(reader, writer):
        nonlocal sending, most
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
        writer.transport.set_write_buffer_limits(0)
        for number in range(9):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
            if number == 7:  # more than the system's buffers hold of a body that waits
                sending += 1
                most = max(most, sending)
                await asyncio.sleep(0.02)
                sending -= 1

    async def read(client, url):
        response = await client.get(url)
        response.release()
        return response.size

    async with serving(large) as server, visitor(max_large_bodies=2) as client:
        sizes = await asyncio.gather(*(read(client, server.url(f"/{n}")) for n in range(6)))
    assert sizes == [9_000_000] * 6
    assert most <= 2


@pytest.mark.parametrize("deflate", [bytes, gzip.compress], ids=["plain", "gzip"])
async def test_h1_a_large_body_keeps_its_permit_until_it_has_been_read(deflate):
    encoding = [] if deflate is bytes else ["Content-Encoding: gzip"]
    large = answer("200 OK", deflate(b"x" * 3_000_000), *encoding)
    async with serving(large) as server, visitor(max_large_bodies=1) as client:
        first = await client.get(server.url())
        second = asyncio.create_task(client.get(server.url()))
        done, _ = await asyncio.wait([second], timeout=0.3)
        assert not done
        first.release()
        assert len((await second).body) == 3_000_000
        second.result().release()
        small = await client.get(server.url())  # dropped: its permit is returned
        del small
        assert len((await client.get(server.url())).body) == 3_000_000


@pytest.mark.parametrize("length", [b"", b"Content-Length: 9000000\r\n"], ids=["", "announced"])
async def test_h3_stalled_large_bodies_do_not_delay_a_medium_one(length):
    begun = asyncio.Semaphore(0)

    async def dripping(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n" + b"x" * 3_000_000)
        begun.release()
        await reader.read()

    plain = answer("200 OK", b"x" * 1_500_000)
    packed = answer("200 OK", gzip.compress(b"x" * 1_500_000), "Content-Encoding: gzip")
    huge = answer("200 OK", b"x" * 3_000_000)
    limited = visitor(max_large_bodies=1)
    async with serving(dripping) as bad, serving(plain, packed, huge) as good, limited as client:
        drips = [asyncio.create_task(client.get(bad.url(f"/{n}"))) for n in range(4)]
        for _ in drips:
            await begun.acquire()
        for path in ("/plain", "/packed"):
            response = await client.get(good.url(path))
            assert len(response.body) == 1_500_000
            response.release()
        assert not any(drip.done() for drip in drips)
        for drip in drips:
            drip.cancel()
        await asyncio.gather(*drips, return_exceptions=True)
        assert len((await client.get(good.url("/huge"))).body) == 3_000_000


async def test_h1_a_kept_connection_holds_no_body():
    async with serving(answer("200 OK", b"x" * 9_000_000)) as server, visitor() as client:
        response = await client.get(server.url())
        assert response.size == 9_000_000
        assert [len(idle.response.body) for idle in client.connector.idle] == [0]


async def test_h1_waiting_for_a_large_body_permit_does_not_count_as_fetch_time():
    limits = {"total_timeout_seconds": 5, "max_large_bodies": 1}
    large = answer("200 OK", b"x" * 3_000_000)
    async with serving(large) as server, visitor(**limits) as client:
        first = await client.get(server.url("/1"))
        second = asyncio.create_task(client.get(server.url("/2")))
        await asyncio.sleep(5.5)  # longer than the total
        first.release()
        assert (await second).size == 3_000_000


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 4_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2500000\r\n\r\n" + b"x" * 2_000_000,
        answer("200 OK", gzip.compress(b"x" * 4_000_000), "Content-Encoding: gzip"),
    ],
    ids=["too large", "cut short", "a bomb"],
)
async def test_h1_a_large_body_that_fails_returns_its_permit_at_once(reply):

    async def closing(reader, writer):
        writer.write(reply)
        await writer.drain()

    gc.disable()  # must not depend on garbage collection
    try:
        limits = {"max_body_bytes": 3_000_000, "max_large_bodies": 1, "max_medium_bodies": 1}
        async with serving(closing) as server, visitor(**limits) as client:
            for _ in range(3):  # with one permit of each kind, a lost one would block the next
                with pytest.raises(FetchError):
                    await client.get(server.url())
    finally:
        gc.enable()


async def test_n10_closing_the_client_fails_a_partial_body():
    arrived = asyncio.Event()

    async def half(reader, writer):
        writer.write(b'HTTP/1.1 200 OK\r\nETag: "a"\r\n\r\n<rss>part')
        await writer.drain()
        arrived.set()
        await reader.read()

    async with serving(half) as server:
        async with visitor() as client:
            task = asyncio.create_task(client.get(server.url()))
            await arrived.wait()
            await asyncio.sleep(0.05)  # until the part has arrived
        with pytest.raises(LocalFault, match="not open"):
            await task


async def test_o1_a_proxy_that_requires_a_password_is_a_local_failure():
    async with serving(answer("407 Auth")) as proxy, visitor(proxy=proxy.origin) as client:
        with pytest.raises(LocalFault, match="407"):
            await client.get("http://news.example.org/feed")


async def test_n1_proxies_of_the_environment_are_ignored(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await visit(answer("200 OK", b"direct"))).body == b"direct"


async def test_n1_a_proxy_is_used_where_one_is_set():
    async with serving(answer("200 OK", b"by proxy")) as proxy:
        address = proxy.origin.replace("http://", "http://me:secret@")
        async with visitor(proxy=address, allow_private_networks=False) as client:
            response = await client.get("http://news.example.org/feed")
        assert response.body == b"by proxy"
        assert proxy.paths == ["http://news.example.org/feed"]
        assert proxy.sent("Proxy-Authorization") is not None
        assert proxy.sent("Host") == "news.example.org"


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "2130706433", "[::1]"])
async def test_n3_a_proxy_is_not_asked_for_refused_addresses(host):
    async with (
        serving() as proxy,
        visitor(proxy=proxy.origin, allow_private_networks=False) as client,
    ):
        with pytest.raises(AddressRefused):
            await client.get(f"http://{host}/feed")
        assert proxy.connections == 0


async def test_o1_an_unreachable_proxy_is_a_local_failure():
    async with serving() as gone:
        address = gone.origin
    async with visitor(proxy=address) as client:
        with pytest.raises(LocalFault, match="proxy"):
            await client.get("http://news.example.org/feed")
    async with visitor(proxy="http://proxy.invalid:3128") as client:
        with pytest.raises(LocalFault, match="proxy"):
            await client.get("http://news.example.org/feed")


@pytest.mark.parametrize(
    ("status", "error"), [("407 Auth", LocalFault), ("502 Bad", ConnectFailed)]
)
async def test_f1_a_proxy_that_refuses_a_tunnel_is_a_separate_error(status, error):
    async with serving(answer(status)) as proxy, visitor(proxy=proxy.origin) as client:
        with pytest.raises(error) as caught:
            await client.get("https://news.example.org/feed")
        assert type(caught.value) is error
        assert proxy.requests[0].startswith(b"CONNECT news.example.org:443 ")


@pytest.mark.parametrize("url", ["https://news.example.org/feed", "http://news.example.org/feed"])
async def test_k8_a_proxy_gets_no_request_after_the_lease_is_lost(url):
    recorder = VisitRecorder()
    recorder.checks_left = 1
    async with serving() as proxy:
        async with visitor(proxy=proxy.origin) as client:
            with pytest.raises(LeaseLost):
                await client.get(url, visit=recorder)
        async with asyncio.timeout(60):
            while not proxy.connections:
                await asyncio.sleep(0)
            await proxy.settled()
        assert proxy.requests == []


def descriptors():
    return {
        number: os.readlink(f"/proc/self/fd/{number}")
        for number in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{number}")
    }


BROKEN = [
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100\r\n\r\nshort",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    b"garbage\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nContent-Length: 9\r\nLocation: ftp://x/\r\n\r\nfragment",
    answer("200 OK", b"not gzip", "Content-Encoding: gzip", "Connection: close"),
    answer("206 Partial Content", b"x", "Connection: close"),
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
]


async def test_n7_no_task_connection_or_descriptor_is_left_behind_after_errors():
    async with visitor(read_timeout_seconds=1) as client:
        async with serving(answer("200 OK", b"", "Connection: close")) as server:
            await client.get(server.url())  # one-time descriptors are open now
        before, tasks = descriptors(), asyncio.all_tasks()
        for reply in BROKEN:
            async with serving(reply) as server:
                with pytest.raises(FetchError):
                    response = await client.get(server.url())
                    raise FetchError(f"a status to be judged: {response.status}")
                await server.settled()
        assert not client.connector.busy
        assert not client.connector.idle
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == tasks
        assert len(descriptors()) <= len(before)


async def test_n7_a_cancelled_visit_leaves_nothing_open():
    arrived = asyncio.Event()

    async def silent(reader, writer):
        arrived.set()
        await reader.read()

    tasks = asyncio.all_tasks()
    async with serving(silent) as server, visitor() as client:
        task = asyncio.create_task(client.get(server.url()))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.settled()
        assert not client.connector.busy
    assert asyncio.all_tasks() == tasks


async def scenario():
    """One visit of each kind, for another event loop."""
    assert (await visit(redirect("/new"), answer("200 OK", b"x" * 500_000))).size == 500_000
    for reply in BROKEN:
        with pytest.raises(FetchError):
            response = await visit(reply, read_timeout_seconds=0.1)
            raise FetchError(f"a status to be judged: {response.status}")
    async with serving() as gone:
        url = gone.url()
    async with visitor() as client:
        with pytest.raises(ConnectFailed):
            await client.get(url)
        with pytest.raises(ConnectFailed):
            await client.get(url.replace("127.0.0.1", "localhost"))
    async with serving() as server, visitor(allow_private_networks=False) as client:
        with pytest.raises(AddressRefused):
            await client.get(server.url())
        with pytest.raises(AddressRefused):
            await client.get(server.url().replace("127.0.0.1", "localhost"))


def test_h2_the_client_works_under_uvloop_too():
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


def test_h2_the_client_works_under_plain_asyncio():
    with asyncio.Runner() as runner:
        runner.run(scenario())
