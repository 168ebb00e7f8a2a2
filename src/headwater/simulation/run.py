"""Simulation: plays a story with the real engine, from its seed to its end or to a broken rule."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any, cast

from headwater.engine.engine import Pace
from headwater.engine.events import Event as Told
from headwater.engine.events import EventKind, Events
from headwater.engine.service import Service
from headwater.model import Subject
from headwater.rules.outcome import edited
from headwater.rules.policy import Policy
from headwater.simulation.checker import Checker
from headwater.simulation.loop import START, VirtualClock, VirtualLoop
from headwater.simulation.memory_store import MemoryStore
from headwater.simulation.population import Population
from headwater.simulation.trail import Violation
from headwater.simulation.weather import DAY, Event, Happening
from headwater.simulation.web import VirtualWeb
from headwater.store import Store

_LOOK_SECONDS = 1.0  # within which a running service sees requests


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a story is made of."""

    seed: int
    days: float
    population: Population
    plan: Sequence[Happening]
    policy: Policy = field(default_factory=Policy)
    pace: Pace = field(default_factory=Pace)
    start: datetime = START
    slow_store: bool = False  # storing takes a moment, in which things can happen
    faults: bool = False  # things go wrong


class SimulatedService(Service):
    """The service as it is, but for what takes long: looking for requests, of which it is told
    here, and metrics, which nobody reads.
    """

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.events = Events(self._clock)

    async def _request_loop(self) -> None:
        asked = asyncio.Event()
        store = cast(MemoryStore, self._store)
        store.sources.on_request = asked.set
        while True:
            await asked.wait()
            asked.clear()
            await self._clock.sleep(_LOOK_SECONDS)
            await self.ticker.take_requests()


class Simulation:
    """One story; `checker` knows how it went."""

    service_kind: type[SimulatedService] = SimulatedService

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._rng = Random(scenario.seed)  # noqa: S311 - a story, and no secret

    def run(self) -> Checker:
        """Play the story."""
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = cast(VirtualLoop, runner.get_loop())
            self._set_stage(loop)
            runner.run(self._play())
        return self.checker

    @property
    def share_done(self) -> float:
        """How much of the story was told by now, from 0 to 1."""
        clock: VirtualClock | None = getattr(self, "clock", None)
        return 0.0 if clock is None else min(clock.loop_time() / (self.scenario.days * DAY), 1.0)

    @property
    def violation(self) -> Violation | None:
        """The rule that was broken, if any."""
        return self.checker.violation

    def _set_stage(self, loop: VirtualLoop) -> None:
        scenario, rng = self.scenario, self._rng
        self.clock = VirtualClock(loop, scenario.start)
        pace, policy = scenario.pace, scenario.policy
        self.checker = Checker(self.clock, policy, tick_seconds=pace.tick_seconds, slots=pace.slots)
        people = scenario.population
        self.store = MemoryStore(policy, self.checker, people.owner)
        if scenario.slow_store:
            self.store.commit_seconds = lambda: rng.uniform(0, 0.05)
        self.store.add(people.sources)
        self.checker.expect((source, people.lane(source)) for source in people.sources)
        self.web = VirtualWeb(people.hosts, self.checker, self.clock, rng)

    async def _play(self) -> None:
        self._broken = asyncio.Event()
        self.checker.on_broken = self._broken.set
        await self._start()
        for happening in self.scenario.plan:
            await self._until(happening.at)
            if self._broken.is_set():
                break
            await self._happen(happening)
        await self._until(self.scenario.days * DAY)
        if not self._broken.is_set():
            self.checker.look_around()
        await self._kill()

    async def _until(self, moment: float) -> None:
        """Let the story go on until then, or until a rule is broken."""
        left = moment - self.clock.loop_time()
        if left > 0 and not self._broken.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._broken.wait()

    async def _happen(self, happening: Happening) -> None:
        seconds = happening.seconds
        match happening.event:
            case Event.LOOK:
                self.checker.look_around()
            case Event.TROUBLE:
                self._break_network(happening)
            case Event.CLOCK:
                self.clock.set_by(seconds)
                self.checker.upset("clock set", seconds)
            case Event.SUSPEND:
                self.clock.suspend(seconds)
                self.checker.upset("slept", seconds)
            case Event.STOP | Event.KILL:
                await (self._stop() if happening.event is Event.STOP else self._kill())
                end = self.scenario.days * DAY
                await self._until(min(self.clock.loop_time() + seconds, end))
                await self._start()
            case Event.REQUEST | Event.ENABLE:
                await self._ask(happening.event)

    def _break_network(self, happening: Happening) -> None:
        if self.web.trouble is not None or happening.trouble is None:
            return
        self.web.trouble = happening.trouble
        self.checker.trouble(happening.trouble)
        asyncio.get_running_loop().call_later(happening.seconds, self._mend_network)

    def _mend_network(self) -> None:
        self.web.trouble = None
        self.checker.trouble(None)

    async def _ask(self, event: Event) -> None:
        """A person asks for polls, or switches on what was switched off."""
        now, sources = self.clock.now(), list(self.store.sources.all())
        if event is Event.REQUEST:
            some = self._rng.sample(sources, min(5, len(sources)))
            await self.store.sources.request([source.id for source in some], now)
            return
        off = [source for source in sources if not source.enabled]
        for source in self._rng.sample(off, min(20, len(off))):
            on = lambda s: edited(s, replace(s, enabled=True), now)  # noqa: E731
            await self.store.sources.edit(source.id, on)

    async def _start(self) -> None:
        self.checker.started()
        scenario = self.scenario
        self._service = self.service_kind(
            store=cast(Store, self.store),
            fetch=self.web,
            key_for=_no_key,
            clock=self.clock,
            policy=scenario.policy,
            pace=scenario.pace,
            rng=self._rng,
        )
        self._service.events.listen(self._hear, [EventKind.OUTAGE])
        await self._service.__aenter__()
        self._end = asyncio.Event()
        self._running = asyncio.create_task(self._service.run(self._end))

    def _hear(self, told: Told) -> None:
        self.checker.outage(told.text)

    async def _stop(self) -> None:
        """End the process as a signal does (S8)."""
        self._end.set()
        await self._running
        await self._service.__aexit__(None, None, None)
        self.checker.stopped(clean=True)

    async def _kill(self) -> None:
        """End the process where it stands: nothing more is stored, nobody says goodbye."""
        self._service.lanes.close()
        work = asyncio.all_tasks() - {asyncio.current_task()}
        for task in sorted(work, key=_number):
            task.cancel()
        await asyncio.gather(*sorted(work, key=_number), return_exceptions=True)
        self.store.database.release()
        self.checker.stopped(clean=False)


async def _no_key(_: Subject) -> str | None:
    return None


def _number(task: "asyncio.Task[object]") -> int:
    """Tasks in the order they were made: a set has another one in every process."""
    return int(task.get_name().rpartition("-")[2])
