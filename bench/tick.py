"""Finding what is due: a tick over few and over many sources, the same number due (S5).

python -m bench.tick [DUE] [SMALL] [LARGE]
"""

import asyncio
import statistics
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

from headwater import logs
from headwater.app import App, open_app
from headwater.engine.service import Service
from headwater.model import Source, SourceType
from headwater.settings import load_settings

ROUNDS = 7
PAGE = 10_000


async def measure(total: int, due: int, folder: Path) -> tuple[float, float]:
    """Milliseconds of the look-up alone, and of a whole tick without its polls."""
    settings = load_settings(
        options={
            "app.database-url": f"sqlite:///{folder / f'{total}.db'}",
            "app.shutdown-seconds": 1,
        },
        environ={},
    )
    look_ups, ticks = [], []
    async with open_app(settings) as app:
        now = app.clock.now()
        await fill(app, total, due, now)
        async with app.service() as service:
            service.lanes.pause()  # what a tick hands over stays in its lanes
            for _ in range(ROUNDS):
                look_ups.append(await timed_look_up(app, due))
                ticks.append(await timed_tick(service))
            assert service.lanes.waiting() == due
    return statistics.median(look_ups), statistics.median(ticks)


async def timed_look_up(app: App, due: int) -> float:
    started = time.perf_counter()
    found = await app.store.sources.due(app.clock.now(), app.policy)
    taken = (time.perf_counter() - started) * 1000
    assert len(found) == due, len(found)
    return taken


async def timed_tick(service: Service) -> float:
    started = time.perf_counter()
    await service.tick()
    return (time.perf_counter() - started) * 1000


async def fill(app: App, total: int, due: int, now: datetime) -> None:
    """Healthy, failing and disabled sources as a real table has them; few of them are due."""
    for first in range(0, total, PAGE):
        batch = [a_source(n, n < due, now) for n in range(first, min(first + PAGE, total))]
        await app.store.sources.add_many(batch)


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
    due = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    small = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    large = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
    logs.configure("text", "warning")
    print(f"{due} sources due; median of {ROUNDS} rounds, SQLite")
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            (total, *asyncio.run(measure(total, due, Path(folder)))) for total in (small, large)
        ]
    for total, look_up, tick in rows:
        print(f"{total:>9,} sources   look-up {look_up:7.2f} ms   whole tick {tick:7.2f} ms")
    print(f"ratio               look-up {rows[1][1] / rows[0][1]:7.2f}      "
          f"whole tick {rows[1][2] / rows[0][2]:7.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
