"""MemoryPageVisits: an in-memory version of the pending page visits (T4)."""

from collections import Counter
from datetime import datetime

from headwater.model import DueSource, Outcome
from headwater.rules.full_text import PageResult, PageVisit, is_visit_due, own_delay, pages_to_visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds
from headwater.simulation.memory_searches import MemoryFeedSearches
from headwater.simulation.memory_sources import MemorySources
from headwater.simulation.state_checks import StateChecks
from headwater.store.page_visits import PER_LANE


class MemoryPageVisits:
    """Pending visits by the id of their post."""

    def __init__(
        self, sources: MemorySources, searches: MemoryFeedSearches, checks: StateChecks
    ) -> None:
        self._sources = sources
        self._searches = searches
        self._checks = checks
        self._pending: dict[str, PageVisit] = {}

    def add(self, outcome: Outcome) -> None:
        """Add the visits to the pages of new posts."""
        for post, host in pages_to_visit(outcome.source, outcome.posts):
            self._pending[post.id] = PageVisit(post, host, 0, post.created_at, None)

    async def due(self, now: datetime, policy: Policy) -> list[DueSource]:
        """Return the visits that are due, at most PER_LANE per lane, and steps of searches (Y5)."""
        due, in_lane = [], Counter[str]()
        waiting = sorted(self._pending.items(), key=lambda item: (item[1].not_before, item[0]))
        for post_id, visit in waiting:
            source, host = await self._sources.get(visit.post.source_id), visit.host
            if is_visit_due(visit, now) and source.enabled and in_lane[host] < PER_LANE:
                in_lane[host] += 1
                delay = delay_seconds(own_delay(source, host), source.type, host, policy)
                due.append(DueSource(post_id, host, visit.not_before, delay, is_page=True))
        return due + await self._searches.due(now, policy)

    async def pending(self, post_id: str) -> PageVisit | None:
        """Return the pending visit to the page of a post."""
        return self._pending.get(post_id)

    async def drop(self, post_id: str) -> None:
        """Delete one pending visit."""
        if post_id in self._pending:
            self._checks.page_dropped(self._pending.pop(post_id))

    async def count(self) -> int:
        """Return how many pages are pending."""
        return len(self._pending)

    def store(self, result: PageResult) -> bool:
        """Store what a visit changed; False if it is not pending any more."""
        post_id = result.visit.post.id
        if post_id not in self._pending:
            return False
        self._checks.page_stored(result)
        if result.retry is None:
            del self._pending[post_id]
        else:
            self._pending[post_id] = result.retry
        return True
