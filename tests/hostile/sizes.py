"""Responses that are too large or in too many pieces."""

from functools import cache

from tests.hostile.documents import GOOD, good, item, numbered, rss
from tests.hostile.exchange import Exchange, answer, chunked, head
from tests.hostile.table import Failed, ObservedRequests, Stored, row

LIMIT = 10_485_760
KEPT = Stored(1, (GOOD,))
TOO_LARGE = Failed("too large")
_BLOCK = b" " * 65536


def announced(length: str):
    """A declared body that never arrives."""

    async def talk(ex: Exchange) -> None:
        await ex.send(head(f"Content-Length: {length}"))
        await ex.silence()

    return talk


def endless(status: str = "200 OK", *headers: str, piece: bytes = _BLOCK):
    """A body without end."""

    async def talk(ex: Exchange) -> None:
        await ex.send(head("Connection: close", *headers, status=status))
        while True:
            await ex.send(piece)

    return talk


async def endless_chunks(ex: Exchange) -> None:
    await ex.send(head("Transfer-Encoding: chunked"))
    while True:
        await ex.send(chunked(_BLOCK, end=b""))


@cache
def exactly_the_limit() -> bytes:
    document = rss(good())
    return answer(document + b" " * (LIMIT - len(document)))


@cache
def one_more_in_chunks() -> bytes:
    document = rss(good())
    pieces = [document, b" " * (LIMIT + 1 - len(document))]
    return head("Transfer-Encoding: chunked") + chunked(*pieces)


@cache
def tiny_chunks() -> bytes:
    document = rss(good()) + b" " * 30_000
    pieces = [document[at : at + 1] for at in range(len(document))]
    return head("Transfer-Encoding: chunked") + chunked(*pieces)


@cache
def hundred_thousand() -> bytes:
    return answer(rss(numbered(range(100_000))))


@cache
def one_field() -> bytes:
    return answer(rss(item("Long", "y" * 5_000_000), good()))


@cache
def crowded_fields() -> bytes:
    body = "z" * 1_000_000
    return answer(rss(*(item(f"T{n}", f"{n}{body}") for n in range(9))))


@cache
def same_id() -> bytes:
    several = "".join(
        f"<item><guid>same</guid><title>T{n}</title><description>B{n}</description></item>"
        for n in range(5000)
    )
    return answer(rss(several))


def read_little(sight: ObservedRequests) -> bool:
    """Before the connection was closed, no more was sent than the system's buffers hold."""
    return sight.sent < 16 * LIMIT


ROWS = (
    row("announces one byte too many", "N7", announced(str(LIMIT + 1)), TOO_LARGE,
        sight=lambda s: s.sent < 1000),
    row("announces more than there is", "N7", announced("9" * 18), TOO_LARGE),
    row("announces a number of 5,000 digits", "N7", announced("9" * 5000),
        Failed("too large|broken body")),
    row("body without end", "N7 H1", endless(), TOO_LARGE, heavy=True, sight=read_little),
    row("chunks without end", "N7 H1", endless_chunks, TOO_LARGE, heavy=True, sight=read_little),
    row("items without end", "N7 H1", endless(piece=good().encode() * 500), TOO_LARGE, heavy=True,
        sight=read_little),
    row("server error without end", "N9", endless("500 Oops"), Failed("500"), sight=read_little),
    row("not found without end", "N9", endless("404 Not Found", "Content-Type: text/html"),
        Failed("404", "permanent"), sight=read_little),
    row("exactly the limit", "N7", lambda _: exactly_the_limit(), KEPT, heavy=True),
    row("one byte over the limit, in chunks", "N7", lambda _: one_more_in_chunks(), TOO_LARGE,
        heavy=True),
    row("chunks of one byte", "N7 H2", lambda _: tiny_chunks(), KEPT, heavy=True),
    row("100,000 items", "M8", lambda _: hundred_thousand(), Stored(100_000), heavy=True,
        seconds=60),
    row("field of 5 MB", "M2", lambda _: one_field(),
        Stored(2, (GOOD, {"body": lambda body: len(body) == 5_000_000})), heavy=True),
    row("nine fields of 1 MB", "M2", lambda _: crowded_fields(), Stored(9), heavy=True),
    row("5,000 items of one id", "D1", lambda _: same_id(), Stored(5000), heavy=True),
)  # fmt: skip
