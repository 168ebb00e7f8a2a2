"""The client: requests, responses, and which statuses are a success (P8, F1, N8, N9)."""

import asyncio
import gzip
import ssl
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from headwater.errors import BadStatus, BadUrl, BrokenBody, ConfigError, LocalFault, TooLarge
from headwater.fetch.net.http_client import Client
from headwater.fetch.net.http_response import (
    MAX_HOLD_SECONDS,
    Response,
    check_status,
    retry_after_seconds,
)
from headwater.model import Validators
from headwater.rules.urls import parse_url
from tests.factories import client_limits
from tests.fetch.loopback_servers import USER_AGENT, answer, redirect, serving, visit, visitor

NOW = datetime(2026, 2, 16, 8, 0, tzinfo=UTC)


async def test_p8_a_visit_returns_status_headers_body_and_size():
    response = await visit(answer("200 OK", b"<rss/>", "Content-Type: text/xml"))
    assert (response.status, response.body, response.size) == (200, b"<rss/>", 6)
    assert response.headers["content-type"] == "text/xml"
    assert response.content_type == "text/xml"
    assert response.url.host == "127.0.0.1"
    assert response.url.target == "/feed"
    assert response.redirected_to is None


async def test_p8_a_request_names_the_product_and_the_encodings():
    async with serving() as server, visitor() as client:
        await client.get(server.url("/a%20b?q=%C3%BC&x=1"))
        assert server.paths == ["/a%20b?q=%C3%BC&x=1"]
        assert server.requests[0].startswith(b"GET /a%20b?q=%C3%BC&x=1 HTTP/1.1\r\n")
        assert server.sent("User-Agent") == USER_AGENT
        assert server.sent("Accept-Encoding") == "gzip, deflate, br, zstd"
        assert server.sent("Host") == f"127.0.0.1:{server.port}"
        assert server.sent("Cookie") is None
        assert server.sent("Authorization") is None


async def test_p8_a_conditional_request_gets_304():
    async with serving(answer("304 Not Modified", b"", 'ETag: "a"')) as server:
        async with visitor() as client:
            response = await client.get(server.url(), headers={"If-None-Match": '"a"'})
        assert server.sent("If-None-Match") == '"a"'
    assert (response.status, response.body) == (304, b"")
    check_status(response, now=NOW)


async def test_p8_a_304_that_announces_a_length_has_no_body():
    response = await visit(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n")
    assert (response.status, response.body) == (304, b"")


async def test_p8_chunks_are_put_together():
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    )
    response = await visit(chunked)
    assert (response.body, response.size) == (b"abcde", 5)


async def test_p8_a_body_without_a_length_ends_with_its_connection():
    response = await visit(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nold style")
    assert response.body == b"old style"


async def test_p8_http_1_0_is_understood():
    response = await visit(b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nolder still")
    assert response.body == b"older still"


@pytest.mark.parametrize(
    ("encoding", "deflate"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
    ],
)
@pytest.mark.parametrize("size", [0, 100, 300_000])
async def test_p8_encodings_are_decoded_and_the_transferred_size_is_counted(
    encoding, deflate, size
):
    body = bytes(index * index % 251 for index in range(size))
    wire = deflate(body)
    response = await visit(answer("200 OK", wire, f"Content-Encoding: {encoding}"))
    assert (response.body, response.size) == (body, len(wire))


async def test_n8_a_decompression_bomb_is_too_large_and_names_its_url():
    bomb = answer("200 OK", gzip.compress(b"\0" * 5_000_000), "Content-Encoding: gzip")
    with pytest.raises(TooLarge, match=r"inflates to more than 1000000 bytes \(http://127"):
        await visit(bomb, max_body_bytes=1_000_000)


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Encoding: gzip, gzip"],
        ["Content-Encoding: gzip", "Content-Encoding: gzip"],
        ["Content-Encoding: compress"],
        ["Content-Encoding: gzip"],
    ],
    ids=["two layers", "two headers", "unknown", "not what it says"],
)
async def test_n8_encodings_that_cannot_be_decoded_are_broken(headers):
    with pytest.raises(BrokenBody):
        await visit(answer("200 OK", b"plain text", *headers))


async def test_n10_compression_that_is_cut_short_is_broken():
    with pytest.raises(BrokenBody):
        await visit(answer("200 OK", gzip.compress(b"hello" * 100)[:-4], "Content-Encoding: gzip"))


async def test_n9_of_an_error_at_most_4_kib_are_read():
    response = await visit(answer("500 Internal Server Error", b"x" * 100_000))
    assert (response.status, len(response.body)) == (500, 4096)


async def test_n9_an_endless_error_response_is_still_that_error():
    async def endless(reader, writer):
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 99999999999\r\n\r\n")
        while True:
            writer.write(b"x" * 4096)
            await writer.drain()

    response = await visit(endless, max_body_bytes=1000)
    assert (response.status, response.body) == (404, b"x" * 4096)


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 500\r\n\r\nshort",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
        b"Content-Encoding: gzip, br\r\nContent-Length: 5\r\n\r\nplain",
    ],
)
async def test_n9_an_error_with_a_broken_body_is_still_that_error(rest):
    response = await visit(b"HTTP/1.1 410 Gone\r\nConnection: close\r\n" + rest)
    assert response.status == 410


async def test_n9_the_reason_in_a_compressed_error_is_readable():
    body = gzip.compress(b'{"title": "Unauthorized"}')
    response = await visit(answer("401 Unauthorized", body, "Content-Encoding: gzip"))
    assert response.body == b'{"title": "Unauthorized"}'


async def test_n10_an_unrequested_partial_response_is_broken():
    with pytest.raises(BrokenBody, match="a part"):
        await visit(answer("206 Partial Content", b"half"))


async def test_n7_a_protocol_switch_is_no_success():
    response = await visit(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\nPRI")
    with pytest.raises(BadStatus):
        check_status(response, now=NOW)


async def test_n2_an_invalid_url_is_refused_before_anything_is_sent():
    async with visitor() as client:
        for url in ("ftp://127.0.0.1/x", "file:///etc/passwd", "http://", "feed"):
            with pytest.raises(BadUrl):
                await client.get(url)


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb"])
async def test_n6_a_header_cannot_inject_another(value):
    async with serving() as server:
        async with visitor() as client:
            with pytest.raises(Exception, match="cannot be sent"):
                await client.get(server.url(), headers={"If-None-Match": value})
        assert server.requests == []


async def test_s8_a_client_that_is_not_open_raises():
    async with visitor() as client:
        pass
    with pytest.raises(LocalFault, match="not open"):
        await client.get("http://127.0.0.1:1/")


async def test_s8_visits_in_flight_end_when_the_client_closes():
    arrived = asyncio.Event()

    async def silent(reader, writer):
        arrived.set()
        await reader.read()

    async with serving(silent) as server:
        async with visitor() as client:
            task = asyncio.create_task(client.get(server.url()))
            await arrived.wait()
        with pytest.raises(LocalFault, match="not open"):
            await task


def test_n14_a_context_that_does_not_verify_is_refused():
    context = ssl.create_default_context()
    context.check_hostname = False
    with pytest.raises(ConfigError):
        Client(client_limits(), tls=context)


def a_response(status=200, **headers):
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return Response(status, named, b"", parse_url("https://u:p@example.org/feed?key=abc"))


@pytest.mark.parametrize("status", [200, 201, 204, 226, 304])
def test_f1_a_success_status_is_accepted(status):
    check_status(a_response(status), now=NOW)


@pytest.mark.parametrize(
    "status", [101, 300, 302, 305, 400, 401, 403, 404, 410, 429, 500, 503, 999]
)
def test_f1_every_other_status_is_an_error_with_its_number(status):
    with pytest.raises(BadStatus) as caught:
        check_status(a_response(status), now=NOW)
    assert (caught.value.status, caught.value.host) == (status, "example.org")
    assert caught.value.hold_seconds is None
    assert str(caught.value).startswith(f"HTTP {status}")
    assert "abc" not in str(caught.value)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 503])
def test_p9_retry_after_is_parsed_for_429_and_503(status):
    with pytest.raises(BadStatus) as caught:
        check_status(a_response(status, Retry_After="120"), now=NOW)
    assert caught.value.hold_seconds == 120


@pytest.mark.parametrize("status", [404, 500, 502])
def test_p9_retry_after_is_ignored_for_other_statuses(status):
    with pytest.raises(BadStatus) as caught:
        check_status(a_response(status, Retry_After="120"), now=NOW)
    assert caught.value.hold_seconds is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        (format_datetime(NOW + timedelta(hours=1), usegmt=True), 3600),
        ("Monday, 16-Feb-26 08:00:30 GMT", 30),
        ("Mon Feb 16 08:00:30 2026", 30),
        ("Mon, 16 Feb 2026 09:00:00 +0100", 0),
        ("9" * 90, MAX_HOLD_SECONDS),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_HOLD_SECONDS),
        (format_datetime(NOW - timedelta(seconds=1), usegmt=True), None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        (None, None),
        ("soon", None),
        ("٣", None),
        ("Mon, 99 Feb 2026 09:00:00 GMT", None),
        ("Mon, 16 Feb 0000 09:00:00 GMT", None),
        ("Mon, 16 Feb 2026 09:00:00 +9999", None),
        ("1" * 5000, None),
    ],
)
def test_n13_retry_after_is_seconds_or_a_date_or_ignored(value, seconds):
    assert retry_after_seconds(value, now=NOW) == seconds


@pytest.mark.parametrize(
    ("etag", "kept"),
    [
        ('"abc"', '"abc"'),
        ('W/"abc"', 'W/"abc"'),
        (' "abc" ', '"abc"'),
        ('"' + "x" * 1022 + '"', '"' + "x" * 1022 + '"'),
        ('"' + "x" * 1023 + '"', None),
        ('"\x01"', None),
        ('"é"', None),
        ('"\udcff"', None),
        ("", None),
    ],
)
def test_n12_only_validators_that_can_be_sent_back_are_kept(etag, kept):
    assert a_response(ETag=etag).validators == Validators(etag=kept)


def test_n12_both_validators_are_kept():
    modified = "Mon, 16 Feb 2026 08:00:00 GMT"
    response = a_response(ETag='"a"', Last_Modified=modified)
    assert response.validators == Validators(etag='"a"', last_modified=modified)
    assert a_response().validators == Validators()


async def test_n12_invalid_bytes_do_not_get_into_validators_or_types():
    wild = answer(
        "200 OK", b"", "ETag: \udcff", "Content-Type: text/\udcfe", "X-Long: " + "y" * 60_000
    )
    response = await visit(wild)
    assert response.validators == Validators()
    assert response.content_type is None


async def test_n15_no_url_in_a_response_is_fetched():
    links = [
        "Link: </hub>; rel=hub, </style.css>; rel=preload",
        "Refresh: 0; url=/elsewhere",
        "Content-Location: /other",
    ]
    body = b'<?xml-stylesheet href="/style.xsl"?><!DOCTYPE rss SYSTEM "/rss.dtd"><rss/>'
    async with serving(answer("200 OK", body, *links)) as server, visitor() as client:
        await client.get(server.url())
        assert server.paths == ["/feed"]


async def test_n5_the_final_status_decides():
    response = await visit(redirect("/gone"), answer("404 Not Found"))
    with pytest.raises(BadStatus) as caught:
        check_status(response, now=NOW)
    assert caught.value.status == 404
