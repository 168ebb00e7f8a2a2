"""Finding due sources: a tick over few and over many sources, the same number due (S5).

python -m bench.tick
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from bench import bulk_rows
from bench.results import Figure, table
from headwater import logs
from headwater.app import App, open_app
from headwater.engine.local_service import LocalService
from headwater.model import Source, SourceType
from headwater.settings import load_settings

DUE = 100
FEW, MANY = 10_000, 1_000_000
_BLOCK = 10_000  # sources that the program adds; SQL copies them


def figures(rounds: int, scale: Callable[[int], int], folder: Path) -> list[Figure]:
    """Lookup and whole tick among many sources, then among few."""
    found = []
    for total in (max(scale(MANY) // _BLOCK, 1) * _BLOCK, FEW):
        look_ups, ticks = asyncio.run(measure(total, DUE, rounds, folder))
        for name, values in (("whole tick", ticks), ("look-up", look_ups)):
            found.append(Figure("tick", f"{name}, {total:,} sources", "ms", tuple(values)))
    return found


async def measure(
    total: int, due: int, rounds: int, folder: Path
) -> tuple[list[float], list[float]]:
    """Milliseconds of the lookup alone, and of a whole tick without its polls."""
    settings = load_settings(
        options={
            "app.database-url": f"sqlite:///{folder / f'{total}.db'}",
            "app.shutdown-seconds": 1,
        },
        environ={},
    )
    logs.configure("text", "warning")
    path = folder / f"{total}.db"
    await fill(path, total, due)
    look_ups, ticks = [], []
    async with open_app(settings) as app:
        assert sum((await app.store.source_counts.by_health()).values()) == total + due
        async with app.service() as service:
            service.lanes.pause()  # submitted sources stay in their lanes
            await timed_tick(service)
            for _ in range(rounds):
                look_ups.append(await timed_lookup(app, due))
                ticks.append(await timed_tick(service))
            assert service.lanes.waiting() == due
    return look_ups, ticks


async def timed_lookup(app: App, due: int) -> float:
    started = time.perf_counter()
    found = await app.store.sources.due(app.clock.now(), app.policy)
    taken = (time.perf_counter() - started) * 1000
    assert len(found) == due, len(found)
    return taken


async def timed_tick(service: LocalService) -> float:
    started = time.perf_counter()
    await service.tick()
    return (time.perf_counter() - started) * 1000


async def fill(path: Path, total: int, due: int = 0) -> None:
    """Healthy, failing and disabled sources in realistic shares, and `due` that are due."""
    block = min(total, _BLOCK)
    await _add(path, [(number, False) for number in range(block)])
    if total > block:
        await asyncio.to_thread(bulk_rows.copy_sources, path, total // block - 1)
    await _add(path, [(-number - 1, True) for number in range(due)])


async def _add(path: Path, numbers: Sequence[tuple[int, bool]]) -> None:
    options = {"app.database-url": f"sqlite:///{path}"}
    async with open_app(load_settings(options=options, environ={})) as app:
        now = app.clock.now()
        await app.store.sources.add_many([a_source(n, due, now) for n, due in numbers])


def a_source(number: int, due: bool, now: datetime) -> Source:
    polled = now - timedelta(days=3) if due else now - timedelta(seconds=number % 1200)
    return Source(
        id=f"source-{number}",
        podcast_id="default",
        type=SourceType.RSS,
        url=f"https://host{number}.example/feed",
        host=f"host{number}.example",
        created_at=now - timedelta(days=30),
        enabled=due or number % 50 != 0,
        last_polled=polled,
        last_success_at=polled,
        first_poll_done=True,
        poll_interval_minutes=60,
        consecutive_failures=number % 10 if number % 7 == 0 else 0,
        max_backoff_hours=6 if number % 14 == 0 else None,
    )


def main() -> None:
    """Measure and print one table."""
    with tempfile.TemporaryDirectory() as folder:
        found = figures(7, lambda number: number, Path(folder))
    print(table({"tick": f"finding {DUE} due sources of many"}, found))


if __name__ == "__main__":
    main()
