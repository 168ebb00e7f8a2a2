"""The plan of a configuration file: what applying it would change (V3)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headwater.content import SavedSearch
from headwater.errors import UsageError
from headwater.formats.configuration_file import (
    ConfiguredPodcast,
    ConfiguredSearch,
    ConfiguredSource,
    Located,
)
from headwater.model import PODCAST_SETTINGS, Podcast, Source, SourceType, User
from headwater.operations.search import new_search
from headwater.operations.sources import edited_as, message_of, new_source, url_spellings
from headwater.operations.users_and_podcasts import DEFAULT, new_podcast, podcast_edited_as
from headwater.rules.addresses import Allowed
from headwater.rules.pasted_addresses import resolve
from headwater.rules.url_secrets import masked
from headwater.source_settings import SETTINGS, Setting, SettingValues
from headwater.store import Session
from headwater.store.saved_searches import all_searches
from headwater.store.source_pages import SourceFilter, find
from headwater.store.users_and_podcasts import list_podcasts

_ALL = 1 << 62
_QUERY = "query"
# never reset: these have no default, and Headwater itself disables sources
_KEPT = frozenset({"type", "url", "enabled"})


class PlanAction(StrEnum):
    """What happens to an object."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class ObjectKind(StrEnum):
    """What a change is about."""

    PODCAST = "podcast"
    SOURCE = "source"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting of a changed or new object, as JSON values."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One object to add, change or remove."""

    action: PlanAction
    kind: ObjectKind
    podcast: str  # its name
    name: str  # of a source: its masked URL
    changes: tuple[SettingChange, ...] = ()
    id: str | None = None  # of an existing podcast or source
    values: SettingValues = field(default_factory=dict)  # the settings to store


@dataclass(frozen=True, slots=True)
class StoredPodcast:
    """A podcast with its sources, oldest first, and its searches."""

    podcast: Podcast
    sources: Sequence[Source]
    searches: Sequence[SavedSearch]


def stored_podcasts(session: Session, user_id: str) -> list[StoredPodcast]:
    """The podcasts of a user by name."""
    return [
        StoredPodcast(
            podcast,
            find(session, SourceFilter(podcast_id=podcast.id), limit=_ALL),
            all_searches(session, podcast.id),
        )
        for podcast in sorted(list_podcasts(session, user_id), key=lambda one: one.name)
    ]


@dataclass(frozen=True, slots=True)
class Planner:
    """Compares a file with what a user has, and checks every value."""

    user: User
    now: datetime
    allowed: Allowed
    prune: bool = False

    def plan(
        self, session: Session, configured: Sequence[ConfiguredPodcast]
    ) -> list[PlannedChange]:
        """The changes that make the stored configuration that of the file."""
        stored = stored_podcasts(session, self.user.id)
        found = self._matched(stored, configured)
        changes = list[PlannedChange]()
        for wanted, there in zip(configured, found, strict=True):
            changes += self._podcast(wanted, there)
        if self.prune:
            named = {there.podcast.id for there in found if there is not None}
            for there in stored:
                changes += () if there.podcast.id in named else _removed_podcast(there)
        return changes

    @staticmethod
    def _matched(
        stored: Sequence[StoredPodcast], configured: Sequence[ConfiguredPodcast]
    ) -> list[StoredPodcast | None]:
        """The stored podcast of each one in the file: by id, else by name."""
        left = {one.podcast.id: one for one in stored}
        by_id = [left.pop(one.id or "", None) for one in configured]
        by_name = {one.podcast.name: one for one in left.values()}
        return [
            there or by_name.get(one.name.strip())
            for one, there in zip(configured, by_id, strict=True)
        ]

    def _podcast(
        self, wanted: ConfiguredPodcast, there: StoredPodcast | None
    ) -> Iterator[PlannedChange]:
        kind, name = ObjectKind.PODCAST, wanted.name.strip()
        if there is None:
            with _located(wanted):
                new_podcast(self.user, name, self.now, wanted.settings)
            shown = _shown_changes(wanted.settings, None, PODCAST_SETTINGS)
            yield PlannedChange(PlanAction.ADDED, kind, name, name, shown, values=wanted.settings)
        else:
            before = there.podcast
            changes = self._differing(wanted.settings, before, PODCAST_SETTINGS)
            changes |= {"name": name} if name != before.name else {}
            with _located(wanted):
                podcast_edited_as(changes, before)
            if changes:
                shown = _shown_changes(changes, before, PODCAST_SETTINGS)
                yield PlannedChange(
                    PlanAction.CHANGED, kind, name, before.name, shown, before.id, changes
                )
        yield from self._sources(name, wanted.sources, there.sources if there else ())
        yield from self._searches(name, wanted.searches, there.searches if there else ())

    def _sources(
        self, podcast: str, configured: Sequence[ConfiguredSource], stored: Sequence[Source]
    ) -> Iterator[PlannedChange]:
        kind = ObjectKind.SOURCE
        matched, unnamed = _matched_sources(configured, stored)
        for one in matched:
            wanted, settings, before = one.wanted, one.settings, one.before
            if before is None:
                with _located(wanted):
                    source = new_source("", settings, self.now, allowed=self.allowed)
                shown = _shown_changes(settings, None, SETTINGS)
                url = masked(source.url)
                yield PlannedChange(PlanAction.ADDED, kind, podcast, url, shown, values=settings)
                continue
            changes = self._differing(settings, before, SETTINGS)
            with _located(wanted):
                edited_as(changes, self.now, before, allowed=self.allowed)
            if changes:
                shown = _shown_changes(changes, before, SETTINGS)
                yield PlannedChange(
                    PlanAction.CHANGED, kind, podcast, masked(before.url), shown, before.id, changes
                )
        for source in unnamed if self.prune else ():
            yield _removed_source(podcast, source)

    def _searches(
        self, podcast: str, configured: Sequence[ConfiguredSearch], stored: Sequence[SavedSearch]
    ) -> Iterator[PlannedChange]:
        kind = ObjectKind.SEARCH
        before = {one.name: one.query for one in stored}
        for wanted in configured:
            with _located(wanted):
                new = new_search("", wanted.name, wanted.query, self.now)
            if before.get(new.name) == new.query:
                continue
            action = PlanAction.CHANGED if new.name in before else PlanAction.ADDED
            shown = (SettingChange(_QUERY, before.get(new.name), new.query),)
            values = {_QUERY: new.query}
            yield PlannedChange(action, kind, podcast, new.name, shown, values=values)
        named = {one.name.strip() for one in configured}
        for name in before if self.prune else ():
            if name not in named:
                yield PlannedChange(PlanAction.REMOVED, kind, podcast, name)

    def _differing(
        self, given: SettingValues, before: Podcast | Source, settings: Mapping[str, Setting]
    ) -> dict[str, Any]:
        """The settings that change: those that are given and, with `prune`, all others."""
        wanted = dict(given)
        if self.prune:
            wanted = {n: s.default for n, s in settings.items() if n not in _KEPT} | wanted
        return {name: value for name, value in wanted.items() if value != getattr(before, name)}


@dataclass(frozen=True, slots=True)
class _MatchedSource:
    """A source of a file, the settings that it gives, and the stored source that it is."""

    wanted: ConfiguredSource
    settings: SettingValues
    before: Source | None


def _matched_sources(
    configured: Sequence[ConfiguredSource], stored: Sequence[Source]
) -> tuple[list[_MatchedSource], list[Source]]:
    """Match by id, else by URL, else by another spelling of it; also those that are left.

    Of several stored sources with one URL the oldest comes first: that is the order of copies.
    """
    left = {source.id: source for source in stored}
    found = [left.pop(one.id or "", None) for one in configured]
    by_url = _grouped(left.values(), lambda source: source.url)
    for number, one in enumerate(configured):
        if found[number] is None and (same := by_url.get(one.settings["url"])):
            found[number] = left.pop(same.pop(0).id)
    by_spelling = _grouped(left.values(), lambda source: _canonical(source.url, source.type))
    matched = list[_MatchedSource]()
    for one, before in zip(configured, found, strict=True):
        settings = one.settings
        if before is None:
            settings = _with_type(one)
            if same := by_spelling.get(_canonical(settings["url"], settings["type"])):
                before = left.pop(same.pop(0).id)
                settings = {k: v for k, v in one.settings.items() if k != "url"}
        matched.append(_MatchedSource(one, settings, before))
    return matched, list(left.values())


def _grouped(
    sources: Iterable[Source], key: Callable[[Source], str]
) -> defaultdict[str, list[Source]]:
    groups = defaultdict[str, list[Source]](list)
    for source in sources:
        groups[key(source)].append(source)
    return groups


def _canonical(url: str, type_: SourceType) -> str:
    return url_spellings(url, type_)[-1]


def _with_type(wanted: ConfiguredSource) -> SettingValues:
    """The settings with a type: without one, that of a known site, else `rss`, as in OPML."""
    if "type" in wanted.settings:
        return wanted.settings
    with _located(wanted):
        pasted = resolve(wanted.settings["url"])
        if pasted.lookup is not None:
            raise UsageError(
                "only a visit finds the feed of this address: use `headwater add`, or give the "
                "address of the feed",
                field="url",
            )
    return {**wanted.settings, "url": pasted.url, "type": pasted.type or SourceType.RSS}


@contextmanager
def _located(part: Located) -> Iterator[None]:
    """Add the place in the file to an error."""
    try:
        yield
    except UsageError as error:
        settings = SETTINGS | PODCAST_SETTINGS
        key = settings[error.field].json_name if error.field in settings else error.field
        message = message_of(error)
        named = message if key is None or key in message else f"{key}: {message}"
        raise part.error(named, key) from error


def _shown_changes(
    values: SettingValues, before: Podcast | Source | None, settings: Mapping[str, Setting]
) -> tuple[SettingChange, ...]:
    """The values for people, secrets masked; all that are given if the object is new."""
    shown = list[SettingChange]()
    for name, value in values.items():
        setting = settings.get(name)
        if before is None and name == "url":
            continue  # it is the name of the source
        pair = [None if before is None else getattr(before, name), value]
        if name == "url":
            pair = [masked(one) for one in pair]
        elif setting is not None:
            pair = [setting.to_json(one) for one in pair]
        shown.append(SettingChange(setting.json_name if setting else name, *pair))
    return tuple(shown)


def _removed_podcast(there: StoredPodcast) -> Iterator[PlannedChange]:
    """Remove a podcast, or everything in it if every database must have it."""
    podcast = there.podcast
    if podcast.id != DEFAULT:
        yield PlannedChange(
            PlanAction.REMOVED, ObjectKind.PODCAST, podcast.name, podcast.name, id=podcast.id
        )
        return
    for source in there.sources:
        yield _removed_source(podcast.name, source)
    for search in there.searches:
        yield PlannedChange(PlanAction.REMOVED, ObjectKind.SEARCH, podcast.name, search.name)


def _removed_source(podcast: str, source: Source) -> PlannedChange:
    url = masked(source.url)
    return PlannedChange(PlanAction.REMOVED, ObjectKind.SOURCE, podcast, url, id=source.id)
