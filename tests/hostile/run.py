"""One run of the matrix: the real service beside the hostile web and a healthy source."""

import asyncio
import contextlib
import itertools
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.hostile.api import SOURCES, Api
from tests.hostile.documents import item, rss
from tests.hostile.exchange import answer
from tests.hostile.memory import NO_MEGABYTES, Megabytes, MemoryWatch
from tests.hostile.rows import ALLOWED, CONTROL, FLOOD, HEALTHY, ROWS, url
from tests.hostile.table import Failed, Misbehaviour, Sight
from tests.system.conftest import Headwater

AT_ONCE = 64
_HEAVY_AT_ONCE = 8
_FETCH = {
    "allow-private-networks": [ALLOWED],
    "connect-timeout-seconds": 6,
    "read-timeout-seconds": 6,
    "total-timeout-seconds": 12,
    "parse-timeout-seconds": 60,  # what takes long here takes long on a busy machine alone
}
_SOURCE = {"max-article-age-days": 100_000, "max-failures": 5}
_NEVER_BY_ITSELF = 525_600  # minutes between polls: a year
_PATIENCE = 60.0
_MORE_TRIES = 2  # where a host was given up that answers at once
_POSTS = 20  # of a source, that are looked at
_LAG = re.compile(r'^headwater_loop_lag_seconds_bucket\{le="([^"]+)"\} (\d+)', re.MULTILINE)
_WORST_LAG = re.compile(r"^headwater_loop_lag_max_seconds ([\d.e+-]+)", re.MULTILINE)


@dataclass
class Result:
    """What came of one row."""

    source: dict[str, Any]  # as it is after all polls, or the problem that creating it was
    created: bool = True
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)
    sight: Sight | None = None
    grown: Megabytes | None = None  # of rows that were polled alone


@dataclass
class Run:
    """What came of all rows, and of everybody else meanwhile."""

    results: list[Result]
    healthy: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    api_seconds: list[float] = field(default_factory=list)
    worst_stall: float = 0.0
    stalls: dict[str, int] = field(default_factory=dict)
    machine_late: float = 0.0  # seconds that threads had to wait for a processor, at worst
    grown_alone: Megabytes = NO_MEGABYTES
    grown_at_once: Megabytes = NO_MEGABYTES
    grown_by_flood: Megabytes = NO_MEGABYTES
    flood: list[dict[str, Any]] = field(default_factory=list)
    witnessed: int = 0
    seconds: float = 0.0
    exit_code: int | None = None
    log: str = ""


async def run_matrix(folder: Path, database_url: str | None, *, alone: bool) -> Run:
    """Poll every row; the heavy ones one at a time where `alone` says so, else all in a crowd."""
    began = time.monotonic()
    program = Headwater(
        folder, options={"fetch": _FETCH, "source": _SOURCE}, database_url=database_url
    )
    async with hostile_web() as port, healthy_host(port):
        await program.start()
        try:
            run = await _driven(program, port, alone=alone)
        finally:
            exit_code = await program.stop()
    run.exit_code = exit_code
    run.log = program.log
    run.seconds = time.monotonic() - began
    return run


@contextlib.asynccontextmanager
async def healthy_host(port: int) -> AsyncIterator[None]:
    """A feed that has one more entry at every visit."""
    visits = itertools.count(1)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            while await reader.readuntil(b"\r\n\r\n"):
                newest = next(visits)
                entries = range(newest, max(newest - 20, 0), -1)
                writer.write(answer(rss(*(item(f"Entry {n}", f"Body {n}") for n in entries))))
        writer.close()

    server = await asyncio.start_server(converse, HEALTHY, port)
    try:
        yield
    finally:
        server.close()


@contextlib.asynccontextmanager
async def hostile_web() -> AsyncIterator[int]:
    """The hostile web as a process of its own; answers its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.web"],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await asyncio.to_thread(process.stdout.readline))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


async def _driven(program: Headwater, port: int, *, alone: bool) -> Run:
    assert program.process is not None
    api, web = Api(program.port), Api(port, CONTROL)
    with MemoryWatch(program.process.pid) as memory:
        matrix = _Matrix(api, web, port, memory)
        await matrix.add_sources()
        await matrix.warm_up()
        others = asyncio.create_task(matrix.poll_healthy())
        if alone:
            await matrix.poll_alone()
        await matrix.poll_in_a_crowd()
        await matrix.poll_flood()
        await matrix.look_at_all()
        others.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await others
        matrix.run.machine_late = memory.machine_late
    return matrix.run


def _is_too_late(row: Misbehaviour, result: Result) -> bool:
    """Whether a host that answers at once was given up: this machine is busy with other things."""
    wanted = row.outcomes[0]
    is_meant = isinstance(wanted, Failed) and "timeout" in wanted.kind
    return (
        len(row.outcomes) == 1
        and not is_meant
        and result.outcomes[0].get("failureKind") == "timeout"
    )


class _Matrix:
    """A run under way."""

    def __init__(self, api: Api, web: Api, port: int, memory: MemoryWatch) -> None:
        self.api = api
        self.web = web
        self.port = port
        self.memory = memory
        self.run = Run([])
        self.healthy_id = ""
        self.before = NO_MEGABYTES

    async def add_sources(self) -> None:
        """Make a source of every row, and a healthy one."""
        for index, row in enumerate(ROWS):
            status, answer = await self._add(url(index, self.port), row.type)
            self.run.results.append(Result(answer, created=status == 201))
        _, healthy = await self._add(f"http://{HEALTHY}:{self.port}/feed", "rss")
        self.healthy_id = healthy["id"]

    async def warm_up(self) -> None:
        """Have everything started that a service has running anyway: parsers, connections."""
        light = [n for n, row in enumerate(ROWS) if row.type == "website" and not row.heavy]
        await asyncio.gather(*(self._poll_row(index) for index in light[:4]))
        self.before = self.memory.now()

    async def poll_healthy(self) -> None:
        """Poll the healthy source once a second, and see how long the API takes to answer."""
        while True:
            next_at = time.monotonic() + 1
            began = time.monotonic()
            outcome = await self._poll(self.healthy_id)
            self.run.healthy.append((time.monotonic() - began, outcome))
            began = time.monotonic()
            self._note_stalls(await self.api.text("/metrics"))
            self.run.api_seconds.append(time.monotonic() - began)
            await asyncio.sleep(max(0, next_at - time.monotonic()))

    async def poll_alone(self) -> None:
        """Poll the heavy rows one after another, and see what each costs."""
        for index, row in enumerate(ROWS):
            if row.heavy:
                before = self.memory.now()
                await self._poll_row(index)
                grown = self.memory.most() - before
                self.run.results[index].grown = grown
                self.run.grown_alone = max(self.run.grown_alone, grown, key=lambda g: g.tree)

    async def poll_in_a_crowd(self) -> None:
        """Poll all that is left, so many at once."""
        left = [n for n, result in enumerate(self.run.results) if not result.outcomes]
        heavy = asyncio.Semaphore(_HEAVY_AT_ONCE)
        light = asyncio.Semaphore(AT_ONCE - _HEAVY_AT_ONCE)

        async def one(index: int) -> None:
            async with heavy if ROWS[index].heavy else light:
                await self._poll_row(index)

        self.memory.now()
        await asyncio.gather(*(one(index) for index in left))
        self.run.grown_at_once = self.memory.most() - self.before

    async def poll_flood(self) -> None:
        """Poll hosts that all send as much as they may, all at once."""
        added = [await self._add(f"http://{host}:{self.port}/", "rss") for host in FLOOD]
        before = self.memory.now()
        polls = (self._poll(source["id"]) for _, source in added)
        self.run.flood = await asyncio.gather(*polls)
        self.run.grown_by_flood = self.memory.most() - before

    async def look_at_all(self) -> None:
        """Ask for everything that is told of the sources, here and by the web."""
        told = await self.web.get("/")
        self.run.witnessed = told["witnessed"]
        for index, result in enumerate(self.run.results):
            result.sight = Sight(**told["seen"][index])
            if result.created:
                path = f"{SOURCES}/{result.source['id']}"
                result.source = await self.api.get(path)
                result.history = (await self.api.get(f"{path}/polls"))["items"]
                result.posts = await self._some_posts(f"{path}/posts?limit=20")

    async def _some_posts(self, path: str) -> list[dict[str, Any]]:
        """The first few; long ones come on pages of their own."""
        posts: list[dict[str, Any]] = []
        page = await self.api.get(path)
        while len(posts) < _POSTS:
            posts += page["items"]
            if page["nextCursor"] is None:
                break
            page = await self.api.get(f"{path}&cursor={quote(page['nextCursor'])}")
        return posts

    async def _add(self, place: str, kind: str) -> tuple[int, Any]:
        wanted = {
            "url": place,
            "type": kind,
            "includeHistory": True,
            "pollIntervalMinutes": _NEVER_BY_ITSELF,
        }
        return await self.api.post(SOURCES, wanted)

    async def _poll_row(self, index: int) -> None:
        row, result = ROWS[index], self.run.results[index]
        if not result.created:
            return
        for number in range(len(row.outcomes)):
            if number and row.settles:
                await self._settled(index)
            began = time.monotonic()
            result.outcomes.append(await self._poll(result.source["id"], number))
            result.seconds.append(time.monotonic() - began)
        for _ in range(_MORE_TRIES):
            if not _is_too_late(row, result):
                break
            began = time.monotonic()
            polls = len(result.seconds)
            result.outcomes[0] = await self._poll(result.source["id"], polls)
            result.seconds.append(time.monotonic() - began)

    async def _poll(self, source: str, polls_before: int = 0) -> dict[str, Any]:
        """Poll now and wait for the outcome, longer than the API itself does if need be (P10)."""
        status, answer = await self.api.post(f"{SOURCES}/{source}/poll")
        deadline = time.monotonic() + _PATIENCE
        while status == 202 and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            history = (await self.api.get(f"{SOURCES}/{source}/polls"))["items"]
            if len(history) > polls_before:
                return dict(history[0])
        return dict(answer)

    async def _settled(self, index: int) -> None:
        """Wait until the web talks to nobody on this row's connections."""
        deadline = time.monotonic() + _PATIENCE
        while (await self.web.get("/"))["seen"][index]["busy"] and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    def _note_stalls(self, metrics: str) -> None:
        self.run.stalls = {bound: int(count) for bound, count in _LAG.findall(metrics)}
        worst = _WORST_LAG.search(metrics)
        if worst is not None:
            self.run.worst_stall = max(self.run.worst_stall, float(worst[1]))
