"""Results of checks, and the checks behind `/api/ready`."""

import asyncio
import errno
import os
import resource
import shutil
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.engine.service import Service
from headwater.errors import DatabaseReplaced, HeadwaterError
from headwater.rules.outage_detection import WINDOW_SECONDS
from headwater.settings import Settings
from headwater.store import Store
from headwater.store.waiting_work import STALLED_SECONDS

if TYPE_CHECKING:  # slow to import, and only workers need it
    from headwater.engine.cluster.worker import ClusterWorker

LEAST_FREE_BYTES = 50 * 1024 * 1024
LITTLE_FREE_BYTES = 1024 * 1024 * 1024
ALL_DRAINING = "every worker is draining: nothing is polled"
HOW_TO_POLL_AGAIN = "`headwater cluster drain WORKER --undo`, or start another `headwater worker`"
_LATE_TICKS = 3
_TIMEOUT_SECONDS = 5.0  # for the database and the disk
_LIVENESS_TIMEOUT_SECONDS = 1.0
_LEAST_FREE_FILES = 16
_UNANSWERED_NAMES = 3  # fewer may be due to the servers of these names
_LAG_SECONDS = 5.0  # an event loop this late polls nothing on time
_NOTED_LAG_SECONDS = 0.25  # H2
_NEEDED_TO_SERVE = frozenset({"database", "loop", "disk", "files"})


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    NOTE = "note"  # worth knowing, nothing is broken
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its result, and what to do about it."""

    name: str
    verdict: CheckStatus
    detail: str
    advice: str | None = None
    cause: str | None = None  # an error text of the database or system, for administrators only
    is_needed: bool = True  # False: a failure is reported, but the process is ready nevertheless


def fine(name: str, detail: str) -> Check:
    """A check that passed."""
    return Check(name, CheckStatus.OK, detail)


def note(name: str, detail: str, advice: str | None = None) -> Check:
    """A check that passed with a remark."""
    return Check(name, CheckStatus.NOTE, detail, advice)


def wrong(name: str, detail: str, advice: str | None = None, *, cause: str | None = None) -> Check:
    """A check that failed."""
    return Check(name, CheckStatus.WRONG, detail, advice, cause)


async def readiness(
    settings: Settings, store: Store, service: Service, now: datetime
) -> list[Check]:
    """The checks behind `/api/ready`; their details contain nothing private (U6).

    Where workers poll, only what serving requests needs makes the server unready.
    """
    beside_workers = service.workers_alive is not None
    found = [
        await _database(store),
        _results(store, service),
        (_workers if beside_workers else _scheduler)(settings, service, now),
        _event_loop(service),
        _outage(service),
        _names(service),
        await _disk(settings),
        _files(),
    ]
    if not beside_workers:
        return found
    return [replace(check, is_needed=check.name in _NEEDED_TO_SERVE) for check in found]


async def worker_readiness(store: Store, worker: "ClusterWorker") -> list[Check]:
    """The checks behind `/ready` of a worker."""
    return [
        await _database(store),
        _leases(worker),
        _results(store, worker),
        _event_loop(worker),
        _outage(worker),
        _names(worker),
        _files(),
    ]


async def schema_if_known(store: Store) -> int | None:
    """The schema's version; None if the database does not respond within a second."""
    try:
        async with asyncio.timeout(_LIVENESS_TIMEOUT_SECONDS):
            version, _ = await store.schema()
    except (HeadwaterError, TimeoutError):
        return None
    return version


def disk(settings: Settings, *, where: bool = True) -> Check:
    """Check the free space for a SQLite database; `where` adds the folder to the detail."""
    file = settings.database_file
    if file is None:
        return fine("disk", "the database is on its own server")
    folder = _existing(file.absolute().parent)
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:,.1f} GB free" + (f" in {folder}" if where else "")
    if free < LEAST_FREE_BYTES:
        return wrong("disk", detail, "free some space, or move the database with app.database-url")
    if free < LITTLE_FREE_BYTES:
        return note("disk", detail, "free some space soon")
    return fine("disk", detail)


def open_files() -> tuple[int, float]:
    """The number of open files and connections of this process, and its limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = float("inf") if soft == resource.RLIM_INFINITY else soft
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder)), limit
        except OSError as error:
            if error.errno == errno.EMFILE:  # the limit is reached: the folder cannot be opened
                return soft, soft
    return 0, limit


async def _database(store: Store) -> Check:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            version, newest = await store.schema()
    except TimeoutError:
        return wrong("database", f"no response within {_TIMEOUT_SECONDS:.0f} s")
    except DatabaseReplaced as error:
        detail = "the file was deleted or replaced while this process was running"
        return wrong("database", f"{detail}: nothing is stored any more", cause=str(error))
    except HeadwaterError as error:
        return wrong("database", "it cannot be read; the log has the reason", cause=str(error))
    if store.database_error is not None:
        detail = "the last write failed; the log has the reason"
        return wrong("database", detail, cause=store.database_error)
    if version > newest:  # another process has upgraded it (K7)
        detail = f"schema {version}, this program knows {newest}: start the newer version"
        return wrong("database", detail)
    if version != newest:
        return wrong("database", f"schema {version}, this program needs {newest}")
    return fine("database", f"schema {version}")


def _results(store: Store, service: Service) -> Check:
    """Poll results that cannot be stored, or queries of the scheduler without response (K5)."""
    if store.results_waiting:
        return wrong("results", f"results of {store.results_waiting} polls wait for the database")
    ages = [store.stalled_seconds(), *(w.oldest_result_seconds for w in service.workers)]
    if max(ages) >= STALLED_SECONDS:  # the database does not respond
        detail = f"results or queries of the scheduler have waited for {max(ages):.0f} s"
        return wrong("results", detail, cause=store.database_error)
    return fine("results", "no result or query waits for the database")


def _scheduler(settings: Settings, service: Service, now: datetime) -> Check:
    if service.last_tick is None:
        return wrong("scheduler", "no tick yet")
    age = now - service.last_tick
    detail = f"last tick {max(age.total_seconds(), 0):.0f} s ago"
    late = timedelta(seconds=_LATE_TICKS * settings.source.tick_seconds)
    return wrong("scheduler", detail) if age > late else fine("scheduler", detail)


def _workers(settings: Settings, service: Service, now: datetime) -> Check:
    """Whether any worker polls (K8)."""
    if not service.workers_alive:
        advice = "start one with `headwater worker`"
        return wrong("workers", "no worker is alive: nothing is polled", advice)
    if service.workers_all_draining:
        return wrong("workers", ALL_DRAINING, HOW_TO_POLL_AGAIN)
    ticks = _scheduler(settings, service, now)
    return replace(ticks, name="workers", detail=f"{service.workers_alive} alive, {ticks.detail}")


def _leases(worker: "ClusterWorker") -> Check:
    """Whether the worker may poll: without a recent heartbeat it does nothing (K8)."""
    if worker.leases.are_confirmed():
        return fine("leases", "confirmed")
    return wrong("leases", "not confirmed: no successful heartbeat, so no poll starts")


def _outage(service: Service) -> Check:
    guard = service.guard
    if guard.kind is None:
        return fine("outage", "none")
    since = "" if guard.since is None else f" since {guard.since:%Y-%m-%d %H:%M:%S} UTC"
    return wrong("outage", f"this machine seems to be offline ({guard.kind}){since}")


def _event_loop(service: Service) -> Check:
    lag = service.metrics.loop_lag.worst()
    detail = f"at most {lag * 1000:.0f} ms late in the last minutes"
    if lag >= _LAG_SECONDS:
        return wrong("loop", detail, "find what uses the processor or blocks the event loop")
    return fine("loop", detail) if lag < _NOTED_LAG_SECONDS else note("loop", detail)


def _names(service: Service) -> Check:
    """How name servers responded to recent polls; sends no query of its own."""
    seen = service.metrics.names
    silent = seen.silent(WINDOW_SECONDS)
    if silent >= _UNANSWERED_NAMES:
        detail = f"name servers do not respond: {silent} names without an answer"
        return wrong("names", detail, "check the name servers of this machine")
    if silent:
        return note("names", f"{silent} without an answer since the last success")
    return fine("names", "no failures" if seen.answered else "none was resolved yet")


async def _disk(settings: Settings) -> Check:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return await asyncio.to_thread(disk, settings, where=False)
    except TimeoutError:
        return wrong("disk", f"no response within {_TIMEOUT_SECONDS:.0f} s")


def _files() -> Check:
    """Whether more connections and files can be opened (O1)."""
    used, most = open_files()
    detail = f"{used:,} of {most:,.0f} open"
    if most - used < _LEAST_FREE_FILES:
        advice = "raise the limit of open files, or lower app.fetch.max-connections"
        return wrong("files", detail, advice)
    return fine("files", detail)


def _existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
