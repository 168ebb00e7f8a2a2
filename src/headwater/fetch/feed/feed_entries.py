"""Feeds and their entries: limits, links, and the derived fields of R5."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.errors import ManyEntries
from headwater.fetch.text.sanitize import MAX_AUTHOR_LENGTH, MAX_TITLE_LENGTH, storable_line
from headwater.fetch.text.web_links import is_web_url, web_link
from headwater.model import Entry, MemoryPermit
from headwater.rules.markdown_text import markdown_of_text

DERIVED_TITLE_LENGTH = 100  # R5
MAX_ENTRIES = 100_000  # of one document (M8); each needs about a kilobyte until it is stored (H1)
MAX_ID_LENGTH = 2_048  # longer ids are junk that would fill the stored keys (R2)


@dataclass(frozen=True, slots=True)
class Feed:
    """The content of a feed document."""

    entries: tuple[Entry, ...]
    complete: bool  # False: the document ended before its root element closed (R1), or at a limit
    title: str | None
    permit: MemoryPermit | None = None  # for a large document, held until it is stored


def with_derived_fields(feed: Feed, url: str) -> Feed:
    """The feed with the bodies, titles and links that R5 derives; `url` is the source's.

    Before that, the url of an entry is its absolute link, or None.
    """
    entries = [_with_derived_fields(entry, url) for entry in feed.entries]
    return replace(feed, entries=_with_distinct_bodies(entries))


def is_full(found: Sequence[object], max_entries: int) -> bool:
    """Whether the limit is reached; raises ManyEntries if it is below the default."""
    if len(found) < max_entries:
        return False
    if max_entries < MAX_ENTRIES:
        raise ManyEntries("the feed has more entries than are read")
    return True


def _with_derived_fields(raw: Entry, url: str) -> Entry:
    entry_id = storable_line(raw.id, MAX_ID_LENGTH) or None if raw.id else None
    link = raw.url
    if link is None and is_web_url(entry_id):
        link = web_link(entry_id, url)
    title = storable_line(raw.title, MAX_TITLE_LENGTH)
    author = storable_line(raw.author, MAX_AUTHOR_LENGTH) or None if raw.author else None
    has_all = bool(title and raw.body and link and raw.has_link)
    if has_all and (entry_id, title, link, author) == (raw.id, raw.title, raw.url, raw.author):
        return raw  # most entries
    body = raw.body or title or link or ""
    markdown = raw.markdown if raw.body else markdown_of_text(body)
    return Entry(
        id=entry_id,
        title=title or body[:DERIVED_TITLE_LENGTH].strip(),
        url=link or url,
        published_at=raw.published_at,
        author=author,
        body=body,
        has_link=link is not None,
        markdown=markdown,
        enclosures=raw.enclosures,
        categories=raw.categories,
        language=raw.language,
        image_url=raw.image_url,
        completeness=raw.completeness,
    )


def _with_distinct_bodies(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Prefix the title to bodies that entries with different links share (R5)."""
    if len({entry.body for entry in entries}) == len(entries):
        return tuple(entries)
    links = defaultdict(set)
    for entry in entries:
        links[entry.body].add(entry.url)
    return tuple(
        _with_title_in_body(entry) if entry.body and len(links[entry.body]) > 1 else entry
        for entry in entries
    )


def _with_title_in_body(entry: Entry) -> Entry:
    markdown = entry.markdown
    if markdown is not None:
        markdown = f"{markdown_of_text(entry.title)}\n\n{markdown}"
    body = f"{entry.title} {entry.body}"
    return replace(entry, body=body, plain_body=entry.body, markdown=markdown)
