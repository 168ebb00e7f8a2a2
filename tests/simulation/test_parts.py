"""Large simulations in parts: the same report with any number of processes."""

from random import Random

import pytest

from headwater.engine.engine import Pace
from headwater.engine.hosts.gates import Gates
from headwater.rules.policy import Policy
from headwater.rules.politeness import host_of
from headwater.simulation.parts import DividedSimulation, parts_of, suitable_parts
from headwater.simulation.population import generated_population
from headwater.simulation.scenarios import run_and_report, scenario_of
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.source_settings import FullText


def a_scenario(
    *, sources: int = 200, interval: int = 60, faults: bool = False, slots: int = 256
) -> Scenario:
    population = generated_population(sources, Random(5), interval=interval)
    return scenario_of(
        population, seed=5, days=0.3, faults=faults, policy=Policy(), pace=Pace(slots=slots)
    )


def test_the_report_does_not_depend_on_the_number_of_processes():
    reports = [DividedSimulation(a_scenario(), jobs=jobs, parts=3).run() for jobs in (1, 2, 3)]
    assert reports[0].violation is None
    assert reports[0] == reports[1] == reports[2]


def test_the_parts_together_do_what_one_process_does():
    divided = DividedSimulation(a_scenario(), parts=3).run()
    whole = run_and_report(Simulation(a_scenario()))
    assert (divided.sources, divided.hosts) == (whole.sources, whole.hosts)
    assert divided.polls == pytest.approx(whole.polls, rel=0.05)
    assert len(divided.requests_per_minute) == len(whole.requests_per_minute)
    assert sum(divided.requests_per_minute) == pytest.approx(
        sum(whole.requests_per_minute), rel=0.05
    )
    loads = [{lane.lane: lane.load for lane in report.lanes} for report in (divided, whole)]
    assert loads[0] == loads[1]


def test_parts_share_no_host_not_even_those_of_pages():
    scenario = a_scenario()
    parts = parts_of(scenario, 3)
    hosts = [{host_of(source) for source in part.population.sources} for part in parts]
    assert sum(map(len, hosts)) == len(set().union(*hosts))
    sources = [source.id for part in parts for source in part.population.sources]
    assert sorted(sources) == sorted(source.id for source in scenario.population.sources)
    reading_pages = [
        part.part
        for part in parts
        if any(source.full_text is FullText.ON for source in part.population.sources)
    ]
    assert len(reading_pages) == 1


def test_one_part_where_parts_would_affect_each_other_or_are_small():
    assert suitable_parts(a_scenario(sources=40_000, interval=1440)) == 4
    assert suitable_parts(a_scenario(sources=20_000, interval=1440)) == 2
    assert suitable_parts(a_scenario(sources=19_999, interval=1440)) == 1
    assert suitable_parts(a_scenario(sources=20_000, interval=1440, faults=True)) == 1
    assert suitable_parts(a_scenario(sources=20_000, interval=30)) == 1


def test_parts_that_lack_connections_together_are_simulated_as_one():
    few = a_scenario(slots=3)
    report = DividedSimulation(few, parts=3).run()
    assert report == run_and_report(Simulation(few))
    assert report.most_at_once == 3


def test_p3_a_broken_rule_in_any_part_is_reported(monkeypatch):
    monkeypatch.setattr(Gates, "mark_visited", lambda *_: None)
    report = DividedSimulation(a_scenario(), parts=3).run()
    assert report.violation is not None
    assert report.violation.rule == "P3"
