"""Whether the running service can do its work now, check by check."""

import asyncio
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from headwater.engine.service import Service
from headwater.errors import HeadwaterError
from headwater.operations.checks import Check, fine, note, wrong
from headwater.operations.process import open_files
from headwater.rules.outage import WINDOW_SECONDS
from headwater.settings import Settings
from headwater.store import Store

LEAST_FREE_BYTES = 50 * 1024 * 1024
LITTLE_FREE_BYTES = 1024 * 1024 * 1024
_LATE_TICKS = 3
_PATIENCE_SECONDS = 5.0  # for a database or a disk that does not answer
_LIVE_SECONDS = 1.0  # whether the program lives must be told at once
_LEAST_FREE_FILES = 16
_SILENT_NAMES = 3  # fewer may be the fault of the names' own servers
_LAG_SECONDS = 5.0  # a loop this late polls nobody in time
_NOTED_LAG_SECONDS = 0.25  # H2


async def readiness(
    settings: Settings, store: Store, service: Service, now: datetime
) -> list[Check]:
    """The named checks behind `/api/ready`; their details are for everybody (U6)."""
    return [
        await _database(store),
        _results(store),
        _scheduler(settings, service, now),
        _event_loop(service),
        _outage(service),
        _names(service),
        await _disk(settings),
        _files(),
    ]


async def schema_if_known(store: Store) -> int | None:
    """The schema's version; None if the database does not tell at once."""
    try:
        async with asyncio.timeout(_LIVE_SECONDS):
            version, _ = await store.schema()
    except (HeadwaterError, TimeoutError):
        return None
    return version


def disk(settings: Settings, *, where: bool = True) -> Check:
    """Whether there is room for what polls bring; a database server looks after its own."""
    file = settings.database_file
    if file is None:
        return fine("disk", "the database is on a server of its own")
    folder = _existing(file.absolute().parent)
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:,.1f} GB free" + (f" in {folder}" if where else "")
    if free < LEAST_FREE_BYTES:
        return wrong("disk", told, "make room, or move the database with app.database-url")
    if free < LITTLE_FREE_BYTES:
        return note("disk", told, "make room soon")
    return fine("disk", told)


async def _database(store: Store) -> Check:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            version, newest = await store.schema()
    except TimeoutError:
        return wrong("database", f"no answer within {_PATIENCE_SECONDS:.0f} s")
    except HeadwaterError as error:
        return wrong("database", "it cannot be asked now; the log says why", cause=str(error))
    if store.trouble is not None:
        told = "it could not be written to of late; the log says why"
        return wrong("database", told, cause=store.trouble)
    if version != newest:
        return wrong("database", f"schema {version}, this program needs {newest}")
    return fine("database", f"schema {version}")


def _results(store: Store) -> Check:
    """Polls whose results cannot be stored just now (K5)."""
    if store.waiting:
        return wrong("results", f"results of {store.waiting} polls wait for the database")
    return fine("results", "none waits for the database")


def _scheduler(settings: Settings, service: Service, now: datetime) -> Check:
    if service.workers_alive == 0:
        return wrong("scheduler", "no worker is alive", "`headwater worker` starts one")
    if service.last_tick is None:
        return wrong("scheduler", "no tick yet")
    age = now - service.last_tick
    told = f"last tick {max(age.total_seconds(), 0):.0f} s ago"
    late = timedelta(seconds=_LATE_TICKS * settings.source.tick_seconds)
    return wrong("scheduler", told) if age > late else fine("scheduler", told)


def _outage(service: Service) -> Check:
    guard = service.guard
    if guard.kind is None:
        return fine("outage", "none")
    since = "" if guard.since is None else f" since {guard.since:%Y-%m-%d %H:%M:%S} UTC"
    return wrong("outage", f"this machine seems cut off ({guard.kind}){since}")


def _event_loop(service: Service) -> Check:
    lag = service.metrics.loop_lag.worst()
    told = f"at most {lag * 1000:.0f} ms late of late"
    if lag >= _LAG_SECONDS:
        return wrong("loop", told, "something takes the processor away, or holds up everything")
    return fine("loop", told) if lag < _NOTED_LAG_SECONDS else note("loop", told)


def _names(service: Service) -> Check:
    """How name servers answered the polls of the last minutes; nobody is asked for this."""
    seen = service.metrics.names
    silent = seen.silent(WINDOW_SECONDS)
    if silent >= _SILENT_NAMES:
        advice = "look at the name servers of this machine"
        return wrong("names", f"no name server answers: {silent} names asked in vain", advice)
    if silent:
        return note("names", f"{silent} asked in vain since the last answer")
    return fine("names", "no trouble" if seen.answered else "none was looked up yet")


async def _disk(settings: Settings) -> Check:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await asyncio.to_thread(disk, settings, where=False)
    except TimeoutError:
        return wrong("disk", f"no answer within {_PATIENCE_SECONDS:.0f} s")


def _files() -> Check:
    """Whether there is room for the connections of polls and people, and for files (O1)."""
    used, most = open_files()
    told = f"{used:,} of {most:,.0f} open"
    if most - used < _LEAST_FREE_FILES:
        advice = "raise the limit of open files, or lower app.fetch.max-connections"
        return wrong("files", told, advice)
    return fine("files", told)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
