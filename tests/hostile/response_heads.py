"""Status lines and headers that are too many, too long, forged or invalid."""

import asyncio

from tests.hostile.documents import GOOD, good, item, rss
from tests.hostile.exchange import Exchange, answer, head
from tests.hostile.table import Either, Failed, Stored, Unchanged, row

FEED = rss(good())
BROKEN = Failed("broken body")
TOO_LARGE = Failed("too large")
NO_HTTP = Failed("connection|broken body")
HOLD = Failed("hold")


def feed_with(*headers: str) -> bytes:
    """A good feed with these headers."""
    return answer(FEED, *headers)


def raw(status_line: bytes, headers: bytes = b"") -> bytes:
    """A good feed with a head of raw bytes."""
    length = b"Content-Length: %d\r\n\r\n" % len(FEED)
    return status_line + b"\r\n" + headers + length + FEED


def refused(status: str, *headers: str) -> bytes:
    """An error."""
    return answer(b"later", *headers, status=status)


def conditional(*headers: str):
    """A feed with one entry per visit, so that its requests can be checked."""

    def talk(ex: Exchange) -> bytes:
        return answer(rss(item(f"Entry {ex.number}", f"Body {ex.number}")), *headers)

    return talk


async def one_header_for_ever(ex: Exchange) -> None:
    await ex.send(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        await ex.send(b"y" * 65536)


async def headers_for_ever(ex: Exchange) -> None:
    await ex.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await ex.send(b"X-Again: and again\r\n" * 1000)
        await asyncio.sleep(0)


def asks_plainly(sight) -> bool:
    """The second request was as unconditional as the first."""
    return len(sight.requests) == 2 and "if-" not in sight.everything


TWICE = (Stored(1), Stored(1))

ROWS = (
    row("headers without end", "N7", headers_for_ever, TOO_LARGE),
    row("a header without end", "N7", one_header_for_ever, TOO_LARGE),
    row("a status line without end", "N7",
        raw(b"HTTP/1.1 200 " + b"O" * 100_000), TOO_LARGE),
    row("201 headers", "N7", feed_with(*(f"X-{n}: y" for n in range(205))), TOO_LARGE),
    row("a header of 70 KiB", "N7", feed_with("X: " + "y" * 71_680), TOO_LARGE),
    row("headers of 70 KiB together", "N7",
        feed_with(*(f"X-{n}: {'y' * 1024}" for n in range(70))), TOO_LARGE),
    row("150 headers", "N7", feed_with(*(f"X-{n}: y" for n in range(150))), Stored(1, (GOOD,))),
    row("header without colon", "N10", feed_with("this is no header"), BROKEN),
    row("header without name", "N10", feed_with(": nameless"), BROKEN),
    row("space in a header's name", "N10", feed_with("Bad Name: x"), BROKEN),
    row("nul in a header", "N10 M6", feed_with("X-Nul: a\0b"), Either(Stored(1, (GOOD,)), BROKEN)),
    row("bytes in headers", "M6 N12",
        raw(b"HTTP/1.1 200 OK", b"ETag: \"\xff\xfe\"\r\nContent-Type: \xe9\xa0\r\n"),
        Stored(1, (GOOD,)), Unchanged(),
        sight=lambda s: "if-none-match" not in s.everything),
    row("status of two digits", "N7 F1", raw(b"HTTP/1.1 20 OK"), NO_HTTP),
    row("status of four digits", "N7 F1", raw(b"HTTP/1.1 2000 OK"), NO_HTTP),
    row("status in words", "N7 F1", raw(b"HTTP/1.1 fine"), NO_HTTP),
    row("status 299", "F1", answer(FEED, status="299 Almost"), Stored(1, (GOOD,))),
    row("status 418", "F1", refused("418 I'm a teapot"), Failed("418")),
    row("status 599", "F1", refused("599 Odd"), Failed("599")),
    row("status 999", "F1", refused("999 Request denied"), Failed("999")),
    row("another protocol", "N7 F1", raw(b"ICY 200 OK"), NO_HTTP),
    row("not found", "F1", refused("404 Not Found"), Failed("404", "permanent")),
    row("gone", "F1", refused("410 Gone"), Failed("410", "permanent")),
    row("unauthorized", "F1", refused("401 Unauthorized", "WWW-Authenticate: Basic realm=x"),
        Failed("401", "permanent"), sight=lambda s: len(s.requests) == 1),
    row("forbidden", "F1", refused("403 Forbidden"), Failed("403", "permanent")),
    row("five permanent failures", "F3", refused("404 Not Found"),
        *[Failed("404", "permanent")] * 5),
    row("escape sequences in the reason", "U7 M6",
        raw(b"HTTP/1.1 500 \x1b[2J\x1b]0;owned\x07 Oops"),
        Failed("500|connection|broken body"), secrets=("\x1b", "owned")),
    row("a log line in the reason", "U7",
        raw(b"HTTP/1.1 500 x\r [Polling] stored url=http://forged.example/"),
        Failed("500|connection|broken body"), secrets=("forged.example",)),
    row("etag of 2 KiB", "N12", conditional(f'ETag: "{"e" * 2048}"'), *TWICE, sight=asks_plainly),
    row("etag with an escape sequence", "N12", conditional('ETag: "\x1b[31m"'),
        *[Either(Stored(1), BROKEN)] * 2, sight=asks_plainly),
    row("etag beyond ascii", "N12", conditional('ETag: "ü€"'), *TWICE, sight=asks_plainly),
    row("etag empty", "N12", conditional("ETag:"), *TWICE, sight=asks_plainly),
    row("etag that changes and matches nothing", "N12 P8", conditional('ETag: W/"a,b, *"'), *TWICE),
    row("last-modified is nonsense", "N12", conditional("Last-Modified: last Tuesday, I think"),
        *TWICE),
    row("cookies", "N11", conditional("Set-Cookie: id=tracked-visitor; Path=/", "Set-Cookie: b=c"),
        *TWICE, sight=lambda s: "cookie" not in s.everything),
    row("names other places", "N15",
        feed_with("Link: </other>; rel=preload", "Refresh: 0; url=/other", "Content-Location: /x",
                  "X-Pingback: /ping"),
        Stored(1, (GOOD,)), sight=lambda s: s.targets == ["/feed"]),
    row("charset that is no charset", "R1 M3",
        feed_with("Content-Type: application/rss+xml; charset=../../etc/passwd"),
        Stored(1, (GOOD,))),
    row("charset that is a codec of bytes", "R1",
        feed_with("Content-Type: text/xml; charset=zlib_codec"), Stored(1, (GOOD,))),
    row("charset that would hide markup", "R1",
        feed_with("Content-Type: text/xml; charset=utf-7"), Stored(1, (GOOD,))),
    row("content type of an image", "R1", feed_with("Content-Type: image/png"),
        Stored(1, (GOOD,))),
    row("content type of 30 KiB", "R1", feed_with("Content-Type: text/xml; x=" + "y" * 30_000),
        Stored(1, (GOOD,))),
    row("too many requests forever", "P9 N13",
        refused("429 Too Many Requests", "Retry-After: " + "9" * 50), Failed("429"), HOLD),
    row("too many requests until 9999", "P9 N13",
        refused("429 Too Many Requests", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"),
        Failed("429"), HOLD, sight=lambda s: len(s.requests) == 1),
    row("too many requests, minus one", "P9 N13",
        refused("429 Too Many Requests", "Retry-After: -1"), Failed("429"), HOLD),
    row("too many requests, not a number", "P9 N13",
        refused("429 Too Many Requests", "Retry-After: NaN"), Failed("429"), HOLD),
    row("unavailable in nonsense", "P9 N13",
        refused("503 Service Unavailable", "Retry-After: soon"), Failed("503"), Failed("503")),
    row("unavailable until the past", "P9 N13",
        refused("503 Service Unavailable", "Retry-After: Mon, 01 Jan 1990 00:00:00 GMT"),
        Failed("503"), Failed("503")),
    row("unavailable for minus an hour", "P9 N13",
        refused("503 Service Unavailable", "Retry-After: -3600"), Failed("503"), Failed("503")),
    row("unavailable on an impossible day", "P9 N13 M7",
        refused("503 Service Unavailable", "Retry-After: Sun, 99 Foo 99999999 99:99:99 GMT"),
        Failed("503"), Failed("503")),
    row("unavailable in unicode digits", "P9 N13",
        refused("503 Service Unavailable", "Retry-After: ٣٦٠٠"), Failed("503"), Failed("503")),
    row("unavailable for an hour", "P9", refused("503 Service Unavailable", "Retry-After: 3600"),
        Failed("503"), HOLD, sight=lambda s: len(s.requests) == 1),
    row("not found, retry later", "P9",
        refused("404 Not Found", "Retry-After: 3600"), Failed("404", "permanent"),
        Failed("404", "permanent")),
    row("head of line feeds alone", "N10",
        head(f"Content-Length: {len(FEED)}").replace(b"\r\n", b"\n") + FEED,
        Either(Stored(1, (GOOD,)), Failed("broken body|connection|timeout"))),
)  # fmt: skip
