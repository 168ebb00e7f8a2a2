"""Entry point of page parsing: a web page to one entry (W1-W3)."""

import re
from sys import getsizeof

from headwater.errors import NoContent
from headwater.fetch.feed.entry_metadata import language_tag
from headwater.fetch.page.author import is_label, is_name, marked_author
from headwater.fetch.page.html_blocks import HtmlPage, read_blocks
from headwater.fetch.page.page_markdown import base_url, page_markdown
from headwater.fetch.page.watched_text import watched_text
from headwater.fetch.text.sanitize import MAX_AUTHOR_LENGTH, MAX_TITLE_LENGTH, storable_line
from headwater.fetch.text.web_links import web_link
from headwater.formats import charset
from headwater.model import Entry
from headwater.rules.admission import content_hash
from headwater.rules.completeness import completeness
from headwater.rules.ignored_lines import identity_text, on_one_line
from headwater.rules.url_secrets import masked
from headwater.watch_settings import WatchSettings

_META_CHARSET = re.compile(rb"""(?i)<meta[^>]{0,500}?charset\s*+=\s*+["']?+\s*+([\w.:-]{1,40})""")
_HEAD_BYTES = 4096  # in which a page may declare its charset
_BINARY_TYPE = re.compile(
    r"(image/(?!svg)|audio/|video/|font/|application/(octet-stream|pdf|zip|gzip|x-tar|java-archive))"
)
_MAX_WIDE_BYTES = 24_000_000  # one character of four bytes widens all others
_MAX_WIDE = 6_000_000  # characters of such a page that are read (H1)
_TEXT_TYPES = ("text/html", "application/xhtml+xml")
_AUTHOR_NAMES = ("author", "article:author")


def read_page(
    data: bytes,
    *,
    content_type: str | None = None,
    url: str,
    watch: WatchSettings | None = None,
) -> Entry:
    """Parse a page; raises NoContent if it, or what is watched of it, has no text (W3, W7)."""
    html = page_html(data, content_type, url)
    page = read_blocks(html)
    watched = watched_text(html, page, url, watch)
    page_text = watched.text()
    body = on_one_line(page_text)
    if not body:
        if watched.html is not html:
            reason = "no part with text is chosen"
            raise NoContent(f"what is watched of {masked(url)} has no text: {reason}")
        raise NoContent(f"{masked(url)} has no text; a page built by scripts cannot be read")
    return Entry(
        id=None,
        title=storable_line(_title(page), MAX_TITLE_LENGTH),
        url=url,
        published_at=None,  # a page's identity is its content hash (W2)
        author=_author(page, html),
        body=body,
        markdown=page_markdown(watched.html, watched.page, watched.lines, base_url(html, url)),
        page_text=page_text,
        identity_hash=_identity_hash(page_text, watch),
        language=language_tag(page.language),
        image_url=web_link(page.meta.get("og:image", [""])[0], url),
        completeness=completeness(body, has_content=True),
    )


def page_html(data: bytes, content_type: str | None, url: str) -> str:
    """The markup of a page; raises NoContent if it is a binary file."""
    _refuse_binary(data, content_type, url)
    html = decoded_page(data, content_type)
    return html[:_MAX_WIDE] if getsizeof(html) > _MAX_WIDE_BYTES else html


def _identity_hash(page_text: str, watch: WatchSettings | None) -> str | None:
    if watch is None or not watch.ignore:
        return None
    return content_hash(identity_text(page_text, watch.ignore))


def _refuse_binary(data: bytes, content_type: str | None, url: str) -> None:
    """Raise NoContent for images, archives and other binary files."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if _BINARY_TYPE.match(kind):
        raise NoContent(f"{masked(url)} is {kind}, not a page")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff")) or "utf-16" in (content_type or "").lower()
    if b"\0" in data[:_HEAD_BYTES] and not wide and kind not in _TEXT_TYPES:
        raise NoContent(f"{masked(url)} is a binary file, not a page")


def decoded_page(data: bytes, content_type: str | None) -> str:
    """Decode by the HTTP header, else as UTF-8 if valid, else by the page's meta tag."""
    declared = _META_CHARSET.search(data, 0, _HEAD_BYTES)
    if charset.http_charset(content_type) is None and declared and not _is_utf8(data):
        content_type = f"text/html; charset={declared[1].decode('ascii', 'replace')}"
    return charset.decoded(data, content_type)


def _is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8: bytes rarely are by chance, while meta tags are often wrong."""
    if data.isascii():  # this may be ISO-2022-JP
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _title(page: HtmlPage) -> str:
    headlines = (page.lines_of(block) for block in page.blocks if block.name == "h1")
    first_headline = " ".join(line.text for line in next(filter(None, headlines), ()))
    return page.title or page.meta.get("og:title", [""])[0] or first_headline


def _author(page: HtmlPage, html: str) -> str | None:
    """The first meta tag that is not blank (W2), else another mark of the page."""
    tags = (author for name in _AUTHOR_NAMES for author in page.meta.get(name, ()))
    tagged = [author for author in tags if not is_label(author)]
    named = [author for author in tagged if is_name(author)]
    author = next(iter(named), None) or marked_author(page, html) or next(iter(tagged), "")
    return storable_line(author, MAX_AUTHOR_LENGTH) or None
