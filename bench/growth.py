"""Growth of costs with sources, hosts, entries per feed, and stored posts.

    python -m bench.growth [--only sources,hosts,entries,posts] [--most 1000000] [--rounds 3]

Draws `docs/images/growth-*.svg`: polls per second of CPU, and the CPU of the cheapest tick.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import bulk_rows, charts, external_tools, machine, tick
from bench.feeds import ENTRIES
from bench.measured_process import Measured
from bench.polled_site import open_site
from headwater.app import open_app
from headwater.settings import load_settings
from headwater.store.row_mapping import to_ms

IMAGES = Path(__file__).parents[1] / "docs" / "images"
FEEDS = 500  # due in every round
_KINDS = {"still": "no change (304)", "new": "new entries"}


@dataclass(frozen=True)
class Point:
    """One point of a chart: the parameters of its rounds of polls."""

    x: int
    feeds: int = FEEDS
    hosts: int = FEEDS
    entries: int = ENTRIES
    sources: int = 0  # that exist and are not due
    posts: int = 0  # that are stored already


@dataclass(frozen=True)
class Growth:
    """A chart: what grows, and how far."""

    label: str
    points: Sequence[Point]
    kinds: Sequence[str] = ("still", "new")


def growths(most: int) -> Mapping[str, Growth]:
    """All charts; `most` limits what is stored beforehand."""
    powers = [10**n for n in range(3, 8) if 10**n <= most]
    return {
        "sources": Growth(
            "sources in the database", [Point(n, sources=n) for n in powers if n <= 10**6]
        ),
        "hosts": Growth(
            f"hosts that {FEEDS} feeds are on",
            [Point(n, hosts=n) for n in (1, 5, 20, 100, FEEDS)],
        ),
        "entries": Growth(
            "entries per feed",
            [Point(n, feeds=200, hosts=200, entries=n) for n in (1, 5, 20, 100, 500)],
            kinds=("new",),
        ),
        "posts": Growth(
            "posts already stored",
            [Point(n, posts=n) for n in powers if n >= 10**4],
        ),
    }


def measure(point: Point, kind: str, rounds: int, folder: Path) -> dict[str, float]:
    """Polls per second of CPU, and milliseconds of a tick's CPU, with all counts verified."""
    path = folder / "bench.db"
    with open_site(folder, kind, point.feeds, entries=point.entries) as site:
        asyncio.run(_fill(path, point))
        config = {
            "database": f"sqlite:///{path}",
            "kind": kind,
            "port": site.port,
            "scheme": "http",
            "feeds": point.feeds,
            "hosts": point.hosts,
        }
        command = [sys.executable, "-m", "bench.programs.headwater_polls"]
        ticks = []
        with Measured(command, config, cores=[machine.CLIENT_CORE]) as measured:
            for number in range(rounds + 1):
                if number > 0 and kind == "new":
                    site.publish()
                measured.round(keep=number > 0)
                ticks.append(float(measured.run_step("tick_ms")))
            counts = measured.counts()
        times = rounds + 1 if kind == "new" else 1
        assert counts["posts"] == point.posts + point.feeds * point.entries * times, counts
        assert counts["polls"] == point.feeds * (rounds + 1), counts
        assert counts["failing"] == 0, counts
        assert site.server.responses(counts["polls"]).total() == counts["polls"]
    return {"polls": 1000 / median(measured.cpu_ms), "tick": min(ticks[1:])}


async def _fill(path: Path, point: Point) -> None:
    """Fill the database before the first poll."""
    if point.sources:
        await tick.fill(path, point.sources)
    if point.posts:
        options = {"app.database-url": f"sqlite:///{path}"}
        async with open_app(load_settings(options=options, environ={})) as app:
            now = to_ms(app.clock.now())
        await asyncio.to_thread(bulk_rows.add_posts, path, point.posts, point.feeds, now)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth")
    parser.add_argument("--only", default="sources,hosts,entries,posts")
    parser.add_argument("--most", type=int, default=10**6, help="rows that are stored beforehand")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    machine.end_cleanly()
    external_tools.OUT.mkdir(exist_ok=True)
    for name in options.only.split(","):
        growth = growths(options.most)[name]
        found = series(growth, options.rounds)
        (external_tools.OUT / f"growth-{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        draw(name, growth, found)


def series(growth: Growth, rounds: int) -> dict[str, list[dict[str, float]]]:
    """All points of a chart, by the kind of poll."""
    found: dict[str, list[dict[str, float]]] = {}
    for kind in growth.kinds:
        for point in growth.points:
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                figures = measure(point, kind, rounds, Path(folder))
            print(f"{growth.label} {point.x:>9,} {_KINDS[kind]:16} "
                  f"{figures['polls']:8.0f} polls/s of CPU, tick {figures['tick']:7.2f} ms",
                  flush=True)  # fmt: skip
            found.setdefault(_KINDS[kind], []).append({"x": point.x, **figures})
    return found


def draw(name: str, growth: Growth, found: Mapping[str, list[dict[str, float]]]) -> None:
    """Write the chart: a panel for each kind of poll, and one for the ticks of both."""
    panels = [
        charts.Panel(
            growth.label, "polls per second of CPU", {kind: _line(points, "polls")}, colour
        )
        for colour, (kind, points) in enumerate(found.items())
    ]
    ticks = {kind: _line(points, "tick") for kind, points in found.items()}
    label = f"tick, ms of CPU ({growth.points[0].feeds} due)"
    panels.append(charts.Panel(growth.label, label, ticks))
    (IMAGES / f"growth-{name}.svg").write_text(charts.svg(panels))


def _line(points: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    return [(point["x"], point[name]) for point in points]


if __name__ == "__main__":
    main()
