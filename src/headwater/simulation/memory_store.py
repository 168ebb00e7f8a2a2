"""MemoryStore: stands in for `Store` as far as the engine uses it; a test ties the two."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from headwater.model import Hold, HostState, Outcome, Source, Subject, Visit
from headwater.rules.admission import Known, Sifted, link_mark, mark
from headwater.rules.policy import Policy
from headwater.simulation.memory_sources import (
    MemorySources,
    OwnerOf,
    Writes,
    in_milliseconds,
)

if TYPE_CHECKING:
    from headwater.store.cleanup import Bite


class MemoryStore:
    """What outlives a process of the story: restarts find it as the last one left it."""

    def __init__(self, policy: Policy, writes: Writes, owner_of: OwnerOf) -> None:
        self.database = MemoryDatabase()
        self.sources = MemorySources(policy, writes, owner_of)
        self.posts = MemoryPosts()
        self.hosts = MemoryHosts()
        self.facts = MemoryFacts()
        self.trouble: str | None = None
        self.commit_seconds: Callable[[], float] | None = None  # how long storing takes
        self._storing: dict[asyncio.Task[Outcome], None] = {}

    def add(self, sources: Iterable[Source]) -> None:
        """Take sources in."""
        self.sources.add(sources)

    async def check(self) -> None:
        """Memory is never damaged."""

    async def known(self, subject: Subject, sifted: Sifted) -> Known:
        """What of an answer was ever stored."""
        return await self.posts.known(subject, sifted)

    async def record(self, outcome: Outcome) -> Outcome:
        """Store what a poll decided, all of it or nothing (D4)."""
        if self.commit_seconds is None:
            return self._store(outcome)
        storing = asyncio.create_task(self._store_later(outcome, self.commit_seconds()))
        self._storing[storing] = None
        storing.add_done_callback(self._storing.pop)
        return await asyncio.shield(storing)  # a poll that is cut off is stored all the same

    async def _store_later(self, outcome: Outcome, seconds: float) -> Outcome:
        await asyncio.sleep(seconds)
        return self._store(outcome)

    def _store(self, outcome: Outcome) -> Outcome:
        kept = self.sources.store(outcome)
        self.hosts.learn(outcome)
        if not kept:
            return replace(outcome, posts=(), recorded=False)
        if outcome.posts:
            self.posts.insert(outcome)
        return outcome

    async def flush(self, seconds: float) -> None:
        """Wait until what was handed in is stored, its poll cut off or not (S8)."""
        if self._storing:
            await asyncio.wait(list(self._storing), timeout=seconds)

    async def clean(self, _bite: "Bite", _now: datetime, _limit: int) -> int:
        """Nothing here gets old."""
        return 0


class MemoryDatabase:
    """The right to poll, for one process at a time."""

    people_waiting = 0

    def __init__(self) -> None:
        self._claimed = False

    async def try_claim(self) -> bool:
        """Take the right to poll if nobody has it."""
        free = not self._claimed
        self._claimed = True
        return free

    async def keep_claim(self) -> bool:
        """Whether the right is still held."""
        return self._claimed

    def release(self) -> None:
        """Give the right up, or lose it by dying."""
        self._claimed = False


class MemoryFacts:
    """Single values by name."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        """The value of a fact, if it is known."""
        return self._values.get(name)

    async def set(self, name: str, value: str | None) -> str | None:
        """Change a fact, or forget it, and answer what it was."""
        before = self._values.pop(name, None)
        if value is not None:
            self._values[name] = value
        return before


class MemoryPosts:
    """Which posts were ever stored, and at which links (D1)."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[str, str]] = {}

    async def known(self, subject: Subject, sifted: Sifted) -> Known:
        """What of an answer was ever stored."""
        of_source = self._marks.get(subject.source.id)
        if of_source is None:
            return Known()
        found = [one for one in map(mark, sifted.hashes) if one in of_source]
        return Known(
            marks=frozenset(found), marks_at_link=frozenset((one, of_source[one]) for one in found)
        )

    def insert(self, outcome: Outcome) -> None:
        """Store the posts of a poll."""
        of_source = self._marks.setdefault(outcome.source.id, {})
        for post in outcome.posts:
            of_source.setdefault(mark(post.content_hash), link_mark(post.url))


class _Lane:
    """What is remembered of one lane; changed in place, as every poll changes it."""

    __slots__ = ("allowed_at", "good_at", "hold", "resolved_at", "set_at")

    def __init__(self) -> None:
        self.allowed_at: datetime | None = None
        self.set_at: datetime | None = None
        self.hold: Hold | None = None
        self.good_at: datetime | None = None
        self.resolved_at: datetime | None = None


class MemoryHosts:
    """What is remembered of lanes (P3, P9, O2, O3)."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}

    async def all(self) -> Sequence[HostState]:
        """What is remembered of every lane."""
        return [
            HostState(name, it.allowed_at, it.set_at, it.hold, it.good_at, it.resolved_at)
            for name, it in self._lanes.items()
        ]

    async def keep(self, visits: Sequence[Visit]) -> None:
        """Remember visits that no poll could record (S8)."""
        for visit in visits:
            self._visited(visit)

    async def close_half_visits(self, _now: datetime) -> bool:
        """Only workers of a cluster leave visits behind that never ended."""
        return False

    async def visited_aside(self, _since: datetime) -> Sequence[HostState]:
        """No other process polls here."""
        return ()

    def learn(self, outcome: Outcome) -> None:
        """Remember what a poll leaves behind at hosts."""
        for visit in outcome.visits:
            self._visited(visit)
        hold = outcome.hold
        if hold is not None and outcome.hold_lane:
            kept = replace(hold, until=in_milliseconds(hold.until))
            self._lane(outcome.hold_lane).hold = kept

    def _visited(self, visit: Visit) -> None:
        lane = self._lane(visit.lane)
        if visit.next_allowed_at is not None:
            lane.allowed_at = in_milliseconds(visit.next_allowed_at)
            lane.set_at = visit.ended_at
        if visit.succeeded:
            lane.good_at = visit.ended_at
        if visit.resolved:
            lane.resolved_at = visit.ended_at

    def _lane(self, name: str) -> _Lane:
        found = self._lanes.get(name)
        if found is None:
            found = self._lanes[name] = _Lane()
        return found
