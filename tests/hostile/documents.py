"""Feeds and pages that hostile hosts are based on."""

from collections.abc import Iterable
from html import escape

GOOD_TITLE = "A good entry"
GOOD_BODY = "What the good entry says."
GOOD = {"title": GOOD_TITLE, "body": GOOD_BODY}
PARAGRAPH = "The river rose in the night and by morning the lower road was under water again. "


def rss(*items: str | bytes, before: str | bytes = b"", after: str | bytes = b"") -> bytes:
    """An RSS document around items."""
    inner = b"".join(map(_bytes, items))
    opening = b'<rss version="2.0"><channel><title>A feed</title>'
    return b"".join([_bytes(before), opening, inner, b"</channel></rss>", _bytes(after)])


def item(
    title: str = GOOD_TITLE,
    body: str = GOOD_BODY,
    link: str | None = None,
    date: str | None = None,
    more: str = "",
) -> str:
    """An item with escaped texts; `more` is inserted unchanged."""
    link = f"http://site.example/{abs(hash_of(title))}" if link is None else link
    dated = f"<pubDate>{escape(date)}</pubDate>" if date is not None else ""
    return (
        f"<item><title>{escape(title)}</title><link>{escape(link)}</link>{dated}"
        f"<description>{escape(body)}</description>{more}</item>"
    )


def good() -> str:
    """The item that must be stored whatever its neighbours do."""
    return item()


def numbered(numbers: Iterable[int]) -> bytes:
    """Small items that differ."""
    return "".join(
        f"<item><title>E{n}</title><link>/{n}</link><description>B{n}</description></item>"
        for n in numbers
    ).encode()


def page(body: str, head: str = "<title>A page</title>") -> bytes:
    """A web page."""
    return f"<!doctype html><html><head>{head}</head><body>{body}</body></html>".encode()


def article(text: str = PARAGRAPH * 5) -> str:
    """Enough text to be the content of a page."""
    return f"<article><h1>A headline</h1><p>{text}</p></article>"


def hash_of(text: str) -> int:
    """The same number for the same text in every process."""
    return sum(ord(c) * (i + 1) for i, c in enumerate(text[:100])) + len(text)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
