"""Connections that break, stall, contradict themselves, or do not use HTTP."""

import asyncio

from tests.hostile.documents import GOOD, good, item, rss
from tests.hostile.exchange import Exchange, answer, chunked, head
from tests.hostile.table import Either, Failed, Stored, Unchanged, row

FEED = rss(good())
CHUNKED = head("Transfer-Encoding: chunked", "Connection: close")
BROKEN = Failed("broken body")
LOST = Failed("connection")
LATE = Failed("timeout")
NO_HTTP = Failed("connection|broken body")


def closing(*headers: str, body: bytes = b"") -> bytes:
    """A response after which the connection ends."""
    return head("Connection: close", *headers) + body


async def say_nothing(ex: Exchange) -> None:
    await ex.silence()


async def close(ex: Exchange) -> None:
    pass


async def reset(ex: Exchange) -> None:
    ex.reset()


async def smtp(ex: Exchange) -> None:
    await ex.send(b"220 mail.example ESMTP ready\r\n")
    await ex.silence()


def after(opening: bytes, piece: bytes, seconds: float, times: int = 200):
    """A host that sends an opening and then drips."""

    async def talk(ex: Exchange) -> None:
        await ex.send(opening)
        await ex.drip([piece] * times, seconds)

    return talk


def then_silent(opening: bytes):
    """A host that stops in the middle."""

    async def talk(ex: Exchange) -> None:
        await ex.send(opening)
        await ex.silence()

    return talk


def then_reset(opening: bytes):
    """A host that resets the connection in the middle."""

    async def talk(ex: Exchange) -> None:
        await ex.send(opening)
        await asyncio.sleep(0.2)
        ex.reset()

    return talk


async def slow_but_honest(ex: Exchange) -> None:
    await ex.send(head(f"Content-Length: {len(FEED)}"))
    size = len(FEED) // 4 + 1
    await ex.drip([FEED[at : at + size] for at in range(0, len(FEED), size)], 0.3)


async def chatty_afterwards(ex: Exchange) -> None:
    """A complete response, and later another that was not requested."""
    await ex.send(answer(rss(item(f"Answer {ex.number}", f"Body {ex.number}"))))
    if ex.number == 1:
        await asyncio.sleep(1)
        await ex.send(answer(rss(item("Poison", "Nobody asked for this."))))
    await ex.silence()


async def leaves_quietly(ex: Exchange) -> None:
    """Announces keep-alive and closes the connection after each response."""
    await ex.send(answer(rss(item(f"Answer {ex.number}", f"Body {ex.number}"))))


async def refuses_reuse(ex: Exchange) -> None:
    """Resets a connection at its second request, as overloaded servers do."""
    await ex.send(answer(rss(item(f"Answer {ex.number}", f"Body {ex.number}"))))
    await ex.reader.read(1)
    ex.reset()


async def many_trailers(ex: Exchange) -> None:
    await ex.send(CHUNKED + chunked(FEED, end=b"0\r\n"))
    while True:
        await ex.send(b"X-Trailer: and another one\r\n" * 1000)


async def endless_extension(ex: Exchange) -> None:
    await ex.send(CHUNKED + b"5;")
    while True:
        await ex.send(b"extension=" * 5000)


async def endless_tiny_chunks(ex: Exchange) -> None:
    await ex.send(CHUNKED)
    while True:
        await ex.send(b"1\r\nx\r\n" * 10_000)


async def endless_informational(ex: Exchange) -> None:
    while True:
        await ex.send(b"HTTP/1.1 102 Processing\r\n\r\n" * 100)
        await asyncio.sleep(0.01)


INFORMATIONAL = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
SHORT = f"Content-Length: {len(FEED) - 20}"

ROWS = (
    row("not listening", "F1", close, LOST, listens="closed"),
    row("accept queue full", "F1 N7", close, LATE, listens="full"),
    row("closed at accept", "F1", close, LOST, at_accept=True),
    row("reset at accept", "F1", reset, LOST, at_accept=True),
    row("silent from the start", "N7", say_nothing, LATE, at_accept=True),
    row("silent after the request", "N7", say_nothing, LATE),
    row("closed after the request", "F1", close, LOST, sight=lambda s: len(s.requests) == 1),
    row("reset after the request", "F1", reset, LOST),
    row("a mail server", "N7 F1", smtp, NO_HTTP, at_accept=True),
    row("random bytes", "N7 F1", bytes(range(128, 256)) * 40, NO_HTTP),
    row("a body without a head", "N7 F1", FEED + b"\r\n\r\n", NO_HTTP),
    row("zeros forever", "N7", after(b"", b"\0" * 65536, 0.001, 4000),
        Failed("connection|broken body|too large")),
    row("status line drips", "N7", after(b"", b"H", 0.5), Failed("timeout|connection")),
    row("head drips", "N7", after(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", 0.3), LATE),
    row("head never ends", "N7", then_silent(b"HTTP/1.1 200 OK\r\nA: b\r\n"), LATE),
    row("body drips", "N7", after(head("Content-Length: 9000"), b"x", 0.3), LATE),
    row("chunks drip", "N7", after(CHUNKED, b"1\r\nx\r\n", 0.3), LATE),
    row("body stops half way", "N7", then_silent(head(f"Content-Length: {len(FEED)}") + FEED[:50]),
        LATE),
    row("error body stops half way", "N9 F1",
        then_silent(head("Content-Length: 500", status="404 Not Found") + b"not"),
        Failed("404", "permanent")),
    row("slow but honest", "N7", slow_but_honest, Stored(1, (GOOD,))),
    row("shorter than announced", "N10",
        closing(f"Content-Length: {len(FEED) + 100}", body=FEED), BROKEN),
    row("longer than announced", "N10 N11", closing(SHORT, body=FEED), Stored(1, (GOOD,))),
    row("two lengths", "N10",
        closing(f"Content-Length: {len(FEED)}", "Content-Length: 9", body=FEED), BROKEN),
    row("negative length", "N10", closing("Content-Length: -5", body=FEED), BROKEN),
    row("length in words", "N10", closing("Content-Length: many", body=FEED), BROKEN),
    row("length with a sign", "N10", closing(f"Content-Length: +{len(FEED)}", body=FEED), BROKEN),
    row("length and chunks", "N10",
        closing("Content-Length: 9", "Transfer-Encoding: chunked", body=chunked(FEED)), BROKEN),
    row("chunk size is no number", "N10", CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n", BROKEN),
    row("chunk size is negative", "N10", CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", BROKEN),
    row("chunk size is enormous", "N10 N7", CHUNKED + b"f" * 18 + b"\r\nhello",
        Failed("broken body|too large")),
    row("chunk longer than its size", "N10", CHUNKED + b"2\r\nhello\r\n0\r\n\r\n", BROKEN),
    row("no last chunk", "N10", CHUNKED + chunked(FEED, end=b""), BROKEN),
    row("cut inside a chunk", "N10", CHUNKED + chunked(FEED)[:60], BROKEN),
    row("trailers without end", "N7", many_trailers, Failed("too large|broken body|timeout")),
    row("chunk extension without end", "N7", endless_extension,
        Failed("too large|broken body|timeout")),
    row("tiny chunks without end", "N7 H2", endless_tiny_chunks, Failed("too large|timeout"),
        heavy=True),
    row("unknown transfer encoding", "N10",
        closing("Transfer-Encoding: rot13", body=FEED), Either(Stored(1, (GOOD,)), BROKEN)),
    row("reset inside the body", "N10",
        then_reset(head(f"Content-Length: {len(FEED)}") + FEED[:50]), NO_HTTP),
    row("reset inside a body without length", "N10", then_reset(closing(body=FEED)), NO_HTTP),
    row("two responses at once", "N10 N11",
        answer(FEED) + answer(rss(item("Poison", "Smuggled."))), Stored(1, (GOOD,))),
    row("an unrequested response", "N11", chatty_afterwards,
        Stored(1, ({"title": "Answer 1"},)), Stored(1, ({"title": "Answer 2"},)), settles=True),
    row("kept connection closed quietly", "N11", leaves_quietly,
        Stored(1, ({"title": "Answer 1"},)), Stored(1, ({"title": "Answer 2"},))),
    row("kept connection reset at reuse", "N11", refuses_reuse,
        Stored(1, ({"title": "Answer 1"},)), Stored(1)),
    row("ten informational responses", "N7", INFORMATIONAL * 10 + answer(FEED), Stored(1, (GOOD,))),
    row("eleven informational responses", "N7", INFORMATIONAL * 11 + answer(FEED),
        Failed("too large|broken body")),
    row("informational responses without end", "N7", endless_informational,
        Failed("too large|broken body")),
    row("switches the protocol", "N7", head("Upgrade: h2c", status="101 Switching Protocols"),
        Failed("101|connection|broken body")),
    row("an unrequested partial response", "N10",
        answer(FEED, f"Content-Range: bytes 0-9/{len(FEED)}", status="206 Partial Content"),
        BROKEN),
    row("no content", "R1", answer(b"", status="204 No Content"), Failed("parse")),
    row("not modified without a condition", "P8 P7", head(status="304 Not Modified"),
        Unchanged(304)),
    row("not modified with a body", "N11", head(status="304 Not Modified") + FEED,
        Unchanged(304), Unchanged(304)),
    row("http 1.0 without length", "P8", b"HTTP/1.0 200 OK\r\n\r\n" + FEED, Stored(1, (GOOD,))),
)  # fmt: skip
