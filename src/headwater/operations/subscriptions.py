"""Taking sources in from OPML, and giving them out."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from headwater.clock import Clock
from headwater.errors import LocalFault, Stopping, TooExpensive, TooMany, TooMuch, UsageError
from headwater.fetch.parsers import Parsers
from headwater.fetch.x import user_name
from headwater.model import Podcast, Source, SourceType
from headwater.operations.sources import (
    MAX_LABEL,
    SourceSettings,
    new_source,
    refuse_too_many,
    type_of_url,
)
from headwater.rules.failure import one_line
from headwater.rules.opml import Outline, write_opml
from headwater.rules.urls import plain_spelling
from headwater.store import Store
from headwater.store.rows import to_ms
from headwater.store.sources import SourceFilter

_BITE = 1000  # sources that are stored, or read, at once
_JUDGED_AT_ONCE = 500  # lines; others who need a thread get one in between (H2)
_PER_USER = 4  # lists of one user that are under way or wait
OpenParsers = Callable[[], AbstractAsyncContextManager[Parsers]]


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


class Imports:
    """Takes lists in for several people: one list after another, so that polls go on (H2, H3)."""

    def __init__(self, store: Store, clock: Clock, parsers: OpenParsers, *, most: int) -> None:
        self._store = store
        self._clock = clock
        self._parsers = parsers
        self._most = most
        self._turn = asyncio.Lock()  # at least one parse process is there for polls
        self._running: Counter[str] = Counter()  # by user

    async def take(self, podcast: Podcast, data: bytes) -> list[Imported]:
        """Add every feed of an OPML document that the podcast does not watch yet.

        Where its user would get beyond the limit on sources, nothing is added (U8).
        """
        async with self._share_of(podcast.user_id):
            async with self._turn:
                outlines = await self._read(data)
            wanted = await _told_apart(outlines)
            urls = [spelling for one in wanted for spelling in one.spellings]
            watched = await self._store.subscriptions.watched(podcast.id, urls)
            plan = await _planned(wanted, podcast.id, watched, self._clock.now())
            return await self._carried_out(plan, podcast)

    @asynccontextmanager
    async def _share_of(self, user_id: str) -> AsyncIterator[None]:
        if self._running[user_id] >= _PER_USER:
            raise TooMany(f"{_PER_USER} lists are being imported already; try again later")
        self._running[user_id] += 1
        try:
            yield
        finally:
            self._running[user_id] -= 1
            if not self._running[user_id]:
                del self._running[user_id]

    async def _read(self, data: bytes) -> Sequence[Outline]:
        try:
            async with self._parsers() as parsers:
                outlines = await parsers.outlines(data, most=self._most)
        except TooExpensive as error:
            raise TooMuch(str(error)) from error
        except LocalFault as error:
            raise Stopping(str(error)) from error
        if len(outlines) > self._most:
            raise TooMuch(
                f"the list names more than {self._most:,} sources, and a user may have "
                "no more (app.limits.max-sources-per-user)"
            )
        return outlines

    async def _carried_out(self, plan: "_Plan", podcast: Podcast) -> list[Imported]:
        lines, new, store = plan.lines, plan.new, self._store
        await refuse_too_many(store, podcast.user_id, len(new), self._most)
        there: dict[str, str] = {}  # added by others meanwhile
        for first in range(0, len(new), _BITE):  # others want to write in between
            bite = new[first : first + _BITE]
            there |= await store.subscriptions.add_missing(podcast.id, bite, most=self._most)
        return [_corrected(line, there) for line in lines] if there else lines


async def export_opml(store: Store, podcast: Podcast, now: datetime) -> bytes:
    """All sources of a podcast as OPML; URLs are whole, so that they survive a round trip."""
    wanted = SourceFilter(podcast_id=podcast.id)
    outlines: list[Outline] = []
    after: tuple[int, str] | None = None
    while page := await store.sources.find(wanted, limit=_BITE, after=after):
        outlines += [Outline(url=s.url, title=s.label, type=s.type.value) for s in page]
        after = (to_ms(page[-1].created_at) or 0, page[-1].id)
    return await asyncio.to_thread(write_opml, outlines, title=podcast.name, created=now)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A line of a list and what it means, in whatever spelling."""

    outline: Outline
    url: str
    type: SourceType
    spellings: tuple[str, ...]  # under which it may be watched already; the last one tells all

    @classmethod
    def of(cls, outline: Outline) -> "_Wanted":
        url = outline.url.strip()
        type_ = _type(outline, url)
        return cls(outline, url, type_, tuple(dict.fromkeys((url, *_other_spellings(url, type_)))))


class _Plan:
    """What shall become of each line of a list, and the sources that are new."""

    def __init__(self, podcast_id: str, watched: Mapping[str, str]) -> None:
        self.lines: list[Imported] = []
        self.new: list[Source] = []
        self._podcast_id = podcast_id
        self._known = dict(watched)

    def judge(self, some: Sequence[_Wanted], now: datetime) -> None:
        """Decide on the next lines; the first of them is as old as `now` says."""
        for index, wanted in enumerate(some):
            # a millisecond apart, so that they are listed in the order of the file
            created_at = now + timedelta(milliseconds=index)
            line, source = _line(wanted, self._podcast_id, self._known, created_at)
            self.lines.append(line)
            if source is not None:
                self._known |= dict.fromkeys((wanted.url, wanted.spellings[-1]), source.id)
                self.new.append(source)


async def _told_apart(outlines: Sequence[Outline]) -> list[_Wanted]:
    found: list[_Wanted] = []
    for first in range(0, len(outlines), _JUDGED_AT_ONCE):
        some = outlines[first : first + _JUDGED_AT_ONCE]
        found += await asyncio.to_thread(list, map(_Wanted.of, some))
    return found


async def _planned(
    lines: Sequence[_Wanted], podcast_id: str, watched: Mapping[str, str], now: datetime
) -> _Plan:
    plan = _Plan(podcast_id, watched)
    for first in range(0, len(lines), _JUDGED_AT_ONCE):
        some = lines[first : first + _JUDGED_AT_ONCE]
        since = now - timedelta(milliseconds=len(lines) - first)
        await asyncio.to_thread(partial(plan.judge, some, since))
    return plan


def _line(
    wanted: _Wanted, podcast_id: str, known: Mapping[str, str], now: datetime
) -> tuple[Imported, Source | None]:
    url, title = wanted.url, wanted.outline.title
    there = next((known[one] for one in wanted.spellings if one in known), None)
    if there is not None:
        return Imported(url, ImportOutcome.EXISTS, there), None
    label = title[:MAX_LABEL] if title else None
    settings = SourceSettings(type=wanted.type, url=url, label=label)
    try:
        source = new_source(podcast_id, settings, now)
    except UsageError as error:
        return Imported(url, ImportOutcome.REJECTED, error=one_line(error)), None
    return Imported(url, ImportOutcome.ADDED, source.id), source


def _type(outline: Outline, url: str) -> SourceType:
    """What a file says beyond `rss`, which says nothing there; else what the URL tells."""
    if outline.type in (SourceType.WEBSITE, SourceType.TWITTER):
        return SourceType(outline.type)
    return type_of_url(url) or SourceType.RSS


def _other_spellings(url: str, type_: SourceType) -> tuple[str, ...]:
    if type_ is not SourceType.TWITTER:
        return (plain_spelling(url),)
    try:
        name = user_name(url)
    except UsageError:  # which is told where it is judged
        return ()
    sites = (f"https://{host}/{name}" for host in ("x.com", "twitter.com"))
    return (name, f"@{name}", *sites, f"@{name.lower()}")


def _corrected(line: Imported, added_meanwhile: Mapping[str, str]) -> Imported:
    """The line as it is if somebody else added its URL while we were about to."""
    if line.outcome is ImportOutcome.REJECTED or line.url not in added_meanwhile:
        return line
    return replace(line, outcome=ImportOutcome.EXISTS, source_id=added_meanwhile[line.url])
