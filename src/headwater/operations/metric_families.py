"""The metrics of `/metrics`; their names are part of the public interface."""

import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from headwater import __version__
from headwater.engine.metrics import Histogram
from headwater.engine.service import Service
from headwater.model import Health
from headwater.operations.http_metrics import HttpMetrics
from headwater.operations.readiness import open_files
from headwater.operations.service_status import CachedStatus, StatusCache, lane_counts
from headwater.operations.storage import StorageStatus
from headwater.store import Store

Labels = Mapping[str, str]
Number = int | float
Value = Number | Histogram
Labelled = Sequence[tuple[Labels, Value]]

_HELP = {  # in the order of the exposition; the names of counters end in _total
    "headwater_polls_total": "Polls that ended, by outcome and type of source; discarded: the "
    "source was edited.",
    "headwater_poll_duration_seconds": "From the start of a poll until it was decided what to "
    "store, by type of source.",
    "headwater_posts_stored_total": "New posts.",
    "headwater_poll_failures_total": "Polls that failed, by kind of failure.",
    "headwater_sources_disabled_total": "Sources that permanent failures have disabled.",
    "headwater_sources_recovered_total": "Sources that succeeded again after failures.",
    "headwater_page_visits_total": "Pages that were visited for their full text, by result; "
    "retried: another attempt follows.",
    "headwater_parse_kills_total": "Documents that went over the time or memory for parsing.",
    "headwater_name_lookups_total": "Names that name servers were asked for; unanswered: they "
    "failed or were too slow.",
    "headwater_lane_wait_seconds": "From the moment a source was due until its poll started.",
    "headwater_lanes": "Lanes with something to do.",
    "headwater_lanes_sources_waiting": "Sources that wait in their lanes.",
    "headwater_lanes_in_flight": "Polls that run.",
    "headwater_lanes_on_hold": "Lanes whose host asked for a pause.",
    "headwater_sources": "Sources by health.",
    "headwater_sources_enabled": "Sources that are enabled.",
    "headwater_sources_due": "Sources that are due.",
    "headwater_sources_overdue": "Sources that have been due for more than two ticks without a "
    "hold to wait for.",
    "headwater_oldest_overdue_seconds": "For how long the longest overdue source has been due; "
    "0: none is overdue.",
    "headwater_pages_pending": "Pages of new posts that are still to be read.",
    "headwater_tick_duration_seconds": "How long ticks took; the count is the number of ticks.",
    "headwater_tick_failures_total": "Ticks that failed.",
    "headwater_last_tick_age_seconds": "Time since the last tick, or since the start if there "
    "was none.",
    "headwater_paused": "1 while polls start only on request.",
    "headwater_outage": "1 while this machine seems to be offline and fewer polls are made.",
    "headwater_workers": "Workers that are alive; 0 where a service polls alone.",
    "headwater_outages_total": "Outages on our side.",
    "headwater_incidents_open": "Incidents that are open, by severity.",
    "headwater_incidents_opened_total": "Incidents that were opened, by kind.",
    "headwater_loop_lag_seconds": "How late the event loop got to a timer; looked at every 25 ms, "
    "or 100 ms while idle.",
    "headwater_loop_lag_max_seconds": "The longest such lag of the last one to two minutes.",
    "headwater_commit_outcomes": "Poll results that shared a commit.",
    "headwater_commit_duration_seconds": "From handing results to the database until they were "
    "on disk.",
    "headwater_results_waiting": "Poll results that wait for a database that cannot be written to.",
    "headwater_oldest_result_seconds": "For how long the oldest poll result, or query of the "
    "scheduler, has waited for the database; 0: none waits.",
    "headwater_database_bytes": "Size of the database, without the write-ahead log.",
    "headwater_database_free_bytes": "Unused space of a SQLite file, which `headwater vacuum` "
    "returns.",
    "headwater_cleanup_backlog": "Rows past their retention that are not cleaned up yet, by kind; "
    "at most 10,000 are counted.",
    "headwater_last_backup_age_seconds": "Time since `headwater backup` last succeeded; +Inf: "
    "never.",
    "headwater_http_requests_total": "Requests that the server has handled, by method, route and "
    "status; other: an unknown path, or refused before routing.",
    "headwater_http_request_duration_seconds": "From the headers of a request until the end of "
    "its response, by method and route.",
    "headwater_event_streams": "Event streams that are open.",
    "headwater_info": "Version of the program and of the database's schema.",
    "process_start_time_seconds": "When the service started, Unix time.",
    "process_cpu_seconds_total": "Processor time.",
    "process_resident_memory_bytes": "Memory.",
    "process_open_fds": "Open files and connections.",
    "process_max_fds": "The limit of open files and connections.",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a metric."""

    value: Number
    labels: Labels = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples; labels have few values, all known in advance."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    samples: tuple[Sample, ...]


async def measure(
    service: Service,
    store: Store,
    status: StatusCache,
    *,
    http: HttpMetrics,
    event_streams: int,
    now: datetime,
) -> list[Family]:
    """All metrics: counters since the start, and the current state."""
    current = await status.read()
    streams = {"headwater_event_streams": event_streams}
    values = _of_process(service, store) | _of_database(service, current, now) | streams
    values |= _served(http)
    return [_family(name, values[name]) for name in _HELP if name in values]


def measure_worker(worker: Service, store: Store) -> list[Family]:
    """The metrics of one worker alone; reads nothing from the database."""
    values = _of_process(worker, store)
    return [_family(name, values[name]) for name in _HELP if name in values]


def _of_process(service: Service, store: Store) -> dict[str, Value | Labelled]:
    """What this process counted, and its current state; a server adds those of all workers."""
    return _counted(service) | _current(service, store) | _process()


def _counted(service: Service) -> dict[str, Value | Labelled]:
    """What was counted since the start."""
    counted = service.metrics
    names = {"answered": counted.names.answered, "unanswered": counted.names.unanswered}
    return {
        "headwater_polls_total": [
            ({"outcome": o, "type": t}, n) for (o, t), n in counted.polls.items()
        ],
        "headwater_poll_duration_seconds": _by("type", counted.poll_seconds),
        "headwater_posts_stored_total": counted.posts,
        "headwater_poll_failures_total": _by("kind", counted.failures),
        "headwater_sources_disabled_total": counted.disabled,
        "headwater_sources_recovered_total": counted.recovered,
        "headwater_page_visits_total": _by("result", counted.page_visits),
        "headwater_parse_kills_total": counted.parse_kills,
        "headwater_name_lookups_total": _by("outcome", names),
        "headwater_lane_wait_seconds": counted.lane_wait_seconds,
        "headwater_tick_duration_seconds": counted.tick_seconds,
        "headwater_tick_failures_total": counted.ticks_failed,
        "headwater_outages_total": counted.outages,
        "headwater_incidents_opened_total": _by("kind", counted.incidents),
        "headwater_loop_lag_seconds": counted.loop_lag.seconds,
        "headwater_commit_outcomes": counted.commit_sizes,
        "headwater_commit_duration_seconds": counted.commit_seconds,
    }


def _served(http: HttpMetrics) -> dict[str, Value | Labelled]:
    """Requests that were served since the start."""
    return {
        "headwater_http_requests_total": [
            ({"method": method, "route": route, "status": status}, n)
            for (method, route, status), n in http.requests.items()
        ],
        "headwater_http_request_duration_seconds": [
            ({"method": method, "route": route}, histogram)
            for (method, route), histogram in http.seconds.items()
        ],
    }


def _current(service: Service, store: Store) -> dict[str, Value | Labelled]:
    """The current state of the process."""
    counted, workers, lanes = service.metrics, service.workers, lane_counts(service)
    return {
        "headwater_lanes": lanes.lanes,
        "headwater_lanes_sources_waiting": lanes.waiting,
        "headwater_lanes_in_flight": lanes.in_flight,
        "headwater_lanes_on_hold": lanes.on_hold,
        "headwater_paused": int(service.paused),
        "headwater_outage": int(service.guard.lasts),
        "headwater_loop_lag_max_seconds": max(
            [counted.loop_lag.worst(), *(one.loop_lag_max_seconds for one in workers)]
        ),
        "headwater_results_waiting": store.results_waiting
        + sum(one.results_waiting for one in workers),
        "headwater_oldest_result_seconds": max(
            [store.stalled_seconds(), *(one.oldest_result_seconds for one in workers)]
        ),
        "headwater_info": [({"version": __version__}, 1)],
        "process_start_time_seconds": counted.started_at.timestamp(),
    }


def _of_database(
    service: Service, current: CachedStatus, now: datetime
) -> dict[str, Value | Labelled]:
    """What every server of a database reports alike; counts only if the database responds."""
    last, schema = service.last_tick, current.schema
    tick_age = now - (service.metrics.started_at if last is None else last)
    info = {"version": __version__, "schema": "" if schema is None else str(schema)}
    found: dict[str, Value | Labelled] = {
        "headwater_last_tick_age_seconds": max(tick_age.total_seconds(), 0.0),
        "headwater_workers": service.workers_alive or 0,
        "headwater_info": [(info, 1)],
    }
    health, backlog = current.by_health, current.backlog
    if health is not None:
        found["headwater_sources"] = _by("health", health)
        found["headwater_sources_enabled"] = sum(health.values()) - health[Health.DISABLED]
    if backlog is not None:
        oldest = backlog.oldest_overdue_at
        found["headwater_sources_due"] = backlog.due
        found["headwater_sources_overdue"] = backlog.overdue
        age = 0.0 if oldest is None else max((now - oldest).total_seconds(), 0.0)
        found["headwater_oldest_overdue_seconds"] = age
    if current.pages_pending is not None:
        found["headwater_pages_pending"] = current.pages_pending
    if current.incidents is not None:
        found["headwater_incidents_open"] = _by("severity", current.incidents)
    return found | _stored(current.storage, now)


def _stored(storage: StorageStatus | None, now: datetime) -> dict[str, Value | Labelled]:
    """Size, cleanup and backup; nothing if the database does not respond."""
    if storage is None:
        return {}
    backup = storage.last_backup_at
    age = float("inf") if backup is None else max((now - backup).total_seconds(), 0.0)
    found: dict[str, Value | Labelled] = {
        "headwater_database_bytes": storage.size.total,
        "headwater_cleanup_backlog": _by("kind", storage.backlog),
        "headwater_last_backup_age_seconds": age,
    }
    if storage.size.free is not None:
        found["headwater_database_free_bytes"] = storage.size.free
    return found


def _process() -> dict[str, Number]:
    used, most = open_files()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        memory = pages * resource.getpagesize()
    except OSError:  # not Linux: only the maximum is known
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory = memory if sys.platform == "darwin" else memory * 1024
    return {
        "process_cpu_seconds_total": time.process_time(),
        "process_resident_memory_bytes": memory,
        "process_open_fds": used,
        "process_max_fds": most,
    }


def _by(label: str, values: Mapping[Any, Value]) -> list[tuple[Labels, Value]]:
    return [({label: str(name)}, value) for name, value in values.items()]


def _family(name: str, value: Value | Labelled) -> Family:
    values = [({}, value)] if isinstance(value, int | float | Histogram) else value
    kind: Literal["counter", "gauge", "histogram"] = "gauge"
    if name.endswith("_total"):
        kind = "counter"
    elif any(isinstance(one, Histogram) for _, one in values):
        kind = "histogram"
    samples = [sample for labels, one in values for sample in _samples(labels, one)]
    return Family(name, kind, _HELP[name], tuple(samples))


def _samples(labels: Labels, seen: Value) -> Iterator[Sample]:
    if not isinstance(seen, Histogram):
        yield Sample(seen, labels)
        return
    total = 0
    for bound, count in zip((*seen.bounds, float("inf")), seen.counts, strict=True):
        total += count
        le = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield Sample(total, {**labels, "le": le}, "_bucket")
    yield Sample(seen.total, labels, "_sum")
    yield Sample(total, labels, "_count")
