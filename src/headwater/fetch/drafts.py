"""What a document says of its entries -> entries with everything that R5 asks for."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urljoin, urlsplit, urlunsplit

from headwater.errors import ManyEntries
from headwater.fetch.storable import MAX_AUTHOR_LENGTH, MAX_TITLE_LENGTH, storable_line
from headwater.model import Entry
from headwater.rules.urls import MAX_URL_LENGTH

DERIVED_TITLE_LENGTH = 100  # R5
MAX_ENTRIES = 100_000  # of one document (M8); each takes about a kilobyte until it is stored (H1)
MAX_ID_LENGTH = 2_048  # longer ones are junk that would only fill the memory of keys (R2)
MAX_BASE_LENGTH = 512  # every link that is joined to a base costs the base's length (H2)

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WEB_STARTS = ("https://", "http://")
_WEB = re.compile(r"(?i)https?://[^\s/]")
_BREAKS = re.compile(r"[\t\n\r]\s*")


T = TypeVar("T")


@dataclass(slots=True)
class Draft:
    """An entry as its document has it: plain text, but nothing derived yet."""

    id: str | None = None
    title: str = ""
    link: str | None = None  # absolute
    published_at: datetime | None = None
    author: str | None = None
    body: str = ""


@dataclass(slots=True)
class Reading:
    """What a reader of one format found in a document."""

    drafts: list[Draft]
    title: str | None = None
    complete: bool = True


def finished(drafts: Iterable[Draft], url: str) -> tuple[Entry, ...]:
    """Entries with the bodies, titles and links that R5 derives; `url` is the source's."""
    return _told_apart([_finished(draft, url) for draft in drafts])


def is_full(found: list[T], most: int) -> bool:
    """Whether no more are read; raise ManyEntries where somebody asked for fewer than may be."""
    if len(found) < most:
        return False
    if most < MAX_ENTRIES:
        raise ManyEntries("the feed has more entries than are read")
    return True


def first_ones(found: list[T], most: int) -> tuple[list[T], bool]:
    """As many of them as are read, and whether these are all; raise ManyEntries as above."""
    is_cut = len(found) > most and is_full(found, most)
    return (found[:most] if is_cut else found), not is_cut


def is_web_url(text: str | None) -> bool:
    """Whether an id can stand in for a link (R5)."""
    return text is not None and _WEB.match(text) is not None


def absolute_link(text: str | None, base: str) -> str | None:
    """The link resolved against its base and storable; None where it is missing or too long."""
    link = text.strip() if text else ""
    if not link:
        return None
    if not link.isprintable():
        link = _BREAKS.sub("", link)
    if not link.startswith(_WEB_STARTS) and not _ABSOLUTE.match(link):
        try:
            link = urljoin(near(base), link)
        except ValueError:  # a broken IPv6 host, for one
            return None
    if " " in link or not link.isprintable():
        link = storable_line(link).replace(" ", "%20")
    return link if link and len(link) <= MAX_URL_LENGTH else None


@lru_cache(maxsize=64)
def near(base: str) -> str:
    """A base that is quick to join to: of a very long one its path, or even its host alone."""
    if len(base) <= MAX_BASE_LENGTH:
        return base
    parts = urlsplit(base)
    path = parts.path if len(parts.path) <= MAX_BASE_LENGTH else "/"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _finished(draft: Draft, url: str) -> Entry:
    entry_id = storable_line(draft.id, MAX_ID_LENGTH) or None if draft.id else None
    link = draft.link
    if link is None and is_web_url(entry_id):
        link = absolute_link(entry_id, url)
    title = storable_line(draft.title, MAX_TITLE_LENGTH)
    body = draft.body or title or link or ""
    return Entry(
        id=entry_id,
        title=title or body[:DERIVED_TITLE_LENGTH].strip(),
        url=link or url,
        published_at=draft.published_at,
        author=storable_line(draft.author, MAX_AUTHOR_LENGTH) or None if draft.author else None,
        body=body,
        has_link=link is not None,
    )


def _told_apart(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Put the title before bodies that entries with different links share (R5)."""
    if len({entry.body for entry in entries}) == len(entries):
        return tuple(entries)
    links = defaultdict(set)
    for entry in entries:
        links[entry.body].add(entry.url)
    return tuple(
        replace(entry, body=f"{entry.title} {entry.body}", plain_body=entry.body)
        if entry.body and len(links[entry.body]) > 1
        else entry
        for entry in entries
    )
