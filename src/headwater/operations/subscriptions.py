"""Taking sources in from OPML, and giving them out."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headwater.errors import UsageError
from headwater.model import Podcast, Source, SourceType
from headwater.operations.sources import MAX_LABEL, SourceSettings, new_source, urls_of
from headwater.rules.failure import one_line
from headwater.rules.opml import Outline, read_opml, write_opml
from headwater.store import Store
from headwater.store.sources import SourceFilter

_MAX_SOURCES = 1_000_000


class ImportOutcome(StrEnum):
    """What became of one line of a subscription list."""

    ADDED = "added"
    EXISTS = "exists"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Imported:
    """One line of a subscription list and what became of it."""

    url: str
    outcome: ImportOutcome
    source_id: str | None = None
    error: str | None = None


async def import_opml(store: Store, podcast: Podcast, data: bytes, now: datetime) -> list[Imported]:
    """Add every feed of an OPML document that the podcast does not watch yet, all at once."""
    known = await urls_of(store, podcast.id)
    lines: list[Imported] = []
    added: list[Source] = []
    outlines = await asyncio.to_thread(read_opml, data)  # its cost is a stranger's to choose (H2)
    for index, outline in enumerate(outlines):
        # a millisecond apart, so that they are listed in the order of the file
        created_at = now - timedelta(milliseconds=len(outlines) - index)
        line, source = _line(outline, podcast.id, known, created_at)
        lines.append(line)
        if source is not None:
            known[source.url] = source.id
            added.append(source)
    await store.sources.add_many(added)
    return lines


async def export_opml(store: Store, podcast: Podcast, now: datetime) -> bytes:
    """All sources of a podcast as OPML; URLs are whole, so that they survive a round trip."""
    sources = await store.sources.find(SourceFilter(podcast_id=podcast.id), limit=_MAX_SOURCES)
    outlines = [
        Outline(url=s.url, title=s.label, html_url=None, folder=(), type=s.type.value)
        for s in sources
    ]
    return write_opml(outlines, title=podcast.name, created=now)


def _line(
    outline: Outline, podcast_id: str, known: dict[str, str], now: datetime
) -> tuple[Imported, Source | None]:
    url = outline.url.strip()
    if url in known:
        return Imported(url, ImportOutcome.EXISTS, known[url]), None
    label = outline.title[:MAX_LABEL] if outline.title else None
    wanted = SourceSettings(type=_type(outline.type), url=url, label=label)
    try:
        source = new_source(podcast_id, wanted, now)
    except UsageError as error:
        return Imported(url, ImportOutcome.REJECTED, error=one_line(error)), None
    return Imported(url, ImportOutcome.ADDED, source.id), source


def _type(name: str | None) -> SourceType:
    try:
        return SourceType(name or SourceType.RSS)
    except ValueError:
        return SourceType.RSS
