"""Speed of the simulation in source-days per second, and an hour without network.

python -m bench.simulation [SOURCES] [DAYS]
"""

import os
import sys
import time
from random import Random

from headwater import logs
from headwater.engine.engine import Pace
from headwater.garbage_collection import collect_garbage_very_rarely
from headwater.rules.policy import Policy
from headwater.simulation.faults import FaultKind, PlannedFault, checks_only
from headwater.simulation.population import INTERVALS, generated_population
from headwater.simulation.scenarios import Report, run_and_report, scenario_of
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_web import NetworkFault

HOUR = 3600.0
SEED = 1
_SOME, _SHORT_DAYS = 1_000, 0.5  # sources and days of the short simulation in bench.check


def timed_run(scenario: Scenario) -> tuple[Report, float, float]:
    """Return the report of a run, and its wall and CPU seconds."""
    started, cpu = time.perf_counter(), time.process_time()
    report = run_and_report(Simulation(scenario))
    assert report.violation is None, "\n".join([str(report.violation), *report.violation.trace])
    return report, time.perf_counter() - started, time.process_time() - cpu


def generated_scenario(
    count: int, days: float, *, faults: bool = False, interval: int | None = None
) -> Scenario:
    """Return generated sources with the usual mix of intervals, or all with the same."""
    population = generated_population(count, Random(SEED), interval=interval)
    return scenario_of(
        population, seed=SEED, days=days, faults=faults, policy=Policy(), pace=Pace()
    )


def speed(count: int, days: float, *, faults: bool = False, interval: int | None = None) -> None:
    """Print how fast a scenario runs."""
    report, seconds, cpu = timed_run(
        generated_scenario(count, days, faults=faults, interval=interval)
    )
    name = "with faults" if faults else "without faults"
    if interval is not None:
        name = f"all of them every {interval} minutes, {name}"
    print(
        f"{count:,} sources, {days:g} days, {name}: {report.polls:,} polls in {seconds:.1f} s "
        f"({cpu:.1f} s of CPU): {count * days / cpu:,.0f} source-days, "
        f"{report.polls / cpu:,.0f} polls per second of CPU"
    )


def cpu_of_a_poll(rounds: int = 3) -> float:
    """CPU seconds of one poll in a running simulation, without its start-up.

    It is the difference of two runs, each the least of several rounds.
    """
    logs.configure("text", "error")
    short, long = [generated_scenario(_SOME, n * _SHORT_DAYS) for n in (1, 3)]
    runs = [(timed_run(short), timed_run(long)) for _ in range(rounds)]
    polls = runs[0][1][0].polls - runs[0][0][0].polls
    return (min(run[1][2] for run in runs) - min(run[0][2] for run in runs)) / polls


def outage(count: int, fault: NetworkFault) -> None:
    """Print the effect of an hour without network on sources that are polled every half hour."""
    population = generated_population(count, Random(SEED), interval=30)
    plan = [*checks_only(0.25), PlannedFault(2 * HOUR + 7, FaultKind.NETWORK, HOUR, fault)]
    plan.sort(key=lambda step: step.at)
    report, _, _ = timed_run(Scenario(SEED, 0.25, population, plan, Policy(), Pace()))
    print(
        f"{count:,} sources, an hour of {fault}: {report.disabled} disabled, "
        f"{report.failing} failing in the end, {report.outages} outage noticed"
    )


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    days = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    logs.configure("text", "error")
    collect_garbage_very_rarely()
    mix = ", ".join(f"{share / 10:g} % every {m // 60} h" for m, share in INTERVALS.items())
    print(f"one core; intervals: {mix}")
    speed(count, days)
    speed(count, days / 30, interval=30)  # about as many polls as the usual mix in all of the days
    speed(count, days / 10, faults=True)
    for fault in NetworkFault:
        outage(5000, fault)


if __name__ == "__main__":
    main()
