"""Regression tests for what fuzzing found (Q2)."""

import sys
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import BadUrl, ConfigError
from headwater.fetch.feed.dates import parse_date
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.page.feed_links import feed_links
from headwater.fetch.page.page_document import decoded_page, read_page
from headwater.fetch.x.x_responses import refusal
from headwater.formats.charset import http_charset
from headwater.formats.opml import read_opml
from headwater.rules.url_secrets import masked
from headwater.rules.urls import MAX_URL_LENGTH, parse_url
from headwater.settings import load_settings
from tests.fuzz.mutations import MAX_BYTES

URL = "https://example.org/feed"
NOW = datetime(2026, 2, 16, 8, tzinfo=UTC)


def filled(start: bytes, unit: bytes | Callable[[int], bytes], end: bytes = b"") -> bytes:
    """A document of the largest size that is parsed inline."""
    document, number = bytearray(start), 0
    while True:
        piece = unit if isinstance(unit, bytes) else unit(number)
        if len(document) + len(piece) + len(end) > MAX_BYTES:
            return bytes(document + end)
        document += piece
        number += 1


def calls_of(work: Callable[[], object]) -> int:
    """The number of Python function calls that something takes: the same on every machine."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def seconds_of(work: Callable[[], object]) -> float:
    """This thread's CPU time for something."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def test_q2_m7_milliseconds_since_1970_are_read_exactly() -> None:
    moment = parse_date("9999999992026")
    assert moment == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=9999999992026)


def test_q2_m8_a_quoted_link_stays_within_its_limit() -> None:
    long = "ü" * (MAX_URL_LENGTH // 3)
    page = f'<link rel="alternate" type="application/rss+xml" href="/{long}">'.encode()
    assert feed_links(page, content_type="text/html; charset=utf-8", url=URL) == ()
    with pytest.raises(BadUrl, match="longer than 8192"):
        parse_url(f"https://example.org/{long}")


def test_q2_n13_a_reset_followed_by_an_odd_space_is_accepted() -> None:
    soon = int(NOW.timestamp()) + 60
    headers = {"x-rate-limit-reset": f" {soon}\x1f"}
    assert refusal(429, headers, b"", now=NOW, key="key").hold_seconds == 60


@pytest.mark.parametrize("value", ['!!float ""', "!!bool maybe", "!!timestamp x", "!!set [1]"])
def test_q2_h4_a_yaml_tag_that_does_not_fit_its_value_is_a_one_line_error(
    tmp_path: Path, value: str
) -> None:
    file = tmp_path / "headwater.yaml"
    file.write_text(f"app: {{x: {{base-url: {value}}}}}")
    with pytest.raises(ConfigError, match="does not fit the tag"):
        load_settings(config_file=file, environ={})


def test_q2_u6_masking_a_value_reveals_no_user_info() -> None:
    assert masked("?://token=#&secret@") == masked(masked("?://token=#&secret@")) == "?://"


@pytest.mark.parametrize(
    "document",
    [
        filled(b"<rss>" + b"<a>" * 198, b"</b>"),
        filled(b"<rss><b><item>" + b"<a>" * 190, b"</b>"),
        filled(b"<item>" + b"<a>" * 190, b"<item>"),
    ],
    ids=["of nobody", "of somebody outside of the entry", "and entries in nothing"],
)
def test_q2_h2_end_tags_do_not_search_the_whole_stack(document: bytes) -> None:
    assert calls_of(lambda: parse_feed(document, url=URL)) < 6 * len(document)


def nested_bases(path: bytes) -> bytes:
    names = (b"rss", b"channel", b"items", b"rdf", b"feed")
    start = b"".join(b'<%s xml:base="%s">' % (name, path) for name in names)
    end = b"".join(b"</%s>" % name for name in reversed(names))
    return filled(start, lambda n: b'<item xml:base="%d"><link>x</link></item>' % n, end)


@pytest.mark.parametrize(
    "document",
    [
        nested_bases(b"a/" * 4090),
        nested_bases(b"../" * 2700),
        filled(
            b"<rss><channel><link>http://y.example/" + b"../" * 2700 + b"</link>",
            lambda n: b"<item><link>%d</link></item>" % n,
            b"</channel></rss>",
        ),
        filled(
            b'{"home_page_url": "http://y.example/' + b"a/" * 4000 + b'", "items": [',
            lambda n: b'{"url": "../%d"},' % n,
            b'{"url": "x"}]}',
        ),
    ],
    ids=["bases", "bases that go up", "the site", "the home page"],
)
def test_q2_h2_joining_links_to_a_deep_base_is_fast(document: bytes) -> None:
    assert seconds_of(lambda: parse_feed(document, url=URL)) < 1.0  # it took up to 6 s
    assert len(parse_feed(document, url=URL).entries) > 300


def test_q2_h2_a_content_type_of_spaces_is_fast() -> None:
    kind = "text/xml; charset=" + " " * 30_000 + "!"
    assert seconds_of(lambda: http_charset(kind)) < 1.0  # it took 16 s


def test_q2_h2_a_charset_declaration_with_many_spaces_is_fast() -> None:
    page = b"<metacharset=" * 30 + b" " * 3_500 + b"!"
    assert seconds_of(lambda: decoded_page(page, None)) < 1.0  # it took 4 s


def test_q2_m5_spaces_in_the_data_of_a_page_take_linear_time() -> None:
    page = b'<script type="application/ld+json">{"a": 1' + b" " * 150_000 + b"}</script><p>Text"
    assert seconds_of(lambda: read_page(page, url=URL)) < 5.0  # it took the better part of a minute


def test_q2_h2_a_hundred_letters_that_are_no_date_are_fast() -> None:
    nonsense = ("Z" + " " * 40 + "12" + "de " * 20)[:100]
    assert parse_date(nonsense) is None
    assert seconds_of(lambda: [parse_date(nonsense) for _ in range(3_000)]) < 1.0  # it took 3 s


def in_a_long_namespace(outside: bytes, unit: Callable[[int], bytes], inside: bytes) -> bytes:
    start = outside.replace(b"NAMESPACE", b"u" * 30_000) + b"<channel><item>" + inside
    end = (b"</title>" if inside else b"") + b"</item></channel></rss>"
    return filled(start, unit, end)


@pytest.mark.parametrize(
    "document",
    [
        in_a_long_namespace(b'<rss xmlns="NAMESPACE">', lambda n: b"<a%x/>" % n, b""),
        in_a_long_namespace(b"<rss xmlns=\n'NAMESPACE'>", lambda n: b"<a%x/>" % n, b""),
        in_a_long_namespace(b"<rss xmlns=NAMESPACE>", lambda n: b"<a%x/>" % n, b""),
        in_a_long_namespace(b'<rss xmlns:q="NAMESPACE">', lambda n: b"<q:a%x/>" % n, b""),
        in_a_long_namespace(b'<rss xmlns:q="NAMESPACE">', lambda n: b"<b/>", b"<title>"),
    ],
    ids=["default", "single quotes", "no quotes", "prefixed", "in markup"],
)
def test_q2_h1_a_long_namespace_is_not_repeated_in_memory(document: bytes) -> None:
    tracemalloc.start()
    try:
        assert len(parse_feed(document, url=URL).entries) == 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16_000_000  # it was more than 140,000,000


def test_m6_an_address_in_a_list_holds_no_carriage_return():
    found = read_opml(b'<opml><outline xmlUrl="a&#13;b" htmlUrl="https://a&#13;.example/"/></opml>')
    assert [(each.url, each.html_url) for each in found] == [("ab", "https://a.example/")]
