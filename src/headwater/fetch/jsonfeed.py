"""JSON Feed documents -> drafts of entries; odd items are skipped, the good ones kept (M4)."""

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
    check_count,
    is_web_url,
)
from headwater.fetch.fragments import title_of_html
from headwater.fetch.storable import MAX_TITLE_LENGTH, storable_line
from headwater.fetch.text import html_to_text, one_line

_MAX_ID_DIGITS = 100
_LARGE = 1 << 20
_MANY = 1_000
_MAX_BYTES = 110_000_000  # of a document's text and values
_VALUE_BYTES = 120  # about so many each; an object takes twice as much
_ITEMS = re.compile(r'"items"\s*+:\s*+\[')
_VERSION = re.compile(r'"version"\s*+:\s*+"[^"]{0,50}jsonfeed')
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


class _Number(str):
    """A number as it stood in the document, however long; only ids may be one."""

    __slots__ = ()


def _constant(_: str) -> None:
    """NaN and Infinity are no values."""


_DECODER = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=_constant, strict=False
)


def read_json(text: str, url: str, most: int = MAX_ENTRIES) -> Reading | None:
    """Read a JSON Feed; None where the document is something else."""
    if len(text) > _LARGE:
        _check_values(text)
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
    if len(items) > _MANY:
        items = check_count([item for item in items if isinstance(item, dict)], most)
        document["items"] = None
        items = _taken(items)  # each goes when it has been read
    return Reading(
        [_draft(item, base) for item in items if isinstance(item, dict)],
        title=storable_line(title_of_html(_string(document.get("title"))), MAX_TITLE_LENGTH)
        or None,
    )


def _check_values(text: str) -> None:
    """Raise TooExpensive where the values of a large document would take too much memory (H1)."""
    values = 2 * text.count("{") + text.count("[") + text.count(",")
    if values * _VALUE_BYTES + getsizeof(text) > _MAX_BYTES:
        raise TooExpensive(f"the document is made of {values:,} values")


def _taken(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    items.reverse()
    while items:
        yield items.pop()


def _salvaged(text: str, url: str, most: int) -> Reading | None:
    """Read the items of a document that is cut off or has one item that cannot be read."""
    start = _ITEMS.search(text)
    if start is None:
        return Reading([], complete=False) if _VERSION.search(text) else None
    drafts = []
    whole = False
    for piece in _pieces(text, start.end()):
        if piece is None:
            whole = True
            break
        try:
            item = _DECODER.decode(piece)
        except (ValueError, RecursionError):
            continue
        if isinstance(item, dict):
            drafts.append(_draft(item, url))
            check_count(drafts, most)
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
    if isinstance(value, _Number):
        return str(value) if len(value) <= _MAX_ID_DIGITS else None
    return _string(value) or None


def _date(value: object) -> datetime | None:
    return parse_date(value) if type(value) is str else None


def _author(item: dict[str, Any]) -> str | None:
    """The name of the first person who has one (R6); version 1.0 had a single `author`."""
    several = item.get("authors")
    people = [*(several if isinstance(several, list) else ()), item.get("author")]
    for person in people:
        name = one_line(_string(person.get("name"))) if isinstance(person, dict) else ""
        if name:
            return name
    return None
