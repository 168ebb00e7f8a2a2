"""The engine keeps its rules through days of faults, and a seed repeats its run exactly."""

import os
import subprocess
import sys
from random import Random

import pytest

from headwater.engine.engine import Pace
from headwater.rules.policy import Policy
from headwater.simulation.faults import FaultKind, PlannedFault, checks_only
from headwater.simulation.population import generated_population
from headwater.simulation.scenarios import run_and_report
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_web import NetworkFault
from tests.simulation.short_scenarios import faulty_scenario, run_scenario

HOUR = 3600.0


@pytest.mark.parametrize("seed", [1, 16, 34, 39])
def test_all_rules_hold_with_faults(seed):
    checker = run_scenario(faulty_scenario(seed))
    assert checker.polls > 1000


@pytest.mark.parametrize("seed", [5, 46])
def test_all_rules_hold_for_sources_that_are_polled_once_a_day(seed):
    assert run_scenario(faulty_scenario(seed, sources=150, days=6, interval=None)).polls > 500


def test_s6_all_rules_hold_where_lanes_queue_for_few_slots():
    assert run_scenario(faulty_scenario(4, slots=3)).polls > 1000


def test_the_same_seed_gives_the_same_run():
    one, other = (run_scenario(faulty_scenario(7, sources=12, days=1)) for _ in range(2))
    assert (one.polls, one.digest) == (other.polls, other.digest)
    assert run_scenario(faulty_scenario(8, sources=12, days=1)).digest != one.digest


def test_a_run_does_not_depend_on_its_process():
    code = (
        "from tests.simulation.short_scenarios import faulty_scenario, run_scenario;"
        "print(run_scenario(faulty_scenario(7, sources=12, days=1)).digest)"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1] != ""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", list(NetworkFault))
def test_o2_o3_an_hour_without_network_disables_none_of_5000(fault):
    """Not even if the first counted failure would disable a source."""
    days = 2.5 / 24
    population = generated_population(5000, Random(1), interval=30)
    plan = [*checks_only(days), PlannedFault(0.75 * HOUR + 7, FaultKind.NETWORK, HOUR, fault)]
    plan.sort(key=lambda step: step.at)
    report = run_and_report(
        Simulation(Scenario(1, days, population, plan, Policy(max_failures=1), Pace()))
    )
    assert report.violation is None, report.violation
    assert (report.outages, report.disabled, report.failing) == (1, 0, 0)
    assert report.polls > 3 * 5000


def test_h6_polls_continue_after_the_machine_slept_or_its_clock_was_set():
    population = generated_population(20, Random(1), interval=30)
    plan = [
        PlannedFault(HOUR, FaultKind.SUSPEND, 8 * HOUR),
        PlannedFault(2 * HOUR, FaultKind.CLOCK, -400 * 86_400.0),
        PlannedFault(3 * HOUR, FaultKind.CLOCK, 800 * 86_400.0),
    ]
    checker = run_scenario(Scenario(1, 0.5, population, plan))
    assert checker.polls > 20 * 22
