"""All rules hold for 1,000 seeds, each a day of sources, hosts and faults of its own."""

from dataclasses import replace

import pytest

from headwater.simulation.simulation_run import Simulation
from tests.simulation.short_scenarios import faulty_scenario

SEEDS, PER_TEST = 1000, 100
FAILING_HOURS = 4  # incidents of failing sources open within the day


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_all_rules_hold_for_many_seeds(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        scenario = faulty_scenario(seed, sources=15, days=1)
        policy = replace(scenario.policy, failing_hours=FAILING_HOURS, probation=seed % 2 == 0)
        checker = Simulation(replace(scenario, policy=policy)).run()
        assert checker.violation is None, f"seed {seed}: {checker.violation}"
