"""One run of the matrix: the real service with the hostile web and a healthy source."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.hostile.api_client import SOURCES, ApiClient
from tests.hostile.healthy_client import ClientRound, healthy_client
from tests.hostile.memory_probe import Cost, Megabytes, MemoryProbe, MemoryUse, Sample
from tests.hostile.rows import ALLOWED, CONTROL, FLOOD, HEALTHY, ROWS, url
from tests.hostile.servers import hostile_web
from tests.hostile.table import Failed, Misbehaviour, ObservedRequests
from tests.system.conftest import Headwater

AT_ONCE = 64
NOTHING = Megabytes(0, 0)
_FETCH = {  # other settings keep their defaults, above all the limits of parsers
    "allow-private-networks": [ALLOWED],
    "connect-timeout-seconds": 6,
    "read-timeout-seconds": 6,
    "total-timeout-seconds": 12,
}
_SOURCE = {"max-article-age-days": 100_000, "max-failures": 5}
_NEVER_BY_ITSELF = 525_600  # minutes between polls: a year
_PATIENCE = 120.0
_MORE_TRIES = 2  # errors of a host or parser that would be in time on an idle machine
_POSTS = 20  # posts of a source that are read
_WARMING = 4  # pages, which are parsed in worker processes
_PREVIEWS_AT_ONCE = 4  # as many as one user may have


@dataclass
class Result:
    """The result of one row."""

    source: dict[str, Any]  # after all polls, or the problem document if it could not be created
    created: bool = True
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)  # of each poll, from request to stored
    history: list[dict[str, Any]] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)
    sight: ObservedRequests | None = None
    previewed: str = ""  # the preview of the URL

    @property
    def grown(self) -> Megabytes:
        """The growth of memory while it was polled, in any process."""
        grown = [cost.grown for cost in self.costs]
        most_own = max((one.own for one in grown), default=0.0)
        return Megabytes(most_own, max((one.tree for one in grown), default=0.0))


@dataclass
class Run:
    """The results of all rows and of the healthy client."""

    results: list[Result]
    rounds: list[ClientRound] = field(default_factory=list)
    looks: list[Sample] = field(default_factory=list)
    grown_at_once: Megabytes = NOTHING
    grown_by_flood: Megabytes = NOTHING
    flood: list[Result] = field(default_factory=list)
    witnessed: int = 0
    seconds: float = 0.0
    exit_code: int | None = None
    log: str = ""


async def run_matrix(folder: Path, database_url: str | None) -> Run:
    """Poll every row and measure its time and memory.

    First the light rows, several at once: their common growth is an upper bound for each. Then the
    heavy ones, one at a time. Memory is that of the service and its parsers, sampled about thirty
    times a second, relative to the start; rows that leave memory behind come late, so that they do
    not hide the growth of others.
    """
    began = time.monotonic()
    program = Headwater(
        folder, options={"fetch": _FETCH, "source": _SOURCE}, database_url=database_url
    )
    async with hostile_web(folder) as port:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
            await program.start()
        try:
            run = await _driven(program, port)
        finally:
            exit_code = await program.stop()
    run.exit_code = exit_code
    run.log = program.log
    run.seconds = time.monotonic() - began
    return run


async def _driven(program: Headwater, port: int) -> Run:
    assert program.process is not None
    api, web = ApiClient(program.port), ApiClient(port, CONTROL)
    with MemoryProbe(program.process.pid) as memory:
        matrix = _Matrix(api, web, port, memory)
        async with healthy_client(port, program.port) as matrix.run.rounds:
            await matrix.warm_up()
            await matrix.add_sources()
            await matrix.poll_in_a_crowd()
            await matrix.poll_alone()
            await matrix.poll_flood()
            await matrix.read_everything()
        matrix.run.looks = memory.looks
    return matrix.run


def _is_too_late(row: Misbehaviour, result: Result) -> bool:
    """Whether a fast host or parser timed out because this machine is busy."""
    wanted, got = row.outcomes[0], result.outcomes[0]
    is_meant = isinstance(wanted, Failed) and got.get("failureKind") in wanted.kind.split("|")
    is_late = got.get("failureKind") == "timeout" or is_over_its_time(got)
    return len(row.outcomes) == 1 and not is_meant and is_late


def is_over_its_time(outcome: Mapping[str, Any]) -> bool:
    """Whether a parser was stopped for its time."""
    return outcome.get("failureKind") == "too expensive" and "took longer" in outcome["error"]


class _Matrix:
    """A running matrix."""

    def __init__(self, api: ApiClient, web: ApiClient, port: int, memory: MemoryProbe) -> None:
        self.api = api
        self.web = web
        self.port = port
        self.memory = memory
        self.run = Run([])
        self.before = MemoryUse(0, {})

    async def add_sources(self) -> None:
        """Create a source for every row."""
        for index, row in enumerate(ROWS):
            status, answer = await self._add(url(index, self.port), row.type)
            self.run.results.append(Result(answer, created=status == 201))

    async def warm_up(self) -> None:
        """Start everything that a service has running anyway: parsers, connections.

        No hostile row has been polled yet: memory is measured from here on.
        """
        host = f"http://{HEALTHY}:{self.port}"
        pages = [await self._add(f"{host}/page{n}", "website") for n in range(_WARMING)]
        for _, page in pages:
            await self._poll(page["id"])
        self.before = self.memory.now()

    async def poll_in_a_crowd(self) -> None:
        """Poll the light rows, several at once."""
        free = asyncio.Semaphore(AT_ONCE)
        began, before = time.monotonic(), self.before

        async def one(index: int) -> None:
            async with free:
                await self._poll_row(index, before)

        results = enumerate(self.run.results)
        left = [n for n, result in results if not result.outcomes and not ROWS[n].heavy]
        await asyncio.gather(*(one(index) for index in left))
        self.run.grown_at_once = self.memory.since(began, before).grown

    async def poll_alone(self) -> None:
        """Poll the heavy rows one after another, those with the highest limits last."""
        heavy = [index for index, row in enumerate(ROWS) if row.heavy]
        for index in sorted(heavy, key=lambda n: ROWS[n].megabytes):
            await self._poll_row(index, self.memory.now())

    async def poll_flood(self) -> None:
        """Poll hosts that all send as much as they may, all at once."""
        for host in FLOOD:
            status, source = await self._add(f"http://{host}:{self.port}/", "rss")
            self.run.flood.append(Result(source, created=status == 201))
        began = time.monotonic()
        polls = [self._timed(result, self.before) for result in self.run.flood]
        outcomes = await asyncio.gather(*polls)
        self.run.grown_by_flood = self.memory.since(began, self.before).grown
        for result, outcome in zip(self.run.flood, outcomes, strict=True):
            result.outcomes.append(outcome)
            result.source = await self.api.get(f"{SOURCES}/{result.source['id']}")
            result.posts = await self._some_posts(f"{SOURCES}/{result.source['id']}/posts?limit=20")

    async def read_everything(self) -> None:
        """Read everything that the API and the web report about the sources."""
        reported = await self.web.get("/")
        self.run.witnessed = reported["witnessed"]
        previews = asyncio.create_task(self._preview_secrets())
        for index, result in enumerate(self.run.results):
            result.sight = ObservedRequests(**reported["seen"][index])
            if result.created:
                path = f"{SOURCES}/{result.source['id']}"
                result.source = await self.api.get(path)
                result.history = (await self.api.get(f"{path}/polls"))["items"]
                result.posts = await self._some_posts(f"{path}/posts?limit=20")
        await previews

    async def _some_posts(self, path: str) -> list[dict[str, Any]]:
        """The first few posts; long ones are on separate pages."""
        posts: list[dict[str, Any]] = []
        page = await self.api.get(path)
        while len(posts) < _POSTS:
            posts += page["items"]
            if page["nextCursor"] is None:
                break
            page = await self.api.get(f"{path}&cursor={quote(page['nextCursor'])}")
        return posts

    async def _preview_secrets(self) -> None:
        """Preview the URLs that contain secrets, as before adding them."""
        free = asyncio.Semaphore(_PREVIEWS_AT_ONCE)

        async def one(index: int) -> None:
            wanted = {"url": url(index, self.port), "type": ROWS[index].type}
            async with free:
                _, reported = await self.api.post(f"{SOURCES}/preview", wanted)
            reported.pop("url", None)  # as it was sent
            self.run.results[index].previewed = json.dumps(reported)

        await asyncio.gather(*(one(index) for index, row in enumerate(ROWS) if row.secrets))

    async def _add(self, place: str, kind: str) -> tuple[int, Any]:
        wanted = {
            "url": place,
            "type": kind,
            "includeHistory": True,
            "pollIntervalMinutes": _NEVER_BY_ITSELF,
        }
        return await self.api.post(SOURCES, wanted)

    async def _poll_row(self, index: int, before: MemoryUse | None = None) -> None:
        """Poll a row as often as it says; `before` is the memory use at the start."""
        row, result = ROWS[index], self.run.results[index]
        before = before or self.memory.now()
        if not result.created:
            return
        for number in range(len(row.outcomes)):
            if number and row.settles:
                await self._settled(index)
            result.outcomes.append(await self._timed(result, before))
        for _ in range(_MORE_TRIES):
            if _is_too_late(row, result):
                result.outcomes[0] = await self._timed(result, self.memory.now())

    async def _timed(self, result: Result, before: MemoryUse) -> dict[str, Any]:
        """Poll, and measure the cost."""
        began = time.monotonic()
        outcome = await self._poll(result.source["id"], len(result.costs))
        result.costs.append(self.memory.since(began, before))
        return outcome

    async def _poll(self, source: str, polls_before: int = 0) -> dict[str, Any]:
        """Poll now and wait for the outcome, if necessary longer than the API does (P10)."""
        status, answer = await self.api.post(f"{SOURCES}/{source}/poll")
        deadline = time.monotonic() + _PATIENCE
        while status == 202 and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            history = (await self.api.get(f"{SOURCES}/{source}/polls"))["items"]
            if len(history) > polls_before:
                return dict(history[0])
        return dict(answer)

    async def _settled(self, index: int) -> None:
        """Wait until the web has no open connection of this row."""
        deadline = time.monotonic() + _PATIENCE
        while (await self.web.get("/"))["seen"][index]["busy"] and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
