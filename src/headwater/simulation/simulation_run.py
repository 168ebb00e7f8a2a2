"""Simulation: runs a scenario with the real engine, to its end or to a violated rule."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from headwater.engine.engine import Pace
from headwater.engine.events import EventKind, Events
from headwater.engine.hosts.access import HostAccess
from headwater.engine.local_service import LocalService
from headwater.engine.notifier import Notifier
from headwater.engine.webhooks import Deliverer
from headwater.model import Subject
from headwater.rules.outcome import edited
from headwater.rules.policy import Policy
from headwater.simulation.checker import Checker
from headwater.simulation.faults import DAY, FaultKind, PlannedFault
from headwater.simulation.memory_store import MemoryStore
from headwater.simulation.population import Population
from headwater.simulation.virtual_loop import VirtualClock, VirtualLoop
from headwater.simulation.virtual_receiver import VirtualReceiver, open_secret
from headwater.simulation.virtual_web import VirtualWeb
from headwater.store import Store

_REQUEST_SECONDS = 1.0  # the delay of a running service until it sees requests


@dataclass(frozen=True, slots=True)
class Scenario:
    """The input of a simulation."""

    seed: int
    days: float
    population: Population
    plan: Sequence[PlannedFault]
    policy: Policy = field(default_factory=Policy)
    pace: Pace = field(default_factory=Pace)
    slow_store: bool = False  # storing takes time, so that faults can happen meanwhile
    faults: bool = False  # the plan has faults, for the report
    part: int = 0  # its number, if this is one of several independent parts


class SimulatedService(LocalService):
    """The real service without its slow parts: polling for requests and changes, and metrics."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.events = Events(self._clock)

    async def _request_loop(self) -> None:
        requested = asyncio.Event()
        store = cast(MemoryStore, self._store)
        store.sources.on_request = requested.set
        while True:
            await requested.wait()
            requested.clear()
            await self._clock.sleep(_REQUEST_SECONDS)
            await self.ticker.take_requests()

    async def _deliver_loop(self, deliverer: Deliverer) -> None:
        while True:  # once per tick, as for incidents
            await self._clock.sleep(self._pace.tick_seconds)
            await deliverer.run()

    async def _incident_loop(self) -> None:
        while True:  # once per tick: looking for changes every second would take most of the time
            await self._clock.sleep(self._pace.tick_seconds)
            await self._check_incidents()


class Simulation:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        seed = f"{scenario.seed} part {scenario.part}" if scenario.part else scenario.seed
        self._rng = Random(seed)  # noqa: S311 - not a secret

    def run(self) -> Checker:
        """Run the scenario and return its checker."""
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            self._set_up(cast(VirtualLoop, runner.get_loop()))
            runner.run(self._run_plan())
        return self.checker

    @property
    def share_done(self) -> float:
        """The share of simulated time that has passed, from 0 to 1."""
        clock: VirtualClock | None = getattr(self, "clock", None)
        return 0.0 if clock is None else min(clock.loop_time() / (self.scenario.days * DAY), 1.0)

    def _set_up(self, loop: VirtualLoop) -> None:
        scenario, rng = self.scenario, self._rng
        self.clock = VirtualClock(loop)
        pace, policy = scenario.pace, scenario.policy
        self.checker = Checker(self.clock, policy, tick_seconds=pace.tick_seconds, slots=pace.slots)
        population = scenario.population
        self.store = MemoryStore(policy, self.checker.state_checks, population.owner)
        if scenario.slow_store:
            self.store.commit_seconds = lambda: rng.uniform(0, 0.05)
        self.store.sources.add(population.sources)
        self.checker.add((source, population.lane(source)) for source in population.sources)
        self.web = VirtualWeb(population, self.checker, self.clock, rng)
        self._receiver = VirtualReceiver(
            self.checker.message_checks,
            self.clock,
            Random(f"messages {scenario.seed}"),  # noqa: S311
            lambda: self.web.fault is not None,
            has_faults=scenario.slow_store,
        )

    async def _run_plan(self) -> None:
        self._violated = asyncio.Event()
        self.checker.on_violation = self._violated.set
        await self._start()
        for fault in self.scenario.plan:
            await self._run_until(fault.at)
            if self._violated.is_set():
                break
            await self._apply_fault(fault)
        await self._run_until(self.scenario.days * DAY)
        if not self._violated.is_set():
            self._check_all()
        await self._kill()

    async def _run_until(self, at: float) -> None:
        """Let the simulation run until then, or until a rule is violated."""
        left = at - self.clock.loop_time()
        if left > 0 and not self._violated.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._violated.wait()

    async def _apply_fault(self, fault: PlannedFault) -> None:
        seconds = fault.seconds
        match fault.kind:
            case FaultKind.CHECK:
                self._check_all()
            case FaultKind.NETWORK:
                self._break_network(fault)
            case FaultKind.CLOCK:
                self.clock.set_by(seconds)
                self.checker.clock_set(seconds)
            case FaultKind.SUSPEND:
                self.clock.suspend(seconds)
                self.checker.slept(seconds)
            case FaultKind.STOP | FaultKind.KILL:
                await (self._stop() if fault.kind is FaultKind.STOP else self._kill())
                end = self.scenario.days * DAY
                await self._run_until(min(self.clock.loop_time() + seconds, end))
                await self._start()
            case FaultKind.REQUEST:
                sources = list(self.store.sources.all())
                ids = [source.id for source in self._rng.sample(sources, min(5, len(sources)))]
                await self.store.sources.request(ids, self.clock.now())
            case FaultKind.ENABLE:
                await self._enable_sources()

    def _check_all(self) -> None:
        self.checker.check_all()
        if self._service.metrics.ticks_failed:
            self.checker.violate("H4", "", "", "a tick failed")

    def _break_network(self, fault: PlannedFault) -> None:
        if self.web.fault is not None or fault.network is None:
            return
        self.web.fault = fault.network
        self.checker.network_changed(fault.network)
        asyncio.get_running_loop().call_later(fault.seconds, self._repair_network)

    def _repair_network(self) -> None:
        self.web.fault = None
        self.checker.network_changed(None)

    async def _enable_sources(self) -> None:
        now = self.clock.now()
        disabled = [source for source in self.store.sources.all() if not source.enabled]
        for source in self._rng.sample(disabled, min(20, len(disabled))):
            enable = lambda s: edited(s, replace(s, enabled=True), now)  # noqa: E731
            await self.store.sources.edit(source.id, enable)

    async def _start(self) -> None:
        self.checker.started()
        scenario = self.scenario
        self._service = SimulatedService(
            store=cast(Store, self.store),
            fetch=self.web,
            key_for=_no_key,
            clock=self.clock,
            policy=scenario.policy,
            pace=scenario.pace,
            rng=self._rng,
            find_feeds=self.web.find_feeds,
            deliverer=self._deliverer,
        )
        on_outage = lambda event: self.checker.outage_changed(event.text)  # noqa: E731
        self._service.events.listen(on_outage, [EventKind.OUTAGE])
        await self._service.__aenter__()
        self._end = asyncio.Event()
        self._running = asyncio.create_task(self._service.run(self._end))

    def _deliverer(self, hosts: HostAccess, may_send: Callable[[], bool]) -> Deliverer:
        store, clock, post = cast(Store, self.store), self.clock, self._receiver
        rng = Random(f"retries {self.scenario.seed} {clock.loop_time()}")  # noqa: S311
        notifier = Notifier(store, clock, post, open_secret)
        return Deliverer(store, clock, rng, post, open_secret, hosts, may_send, notifier=notifier)

    async def _stop(self) -> None:
        """Stop the process cleanly, as a signal does (S8)."""
        self._end.set()
        await self._running
        await self._service.__aexit__(None, None, None)
        self.checker.stopped(clean=True)

    async def _kill(self) -> None:
        """Kill the process: store nothing more and run no shutdown code."""
        self._service.lanes.close()
        tasks = sorted(asyncio.all_tasks() - {asyncio.current_task()}, key=_task_number)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.store.database.release()
        self.checker.stopped(clean=False)


async def _no_key(_: Subject) -> str | None:
    return None


def _task_number(task: "asyncio.Task[object]") -> int:
    """Return a task's creation number; the order of a set differs between processes."""
    return int(task.get_name().rpartition("-")[2])
