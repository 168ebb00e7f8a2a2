"""Entry point of feed parsing: a document to entries (R1, R4-R6).

`parse_feed` recognises RSS, RDF, Atom, CDF and JSON Feed, well-formed or not.
"""

from datetime import datetime

from headwater.errors import NotAFeed, PageNotFeed
from headwater.fetch.feed.feed_entries import MAX_ENTRIES, Feed, with_derived_fields
from headwater.fetch.feed.json_feed import read_json
from headwater.fetch.feed.xml_feed import read_xml
from headwater.fetch.feed.xml_repair import FEED_ROOTS, PAGE_TAGS, feed_start, first_tag
from headwater.fetch.text.html_to_text import LONG_TEXT
from headwater.formats.charset import decoded
from headwater.model import Entry
from headwater.rules.url_secrets import masked

_JSON_STARTS = "{["
_BLANK = " \t\r\n\ufeff\0"


def parse_feed(
    data: bytes,
    *,
    content_type: str | None = None,
    url: str,
    max_entries: int = MAX_ENTRIES,
    since: datetime | None = None,
) -> Feed:
    """Parse a feed of any format and encoding; `url` is the source's.

    Entries of XML that are dated before `since` get no Markdown. Raises NotAFeed, or
    TooExpensive for a document that needs too much memory. With more entries
    than `max_entries` it raises ManyEntries, or keeps the first ones if that is the default.
    """
    text = _text(data, content_type)
    if not text:
        raise NotAFeed(f"the response is empty, not a feed: {masked(url)}")
    first, parsed = text[0], None
    if first in _JSON_STARTS:
        if len(text) > LONG_TEXT:
            text = ""  # so that `read_json` holds the only reference and can free it
        parsed = read_json(text or _text(data, content_type), url, max_entries)
        text = text or _text(data, content_type) if parsed is None else ""
    if parsed is None:
        document = text.encode("utf-8", "replace")  # some codecs let lone surrogates through
        del text  # which may be four times as large
        if document == data:
            document = data  # one copy is enough (H1)
        parsed = _parse_markup(document, first, url, max_entries, since)
    return with_derived_fields(parsed, url)


def read_feed(data: bytes, *, content_type: str | None = None, url: str) -> list[Entry]:
    """The entries of a feed document as plain text, with R5 applied; raises NotAFeed."""
    return list(parse_feed(data, content_type=content_type, url=url).entries)


def _text(data: bytes, content_type: str | None) -> str:
    return decoded(data, content_type).lstrip(_BLANK)


def _parse_markup(
    document: bytes, first: str, url: str, max_entries: int, since: datetime | None
) -> Feed:
    start = feed_start(document)
    parsed = None if start is None else read_xml(document[start:], url, max_entries, since)
    if parsed is not None and parsed.entries:
        return parsed
    name = first_tag(document)
    if parsed is None or name in PAGE_TAGS:
        kind = PageNotFeed if name in PAGE_TAGS else NotAFeed
        raise kind(f"{_description(first, name)}: {masked(url)}")
    return parsed


def _description(first: str, name: str | None) -> str:
    """What a document that is not a feed is instead."""
    if first in _JSON_STARTS:
        return "the response is JSON, but not a JSON Feed"
    if name is None:
        return "the response is neither XML nor JSON, so it is not a feed"
    if name in PAGE_TAGS:
        return (
            "the response is an HTML page, not a feed; "
            "use the address of its feed, or the type website"
        )
    if name in FEED_ROOTS:
        return "the response is cut off before its first element ends, so it is not a feed"
    return f"the response is XML, but not a feed (its first element is <{name[:40]}>)"
