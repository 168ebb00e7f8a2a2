"""What monitoring wants to know: everything countable, under names that stay."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from headwater import __version__
from headwater.engine.metrics import Histogram, Metrics
from headwater.engine.service import Service
from headwater.model import Health
from headwater.operations.process import Process, this_process
from headwater.operations.standing import Standing, Watch
from headwater.store import Store

Labels = Mapping[str, str]
Number = int | float
NO_LABELS: Labels = {}


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a family."""

    value: Number
    labels: Labels = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Numbers of one meaning; labels have few values, all known beforehand."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    samples: tuple[Sample, ...]


async def measure(
    service: Service, store: Store, watch: Watch, *, event_streams: int, now: datetime
) -> list[Family]:
    """All numbers there are: counted since the start, and as things stand."""
    counted, standing = service.metrics, await watch.look()
    return [
        *_polls(counted),
        *_trouble(counted),
        *_lanes(counted, standing),
        *_sources(standing, now),
        *_scheduler(service, now),
        *_storing(service, store),
        _gauge("headwater_event_streams", "Event streams that are open.", event_streams),
        *_process(service, standing, this_process()),
    ]


def _polls(counted: Metrics) -> Iterator[Family]:
    yield _counters(
        "headwater_polls_total",
        "Polls that ended, by outcome and type of source; discarded: edited meanwhile.",
        (({"outcome": o, "type": t}, n) for (o, t), n in counted.polls.items()),
    )
    yield _histograms(
        "headwater_poll_duration_seconds",
        "From the start of a poll until it was decided what to store, by type of source.",
        (({"type": type_}, seen) for type_, seen in counted.poll_seconds.items()),
    )
    yield _counter("headwater_posts_stored_total", "New posts.", counted.posts)


def _trouble(counted: Metrics) -> Iterator[Family]:
    yield _counters(
        "headwater_poll_failures_total",
        "Polls that failed, by kind of failure.",
        (({"kind": kind}, count) for kind, count in counted.failures.items()),
    )
    yield _counter(
        "headwater_sources_disabled_total",
        "Sources that permanent failures have disabled.",
        counted.disabled,
    )
    yield _counter(
        "headwater_sources_recovered_total",
        "Sources whose run of failures a success has ended.",
        counted.recovered,
    )
    yield _counter(
        "headwater_parse_kills_total",
        "Documents that went over the time or memory for parsing.",
        counted.parse_kills,
    )
    lookups = {"answered": counted.names.answered, "unanswered": counted.names.unanswered}
    yield _counters(
        "headwater_name_lookups_total",
        "Names that name servers were asked for; unanswered: they failed or were too slow.",
        (({"outcome": outcome}, count) for outcome, count in lookups.items()),
    )


def _lanes(counted: Metrics, standing: Standing) -> Iterator[Family]:
    yield _histograms(
        "headwater_lane_wait_seconds",
        "From the moment a source was due until its poll started.",
        [(NO_LABELS, counted.lane_wait_seconds)],
    )
    yield _gauge("headwater_lanes", "Lanes with something to do.", standing.lanes)
    yield _gauge(
        "headwater_lanes_sources_waiting", "Sources that wait in their lanes.", standing.waiting
    )
    yield _gauge("headwater_lanes_in_flight", "Polls under way.", standing.in_flight)
    yield _gauge("headwater_lanes_on_hold", "Lanes whose host asked for a pause.", standing.holds)


def _sources(standing: Standing, now: datetime) -> Iterator[Family]:
    health, backlog = standing.by_health, standing.backlog
    if health is not None:
        yield Family(
            "headwater_sources",
            "gauge",
            "Sources by health.",
            tuple(Sample(count, {"health": state.value}) for state, count in health.items()),
        )
        enabled = sum(count for state, count in health.items() if state is not Health.DISABLED)
        yield _gauge("headwater_sources_enabled", "Sources that are enabled.", enabled)
    if backlog is not None:
        yield _gauge("headwater_sources_due", "Sources that are due.", backlog.due)
        yield _gauge(
            "headwater_sources_overdue",
            "Sources that have been due for more than two ticks without a hold to wait for.",
            backlog.overdue,
        )
        oldest = backlog.oldest_overdue_at
        yield _gauge(
            "headwater_oldest_overdue_seconds",
            "For how long the longest overdue source has been due; 0: none is overdue.",
            0.0 if oldest is None else max((now - oldest).total_seconds(), 0.0),
        )


def _scheduler(service: Service, now: datetime) -> Iterator[Family]:
    counted, last = service.metrics, service.last_tick
    yield _histograms(
        "headwater_tick_duration_seconds",
        "How long ticks took; the count is the number of ticks.",
        [(NO_LABELS, counted.tick_seconds)],
    )
    yield _counter(
        "headwater_tick_failures_total", "Ticks that did not work.", counted.ticks_failed
    )
    age = now - (counted.started_at if last is None else last)
    yield _gauge(
        "headwater_last_tick_age_seconds",
        "Time since the last tick, or since the start if there was none.",
        max(age.total_seconds(), 0.0),
    )
    yield _gauge(
        "headwater_paused",
        "1 while polls start only when somebody asks for them.",
        int(service.paused),
    )
    yield _gauge(
        "headwater_outage",
        "1 while this machine seems cut off and polling is thinned out.",
        int(service.guard.lasts),
    )
    yield _gauge(
        "headwater_workers",
        "Workers that are alive; 0 where a service polls alone.",
        service.workers_alive or 0,
    )
    yield _counter("headwater_outages_total", "Outages on our side.", counted.outages)
    yield _histograms(
        "headwater_loop_lag_seconds",
        "How late the event loop got to a timer; looked at every 25 ms, or 100 ms while idle.",
        [(NO_LABELS, counted.loop_lag.seconds)],
    )
    yield _gauge(
        "headwater_loop_lag_max_seconds",
        "The longest such lag of the last one to two minutes.",
        max([counted.loop_lag.worst(), *(one.loop_lag_max_seconds for one in service.workers)]),
    )


def _storing(service: Service, store: Store) -> Iterator[Family]:
    counted = service.metrics
    yield _histograms(
        "headwater_commit_outcomes",
        "Poll results that shared a commit.",
        [(NO_LABELS, counted.commit_sizes)],
    )
    yield _histograms(
        "headwater_commit_duration_seconds",
        "From handing results to the database until they were on disk.",
        [(NO_LABELS, counted.commit_seconds)],
    )
    yield _gauge(
        "headwater_results_waiting",
        "Poll results that wait for a database that cannot be written to.",
        store.waiting + sum(one.results_waiting for one in service.workers),
    )


def _process(service: Service, standing: Standing, process: Process) -> Iterator[Family]:
    schema = "" if standing.schema is None else str(standing.schema)
    yield Family(
        "headwater_info",
        "gauge",
        "Version of the program and of the database's schema.",
        (Sample(1, {"version": __version__, "schema": schema}),),
    )
    started = service.metrics.started_at.timestamp()
    yield _gauge("process_start_time_seconds", "When the service started, Unix time.", started)
    yield _counter("process_cpu_seconds_total", "Processor time.", process.cpu_seconds)
    yield _gauge("process_resident_memory_bytes", "Memory.", process.resident_bytes)
    yield _gauge("process_open_fds", "Open files and connections.", process.open_files)
    yield _gauge("process_max_fds", "How many of them there may be.", process.most_open_files)


def _gauge(name: str, meaning: str, value: Number) -> Family:
    return Family(name, "gauge", meaning, (Sample(value),))


def _counter(name: str, meaning: str, value: Number) -> Family:
    return _counters(name, meaning, [(NO_LABELS, value)])


def _counters(name: str, meaning: str, values: Iterable[tuple[Labels, Number]]) -> Family:
    return Family(name, "counter", meaning, tuple(Sample(v, labels) for labels, v in values))


def _histograms(name: str, meaning: str, seen: Iterable[tuple[Labels, Histogram]]) -> Family:
    samples = (sample for labels, one in seen for sample in _buckets(labels, one))
    return Family(name, "histogram", meaning, tuple(samples))


def _buckets(labels: Labels, seen: Histogram) -> Iterator[Sample]:
    total = 0
    for bound, count in zip((*seen.bounds, float("inf")), seen.counts, strict=True):
        total += count
        le = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield Sample(total, {**labels, "le": le}, "_bucket")
    yield Sample(seen.total, labels, "_sum")
    yield Sample(total, labels, "_count")
