"""Capacity: how busy each lane is, and which hosts cannot keep up at their delay."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from headwater.rules.policy import Policy
from headwater.rules.politeness import poll_delay
from headwater.simulation.population import Population
from headwater.simulation.tally import Tally


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """What a lane has to do, and what it can."""

    lane: str
    sources: int
    delay_seconds: float  # on average over its sources
    round_seconds: float  # to poll each of its sources once
    load: float  # the share of its time that polls and delays take; above 1 it falls behind
    late_seconds: float  # the longest that a source waited in the simulation
    interval_seconds: float  # the shortest of its sources

    @property
    def fits(self) -> bool:
        """Whether there is time for all its polls."""
        return self.load <= 1.0

    @property
    def fell_behind(self) -> bool:
        """Whether a source waited for longer than it was to rest."""
        return self.late_seconds > self.interval_seconds

    @property
    def shortest_minutes(self) -> int:
        """The shortest interval that all its sources could have."""
        return max(ceil(self.round_seconds / 60), 1)


def loads(population: Population, policy: Policy, tally: Tally) -> list[LaneLoad]:
    """Every lane with a host, the busiest first."""
    rounds: dict[str, list[tuple[float, float, int]]] = {}
    for source in population.sources:
        lane = population.lane(source)
        if lane and source.enabled:
            delay = poll_delay(source, policy).total_seconds()
            answer = population.hosts[lane].seconds
            visit = (delay, delay + answer, source.poll_interval_minutes * 60)
            rounds.setdefault(lane, []).append(visit)
    found = [_load(lane, visits, tally) for lane, visits in rounds.items()]
    return sorted(found, key=lambda one: (-one.load, one.lane))


def by_minutes(day: list[int], columns: int) -> list[float]:
    """The requests per minute of a day in so many columns."""
    if not day:
        return []
    size = len(day) / min(columns, len(day))
    edges = [round(number * size) for number in range(min(columns, len(day)) + 1)]
    return [sum(day[a:b]) / (b - a) for a, b in pairwise(edges)]


def as_plain(load: LaneLoad) -> Mapping[str, object]:
    """A lane as JSON has it."""
    return {
        "host": load.lane,
        "sources": load.sources,
        "delaySeconds": round(load.delay_seconds, 3),
        "load": round(load.load, 4),
        "fits": load.fits,
        "fellBehind": load.fell_behind,
        "shortestIntervalMinutes": load.shortest_minutes,
        "worstLatenessSeconds": round(load.late_seconds, 3),
    }


def _load(lane: str, visits: list[tuple[float, float, int]], tally: Tally) -> LaneLoad:
    return LaneLoad(
        lane=lane,
        sources=len(visits),
        delay_seconds=sum(delay for delay, _, _ in visits) / len(visits),
        round_seconds=sum(seconds for _, seconds, _ in visits),
        load=sum(seconds / interval for _, seconds, interval in visits),
        late_seconds=tally.worst(lane),
        interval_seconds=min(interval for _, _, interval in visits),
    )
