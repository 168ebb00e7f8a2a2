"""Configuration as code: export to a YAML file, and application of one (V3)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from headwater.clock import Clock
from headwater.errors import Outdated
from headwater.formats.configuration_file import (
    ConfiguredPodcast,
    ConfiguredSearch,
    ConfiguredSource,
    write_configuration,
)
from headwater.model import PODCAST_SETTINGS, Podcast, Source, User
from headwater.operations.configuration_plan import (
    ObjectKind,
    PlanAction,
    PlannedChange,
    Planner,
    StoredPodcast,
    stored_podcasts,
)
from headwater.operations.filters import apply_changed_filters, changes_filters
from headwater.operations.search import new_search
from headwater.operations.sources import edited_as, new_source, remove_sources
from headwater.operations.users_and_podcasts import (
    DEFAULT,
    DeletionCheck,
    new_podcast,
    podcast_edited_as,
    remove_podcast,
)
from headwater.source_settings import SETTINGS, SettingValues
from headwater.store import Session, Store, source_batches
from headwater.store.audit import describe
from headwater.store.expiry import ExpiringCounts
from headwater.store.saved_searches import add_search, change_search, remove_search
from headwater.store.source_pages import SourceFilter
from headwater.store.users_and_podcasts import (
    change_podcast,
    insert_or_update_podcast,
    list_podcasts,
    lock_podcasts,
)

_MILLISECOND = timedelta(milliseconds=1)
_OUTDATED = "the configuration was changed meanwhile; nothing was applied: run the command again"


async def export_configuration(store: Store, user: User, podcast: Podcast | None = None) -> bytes:
    """A file of all podcasts of a user, or of one; URLs keep their credentials."""
    stored = await store.database.read(lambda session: stored_podcasts(session, user.id))
    wanted = [one for one in stored if podcast is None or one.podcast.id == podcast.id]
    return await asyncio.to_thread(lambda: write_configuration([*map(_configured, wanted)]))


def _configured(stored: StoredPodcast) -> ConfiguredPodcast:
    podcast = stored.podcast
    copies: Counter[str] = Counter()
    sources = list[ConfiguredSource]()
    for source in stored.sources:
        copies[source.url] += 1
        settings = {name: getattr(source, name) for name in SETTINGS}
        sources.append(ConfiguredSource(settings, copies[source.url]))
    return ConfiguredPodcast(
        name=podcast.name,
        settings={name: getattr(podcast, name) for name in PODCAST_SETTINGS},
        sources=sources,
        searches=[ConfiguredSearch(search.name, search.query) for search in stored.searches],
        # another database has this podcast too, by another name
        id=DEFAULT if podcast.id == DEFAULT and podcast.name != DEFAULT else None,
    )


@dataclass(frozen=True, slots=True)
class ConfigurationChange:
    """A file that is applied: its podcasts, and the plan that was shown."""

    store: Store
    clock: Clock
    planner: Planner
    configured: Sequence[ConfiguredPodcast]
    most: int  # sources of a user (U8)

    async def plan(self) -> list[PlannedChange]:
        """What would change."""
        work = partial(self.planner.plan, configured=self.configured)
        return await self.store.database.read(work)

    async def would_delete(
        self, plan: Sequence[PlannedChange], check: DeletionCheck
    ) -> ExpiringCounts:
        """What the age limits of a plan delete at once (E5)."""
        return await self.store.database.read(
            lambda session: check.counts(session, self._edited(session, plan))
        )

    async def apply(
        self, plan: Sequence[PlannedChange], check: DeletionCheck | None = None
    ) -> None:
        """Make the changes of a plan: all in one transaction, or none.

        Sources and podcasts to remove follow in batches, since they may have very many posts; if
        that is interrupted, applying the file again continues. Raises Outdated if the plan is no
        longer what would change, WouldDelete if `check` refuses a lower age limit.
        """
        if not plan:
            return
        user = self.planner.user
        counts = Counter(one.action.value for one in plan)
        describe("configuration.apply", f"user {user.id}", **counts)
        await self.store.database.write_long(lambda session: self._write(session, plan, check))
        removed = [one for one in plan if one.action is PlanAction.REMOVED]
        ids = [one.id for one in removed if one.kind is ObjectKind.SOURCE and one.id is not None]
        await remove_sources(self.store, SourceFilter(user_id=user.id), ids)
        for one in removed:
            if one.kind is ObjectKind.PODCAST and one.id is not None:
                podcast = await self.store.accounts.podcast(user.id, one.id)
                await remove_podcast(self.store, podcast)
        if any(changes_filters(one.values) for one in plan):
            await apply_changed_filters(self.store, self.clock.now())

    def _write(
        self, session: Session, plan: Sequence[PlannedChange], check: DeletionCheck | None
    ) -> None:
        lock_podcasts(session, self.planner.user.id)  # else two processes add the same sources
        if self.planner.plan(session, self.configured) != plan:
            raise Outdated(_OUTDATED)
        user, now = self.planner.user, self.clock.now()
        if check is not None:
            check.refuse(session, self._edited(session, plan))
        for one in _of(plan, ObjectKind.PODCAST, PlanAction.CHANGED):
            change_podcast(session, one.id or "", partial(podcast_edited_as, one.values))
        for one in _of(plan, ObjectKind.PODCAST, PlanAction.ADDED):
            podcast = new_podcast(user, one.name, now, one.values)
            insert_or_update_podcast(session, podcast)
        podcast_ids = {podcast.name: podcast.id for podcast in list_podcasts(session, user.id)}
        self._write_sources(session, plan, podcast_ids)
        for one in _of(plan, ObjectKind.SEARCH, *PlanAction):
            _write_search(session, one, podcast_ids[one.podcast], now)

    def _edited(
        self, session: Session, plan: Sequence[PlannedChange]
    ) -> list[tuple[Podcast, Podcast]]:
        """The podcasts that a plan changes, before and after; not those that are gone meanwhile."""
        changes = {one.id: one for one in _of(plan, ObjectKind.PODCAST, PlanAction.CHANGED)}
        return [
            (podcast, podcast_edited_as(changes[podcast.id].values, podcast))
            for podcast in list_podcasts(session, self.planner.user.id)
            if podcast.id in changes
        ]

    def _write_sources(
        self, session: Session, plan: Sequence[PlannedChange], podcast_ids: dict[str, str]
    ) -> None:
        allowed, now = self.planner.allowed, self.clock.now()
        added = _of(plan, ObjectKind.SOURCE, PlanAction.ADDED)
        # a millisecond apart, to keep the order of the file in lists
        first = now - len(added) * _MILLISECOND
        sources = [
            new_source(
                podcast_ids[one.podcast], one.values, first + n * _MILLISECOND, allowed=allowed
            )
            for n, one in enumerate(added)
        ]
        if sources:
            source_batches.add(session, sources, most=self.most)
        changed = _of(plan, ObjectKind.SOURCE, PlanAction.CHANGED)
        changes: dict[str, SettingValues] = {one.id or "": one.values for one in changed}

        def change(before: Source) -> Source:
            return edited_as(changes[before.id], now, before, allowed=allowed)

        if changes:
            source_batches.edit(session, SourceFilter(), list(changes), change)


def _of(
    plan: Sequence[PlannedChange], kind: ObjectKind, *actions: PlanAction
) -> list[PlannedChange]:
    return [one for one in plan if one.kind is kind and one.action in actions]


def _write_search(session: Session, planned: PlannedChange, podcast_id: str, now: datetime) -> None:
    if planned.action is PlanAction.REMOVED:
        remove_search(session, podcast_id, planned.name)
        return
    search = new_search(podcast_id, planned.name, planned.values["query"], now)
    if planned.action is PlanAction.ADDED:
        add_search(session, search)
    else:
        change_search(session, search, old_name=search.name)
