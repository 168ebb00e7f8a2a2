"""Simulation: how many days of how many sources pass in a second, and an hour without network.

python -m bench.simulation [SOURCES] [DAYS]
"""

import os
import sys
import time
from random import Random

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


def played(scenario: Scenario) -> tuple[Report, float, float]:
    """What came of a story, and the seconds it took, by the clock and on the CPU."""
    started, cpu = time.perf_counter(), time.process_time()
    report = told(Simulation(scenario))
    assert report.violation is None, "\n".join([str(report.violation), *report.violation.story])
    return report, time.perf_counter() - started, time.process_time() - cpu


def speed(count: int, days: float, *, faults: bool) -> None:
    """Print how fast a story passes."""
    people = invented(count, Random(SEED))
    scenario = scenario_of(
        people, seed=SEED, days=days, faults=faults, policy=Policy(), pace=Pace()
    )
    report, seconds, cpu = played(scenario)
    name = "everything goes wrong" if faults else "nothing goes wrong"
    print(
        f"{count:,} sources, {days:g} days, {name}: {report.polls:,} polls in {seconds:.1f} s "
        f"({cpu:.1f} s of CPU): {count * days / cpu:,.0f} source-days, "
        f"{report.polls / cpu:,.0f} polls per second of CPU"
    )


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
    speed(count, days, faults=False)
    speed(count, days / 10, faults=True)
    for trouble in Trouble:
        outage(5000, trouble)


if __name__ == "__main__":
    main()
