"""Fuzz targets: each parses any bytes as one kind of input and checks its invariants.

Only our own errors may be raised (H4). Hypothesis runs the targets in CI, and
`python -m tests.fuzz TARGET` runs them under atheris without a time limit.
"""

import socket
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import cache
from html import escape
from ipaddress import ip_address
from pathlib import Path

from lxml import etree

from headwater.errors import (
    BadUrl,
    BrokenBody,
    ConfigError,
    FetchError,
    NoContent,
    NotAFeed,
    TooLarge,
    UsageError,
)
from headwater.fetch.feed.dates import parse_date
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.net import decompression
from headwater.fetch.net.http_response import (
    MAX_HOLD_SECONDS,
    Response,
    check_status,
    retry_after_seconds,
)
from headwater.fetch.net.tls import TlsContext, TlsError
from headwater.fetch.page.feed_links import feed_links
from headwater.fetch.page.page_document import read_page
from headwater.fetch.text.html_to_text import html_to_text, one_line
from headwater.fetch.text.sanitize import storable_line, storable_text
from headwater.fetch.x.x_responses import read_page as read_x_page
from headwater.fetch.x.x_responses import read_user_id, refusal
from headwater.formats import charset
from headwater.formats.opml import read_opml, write_opml
from headwater.rules.addresses import refusal as judged
from headwater.rules.url_secrets import masked
from headwater.rules.urls import follow, normal_host, normalised_url, parse_url, url_host
from headwater.rules.x_users import user_name
from headwater.settings import Settings, effective, load_settings, policy_from
from headwater.settings.configuration_keys import SECRET_KEYS, dotted
from tests.fuzz.checks import is_entry, is_line, is_moment, is_refusal, is_storable
from tests.fuzz.http_bytes import answered

URL = "https://user:hidden@example.org/feed?page=1"
NOW = datetime(2026, 2, 16, 8, tzinfo=UTC)
KEY = "planted-secret"
# chosen by the length of the document
_FEED_TYPES = (
    None,
    "application/rss+xml",
    "text/xml; charset=utf-8",
    "text/xml; charset=iso-8859-1",
    "application/feed+json; charset=utf-16",
    "text/html; charset=iso-2022-jp",
)
_PAGE_TYPES = (
    None,
    "text/html",
    "text/html; charset=utf-8",
    "text/html; charset=big5",
    "image/png",
)
_LIMIT = 100_000
_OVERRIDES = "app.source.host-overrides."
_tls_context = cache(TlsContext)


def feed(data: bytes) -> None:
    """RSS, Atom, RDF and JSON Feed documents (R1, M1-M4)."""
    content_type = _FEED_TYPES[len(data) % len(_FEED_TYPES)]
    try:
        found = parse_feed(data, content_type=content_type, url=URL)
    except NotAFeed as error:
        is_refusal(error)
        assert "hidden" not in str(error)
        return
    is_line(found.title, 1_000)
    for entry in found.entries:
        is_entry(entry)
        assert entry.title or not entry.body
    assert parse_feed(data, content_type=content_type, url=URL) == found


def page(data: bytes) -> None:
    """Web pages: their main text, and their feed links (W1, W2, M5)."""
    content_type = _PAGE_TYPES[len(data) % len(_PAGE_TYPES)]
    for link in feed_links(data, content_type=content_type, url=URL):
        is_line(link.url)
        is_line(link.title, 1_000)
        parse_url(link.url)
    try:
        entry = read_page(data, content_type=content_type, url=URL)
    except NoContent as error:
        is_refusal(error)
        return
    is_entry(entry)
    assert entry.body == one_line(entry.body)


def text(data: bytes) -> None:
    """HTML to plain text (R4, M5, M6)."""
    html = _text(data)
    plain = html_to_text(html)
    is_line(plain)
    assert one_line(plain) == plain
    assert storable_line(plain) == plain
    assert storable_text(storable_text(html)) == storable_text(html)
    readable = html.replace("\0", "")  # the internal placeholder for markup
    assert html_to_text(escape(readable)) == one_line(readable)


def x_answer(data: bytes) -> None:
    """Responses of the X API: users, timelines, errors (X2-X4, M4)."""
    with suppress(FetchError):
        assert read_user_id(data, key=KEY).isdigit()
    try:
        found = read_x_page(data, name="river", user_id="42", key=KEY)
    except FetchError as error:
        is_refusal(error)
        assert KEY not in str(error)
    else:
        for entry in found.entries:
            is_entry(entry)
        is_line(found.next_token, 1_024)
    status = (400, 401, 402, 403, 404, 429, 500, 503)[len(data) % 8]
    headers = {"x-rate-limit-reset": _text(data[:40]), "retry-after": _text(data[:40])}
    refused = refusal(status, headers, data, now=NOW, key=KEY)
    is_refusal(refused)
    assert KEY not in str(refused)
    assert refused.hold_seconds is None or 0 <= refused.hold_seconds <= MAX_HOLD_SECONDS


def date(data: bytes) -> None:
    """Dates as feeds write them (M7)."""
    moment = parse_date(_text(data))
    is_moment(moment)
    if moment is not None:
        assert parse_date(moment.isoformat()) == moment
        if moment.year >= 1000:  # written with four digits
            assert parse_date(format_datetime(moment)) == moment.replace(microsecond=0)


def header(data: bytes) -> None:
    """Response headers: charset, validators, Retry-After, Location (N5, N12, N13)."""
    value = _text(data)
    _is_hold(retry_after_seconds(value, now=NOW))
    headers = dict.fromkeys(("etag", "last-modified", "content-type", "retry-after"), value)
    response = Response(503, headers, b"", parse_url(URL))
    for kept in (response.validators.etag, response.validators.last_modified):
        is_line(kept, 1_024)
        assert kept is None or (kept.isascii() and kept == kept.strip())
    is_line(response.content_type)
    charset.decoded(b"<rss>\xe4\xff</rss>", value)
    with suppress(FetchError):
        check_status(response, now=NOW)
    with suppress(BrokenBody):
        assert decompression.encoding_of(value) in (None, "gzip", "deflate", "br", "zstd")
    _location(value)


def _is_hold(seconds: float | None) -> None:
    assert seconds is None or 0 <= seconds <= MAX_HOLD_SECONDS, seconds


def _location(value: str) -> None:
    """Follow a redirect: HTTP URLs only, and no credentials to another origin (N2, N6)."""
    start = parse_url(URL)
    try:
        target = follow(start, value)
    except (BadUrl, ValueError):
        return
    assert target.scheme in ("http", "https")
    assert target.origin == start.origin or target.password != "hidden" or "hidden" in value
    assert parse_url(str(target)).origin == target.origin


def url(data: bytes) -> None:
    """URLs and the hosts in them: one parse, one spelling (P1, N2, N4, U6)."""
    value = _text(data)
    assert masked(masked(value)) == masked(value)
    plain = normalised_url(value)
    with suppress(BadUrl):
        assert user_name(value).isascii()
    _host(value)
    try:
        parsed = parse_url(value)
    except BadUrl as error:
        is_refusal(error)
        assert url_host(value) is None
        return
    assert normalised_url(plain) == plain
    sent = str(parsed)
    is_line(sent)
    assert sent.isascii()
    assert " " not in sent
    assert parse_url(sent) == replace(parsed, username=None, password=None)
    assert normal_host(parsed.host) == parsed.host
    assert masked(value).count("@") <= value.count("@")


def _host(value: str) -> None:
    """Anything that a C library takes for an IPv4 address is checked as that address (N4)."""
    try:
        meant = socket.inet_ntoa(socket.inet_aton(value))
    except (OSError, ValueError):
        return
    with suppress(BadUrl):
        assert normal_host(value) == meant


def opml(data: bytes) -> None:
    """Subscription lists; a written list parses to the same sources."""
    try:
        outlines = read_opml(data)
    except UsageError as error:
        is_refusal(error)
        return
    for outline in outlines:
        is_line(outline.title, 1_000)
        is_storable(outline.url)
        is_storable(outline.html_url)
        for name in outline.folder:
            is_line(name, 1_000)
    written = write_opml(outlines, title=_text(data[:50]), created=NOW)
    etree.fromstring(written)  # well-formed for other readers
    again = read_opml(written)
    assert sorted(map(repr, again)) == sorted(map(repr, outlines))
    assert write_opml(again, title="", created=NOW) == write_opml(outlines, title="", created=NOW)


def settings(data: bytes) -> None:
    """Configuration files: loaded, or a one-line error (G1, Q1)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "headwater.yaml")
        file.write_bytes(data)
        try:
            loaded = load_settings(config_file=file, environ={}, cwd=Path(folder))
        except ConfigError as error:
            is_line(str(error))
            assert str(error).isprintable()
            return
    policy_from(loaded)
    values = _values(loaded)
    again = load_settings(options=_options(values), environ={}, cwd=Path("/nowhere"))
    assert _values(again) == values


def _values(loaded: Settings) -> dict[str, object]:
    """The settings with a value: null and an empty map count as not given."""
    secret = {dotted(path) for path in SECRET_KEYS}
    rows = [row for row in effective(loaded) if row.key not in secret]
    return {row.key: row.value for row in rows if row.value not in (None, {})}


def _options(values: dict[str, object]) -> dict[str, object]:
    """The same settings as options: hosts in one map, since the dots of an option are levels."""
    options = dict[str, object]()
    overrides = defaultdict[str, dict[str, object]](dict)
    for key, value in values.items():
        if key.startswith(_OVERRIDES):
            host, _, name = key.removeprefix(_OVERRIDES).rpartition(".")
            overrides[host][name] = value
        else:
            options[key] = value
    return {**options, _OVERRIDES.removesuffix("."): overrides}


def inflating(data: bytes) -> None:
    """Content encodings: bounded, and never incomplete without an error (N8, N10)."""
    for encoding in ("gzip", "deflate", "br", "zstd"):
        assert len(decompression.inflate_start(data, encoding, limit=4_096)) <= 4_096
        try:
            whole = decompression.inflate(data, encoding, limit=_LIMIT)
        except (BrokenBody, TooLarge) as error:
            is_refusal(error)
        else:
            assert len(whole) <= _LIMIT


def wire(data: bytes) -> None:
    """Responses as received: the same result in one piece and in many (N7, N10)."""
    whole = answered([data])
    size = len(data) % 7 + 1
    parts = answered([data[at : at + size] for at in range(0, len(data), size)])
    if parts.error is not None:
        assert whole.error is not None
    elif whole.error is None:
        assert (whole.status, whole.headers) == (parts.status, parts.headers)
        assert whole.body == parts.body or not 200 <= whole.status < 300  # not read by the client
    else:  # bytes after a response are noticed only if they arrive together with it
        assert whole.error == "BrokenBody"
        assert not parts.all_read
    reported = [value for name, value in whole.headers if name.lower() == b"content-length"]
    coded = any(name.lower() == b"transfer-encoding" for name, _ in whole.headers)
    if whole.error is None and whole.status == 200 and len(reported) == 1 and not coded:
        assert int(reported[0]) == len(whole.body)


def tls(data: bytes) -> None:
    """Any response to a TLS ClientHello: a failed handshake has a reason (N14)."""
    if not data:
        return  # never received
    tls = _tls_context().channel("example.org", 443)
    tls.start_handshake()
    with suppress(TlsError):
        assert tls.decrypt(data) == b""  # there was no handshake
        tls.take_output()
    assert not tls.is_established
    tls.save_session()


def address(data: bytes) -> None:
    """Addresses: the same verdict in every spelling (N3)."""
    value = _text(data[:60])
    try:
        meant = ip_address(value)
    except ValueError:
        assert judged(value, allowed=False) == "not an address"
        return
    found = judged(value, allowed=False)
    assert found == judged(str(meant), allowed=False)
    if "%" not in value:
        assert found == judged(meant.exploded, allowed=False)
    if not meant.is_global:  # the library's own list is incomplete, but not wrong
        assert found is not None, value


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "feed": feed,
    "page": page,
    "text": text,
    "x_answer": x_answer,
    "date": date,
    "header": header,
    "url": url,
    "opml": opml,
    "settings": settings,
    "inflating": inflating,
    "address": address,
    "wire": wire,
    "tls": tls,
}
