"""A feed document -> entries: RSS, RDF, Atom, CDF and JSON Feed, broken or not (R1, R4-R6)."""

from dataclasses import dataclass

from headwater.errors import NotAFeed
from headwater.fetch.charset import decoded
from headwater.fetch.drafts import MAX_ENTRIES, Reading, finished
from headwater.fetch.jsonfeed import read_json
from headwater.fetch.repair import FEED_ROOTS, PAGE_TAGS, feed_start, first_tag
from headwater.fetch.text import LONG_TEXT
from headwater.fetch.xmlfeed import read_xml
from headwater.model import Entry, Leave
from headwater.rules.urls import masked

_JSON_STARTS = "{["
_BLANK = " \t\r\n\ufeff\0"


@dataclass(frozen=True, slots=True)
class Feed:
    """What a feed document holds."""

    entries: tuple[Entry, ...]
    complete: bool  # False: the document ended before its root element closed (R1), or at a limit
    title: str | None
    leave: Leave | None = None  # to be large, until it is stored


def parse_feed(
    data: bytes, *, content_type: str | None = None, url: str, most: int = MAX_ENTRIES
) -> Feed:
    """Read a feed of any format and encoding; `url` is the source's.

    Raises NotAFeed, or TooExpensive for what would take too much memory: ManyEntries where it has
    more than a `most` that is below the limit; of more than that the first ones are read.
    """
    text = _text(data, content_type)
    if not text:
        raise NotAFeed(f"the answer is empty, not a feed: {masked(url)}")
    first, reading = text[0], None
    if first in _JSON_STARTS:
        if len(text) > LONG_TEXT:
            text = ""  # whoever reads it can let go of it
        reading = read_json(text or _text(data, content_type), url, most)
        text = text or _text(data, content_type) if reading is None else ""
    if reading is None:
        document = text.encode("utf-8", "replace")  # some codecs let lone surrogates through
        del text  # which may be four times as large
        if document == data:
            document = data  # once is enough (H1)
        reading = _read_markup(document, first, url, most)
    return Feed(finished(reading.drafts, url), reading.complete, reading.title)


def _text(data: bytes, content_type: str | None) -> str:
    return decoded(data, content_type).lstrip(_BLANK)


def read_feed(data: bytes, *, content_type: str | None = None, url: str) -> list[Entry]:
    """The entries of a feed document as plain text, with R5 applied; raises NotAFeed."""
    return list(parse_feed(data, content_type=content_type, url=url).entries)


def _read_markup(document: bytes, first: str, url: str, most: int) -> Reading:
    start = feed_start(document)
    reading = None if start is None else read_xml(document[start:], url, most)
    if reading is not None and reading.drafts:
        return reading
    name = first_tag(document)
    if reading is None or name in PAGE_TAGS:
        raise NotAFeed(f"{_what_instead(first, name)}: {masked(url)}")
    return reading


def _what_instead(first: str, name: str | None) -> str:
    if first in _JSON_STARTS:
        return "the answer is JSON, but not a JSON Feed"
    if name is None:
        return "the answer is neither XML nor JSON, so it is no feed"
    if name in PAGE_TAGS:
        return (
            "the answer is an HTML page, not a feed; "
            "use the address of its feed, or the type website"
        )
    if name in FEED_ROOTS:
        return "the answer is cut off before its first element ends, so it is no feed"
    return f"the answer is XML, but not a feed (its first element is <{name[:40]}>)"
