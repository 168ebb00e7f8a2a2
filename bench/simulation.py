"""Simulation: how many days of how many sources pass in a second, and an hour without network.

python -m bench.simulation [SOURCES] [DAYS]
"""

import os
import sys
import time
from random import Random

from bench.calls import Calls
from headwater import logs
from headwater.cli.simulating import collect_garbage_hardly_ever
from headwater.engine.engine import Pace
from headwater.rules.policy import Policy
from headwater.simulation.population import INTERVALS, invented
from headwater.simulation.run import Scenario, Simulation
from headwater.simulation.story import Report, scenario_of, told
from headwater.simulation.weather import Event, Happening, calm
from headwater.simulation.web import Trouble

HOUR = 3600.0
SEED = 1
_SOME, _SHORT_DAYS = 1_000, 0.5  # sources and days, where calls are counted


def played(scenario: Scenario) -> tuple[Report, float, float]:
    """What came of a story, and the seconds it took, by the clock and on the CPU."""
    started, cpu = time.perf_counter(), time.process_time()
    report = told(Simulation(scenario))
    assert report.violation is None, "\n".join([str(report.violation), *report.violation.story])
    return report, time.perf_counter() - started, time.process_time() - cpu


def story(
    count: int, days: float, *, faults: bool = False, interval: int | None = None
) -> Scenario:
    """Invented sources, of the usual mix of intervals or all of one."""
    people = invented(count, Random(SEED), interval=interval)
    return scenario_of(people, seed=SEED, days=days, faults=faults, policy=Policy(), pace=Pace())


def speed(count: int, days: float, *, faults: bool = False, interval: int | None = None) -> None:
    """Print how fast a story passes."""
    report, seconds, cpu = played(story(count, days, faults=faults, interval=interval))
    name = "everything goes wrong" if faults else "nothing goes wrong"
    if interval is not None:
        name = f"all of them every {interval} minutes, {name}"
    print(
        f"{count:,} sources, {days:g} days, {name}: {report.polls:,} polls in {seconds:.1f} s "
        f"({cpu:.1f} s of CPU): {count * days / cpu:,.0f} source-days, "
        f"{report.polls / cpu:,.0f} polls per second of CPU"
    )


def calls_of_a_poll() -> float:
    """Calls of functions per poll of a story that is under way: as many on any machine."""
    logs.configure("text", "error")
    counted = []
    for days in (_SHORT_DAYS, 2 * _SHORT_DAYS):
        simulation = Simulation(story(_SOME, days))
        with Calls() as calls, calls.counted() as found:
            report = told(simulation)
        counted.append((found[0], report.polls))
    (few, polls), (many, more_polls) = counted
    return (many - few) / (more_polls - polls)


def outage(count: int, trouble: Trouble) -> None:
    """Print what an hour without network does to sources that are polled every half hour."""
    people = invented(count, Random(SEED), interval=30)
    plan = [*calm(0.25), Happening(2 * HOUR + 7, Event.TROUBLE, HOUR, trouble)]
    plan.sort(key=lambda one: one.at)
    report, _, _ = played(Scenario(SEED, 0.25, people, plan, Policy(), Pace()))
    print(
        f"{count:,} sources, an hour of {trouble}: {report.disabled} disabled, "
        f"{report.failing} failing in the end, {report.outages} outage noticed"
    )


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    days = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    logs.configure("text", "error")
    collect_garbage_hardly_ever()
    mix = ", ".join(f"{share / 10:g} % every {m // 60} h" for m, share in INTERVALS.items())
    print(f"one core; intervals: {mix}")
    speed(count, days)
    speed(count, days / 30, interval=30)  # about as many polls as the usual mix in all of the days
    speed(count, days / 10, faults=True)
    for trouble in Trouble:
        outage(5000, trouble)


if __name__ == "__main__":
    main()
