"""Import and export of sources as OPML."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from headwater.clock import Clock
from headwater.errors import LocalFault, Stopping, TooExpensive, TooMany, TooMuch, UsageError
from headwater.fetch.pool.parser_pool import ParserPool
from headwater.formats.opml import Outline, as_written, write_opml
from headwater.model import Podcast, Source, SourceType
from headwater.operations.sources import message_of, new_source, url_spellings
from headwater.rules.addresses import Allowed
from headwater.rules.failure_kinds import one_line
from headwater.rules.pasted_addresses import Pasted, resolve
from headwater.source_settings import SETTINGS, Setting
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.row_mapping import to_ms
from headwater.store.sources import SourceFilter

_BATCH = 1000  # sources that are stored or read at once
_ITEMS_PER_TASK = 500  # of a thread
_PER_USER = 4  # imports of one user that run or wait
Item = TypeVar("Item")
Result = TypeVar("Result")
OpenParsers = Callable[[], AbstractAsyncContextManager[ParserPool]]


class ImportOutcome(StrEnum):
    """The result for one outline of an OPML file."""

    ADDED = "added"
    EXISTS = "exists"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Imported:
    """One outline of an OPML file and its result."""

    url: str
    outcome: ImportOutcome
    source_id: str | None = None
    error: str | None = None


class Imports:
    """Imports OPML files of all users, one after another, so that polls continue (H2, H3)."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        parsers: OpenParsers,
        *,
        most: int,
        allowed: Allowed,
    ) -> None:
        self._store = store
        self._clock = clock
        self._parsers = parsers
        self._most = most
        self._allowed = allowed
        self._parsing = asyncio.Lock()  # one import uses one parse process; polls use the others
        self._running: Counter[str] = Counter()  # by user

    async def take(
        self, podcast: Podcast, data: bytes, *, include_history: bool = False
    ) -> list[Imported]:
        """Add every feed of an OPML document that the podcast does not have yet.

        No source is visited: a file may have very many. Nothing is added if its user would have
        too many sources (U8).
        """
        async with self._counted(podcast.user_id):
            async with self._parsing:
                outlines = await self._read(data)
            wanted = await _in_thread(_Candidate.of, outlines)
            urls = [spelling for one in wanted for spelling in one.spellings]
            known = dict(await self._store.sources.watched_urls(podcast.id, urls))
            first = self._clock.now() - timedelta(milliseconds=len(wanted))

            def planned(one: tuple[int, _Candidate]) -> tuple[Imported, Source | None]:
                # a millisecond apart, to keep the order of the file in lists
                added_at = first + timedelta(milliseconds=one[0])
                line, source = _line(one[1], podcast.id, known, added_at, self._allowed)
                if source is not None and include_history:
                    source = replace(source, include_history=True)
                return line, source

            plan = await _in_thread(planned, list(enumerate(wanted)))
            new = [source for _, source in plan if source is not None]
            target = f"podcast {podcast.id}"
            describe("sources.import", target)
            lines = await self._stored([line for line, _ in plan], new, podcast)
            counts = Counter(line.outcome.value for line in lines)
            describe("sources.import", target, **counts)
            return lines

    @asynccontextmanager
    async def _counted(self, user_id: str) -> AsyncIterator[None]:
        if self._running[user_id] >= _PER_USER:
            raise TooMany(f"{_PER_USER} imports are running already; try again later")
        self._running[user_id] += 1
        try:
            yield
        finally:
            self._running -= Counter([user_id])  # without users that have none

    async def _read(self, data: bytes) -> Sequence[Outline]:
        try:
            async with self._parsers() as parsers:
                outlines = await parsers.outlines(data, max_outlines=self._most)
        except TooExpensive as error:
            raise TooMuch(str(error)) from error
        except LocalFault as error:
            raise Stopping(str(error)) from error
        if not outlines:
            raise UsageError("the file has no feeds: none of its outlines has an xmlUrl")
        if len(outlines) > self._most:
            raise TooMuch(
                f"the file has more than {self._most:,} sources, and a user may have "
                "no more (app.limits.max-sources-per-user)"
            )
        return outlines

    async def _stored(
        self, lines: list[Imported], new: Sequence[Source], podcast: Podcast
    ) -> list[Imported]:
        sources = self._store.sources
        await sources.refuse_too_many(podcast.user_id, len(new), self._most)
        there: dict[str, str] = {}  # added by other requests meanwhile
        for first in range(0, len(new), _BATCH):  # other writers get a chance in between
            batch = new[first : first + _BATCH]
            there |= await sources.add_missing(podcast.id, batch, most=self._most)
        return [
            replace(line, outcome=ImportOutcome.EXISTS, source_id=there[line.url])
            if line.url in there and line.outcome is not ImportOutcome.REJECTED
            else line
            for line in lines
        ]


async def export_opml(store: Store, podcast: Podcast, now: datetime) -> bytes:
    """All sources of a podcast as OPML with all settings; URLs keep their credentials (V3)."""
    wanted = SourceFilter(podcast_id=podcast.id)
    outlines: list[Outline] = []
    after: tuple[int, str] | None = None
    while page := await store.sources.find(wanted, limit=_BATCH, after=after):
        outlines += map(_outline_of, page)
        after = (to_ms(page[-1].created_at), page[-1].id)
    return await asyncio.to_thread(write_opml, outlines, title=podcast.name, created=now)


def _outline_of(source: Source) -> Outline:
    """The outline of a source, with the settings that are not the default in own attributes."""
    folder = tuple((source.folder or "").split("/"))
    outline = as_written(Outline(source.url, source.label, None, folder, source.type.value))
    kept = {"label": outline.title, "folder": "/".join(outline.folder) or None}
    own = {
        name: _attribute(setting, getattr(source, name))
        for name, setting in SETTINGS.items()
        if not setting.required and getattr(source, name) != kept.get(name, setting.default)
    }
    return replace(outline, settings=own)


def _attribute(setting: Setting, value: Any) -> str:
    """A value as text: texts and choices as they are, others as JSON."""
    return str(value) if isinstance(value, str) else json.dumps(setting.to_json(value))


def _settings_of(outline: Outline) -> dict[str, Any]:
    """The settings of an outline but for type and URL; a UsageError names a wrong attribute."""
    given: dict[str, Any] = {"label": outline.title, "folder": "/".join(outline.folder) or None}
    for name, text in given.items():
        given[name] = text and text[: SETTINGS[name].max_length]
    for name, text in outline.settings.items():
        setting = SETTINGS[name]
        try:
            given[name] = setting.from_json(_parsed(setting, text))
        except (ValueError, RecursionError) as error:
            reason = "is not JSON" if isinstance(error, json.JSONDecodeError) else error
            raise UsageError(f"headwater:{setting.json_name} {reason}", field=name) from error
    return given


def _parsed(setting: Setting, text: str) -> Any:
    """The value of an attribute; a choice may also be JSON, with quotes or null."""
    if setting.kind is str:
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if issubclass(setting.kind, StrEnum):
            return text
        raise


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An outline, its type, and the spellings of its URL."""

    outline: Outline
    url: str
    type: SourceType
    spellings: tuple[str, ...]  # an existing source may have any; the last is the canonical one

    @classmethod
    def of(cls, outline: Outline) -> "_Candidate":
        """Resolve the URL of an outline without a visit; files use the type `rss` for all (J1)."""
        special = {one.value: one for one in (SourceType.WEBSITE, SourceType.TWITTER)}
        try:
            pasted = resolve(outline.url, special.get(outline.type or ""))
        except UsageError:  # reported by new_source
            pasted = Pasted(outline.url.strip())
        type_ = pasted.type or SourceType.RSS
        return cls(outline, pasted.url, type_, url_spellings(pasted.url, type_))


async def _in_thread(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results for all items, computed in a thread, which other work gets in between (H2)."""
    found: list[Result] = []
    for first in range(0, len(items), _ITEMS_PER_TASK):
        some = items[first : first + _ITEMS_PER_TASK]
        found += await asyncio.to_thread(list, map(function, some))
    return found


def _line(
    wanted: _Candidate,
    podcast_id: str,
    known: dict[str, str],
    now: datetime,
    allowed: Allowed,
) -> tuple[Imported, Source | None]:
    """The result for an outline, and its source if it is new; `known` has the ids by URL."""
    url = wanted.url
    there = next((known[one] for one in wanted.spellings if one in known), None)
    if there is not None:
        return Imported(url, ImportOutcome.EXISTS, there), None
    try:
        settings = _settings_of(wanted.outline) | {"type": wanted.type, "url": url}
        source = new_source(podcast_id, settings, now, allowed=allowed)
    except UsageError as error:
        given, reason = wanted.outline.url.strip(), UsageError(message_of(error))
        return Imported(given, ImportOutcome.REJECTED, error=one_line(reason)), None
    known |= dict.fromkeys((url, wanted.spellings[-1]), source.id)
    return Imported(url, ImportOutcome.ADDED, source.id), source
