"""Taking sources in from OPML, and giving them out."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from headwater.errors import TooMuch, UsageError
from headwater.model import Podcast, Source, SourceType
from headwater.operations.sources import MAX_LABEL, SourceSettings, new_source, refuse_too_many
from headwater.rules.failure import one_line
from headwater.rules.opml import Outline, read_opml, write_opml
from headwater.store import Store
from headwater.store.rows import to_ms
from headwater.store.sources import SourceFilter

_BITE = 1000  # sources that are stored, or read, at once


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


async def import_opml(
    store: Store, podcast: Podcast, data: bytes, now: datetime, *, most: int
) -> list[Imported]:
    """Add every feed of an OPML document that the podcast does not watch yet.

    Where a user would get beyond `most` sources, nothing is added (U8).
    """
    lines, new = await _planned(store, podcast, data, now, most)
    await refuse_too_many(store, podcast.user_id, len(new), most)
    added_meanwhile: dict[str, str] = {}
    for first in range(0, len(new), _BITE):  # others want to write in between
        bite = new[first : first + _BITE]
        added_meanwhile |= await store.subscriptions.add_missing(podcast.id, bite, most=most)
    return [_corrected(line, added_meanwhile) for line in lines] if added_meanwhile else lines


async def export_opml(store: Store, podcast: Podcast, now: datetime) -> bytes:
    """All sources of a podcast as OPML; URLs are whole, so that they survive a round trip."""
    wanted = SourceFilter(podcast_id=podcast.id)
    outlines: list[Outline] = []
    after: tuple[int, str] | None = None
    while page := await store.sources.find(wanted, limit=_BITE, after=after):
        outlines += [Outline(url=s.url, title=s.label, type=s.type.value) for s in page]
        after = (to_ms(page[-1].created_at) or 0, page[-1].id)
    return await asyncio.to_thread(write_opml, outlines, title=podcast.name, created=now)


async def _planned(
    store: Store, podcast: Podcast, data: bytes, now: datetime, most: int
) -> tuple[list[Imported], list[Source]]:
    """What shall become of each line, and the sources that are new."""
    # off the event loop: what a list costs is for strangers to choose (H2)
    outlines, urls = await asyncio.to_thread(_read, data, most)
    watched = await store.subscriptions.watched(podcast.id, urls)
    return await asyncio.to_thread(_judged, outlines, podcast.id, watched, now)


def _read(data: bytes, most: int) -> tuple[list[Outline], list[str]]:
    """The lines of a list, and the URLs in them."""
    outlines = read_opml(data)
    if len(outlines) > most:
        raise TooMuch(
            f"the list names {len(outlines):,} sources; a user may have at most {most:,} "
            "(app.limits.max-sources-per-user)"
        )
    return outlines, [outline.url.strip() for outline in outlines]


def _judged(
    outlines: Sequence[Outline], podcast_id: str, watched: Mapping[str, str], now: datetime
) -> tuple[list[Imported], list[Source]]:
    known = dict(watched)
    lines: list[Imported] = []
    new: list[Source] = []
    for index, outline in enumerate(outlines):
        # a millisecond apart, so that they are listed in the order of the file
        created_at = now - timedelta(milliseconds=len(outlines) - index)
        line, source = _line(outline, podcast_id, known, created_at)
        lines.append(line)
        if source is not None:
            known[source.url] = source.id
            new.append(source)
    return lines, new


def _line(
    outline: Outline, podcast_id: str, known: Mapping[str, str], now: datetime
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


def _corrected(line: Imported, added_meanwhile: Mapping[str, str]) -> Imported:
    """The line as it is if somebody else added its URL while we were about to."""
    if line.outcome is ImportOutcome.REJECTED or line.url not in added_meanwhile:
        return line
    return replace(line, outcome=ImportOutcome.EXISTS, source_id=added_meanwhile[line.url])
