"""JSON Feed documents to entries; invalid items are skipped (M4)."""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from sys import getsizeof
from typing import Any

from headwater.errors import TooExpensive
from headwater.fetch.feed.dates import parse_date
from headwater.fetch.feed.element_text import title_of_html
from headwater.fetch.feed.entry_metadata import (
    MAX_CATEGORIES,
    Metadata,
    MetadataReader,
    add_category,
    enclosure,
    language_tag,
)
from headwater.fetch.feed.feed_entries import MAX_ENTRIES, Feed, is_full
from headwater.fetch.library_memory import return_freed_memory
from headwater.fetch.text.html_to_markdown import write_html, write_plain
from headwater.fetch.text.html_to_text import one_line
from headwater.fetch.text.markdown_writer import MarkdownWriter
from headwater.fetch.text.sanitize import MAX_TITLE_LENGTH, storable_line
from headwater.fetch.text.web_links import is_web_url, web_link
from headwater.model import Enclosure, Entry
from headwater.rules.completeness import completeness

_MAX_ID_DIGITS = 100
_LARGE = 1 << 20  # characters
_MANY = 1_000  # items
_MAX_BYTES = 110_000_000  # memory for a document's text and values
_VALUE_BYTES = 120  # estimate; an object and a new key need twice as much
_ITEMS = re.compile(r'"items"\s*+:\s*+\[')
_VERSION = re.compile(r'"version"\s*+:\s*+"[^"]{0,50}jsonfeed')
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"(\s*+:)?+|\Z)', re.DOTALL)
_TEXTS = (("content_html", write_html), ("content_text", write_plain), ("summary", write_plain))
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


# A number is kept as it is written; only ids and dates may be one. Of all types that JSON values
# do not have, bytes are the smallest (H1).
_DECODER = json.JSONDecoder(
    parse_int=str.encode,
    parse_float=str.encode,
    parse_constant=lambda _: None,  # NaN and Infinity
    strict=False,
)


def read_json(text: str, url: str, max_entries: int = MAX_ENTRIES) -> Feed | None:
    """Parse a JSON Feed; None if the document is something else."""
    if len(text) > _LARGE:
        text = _affordable(text)
        return_freed_memory()  # of the wide text, which values do not reuse (H1)
    try:
        document, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return _recovered(text, url, max_entries)
    del text  # a field may need as much memory again
    if not isinstance(document, dict):
        return None
    items = document.get("items")
    if not isinstance(items, list):
        if "jsonfeed" not in _string(document.get("version")):
            return None
        items = []
    site = _string(document.get("home_page_url"))
    base = site if is_web_url(site) else url
    reader = _ItemReader(base, document)
    are_all = True
    if len(items) > _MANY:
        items = [item for item in items if isinstance(item, dict)]
        are_all = len(items) <= max_entries or not is_full(items, max_entries)
        document["items"] = None
        items = _drained(items[:max_entries])  # frees each item after its use
    return Feed(
        tuple(reader.read(item) for item in items if isinstance(item, dict)),
        title=storable_line(title_of_html(_string(document.get("title"))), MAX_TITLE_LENGTH)
        or None,
        complete=are_all,
    )


def _affordable(text: str) -> str:
    """The text of a large document, with non-Latin characters escaped if needed.

    Raises TooExpensive if its values would need too much memory (H1).
    """
    values = _values(text) + 2 * text.count(":")  # an upper bound: some are inside strings
    if _is_affordable(values, text):
        return text
    values = _values_outside_strings(text)
    if not _is_affordable(values, text):
        # one byte per character: one wide character widens all
        text = text.encode("latin-1", "headwater.json").decode("latin-1")
    if not _is_affordable(values, text):
        raise TooExpensive(f"the document is made of more than {values:,} values")
    return text


def _is_affordable(values: int, text: str) -> bool:
    return values * _VALUE_BYTES + getsizeof(text) <= _MAX_BYTES


def _values(text: str) -> int:
    return 2 * text.count("{") + text.count("[") + text.count(",")


def _values_outside_strings(text: str) -> int:
    """The number of values, or a number that is already too large."""
    values = position = 0
    keys: set[str] = set()  # equal keys share their memory
    for string in _STRING.finditer(text):
        between = text[position : string.start()]
        if between:
            values += 1 if between == "," else _values(between)
        position = string.end()
        if string[1]:
            keys.add(string[0])
        if (values + 2 * len(keys)) * _VALUE_BYTES > _MAX_BYTES:
            break
    return values + 2 * len(keys) + _values(text[position:])


def _escapes(error: UnicodeError) -> tuple[str, int]:
    """Encode characters as JSON escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("headwater.json", _escapes)


def _drained(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    items.reverse()
    while items:
        yield items.pop()


def _recovered(text: str, url: str, max_entries: int) -> Feed | None:
    """Parse the items of a document that is cut off, or has an item that is not valid JSON."""
    start = _ITEMS.search(text)
    if start is None:
        return Feed((), complete=False, title=None) if _VERSION.search(text) else None
    entries: list[Entry] = []
    reader = _ItemReader(url, {})
    whole = False
    for piece in _pieces(text, start.end()):
        if piece is None:
            whole = True
            break
        try:
            item = _DECODER.decode(_affordable(piece) if len(piece) > _LARGE else piece)
        except (ValueError, RecursionError):
            continue
        if isinstance(item, dict):
            if is_full(entries, max_entries):
                break
            entries.append(reader.read(item))
    if not entries and not _VERSION.search(text):
        return None
    return Feed(tuple(entries), complete=whole, title=None)


def _pieces(text: str, position: int) -> Iterator[str | None]:
    """The items of a list, found by one pass over the brackets; None at the list's end."""
    depth = 0
    start = position
    for token in _STRUCTURE.finditer(text, position):
        match token[0]:
            case "{" | "[":
                if depth == 0:
                    start = token.start()
                depth += 1
            case "}" | "]":
                depth -= 1
                if depth < 0:
                    yield None
                    return
                if depth == 0:
                    yield text[start : token.end()]


class _ItemReader:
    """Reads the items of one document; the feed's author and language apply to all of them."""

    def __init__(self, base: str, document: Mapping[str, Any]) -> None:
        self._base = base
        self._author = _author(document)
        self._language = language_tag(_string(document.get("language")))
        self._metadata = MetadataReader()

    def read(self, item: dict[str, Any]) -> Entry:
        """Read one item."""
        link = _string(item.get("url")) or _string(item.get("external_url"))
        url = web_link(link, self._base)
        key, body, markdown = _text(item, url or self._base)
        metadata = self._read_metadata(item)
        return Entry(
            id=_id(item.get("id")),
            title=title_of_html(_string(item.get("title"))),
            url=url,
            published_at=_date(item.get("date_published")) or _date(item.get("date_modified")),
            author=_author(item) or self._author,
            body=body,
            markdown=markdown,
            completeness=completeness(
                body, has_content=key.startswith("content"), has_text=bool(body)
            ),
            **metadata._asdict(),
        )

    def _read_metadata(self, item: dict[str, Any]) -> Metadata:
        enclosures: dict[str, Enclosure] = {}
        for file in _list(item.get("attachments")):
            if isinstance(file, dict):
                size = file.get("size_in_bytes")
                length = size.decode() if isinstance(size, bytes) else None
                kind = _string(file.get("mime_type"))
                found = enclosure(_string(file.get("url")), kind, length, self._base)
                if found is not None:
                    enclosures.setdefault(found.url, found)
        categories: dict[str, None] = {}
        for tag in _list(item.get("tags")):
            add_category(categories, _string(tag))
        language = language_tag(_string(item.get("language"))) or self._language
        images = [_string(item.get("image")), _string(item.get("banner_image"))]
        return self._metadata.limited(enclosures, categories, language, images, self._base)


def _text(item: dict[str, Any], base: str) -> tuple[str, str, str | None]:
    """The field with the text of an item, its plain text and its Markdown."""
    for key, write in _TEXTS:
        if text := _string(item.get(key)):
            markdown = MarkdownWriter(base, length=len(text))
            if body := write(text, markdown):
                return key, body, markdown.finish_for(body)
    return "", "", ""


def _list(value: object) -> list[Any]:
    return value[:MAX_CATEGORIES] if isinstance(value, list) else []


def _string(value: object) -> str:
    return value if type(value) is str else ""


def _id(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode() if len(value) <= _MAX_ID_DIGITS else None
    return _string(value) or None


def _date(value: object) -> datetime | None:
    """A date, also as a number of seconds since 1970."""
    if isinstance(value, bytes):
        value = value.decode()
    return parse_date(value) if isinstance(value, str) else None


def _author(item: Mapping[str, Any]) -> str | None:
    """The first author with a name, in any form (R6); version 1.0 had a single `author`."""
    people = [
        person
        for value in (item.get("authors"), item.get("author"))
        for person in (value if isinstance(value, list) else [value])
    ]
    names = [_string(person.get("name")) for person in people if isinstance(person, dict)]
    names += [_string(person) for person in people]
    return next(filter(None, map(one_line, names)), None)
