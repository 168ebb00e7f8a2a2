"""Other parsers behind the interface of ours, for comparison: feedparser and trafilatura."""

from calendar import timegm
from datetime import UTC, datetime
from typing import Any

import feedparser
from trafilatura import bare_extraction

from headwater.errors import NotAFeed
from headwater.fetch.feed.feed_entries import Feed, with_derived_fields
from headwater.fetch.text.html_to_text import html_to_text, one_line
from headwater.model import Entry


def feed_by_feedparser(data: bytes, *, content_type: str | None = None, url: str) -> Feed:
    """The entries that feedparser finds, as plain text and with R5 applied."""
    headers = {"content-location": url} | ({"content-type": content_type} if content_type else {})
    parsed = feedparser.parse(data, response_headers=headers)
    if not parsed.entries and not parsed.version:
        raise NotAFeed(url)
    entries = tuple(map(_entry, parsed.entries))
    title = html_to_text(parsed.feed.get("title", "")) or None
    return with_derived_fields(Feed(entries, complete=True, title=title), url)


def page_by_trafilatura(data: bytes, *, url: str) -> Entry | None:
    """Text and author that trafilatura finds, with its default settings."""
    found: Any = bare_extraction(data, url=url, with_metadata=True)
    if found is None:
        return None
    text, author = one_line(found.text or ""), found.author
    return Entry(None, found.title or "", url, None, author, text)


def _entry(found: Any) -> Entry:
    contents = [each.value for each in found.get("content", ()) if each.get("value")]
    stamp = found.get("published_parsed") or found.get("updated_parsed")
    return Entry(
        id=found.get("id"),
        title=html_to_text(found.get("title", "")),
        url=found.get("link"),
        published_at=datetime.fromtimestamp(timegm(stamp), UTC) if stamp else None,
        author=found.get("author_detail", {}).get("name") or found.get("author"),
        body=html_to_text(contents[0] if contents else found.get("summary", "")),
    )
