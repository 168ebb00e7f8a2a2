"""Capacity: how busy each lane is, and which hosts cannot keep up at their delay."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from headwater.rules.policy import Policy
from headwater.rules.politeness import poll_delay
from headwater.simulation.population import Population
from headwater.simulation.request_counts import RequestCounts


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """The load of a lane, computed from its sources, and its longest simulated wait."""

    lane: str
    sources: int
    delay_seconds: float  # average of its sources
    round_seconds: float  # to poll each of its sources once
    load: float  # the share of time that polls and delays take; above 1 the lane falls behind
    late_seconds: float  # the longest wait of a source
    interval_seconds: float  # the shortest interval of its sources

    @property
    def fits(self) -> bool:
        """Whether there is time for all polls."""
        return self.load <= 1.0

    @property
    def fell_behind(self) -> bool:
        """Whether a source waited for longer than the shortest interval."""
        return self.late_seconds > self.interval_seconds

    @property
    def shortest_minutes(self) -> int:
        """The shortest interval that all its sources could have."""
        return max(ceil(self.round_seconds / 60), 1)

    def to_json(self) -> Mapping[str, object]:
        """Return the JSON form."""
        return {
            "host": self.lane,
            "sources": self.sources,
            "delaySeconds": round(self.delay_seconds, 3),
            "load": round(self.load, 4),
            "fits": self.fits,
            "fellBehind": self.fell_behind,
            "shortestIntervalMinutes": self.shortest_minutes,
            "worstLatenessSeconds": round(self.late_seconds, 3),
        }


def lane_loads(population: Population, policy: Policy, counts: RequestCounts) -> list[LaneLoad]:
    """Return every lane with a host, the busiest first."""
    # for each source of a lane: delay, delay and response time, interval
    visits: dict[str, list[tuple[float, float, int]]] = {}
    for source in population.sources:
        lane = population.lane(source)
        if lane and source.enabled:
            delay = poll_delay(source, policy).total_seconds()
            seconds = delay + population.hosts[lane].seconds
            visit = (delay, seconds, source.poll_interval_minutes * 60)
            visits.setdefault(lane, []).append(visit)
    loads = [
        LaneLoad(
            lane=lane,
            sources=len(of_lane),
            delay_seconds=sum(delay for delay, _, _ in of_lane) / len(of_lane),
            round_seconds=sum(seconds for _, seconds, _ in of_lane),
            load=sum(seconds / interval for _, seconds, interval in of_lane),
            late_seconds=counts.max_waits.get(lane, 0.0),
            interval_seconds=min(interval for _, _, interval in of_lane),
        )
        for lane, of_lane in visits.items()
    ]
    return sorted(loads, key=lambda load: (-load.load, load.lane))


def column_means(per_minute: list[int], columns: int) -> list[float]:
    """Return the average requests per minute of each column of a chart."""
    if not per_minute:
        return []
    count = min(columns, len(per_minute))
    edges = [round(number * (len(per_minute) / count)) for number in range(count + 1)]
    return [sum(per_minute[a:b]) / (b - a) for a, b in pairwise(edges)]
