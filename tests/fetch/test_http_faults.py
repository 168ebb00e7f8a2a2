"""A hostile or broken server causes one of our errors, in bounded time (N3-N10, O1)."""

import asyncio
import errno
import socket
import struct
import sys
from pathlib import Path

import pytest

from headwater.errors import (
    BrokenBody,
    ConnectFailed,
    FetchError,
    LocalFault,
    NameNotFound,
    NameUnresolved,
    TimedOut,
    TooLarge,
)
from headwater.fetch.net.connector import ProxyFault
from headwater.fetch.net.dns import SystemResolver
from headwater.fetch.net.http_connection import ReadStalled
from headwater.fetch.net.http_response_parser import ConnectionLost, NotHttp
from headwater.fetch.net.network_errors import fetch_error
from headwater.fetch.net.tls import BadCertificate, TlsError
from tests.fetch.loopback_servers import SERVFAIL, answer, name_server, serving, visit, visitor

REPOSITORY = Path(__file__).parents[2]


async def failure(*answers, expect, **limits):
    """The error of a failed visit: one line, with its cause and the masked URL."""
    path = "/feed?token=hunter2"
    with pytest.raises(expect) as caught:
        await visit(*answers, path=path, **limits)
    assert type(caught.value) is expect
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "/feed?token=***" in str(caught.value)
    return caught.value


def closing(head, body=b""):
    return f"HTTP/1.1 200 OK\r\nConnection: close\r\n{head}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    "reply",
    [
        closing("Content-Length: 100", b"short"),
        closing("Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
        closing("Transfer-Encoding: chunked", b"5\r\nhel"),
        closing("Transfer-Encoding: chunked", b"zz\r\nhello\r\n0\r\n\r\n"),
        closing("Transfer-Encoding: chunked", b"-5\r\nhello\r\n0\r\n\r\n"),
        closing("Transfer-Encoding: chunked", b"2\r\nhello\r\n0\r\n\r\n"),
        closing("Transfer-Encoding: chunked", b"ffffffffffffffffff\r\nhello"),
        closing("Content-Length: 5\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        closing("Content-Length: 5\r\nContent-Length: 6", b"hello!"),
        closing("Content-Length: -5", b"hello"),
        closing("Content-Length: five", b"hello"),
        closing("Bad Header: x\r\nContent-Length: 5", b"hello"),
        closing("Content-Length : 100", b"short"),
        closing("Transfer-Encoding : chunked", b"5\r\nhello\r\n"),
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nno colon here\r\n\r\n",
    ],
)
async def test_n10_short_and_contradictory_bodies_are_broken(reply):
    await failure(reply, expect=BrokenBody)


async def test_n10_a_broken_chunk_after_valid_ones_fails_at_once():
    async def later(reader, writer):
        writer.write(closing("Transfer-Encoding: chunked", b"5\r\nhello\r\n"))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"what?\r\n")
        await reader.read()

    await failure(later, expect=BrokenBody)


async def test_n10_a_body_without_length_that_ends_in_a_reset_is_broken():
    async def reset(reader, writer):
        writer.write(closing("Content-Type: text/xml", b"<rss>half"))
        await writer.drain()
        await asyncio.sleep(0.05)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    await failure(reset, expect=BrokenBody)


@pytest.mark.parametrize(
    "reply", [b"220 smtp.example ESMTP\r\n", b"\x16\x03\x01\x02\x00", b"<html>"]
)
async def test_n7_a_response_that_is_no_http_is_a_failed_connection(reply):
    async def garbage(reader, writer):
        writer.write(reply)

    with pytest.raises((ConnectFailed, BrokenBody)):
        await visit(garbage)


async def test_f1_a_connection_closed_without_a_response_fails_and_is_not_retried():
    async def nothing(reader, writer):
        pass

    async with serving(nothing) as server, visitor() as client:
        with pytest.raises(ConnectFailed, match="closed before the response"):
            await client.get(server.url())
        assert server.connections == 1


async def test_f1_a_refused_connection_has_failed():
    async with serving() as server:
        url = server.url()
    async with visitor() as client:
        with pytest.raises(ConnectFailed, match="connection refused") as caught:
            await client.get(url)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_n7_a_declared_length_over_the_limit_fails_at_the_header():
    async def waiting(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n")
        await reader.read()  # the body never comes

    await failure(waiting, expect=TooLarge, max_body_bytes=1000)


async def test_n7_a_body_over_the_limit_is_not_read_to_its_end():
    async def endless(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    await failure(endless, expect=TooLarge, max_body_bytes=100_000)


async def test_n7_a_body_of_exactly_the_limit_is_accepted():
    response = await visit(answer("200 OK", b"x" * 1000), max_body_bytes=1000)
    assert response.size == 1000


async def test_n7_endless_chunk_headers_are_too_large():
    async def extended(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    await failure(extended, expect=TooLarge, max_body_bytes=1000)


@pytest.mark.parametrize(
    "headers",
    [
        [f"X-{number}: y" for number in range(201)],
        ["X-Long: " + "y" * 66_000],
        ["X-" + "Y" * 66_000 + ": z"],
        [f"X-{number}: {'y' * 1000}" for number in range(70)],
    ],
    ids=["too many", "a long value", "a long name", "too much together"],
)
async def test_n7_headers_over_the_limits_are_too_large(headers):
    await failure(answer("200 OK", b"", *headers), expect=TooLarge)


async def test_n7_the_reason_phrase_counts_as_a_header():
    with pytest.raises(TooLarge):
        await visit(answer("200 " + "O" * 100_000, b"x"))


async def test_n7_headers_within_the_limits_are_fine():
    headers = [f"X-{number}: {'y' * 300}" for number in range(190)]
    assert (await visit(answer("200 OK", b"ok", *headers))).body == b"ok"


@pytest.mark.parametrize("piece", [b"X-More: and more\r\n", b"x" * 1000])
async def test_n7_endless_headers_are_too_large(piece):
    async def endless(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(piece)
            await writer.drain()

    await failure(endless, expect=TooLarge)


async def test_n7_ten_informational_responses_are_skipped():
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
    response = await visit(early * 10 + answer("200 OK", b"final"))
    assert (response.status, response.body) == (200, b"final")


@pytest.mark.parametrize("count", [11, 20_000])
async def test_n7_more_than_ten_informational_responses_are_too_many(count):
    early = b"HTTP/1.1 100 Continue\r\n\r\n"
    await failure(early * count + answer("200 OK", b"final"), expect=TooLarge)


async def test_n7_an_unresponsive_server_times_out():
    async def silent(reader, writer):
        await reader.read()

    error = await failure(silent, expect=TimedOut, read_timeout_seconds=0.1)
    assert "stopped sending" in str(error)


async def test_n7_a_stalled_body_times_out():
    async def stopping(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await reader.read()

    await failure(stopping, expect=TimedOut, read_timeout_seconds=0.1)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
async def test_n7_a_slow_server_ends_at_the_total_timeout(head):
    async def dripping(reader, writer):
        writer.write(head)
        while True:
            writer.write(b"X" if head else b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    limits = {"read_timeout_seconds": 5, "total_timeout_seconds": 0.3}
    error = await failure(dripping, expect=TimedOut, **limits)
    assert "more than 0.3 s" in str(error)


async def test_n7_an_endless_handshake_is_a_connect_timeout():
    async def silent(reader, writer):
        await reader.read()

    async with serving(silent) as server, visitor(connect_timeout_seconds=0.1) as client:
        with pytest.raises(TimedOut, match="connecting"):
            await client.get(server.url().replace("http:", "https:"))


async def test_n14_a_server_without_tls_fails_the_handshake():
    async def plain(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with serving() as server:
        server.converse = lambda reader, writer: plain(reader, writer)
        async with visitor() as client:
            with pytest.raises(FetchError, match="does not speak TLS"):
                await client.get(server.url().replace("http:", "https:"))


@pytest.mark.parametrize(("reply", "error"), [(3, NameNotFound), (SERVFAIL, NameUnresolved)])
async def test_o1_missing_names_differ_from_unresolved_names(reply, error):
    async with (
        name_server({"bad.test": reply}) as dns,
        SystemResolver(nameservers=[dns.address]) as names,
        visitor(names=names) as client,
    ):
        with pytest.raises(error) as caught:
            await client.get("http://bad.test/feed")
    assert type(caught.value) is error
    assert "bad.test" in str(caught.value)


async def test_o2_invalid_does_not_exist():
    async with visitor() as client:
        with pytest.raises(NameNotFound):
            await client.get("http://nowhere.invalid/feed")


# in a separate process: here sockets of other tests may be closed and free a descriptor
FETCH_WITHOUT_DESCRIPTORS = """
import asyncio, resource, socket, sys
from tests.fetch.loopback_servers import visitor

async def main(url):
    async with visitor() as client:
        with socket.socket() as probe:
            lowest_free = probe.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, lowest_free))
        try:
            await client.get(url)
        except Exception as error:
            print(type(error).__name__, error)

asyncio.run(main(sys.argv[1]))
"""


async def test_o1_running_out_of_descriptors_is_a_local_failure():
    async with serving() as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FETCH_WITHOUT_DESCRIPTORS, server.url(),
            cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed, _ = await process.communicate()
    assert process.returncode == 0
    assert printed.startswith(b"LocalFault")
    assert b"too many open files" in printed


@pytest.mark.parametrize(
    "number",
    [
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.EADDRNOTAVAIL,
    ],
)
def test_o1_errors_of_the_local_system_are_local_failures(number):
    error = fetch_error(OSError(number, "x"), "http://h/")
    assert type(error) is LocalFault


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE])
def test_f1_errors_of_the_server_are_failed_connections(number):
    assert type(fetch_error(OSError(number, "x"), "http://h/")) is ConnectFailed


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("unable to perform operation"),
        MemoryError(),
        ConnectionLost("closed before the response"),
        NotHttp("Expected HTTP/"),
        ReadStalled(),
        OSError("Multiple exceptions: [Errno 111] refused, [Errno 101] unreachable"),
        TlsError("wrong version\nnumber"),
        BadCertificate("certificate has expired"),
        ProxyFault("gone"),
        ProxyFault("no tunnel", 502),
        TimeoutError(),
        ValueError("a\nb"),
    ],
)
def test_f1_every_network_error_becomes_one_of_ours_in_one_line(error):
    fault = fetch_error(error, "http://h/")
    assert isinstance(fault, FetchError)
    assert "\n" not in str(fault)
