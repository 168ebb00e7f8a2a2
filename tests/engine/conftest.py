"""A service on a real SQLite file, a scripted fetch and virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.engine.engine import Pace
from headwater.engine.local_service import LocalService
from headwater.model import Source, Subject
from headwater.rules.policy import Policy
from headwater.store import Store, open_database
from tests.fakes import FakeClock, ScriptedFetch, in_virtual_time


@dataclass
class RunningEngine:
    """A running service with its store, clock and scripted fetch."""

    service: LocalService
    store: Store
    fetch: ScriptedFetch
    clock: FakeClock

    async def run(self, seconds: float) -> None:
        """Let the service run for a while."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.service.run(stop))
        await asyncio.sleep(seconds)
        stop.set()
        await running

    async def source(self, source_id: str) -> Source:
        """A source as it is stored."""
        return await self.store.sources.get(source_id)


Scenario = Callable[[RunningEngine], Coroutine[Any, Any, Any]]


@dataclass
class Engine:
    """Starts and restarts a service over one database file, on a clock that continues."""

    folder: Path
    policy: Policy = field(default_factory=Policy)
    pace: Pace = field(default_factory=Pace)
    seed: int = 7

    @asynccontextmanager
    async def started(
        self, clock: FakeClock, *, killed: bool = False
    ) -> AsyncIterator[RunningEngine]:
        """A service that runs until it is stopped cleanly or killed."""
        async with Store(open_database(f"sqlite:///{self.folder / 'test.db'}"), clock) as store:
            await store.prepare()
            fetch = ScriptedFetch(clock)

            async def no_key(_: Subject) -> str | None:
                return None

            service = LocalService(
                store=store,
                fetch=fetch,
                key_for=no_key,
                clock=clock,
                policy=self.policy,
                pace=self.pace,
                rng=Random(self.seed),
            )
            if killed:
                await service.__aenter__()
                yield RunningEngine(service, store, fetch, clock)
                await _kill(service)
            else:
                async with service:
                    yield RunningEngine(service, store, fetch, clock)

    def play(self, *scenarios: Scenario, killed: bool = False) -> list[Any]:
        """Run scenarios in turn; each but the last may end in a kill, not a clean stop."""

        async def all_of_them() -> list[Any]:
            clock = FakeClock()
            results = []
            for number, scenario in enumerate(scenarios, 1):
                killed_now = killed and number < len(scenarios)
                async with self.started(clock, killed=killed_now) as env:
                    results.append(await scenario(env))
            return results

        return in_virtual_time(all_of_them)

    def with_policy(self, **changes: Any) -> "Engine":
        return replace(self, policy=replace(self.policy, **changes))

    def with_pace(self, **changes: Any) -> "Engine":
        return replace(self, pace=replace(self.pace, **changes))


async def _kill(service: LocalService) -> None:
    """Cancel all work as a kill does: nothing more is stored."""
    service.lanes.close()
    work = asyncio.all_tasks() - {asyncio.current_task()}
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """A service with default settings."""
    return Engine(tmp_path)
