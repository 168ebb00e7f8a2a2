"""A web page -> one entry: its main text, title and author (W1-W3)."""

import re
from sys import getsizeof

from headwater.errors import NoContent
from headwater.fetch import charset
from headwater.fetch.article import main_text
from headwater.fetch.byline import is_name, marked_author
from headwater.fetch.page import Page, read_blocks
from headwater.fetch.storable import MAX_AUTHOR_LENGTH, MAX_TITLE_LENGTH, storable_line
from headwater.model import Entry
from headwater.rules.urls import masked

_META_CHARSET = re.compile(rb"""(?i)<meta[^>]{0,500}?charset\s*+=\s*+["']?+\s*+([\w.:-]{1,40})""")
_HEAD_BYTES = 4096  # how far in a page may name its charset
_BINARY_TYPE = re.compile(
    r"(image/(?!svg)|audio/|video/|font/|application/(octet-stream|pdf|zip|gzip|x-tar|java-archive))"
)
_MAX_WIDE_BYTES = 24_000_000  # one character of four bytes makes all others as wide
_MAX_WIDE = 6_000_000  # characters that are read of such a page (H1)
_TEXT_TYPES = ("text/html", "application/xhtml+xml")
_AUTHOR_NAMES = ("author", "article:author")


def read_page(data: bytes, *, content_type: str | None = None, url: str) -> Entry:
    """Read whatever a page holds; raise NoContent if that is no text (W3)."""
    _refuse_binary(data, content_type, url)
    html = decoded_page(data, content_type)
    if getsizeof(html) > _MAX_WIDE_BYTES:
        html = html[:_MAX_WIDE]
    page = read_blocks(html)
    body = main_text(page, html)
    if not body:
        raise NoContent(f"{masked(url)} has no text; a page built by scripts cannot be read")
    return Entry(
        id=None,
        title=storable_line(_title(page), MAX_TITLE_LENGTH),
        url=url,
        published_at=None,  # a page's identity is its content hash (W2)
        author=_author(page, html),
        body=body,
    )


def _refuse_binary(data: bytes, content_type: str | None, url: str) -> None:
    """Pictures, archives and the like are no pages, whatever text their bytes might spell."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if _BINARY_TYPE.match(kind):
        raise NoContent(f"{masked(url)} is {kind}, not a page")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff")) or "utf-16" in (content_type or "").lower()
    if b"\0" in data[:_HEAD_BYTES] and not wide and kind not in _TEXT_TYPES:
        raise NoContent(f"{masked(url)} is a binary file, not a page")


def decoded_page(data: bytes, content_type: str | None) -> str:
    """Go by the HTTP header, else by what the bytes show, else by what the page says of itself."""
    declared = _META_CHARSET.search(data, 0, _HEAD_BYTES)
    if charset.http_charset(content_type) is None and declared and not _is_utf8(data):
        content_type = f"text/html; charset={declared[1].decode('ascii', 'replace')}"
    return charset.decoded(data, content_type)


def _is_utf8(data: bytes) -> bool:
    """No other charset looks like UTF-8 by accident; pages saved or converted often say wrong."""
    if data.isascii():  # may still be ISO-2022-JP
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _title(page: Page) -> str:
    shared = page.meta.get("og:title", [""])[0]
    return page.title or shared or _first_headline(page)


def _first_headline(page: Page) -> str:
    for block in page.blocks:
        if block.name == "h1" and block.end_line > block.first_line:
            return " ".join(line.text for line in page.lines_of(block))
    return ""


def _author(page: Page, html: str) -> str | None:
    """The first meta tag that is not blank (W2), else what the page marks as its author."""
    told = [author for name in _AUTHOR_NAMES for author in page.meta.get(name, ())]
    named = [author for author in told if is_name(author)]
    author = next(iter(named), None) or marked_author(page, html) or next(iter(told), "")
    return storable_line(author, MAX_AUTHOR_LENGTH) or None
