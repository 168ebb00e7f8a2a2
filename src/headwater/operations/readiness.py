"""Whether the running service can do its work now, check by check."""

import asyncio
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from headwater.engine.service import Service
from headwater.errors import HeadwaterError
from headwater.operations.checks import Check, fine, note, wrong
from headwater.settings import Settings
from headwater.store import Store

LEAST_FREE_BYTES = 50 * 1024 * 1024
LITTLE_FREE_BYTES = 1024 * 1024 * 1024
_LATE_TICKS = 3


async def readiness(
    settings: Settings, store: Store, service: Service, now: datetime
) -> list[Check]:
    """The named checks behind `/api/ready`."""
    return [
        await _database(store),
        _scheduler(settings, service, now),
        _outage(service),
        await asyncio.to_thread(disk, settings),
    ]


def disk(settings: Settings) -> Check:
    """Whether there is room for what polls bring; a database server looks after its own."""
    file = settings.database_file
    if file is None:
        return fine("disk", "the database is on a server of its own")
    folder = _existing(file.absolute().parent)
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:,.1f} GB free in {folder}"
    if free < LEAST_FREE_BYTES:
        return wrong("disk", told, "make room, or move the database with app.database-url")
    if free < LITTLE_FREE_BYTES:
        return note("disk", told, "make room soon")
    return fine("disk", told)


async def _database(store: Store) -> Check:
    try:
        version, newest = await store.schema()
    except HeadwaterError as error:
        return wrong("database", str(error))
    if store.trouble is not None:
        return wrong("database", store.trouble)
    if version != newest:
        return wrong("database", f"schema {version}, this program needs {newest}")
    return fine("database", f"schema {version}")


def _scheduler(settings: Settings, service: Service, now: datetime) -> Check:
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


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
