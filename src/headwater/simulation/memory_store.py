"""MemoryStore: an in-memory `Store`, as far as the engine uses it; a test compares the two."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.model import HostState, Outcome, Podcast, Source, Subject, Visit
from headwater.rules.admission import Known, NewByDate, hash_prefix, link_key
from headwater.rules.feed_search import SearchResult
from headwater.rules.full_text import PageResult
from headwater.rules.incidents import IncidentChanges
from headwater.rules.page_versions import PageVersions
from headwater.rules.policy import Policy
from headwater.rules.webhook_messages import happenings
from headwater.simulation.memory_incidents import MemoryIncidents, MemoryStorms
from headwater.simulation.memory_outbox import MemoryChannels, MemoryWebhooks
from headwater.simulation.memory_pages import MemoryPageVisits
from headwater.simulation.memory_searches import MemoryFeedSearches
from headwater.simulation.memory_sources import MemorySources, OwnerOf, in_milliseconds
from headwater.simulation.state_checks import StateChecks

if TYPE_CHECKING:
    from headwater.store.expired_rows import CleanupBatch
    from headwater.store.expiry import Announced, ExpiringCounts

T = TypeVar("T")


class MemoryStore:
    """The stored state, which survives restarts of the simulated process."""

    def __init__(self, policy: Policy, checks: StateChecks, owner_of: OwnerOf) -> None:
        self.database = MemoryDatabase()
        self.sources = MemorySources(policy, checks, owner_of)
        self.feed_searches = MemoryFeedSearches(self.sources, checks.searches)
        self.page_visits = MemoryPageVisits(self.sources, self.feed_searches, checks)
        self._post_links: dict[str, dict[str, str]] = {}  # by source and hash prefix (D1)
        self.hosts = MemoryHosts()
        self.key_values = MemoryKeyValues()
        self.accounts = MemoryAccounts()
        self.storms = MemoryStorms(self.sources, checks.storm_began, checks.storm_ended)
        self.incidents = MemoryIncidents(self.sources, self.storms, self._incidents_changed)
        self.audit = NoChangesByPeople()
        self.queries = NothingWaits()
        self.articles = MemoryArticles()
        self.webhooks = MemoryWebhooks(checks.messages)
        self.channels = MemoryChannels(self.webhooks)
        self._checks = checks
        self.database_error: str | None = None
        self.commit_seconds: Callable[[], float] | None = None  # how long storing takes
        self._storing: dict[asyncio.Task[Any], None] = {}

    def stalled_seconds(self) -> float:
        """Return 0: nothing waits."""
        return 0.0

    async def check(self) -> None:
        """Do nothing: memory is never corrupt."""

    async def refuse_newer_schema(self) -> None:
        """Do nothing: memory has no schema."""

    async def known(self, subject: Subject, dated: NewByDate) -> Known:
        """Return which entries of an answer were stored before."""
        of_source = self._post_links.get(subject.source.id, {})
        found = [one for one in map(hash_prefix, dated.hashes) if one in of_source]
        return Known(
            hash_prefixes=frozenset(found),
            prefixes_at_link=frozenset((one, of_source[one]) for one in found),
        )

    async def page_versions(self, _source: Source) -> PageVersions:
        """Return nothing: texts are not kept, and simulated pages are watched as a whole."""
        return PageVersions()

    async def record(self, outcome: Outcome) -> Outcome:
        """Store an outcome completely or not at all (D4)."""
        return await self._commit(lambda: self._store(outcome))

    async def record_page(self, result: PageResult) -> bool:
        """Store the result of a page visit; False: it was not pending any more."""
        return await self._commit(lambda: self._store_page(result))

    async def record_search(self, result: SearchResult) -> bool:
        """Store a step of a search; False: the search was not pending any more (Y5)."""
        return await self._commit(lambda: self._store_search(result))

    async def _commit(self, write: Callable[[], T]) -> T:
        """Run a write, after the time that storing takes."""
        if self.commit_seconds is None:
            return write()
        storing = asyncio.create_task(_later(write, self.commit_seconds()))
        self._storing[storing] = None
        storing.add_done_callback(self._storing.pop)
        return await asyncio.shield(storing)  # a cancelled poll is stored too

    def _store(self, outcome: Outcome) -> Outcome:
        kept = self.sources.store(outcome)
        self.hosts.store(outcome)
        if not kept:
            return replace(outcome, posts=(), recorded=False)
        of_source = self._post_links.setdefault(outcome.source.id, {})
        for post in outcome.posts:
            of_source.setdefault(hash_prefix(post.content_hash), link_key(post.url))
        self.page_visits.add(outcome)
        self.feed_searches.start(outcome)
        self.incidents.learn(outcome)
        self.webhooks.publish(happenings(outcome))
        return outcome

    def _store_search(self, result: SearchResult) -> bool:
        self.hosts.store(result.outcome)
        return self.feed_searches.store(result)

    def _incidents_changed(self, changes: IncidentChanges) -> None:
        self._checks.incidents_changed(changes)
        self.channels.publish((*changes.opened, *changes.closed))

    def _store_page(self, result: PageResult) -> bool:
        self.hosts.store(result.outcome)
        return self.page_visits.store(result)

    async def flush(self, seconds: float) -> None:
        """Wait until all recorded outcomes are stored, those of cancelled polls too (S8)."""
        if self._storing:
            await asyncio.wait(list(self._storing), timeout=seconds)

    async def newest_at(self) -> datetime | None:
        """Return None: nothing is deleted, so cleanup need not pause."""
        return None

    async def clean(self, _batch: "CleanupBatch", _now: datetime, _limit: int) -> int:
        """Delete nothing."""
        return 0


async def _later(write: Callable[[], T], seconds: float) -> T:
    await asyncio.sleep(seconds)
    return write()


class MemoryDatabase:
    """The single-poller lock."""

    interactive_requests = 0

    def __init__(self) -> None:
        self._poll_locked = False

    async def acquire_poll_lock(self) -> bool:
        """Take the lock; False if it is taken."""
        free = not self._poll_locked
        self._poll_locked = True
        return free

    async def renew_poll_lock(self) -> bool:
        """Return whether the lock is still held."""
        return self._poll_locked

    def release(self) -> None:
        """Release the lock."""
        self._poll_locked = False


class MemoryAccounts:
    """No podcast: the simulation has no articles."""

    async def automatic(self) -> list[Podcast]:
        """Return no podcast that is aggregated automatically."""
        return []

    async def podcasts(self, _user_id: str | None) -> list[Podcast]:
        """Return no podcast."""
        return []


class NoChangesByPeople:
    """The audit log: the simulation edits sources without it."""

    changes = 0


class NothingWaits:
    """Queries of the scheduler: none waits for long."""

    async def watch(self, work: Awaitable[None]) -> None:
        """Do the work."""
        await work


class MemoryArticles:
    """No article."""

    async def horizon(self) -> int:
        """Return 0."""
        return 0

    async def announce_expiring(
        self, _found: Mapping[str, "ExpiringCounts"], _announced: "Announced", _now: datetime
    ) -> None:
        """Do nothing: nothing expires."""


class MemoryKeyValues:
    """Values by name."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        """Return a value, or None."""
        return self._values.get(name)

    async def set(self, name: str, value: str | None) -> str | None:
        """Set or remove a value and return the previous one."""
        before = self._values.pop(name, None)
        if value is not None:
            self._values[name] = value
        return before


class MemoryHosts:
    """The states of lanes (P3, P9, O2, O3)."""

    def __init__(self) -> None:
        self._lanes: dict[str, HostState] = {}

    async def all(self) -> Sequence[HostState]:
        """Return the state of every lane."""
        return list(self._lanes.values())

    async def keep(self, visits: Sequence[Visit]) -> None:
        """Store visits whose poll was not recorded (S8)."""
        for visit in visits:
            self._store_visit(visit)

    async def end_unfinished_visits(self, _now: datetime) -> bool:
        """Return False: only workers of a cluster leave unfinished visits."""
        return False

    async def announced(self, _since: datetime) -> Sequence[HostState]:
        """Return nothing: no other process polls."""
        return ()

    def store(self, outcome: Outcome) -> None:
        """Store the visits and the hold of a poll."""
        for visit in outcome.visits:
            self._store_visit(visit)
        hold = outcome.hold
        if hold is not None and outcome.hold_lane:
            kept = replace(hold, until=in_milliseconds(hold.until))
            self._lanes[outcome.hold_lane] = replace(self._state(outcome.hold_lane), hold=kept)

    def _store_visit(self, visit: Visit) -> None:
        before, at = self._state(visit.lane), visit.ended_at
        next_allowed_at, set_at = before.next_allowed_at, before.next_allowed_set_at
        if visit.next_allowed_at is not None:
            next_allowed_at, set_at = in_milliseconds(visit.next_allowed_at), at
        self._lanes[visit.lane] = HostState(
            visit.lane,
            next_allowed_at,
            set_at,
            before.hold,
            at if visit.succeeded else before.last_success_at,
            at if visit.resolved else before.resolved_at,
        )

    def _state(self, lane: str) -> HostState:
        return self._lanes.get(lane) or HostState(lane)
