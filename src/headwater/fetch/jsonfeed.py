"""JSON Feed documents -> drafts of entries; odd items are skipped, the good ones kept (M4)."""

import codecs
import json
import re
from collections.abc import Iterator
from datetime import datetime
from sys import getsizeof
from typing import Any

from headwater.errors import TooExpensive
from headwater.fetch.dates import parse_date
from headwater.fetch.drafts import (
    MAX_ENTRIES,
    Draft,
    Reading,
    absolute_link,
    first_ones,
    is_full,
    is_web_url,
)
from headwater.fetch.fragments import title_of_html
from headwater.fetch.memory import give_back
from headwater.fetch.storable import MAX_TITLE_LENGTH, storable_line
from headwater.fetch.text import html_to_text, one_line

_MAX_ID_DIGITS = 100
_LARGE = 1 << 20
_MANY = 1_000
_MAX_BYTES = 110_000_000  # of a document's text and values
_VALUE_BYTES = 120  # about so many each; an object takes twice as much, and so does a new key
_ITEMS = re.compile(r'"items"\s*+:\s*+\[')
_VERSION = re.compile(r'"version"\s*+:\s*+"[^"]{0,50}jsonfeed')
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"(\s*+:)?+|\Z)', re.DOTALL)
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


def _constant(_: str) -> None:
    """NaN and Infinity are no values."""


# A number is kept as it stood in the document, however long; only ids and dates may be one. Of all
# types that nothing else in a document has, bytes are the smallest (H1).
_DECODER = json.JSONDecoder(
    parse_int=str.encode, parse_float=str.encode, parse_constant=_constant, strict=False
)


def read_json(text: str, url: str, most: int = MAX_ENTRIES) -> Reading | None:
    """Read a JSON Feed; None where the document is something else."""
    if len(text) > _LARGE:
        text = _affordable(text)
        give_back()  # the wide text lay where the values do not go (H1)
    try:
        document, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return _salvaged(text, url, most)
    del text  # a field may be as large again
    if not isinstance(document, dict):
        return None
    items = document.get("items")
    if not isinstance(items, list):
        if "jsonfeed" not in _string(document.get("version")):
            return None
        items = []
    site = _string(document.get("home_page_url"))
    base = site if is_web_url(site) else url
    are_all = True
    if len(items) > _MANY:
        items, are_all = first_ones([item for item in items if isinstance(item, dict)], most)
        document["items"] = None
        items = _taken(items)  # each goes when it has been read
    return Reading(
        [_draft(item, base) for item in items if isinstance(item, dict)],
        title=storable_line(title_of_html(_string(document.get("title"))), MAX_TITLE_LENGTH)
        or None,
        complete=are_all,
    )


def _affordable(text: str) -> str:
    """The text of a large document, narrow if need be.

    Raise TooExpensive where its values would take too much memory (H1).
    """
    values = _values(text) + 2 * text.count(":")  # at most: many are only letters
    if _is_affordable(values, text):
        return text
    values = _values_outside_strings(text)
    if not _is_affordable(values, text):
        text = _narrow(text)
    if not _is_affordable(values, text):
        raise TooExpensive(f"the document is made of more than {values:,} values")
    return text


def _is_affordable(values: int, text: str) -> bool:
    return values * _VALUE_BYTES + getsizeof(text) <= _MAX_BYTES


def _values(text: str) -> int:
    return 2 * text.count("{") + text.count("[") + text.count(",")


def _values_outside_strings(text: str) -> int:
    """How many there are, or so many that they are too many."""
    values = position = 0
    keys: set[str] = set()  # those that all items have are there once
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


def _narrow(text: str) -> str:
    """The same document with one byte for a character: a wide one makes all wide."""
    return text.encode("latin-1", "headwater.json").decode("latin-1")


def _escapes(error: UnicodeError) -> tuple[str, int]:
    """JSON's way to write characters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("headwater.json", _escapes)


def _taken(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    items.reverse()
    while items:
        yield items.pop()


def _salvaged(text: str, url: str, most: int) -> Reading | None:
    """Read the items of a document that is cut off or has one item that cannot be read."""
    start = _ITEMS.search(text)
    if start is None:
        return Reading([], complete=False) if _VERSION.search(text) else None
    drafts: list[Draft] = []
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
            if is_full(drafts, most):
                break
            drafts.append(_draft(item, url))
    if not drafts and not _VERSION.search(text):
        return None
    return Reading(drafts, complete=whole)


def _pieces(text: str, position: int) -> Iterator[str | None]:
    """The objects of a list one by one, in one pass over the brackets; None at the list's end."""
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


def _draft(item: dict[str, Any], base: str) -> Draft:
    link = _string(item.get("url")) or _string(item.get("external_url"))
    return Draft(
        id=_id(item.get("id")),
        title=title_of_html(_string(item.get("title"))),
        link=absolute_link(link, base),
        published_at=_date(item.get("date_published")) or _date(item.get("date_modified")),
        author=_author(item),
        body=html_to_text(_string(item.get("content_html")))
        or one_line(_string(item.get("content_text")))
        or one_line(_string(item.get("summary"))),
    )


def _string(value: object) -> str:
    return value if type(value) is str else ""


def _id(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode() if len(value) <= _MAX_ID_DIGITS else None
    return _string(value) or None


def _date(value: object) -> datetime | None:
    """When it was; some say it in seconds since 1970, which are no text."""
    if isinstance(value, bytes):
        value = value.decode()
    return parse_date(value) if isinstance(value, str) else None


def _author(item: dict[str, Any]) -> str | None:
    """The name of the first person who has one (R6); version 1.0 had a single `author`."""
    several = item.get("authors")
    people = [*(several if isinstance(several, list) else ()), item.get("author")]
    for person in people:
        name = one_line(_string(person.get("name"))) if isinstance(person, dict) else ""
        if name:
            return name
    return None
