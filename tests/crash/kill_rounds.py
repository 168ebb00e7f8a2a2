"""Kills many services in many rounds, several at once, and tabulates the findings."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.audit import Finding
from tests.crash.fork_server import ForkServer
from tests.crash.killed_process import POINTS, WHENS, Plan
from tests.crash.raw_database import RawDatabase
from tests.crash.restarted_service import RestartedService, Round, StartTime

ROUNDS_PER_SERVICE = 25
RESUME_SECONDS = 3.0  # K2
KINDS = ("lost", "double", "torn", "blamed", "damaged", "secret", "stuck")
# approximate number of passes of a point per round
_PASSES = {
    "fetch": 7, "parse": 6, "insert": 3, "state": 3, "history": 3, "event": 7, "begin": 3,
    "commit": 3, "cleanup": 8, "aggregation": 9, "migration": 24, "key creation": 4,
}  # fmt: skip
_INSTANTS = ("any instant", "amid polls")
_ANYWHERE = tuple((when, point) for point in POINTS if point != "migration" for when in WHENS)


@dataclass
class Tally:
    """The results of all rounds."""

    rounds: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    found: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    stories: list[str] = field(default_factory=list)
    warm: list[StartTime] = field(default_factory=list)  # starts by fork
    cold: list[StartTime] = field(default_factory=list)  # starts by command
    seconds: float = 0.0
    say: Callable[[str], None] = lambda _: None

    @property
    def total(self) -> int:
        return self.rounds.total()

    @property
    def unreached(self) -> set[str]:
        """The points where no process was killed."""
        places = {f"{when} {point}" for point in POINTS for when in WHENS}
        return {place for place in places if not self.reached[place]}

    def count(self, kind: str) -> int:
        return sum(found[kind] for found in self.found.values())

    def note(self, where: str, done: Round, before: Plan | None) -> None:
        """Add a round; a stuck service is attributed to the round before."""
        name = done.plan.name
        self.rounds[name] += 1
        self.reached[name] += done.reached
        if done.resumed is not None:
            (self.cold if done.cold else self.warm).append(done.resumed)
        cause = name if before is None else before.name
        for finding in done.findings:
            self._add(where, name, finding)
        for finding in done.stuck:
            self._add(where, cause, finding)

    def _add(self, where: str, name: str, finding: Finding) -> None:
        self.found[name][finding.kind] += 1
        self.stories.append(f"{where}, {name}: {finding}")
        self.say(self.stories[-1])

    def table(self) -> Iterator[str]:
        """The figures, a line per point."""
        yield f"{'killed':24}{'rounds':>8}{'there':>8}" + "".join(f"{kind:>9}" for kind in KINDS)
        for name in sorted(self.rounds):
            counts = "".join(f"{self.found[name][kind]:>9}" for kind in KINDS)
            yield f"{name:24}{self.rounds[name]:>8}{self.reached[name]:>8}{counts}"
        counts = "".join(f"{self.count(kind):>9}" for kind in KINDS)
        yield f"{'all':24}{self.total:>8}{self.reached.total():>8}{counts}"
        yield f"{self.total} rounds in {self.seconds:.0f} s"
        yield from _figures("from the command", self.cold)
        yield from _figures("from a fork", self.warm)
        yield from self.stories[:40]


def median(numbers: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


def _figures(name: str, found: Sequence[StartTime]) -> Iterator[str]:
    if not found:
        return
    yield f"first request after a start {name} ({len(found)} times; K2: within 3 s):"
    for what, seconds in (
        ("by the clock", [one.seconds for one in found]),
        ("had a processor been free", [one.undisturbed for one in found]),
        ("of processor time", [one.work for one in found]),
    ):
        late = sum(one > RESUME_SECONDS for one in seconds)
        yield f"  {what}: {median(seconds):.2f} s, at most {max(seconds):.2f} s, {late} over 3 s"


class KillPlans:
    """Where the next process is killed: every point once before any is repeated.

    A point that was passed too few times is tried again next, at its first pass.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._left = self._shuffled()
        self.is_through = False  # every point was used

    def next_plan(self) -> Plan:
        plan = self._left.pop()
        if not self._left:
            self.is_through = True
            self._left = self._shuffled()
        return plan

    def again(self, plan: Plan) -> None:
        """Try this point again: no process was killed there."""
        if (plan.when, plan.point) in _ANYWHERE:
            self._left.append(plan.but(nth=1))

    def _shuffled(self) -> list[Plan]:
        places = self._rng.sample(_ANYWHERE, len(_ANYWHERE))
        return [_plan(when, point, self._rng) for when, point in places]


def plans(rng: Random, count: int, kill_plans: KillPlans) -> Iterator[Plan]:
    """The rounds of a service: a new database, an old one, then kills at every point."""
    for number in range(4):
        yield _plan(WHENS[number % 2], "migration", rng, early=number > 1)
    for number in range(4, count):
        if number == count - 1 or number % 7 == 6:
            yield Plan("at rest")  # everything was polled, and nothing may be missing
        elif kill_plans.is_through and rng.random() < 0.5:
            yield Plan(rng.choice(_INSTANTS))
        else:
            yield kill_plans.next_plan()


def _plan(when: str, point: str, rng: Random, *, early: bool = False) -> Plan:
    return Plan(point, when, rng.randint(1, 3 if early else _PASSES[point]))


async def run_rounds(
    total: int,
    *,
    seed: int,
    folder: Path,
    fork_server: ForkServer,
    new_database: Callable[[int, Path], RawDatabase],
    tally: Tally,
    at_once: int = 3,
) -> None:
    """Run `total` rounds, 25 per service, and add their findings to the tally."""
    started = time.monotonic()
    lengths = [min(ROUNDS_PER_SERVICE, total - n) for n in range(0, total, ROUNDS_PER_SERVICE)]
    waiting = list(enumerate(lengths))
    kill_plans = KillPlans(Random(f"{seed}/deck"))

    async def run_services() -> None:
        while waiting:
            number, length = waiting.pop(0)
            place = folder / f"life-{number}"
            place.mkdir()
            rng = Random(f"{seed}/{number}")
            database = await asyncio.to_thread(new_database, number, place)
            # half of them, of those on either kind of database
            small_batches = (number + number // 4) % 2 == 1
            service = RestartedService(database, place, fork_server, rng, small_batches)
            await run_one(service, plans(rng, length, kill_plans), kill_plans, tally, number)
            tally.seconds = time.monotonic() - started
            tally.say(f"{tally.total} rounds, {tally.seconds:.0f} s")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(run_services())


async def run_one(
    service: RestartedService,
    rounds: Iterable[Plan],
    kill_plans: KillPlans,
    tally: Tally,
    number: int = 0,
) -> None:
    """Run all rounds of one service; no process may outlive the last round."""
    before = None
    async with service.begun():
        for place, plan in enumerate(rounds):
            if place and plan.point == "migration":
                await asyncio.to_thread(service.begin_with_first_schema)
            done = await service.round(plan)
            tally.note(f"life {number}, round {place} (#{plan.nth})", done, before)
            if not done.reached:
                kill_plans.again(plan)
            before = plan
        deadline = time.monotonic() + 30
        while orphans := service.orphans():
            assert time.monotonic() < deadline, f"processes outlive their service: {orphans}"
            await asyncio.sleep(0.1)
