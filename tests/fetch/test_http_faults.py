"""What a hostile or broken server leads to: one of our errors, in bounded time (N3-N10, O1)."""

import asyncio
import errno
import gc
import resource
import socket
import struct

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
from headwater.fetch.connect import ProxyFault
from headwater.fetch.faults import fault_of
from headwater.fetch.names import SystemNames
from headwater.fetch.tls import BadCertificate, Insecure
from headwater.fetch.wire_errors import Lost, NoHttp, Stalled
from tests.fetch.loopback import SERVFAIL, answer, name_server, serving, visit, visitor


async def failure(*answers, expect, **limits):
    """The one error that a visit ends with: one line, with its cause and the masked URL."""
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
        closing("Content-Length: 5", b"hello, and more"),
        closing("Content-Length: 5", b"hello" + answer("200 OK", b"smuggled")),
        closing("Bad Header: x\r\nContent-Length: 5", b"hello"),
        closing("Content-Length : 100", b"short"),
        closing("Transfer-Encoding : chunked", b"5\r\nhello\r\n"),
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nno colon here\r\n\r\n",
    ],
)
async def test_n10_short_and_contradictory_bodies_are_broken(reply):
    await failure(reply, expect=BrokenBody)


async def test_n10_a_broken_chunk_after_good_ones_is_noticed_at_once():
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
async def test_n7_what_is_no_http_is_a_failed_connection(reply):
    async def garbage(reader, writer):
        writer.write(reply)

    with pytest.raises((ConnectFailed, BrokenBody)):
        await visit(garbage)


async def test_f1_a_connection_closed_without_an_answer_has_failed_and_is_not_asked_twice():
    async def nothing(reader, writer):
        pass

    async with serving(nothing) as server, visitor() as client:
        with pytest.raises(ConnectFailed, match="closed before the answer"):
            await client.get(server.url())
        assert server.connections == 1


async def test_f1_a_refused_connection_has_failed():
    async with serving() as server:
        url = server.url()
    async with visitor() as client:
        with pytest.raises(ConnectFailed, match="connection refused") as caught:
            await client.get(url)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_n7_a_declared_length_over_the_limit_ends_at_the_header():
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


async def test_n7_a_body_of_the_very_limit_is_fine():
    response = await visit(answer("200 OK", b"x" * 1000), max_body_bytes=1000)
    assert response.size == 1000


async def test_n7_chunks_whose_heads_never_end_are_too_large():
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


async def test_n7_the_words_of_a_status_count_as_a_header():
    with pytest.raises(TooLarge):
        await visit(answer("200 " + "O" * 100_000, b"x"))


async def test_n7_headers_within_the_limits_are_fine():
    headers = [f"X-{number}: {'y' * 300}" for number in range(190)]
    assert (await visit(answer("200 OK", b"ok", *headers))).body == b"ok"


@pytest.mark.parametrize("piece", [b"X-More: and more\r\n", b"x" * 1000])
async def test_n7_headers_that_never_end_are_too_large(piece):
    async def endless(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(piece)
            await writer.drain()

    await failure(endless, expect=TooLarge)


async def test_n7_ten_informational_responses_are_passed_over():
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
    response = await visit(early * 10 + answer("200 OK", b"final"))
    assert (response.status, response.body) == (200, b"final")


@pytest.mark.parametrize("count", [11, 20_000])
async def test_n7_more_than_ten_informational_responses_are_too_many(count):
    early = b"HTTP/1.1 100 Continue\r\n\r\n"
    await failure(early * count + answer("200 OK", b"final"), expect=TooLarge)


async def test_n7_a_server_that_says_nothing_is_given_up():
    async def silent(reader, writer):
        await reader.read()

    error = await failure(silent, expect=TimedOut, read_timeout_seconds=0.1)
    assert "stopped sending" in str(error)


async def test_n7_a_body_that_stops_is_given_up():
    async def stopping(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await reader.read()

    await failure(stopping, expect=TimedOut, read_timeout_seconds=0.1)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
async def test_n7_a_dripping_server_ends_at_the_total(head):
    async def dripping(reader, writer):
        writer.write(head)
        while True:
            writer.write(b"X" if head else b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    limits = {"read_timeout_seconds": 5, "total_timeout_seconds": 0.3}
    error = await failure(dripping, expect=TimedOut, **limits)
    assert "more than 0.3 s" in str(error)


async def test_n7_a_handshake_that_never_ends_is_a_connect_timeout():
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
            with pytest.raises(FetchError, match="no secure connection"):
                await client.get(server.url().replace("http:", "https:"))


@pytest.mark.parametrize(("reply", "error"), [(3, NameNotFound), (SERVFAIL, NameUnresolved)])
async def test_o1_names_that_do_not_exist_differ_from_names_that_cannot_be_asked(reply, error):
    async with (
        name_server({"bad.test": reply}) as dns,
        SystemNames(nameservers=[dns.address]) as names,
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


async def test_o1_running_out_of_descriptors_is_our_own_fault():
    async with serving() as server, visitor() as client:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        gc.collect()  # sockets that other tests left behind would be given up just now
        with socket.socket() as highest:
            lowest_free = highest.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            with pytest.raises(LocalFault, match="too many open files"):
                await client.get(server.url())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


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
def test_o1_what_the_system_cannot_do_is_local(number):
    error = fault_of(OSError(number, "x"), "http://h/")
    assert type(error) is LocalFault


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE])
def test_f1_what_the_other_side_does_is_a_failed_connection(number):
    assert type(fault_of(OSError(number, "x"), "http://h/")) is ConnectFailed


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("unable to perform operation"),
        MemoryError(),
        Lost("closed before the answer"),
        NoHttp("Expected HTTP/"),
        Stalled(),
        OSError("Multiple exceptions: [Errno 111] refused, [Errno 101] unreachable"),
        Insecure("wrong version\nnumber"),
        BadCertificate("certificate has expired"),
        ProxyFault("gone"),
        ProxyFault("no tunnel", 502),
        TimeoutError(),
        ValueError("a\nb"),
    ],
)
def test_f1_every_error_of_the_network_becomes_one_of_ours_in_one_line(error):
    fault = fault_of(error, "http://h/")
    assert isinstance(fault, FetchError)
    assert "\n" not in str(fault)
