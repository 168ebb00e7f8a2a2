"""Start, pages, backup, cleanup and vacuum of a large database: time, CPU and memory.

    python -m bench.database_upkeep [SOURCES] [POSTS] [POLLS]

Both databases have the same rows: PostgreSQL gets a copy by `headwater migrate`. CPU includes the
PostgreSQL server, memory does not. Cleanup deletes about half of the posts and polls.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import uvloop

from bench import large_database, machine, postgres
from bench.api_latency import serving
from bench.large_database import DAYS, LARGE, POLL_DAYS, Large
from headwater.app import open_app
from headwater.engine.cleanup import Cleanup
from headwater.rules.policy import Policy
from headwater.settings import load_settings
from headwater.store import Session

CLEAN_UP = "--clean-up"  # this program as a process that cleans up
REQUESTS = 7  # of each page
START_LIMIT_SECONDS, PAGE_LIMIT_SECONDS = 5.0, 1.0
POLICY = Policy(
    max_article_age_days=DAYS // 2,
    processed_retention_days=DAYS // 2,
    poll_history_days=POLL_DAYS // 2,
)
BASE = f"/api/users/{LARGE}/podcasts/{LARGE}"
PAGES = {
    "overview": "/",
    "list of sources": f"/podcasts/{LARGE}/sources",
    "list of sources, API, 500": f"{BASE}/sources?limit=500",
    "page of a source": f"/podcasts/{LARGE}/sources/{{busy}}",
    "days of a source, API": f"{BASE}/sources/{{busy}}/poll-days?limit=100",
    "posts": f"/podcasts/{LARGE}/posts",
    "metrics": "/metrics",
}
_TABLE_BYTES = {
    "sqlite": """SELECT m.tbl_name, sum(d.pgsize) FROM dbstat d
        JOIN sqlite_master m ON m.name = d.name WHERE d.aggregate = TRUE GROUP BY 1""",
    "postgres": """SELECT relname, pg_total_relation_size(oid) FROM pg_class
        WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace""",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step took."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    remark: str = ""


@dataclass
class Upkeep:
    """The steps on one database."""

    kind: str
    url: str
    folder: Path
    server: Sequence[int] = ()  # the process of a database server

    def run(self, name: str, *arguments: str) -> str:
        """Run a process, print its cost and return its output."""
        started, cpu = time.perf_counter(), self._cpu()
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "APP__DATABASE_URL": self.url,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        peak = 0.0
        while process.poll() is None:
            with suppress(OSError, StopIteration):  # it has just ended
                peak = max(peak, peak_mb(process.pid))
            time.sleep(0.02)
        with process.stdout as output:
            text = output.read()
        assert process.returncode == 0, (name, text)
        seconds = time.perf_counter() - started
        self.show(name, Cost(seconds, self._cpu() - cpu, peak, remark_in(text)))
        return text

    async def serve(self, there: Large) -> None:
        """Start the service and request pages."""
        started, cpu = time.perf_counter(), machine.cpu_seconds(self.server)
        async with (
            serving(self.url, self.folder) as served,
            aiohttp.ClientSession(
                served.base, headers={"Authorization": f"Bearer {there.admin}"}
            ) as session,
        ):
            roots = (served.pid, *self.server)
            await request(session, "/api/health")
            seconds = time.perf_counter() - started
            used = machine.cpu_seconds(roots) - cpu
            slow = "SLOW" if seconds > START_LIMIT_SECONDS else ""
            self.show("start", Cost(seconds, used, peak_mb(served.pid), slow))
            for name, path in PAGES.items():
                wanted = path.format(busy=there.busy.id)
                await request(session, wanted)  # once to warm up
                cpu, taken = machine.cpu_seconds(roots), []
                for _ in range(REQUESTS):
                    taken.append(await request(session, wanted))
                used = (machine.cpu_seconds(roots) - cpu) / REQUESTS
                seconds = statistics.median(taken)
                slow = "SLOW" if seconds > PAGE_LIMIT_SECONDS else ""
                self.show(name, Cost(seconds, used, peak_mb(served.pid), slow))

    async def show_sizes(self) -> None:
        """Print rows and bytes of each large table with its indexes, and bytes of its texts."""
        settings = load_settings(options={"app.database-url": self.url}, environ={})
        async with open_app(settings) as app:
            found = await app.store.database.read(table_sizes)
        for name, rows, size, text in found:
            if rows >= 1000:
                cells = f"{rows:,} rows", f"{size >> 20:,} MB", f"{size / rows:,.0f} bytes per row"
                print(
                    f"| {self.kind} | {name} | {' | '.join(cells)} | {text / rows:,.0f} of text |"
                )

    def show(self, name: str, cost: Cost) -> None:
        seconds = [
            f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
            for value in (cost.seconds, cost.cpu_seconds)
        ]
        cells = [self.kind, name, *seconds, f"{cost.peak_mb:.0f} MB", cost.remark]
        print(f"| {' | '.join(cells)} |", flush=True)

    def _cpu(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime + machine.cpu_seconds(self.server)


async def measure(sources: int, posts: int, polls: int, folder: Path) -> None:
    """Fill both databases, run all steps on each, and print what they cost."""
    path = folder / "bench.db"
    there = await large_database.fill(path, sources, posts, polls)
    print(f"SQLite file: {path.stat().st_size >> 20:,} MiB\n")
    with postgres.running(folder) as server:
        file = Upkeep("SQLite", f"sqlite:///{path}", folder)
        copy = Upkeep("PostgreSQL", server.new_database(), folder, (server.pid,))
        print("| database | step | time | CPU | peak memory | remark |\n|---|---|---|---|---|---|")
        copy.run("copy from SQLite", "headwater", "migrate", "--from", file.url, "--to", copy.url)
        for one in (file, copy):
            await all_steps(one, there)


async def all_steps(one: Upkeep, there: Large) -> None:
    """The steps in an order in which each finds a realistic database."""
    await one.serve(there)
    backup = one.folder / "backup.db"
    one.run("backup", "headwater", "backup", str(backup))
    backup.unlink()
    await one.show_sizes()
    one.run("cleanup", "bench.database_upkeep", CLEAN_UP, one.url)
    one.run("vacuum", "headwater", "vacuum")
    await one.show_sizes()


async def clean_up(url: str) -> None:
    """Delete all expired rows, tick by tick."""
    async with open_app(load_settings(options={"app.database-url": url}, environ={})) as app:
        cleanup = Cleanup(app.store, app.clock, POLICY)
        total, slowest = 0, 0.0
        while True:
            started = time.perf_counter()
            deleted = await cleanup.run()
            slowest = max(slowest, time.perf_counter() - started)
            if not deleted:
                break
            total += deleted
    print(f"{total:,} rows; the longest tick {slowest:.1f} s")


async def request(session: aiohttp.ClientSession, path: str) -> float:
    """The seconds until the whole response has arrived."""
    started = time.perf_counter()
    async with session.get(path) as answer:
        body = await answer.read()
    assert answer.status == 200, (path, answer.status, body[:500])
    return time.perf_counter() - started


def table_sizes(session: Session) -> list[tuple[str, int, int, int]]:
    """The rows and bytes of each table, indexes included, and the bytes of its bodies."""
    found = []
    stored = "pg_column_size(body)" if session.kind == "postgres" else "length(body)"
    for name, size in sorted(session.fetch(_TABLE_BYTES[session.kind])):
        text = f"coalesce(sum({stored}), 0)" if name in ("posts", "articles") else "0"
        if not name.startswith("sqlite_"):
            rows, bytes_of_text = session.fetch(f"SELECT count(*), {text} FROM {name}")[0]
            found.append((str(name), int(rows), int(size), int(bytes_of_text)))
    return found


def peak_mb(pid: int) -> float:
    """The largest resident memory of a process so far."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def remark_in(text: str) -> str:
    """The last line of an output, unless it belongs to a table."""
    line = text.strip().rpartition("\n")[2]
    return "" if "\t" in line else line


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure, or clean up in a process of its own."""
    if arguments[:1] == (CLEAN_UP,):
        asyncio.run(clean_up(arguments[1]))
        return
    numbers = [int(text) for text in arguments]
    sources, posts, polls = (*numbers, *(100_000, 1_000_000, 1_000_000)[len(numbers) :])
    print(f"{sources:,} sources, {posts:,} posts, {polls:,} polls; {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}; medians of {REQUESTS} requests")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="headwater-upkeep-") as folder:
        uvloop.run(measure(sources, posts, polls, Path(folder)))


if __name__ == "__main__":
    main()
