"""MemoryFeedSearches: an in-memory version of the searches for lost feeds (Y5)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from headwater.model import DueSource, Outcome
from headwater.rules.feed_search import (
    MIN_PAUSE,
    FeedSearch,
    SearchResult,
    host_of_step,
    new_search,
    wants_search,
)
from headwater.rules.full_text import GIVE_UP_AFTER, own_delay
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds
from headwater.simulation.memory_sources import MemorySources
from headwater.simulation.search_checks import SearchChecks


class MemoryFeedSearches:
    """The last search of each source, and those that are not over."""

    def __init__(self, sources: MemorySources, checks: SearchChecks) -> None:
        self._sources = sources
        self._checks = checks
        self._started_at: dict[str, datetime] = {}  # by source
        self._pending: dict[str, FeedSearch] = {}  # by source

    def start(self, outcome: Outcome) -> None:
        """Begin the search for a feed that a poll has lost, at most once a week."""
        source, now = outcome.source, outcome.source.last_polled
        if now is None or not wants_search(outcome) or source.id in self._pending:
            return
        last = self._started_at.get(source.id)
        if last is None or last <= now - MIN_PAUSE or last > now:
            self._started_at[source.id] = now
            self._pending[source.id] = new_search(source, now)
            self._checks.started(source.id, now)

    async def due(self, now: datetime, policy: Policy) -> list[DueSource]:
        """Return the steps that are due."""
        found = []
        for id_, search in self._pending.items():
            at, host, source = search.not_before, host_of_step(search), self._sources.now(id_)
            if host is not None and (at <= now or at > now + GIVE_UP_AFTER):
                delay = delay_seconds(own_delay(source, host), source.type, host, policy)
                step = DueSource(f"search:{id_}", host, at, delay, is_page=True, is_search=True)
                found.append(step)
        return found

    async def pending(self, source_id: str) -> FeedSearch | None:
        """Return the search of a source that is not over."""
        return self._pending.get(source_id)

    async def end(self, source_id: str, _result: str) -> None:
        """End a search."""
        self._pending.pop(source_id, None)
        self._checks.ended(source_id)

    async def drop(self, source_ids: Sequence[str]) -> None:
        """Forget searches without a visit: they do not count."""
        for id_ in source_ids:
            self._pending.pop(id_, None)
            self._started_at.pop(id_, None)
            self._checks.dropped(id_)

    async def postpone(self, source_id: str, not_before: datetime) -> None:
        """Set the time of the next step."""
        if source_id in self._pending:
            search = self._pending[source_id]
            self._pending[source_id] = replace(search, not_before=not_before)
            self._checks.postponed(source_id)

    def store(self, result: SearchResult) -> bool:
        """Store a step; False if its search is not pending any more."""
        id_ = result.before.source_id
        if self._pending.get(id_) != result.before:
            return False
        self._checks.stored(result)
        if result.after.next_url is None:
            del self._pending[id_]
            self._checks.ended(id_)
        else:
            self._pending[id_] = result.after
        return True
