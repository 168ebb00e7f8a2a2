"""Latency of the API, route by route, while the scheduler polls at full speed.

    python -m bench.api_latency [SECONDS] [REQUESTS_PER_SECOND] [SOURCES] [UNINDEXED]

A real `headwater serve`, whose sources are all due, serves a client that sends requests at a
constant rate. A request counts from the time it should have been sent. The same requests are sent
to a paused scheduler as a baseline. With UNINDEXED posts, these are indexed and grouped into
stories at the same time.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import aiohttp
import uvloop

from bench import loopback_web, search
from headwater.app import App, open_app
from headwater.model import Health, Outcome, OutcomeKind, Post, Source, SourceType, Validators
from headwater.operations.articles import aggregate
from headwater.rules.admission import content_hash, timed_id
from headwater.settings import load_settings
from headwater.store import Session, sequence_numbers
from headwater.store.row_mapping import to_ms
from headwater.store.search_index import CURSOR

WEB_PORT = 18490
HOSTS = 2000
POSTS, POSTS_PER_SOURCE = 10_000, 20
WORDS, VOCABULARY = 120, 20_000  # of a post
WARM_UP_SECONDS = 3.0
LIMIT_MS = 100.0
CPU = "process_cpu_seconds_total"
BASE = "/api/users/default/podcasts/default"
ROUTES = {
    "list sources": f"{BASE}/sources?limit=50",
    "show a source": f"{BASE}/sources/source-{{n}}",
    "explain a source": f"{BASE}/sources/source-{{n}}/explain",
    "polls of a source": f"{BASE}/sources/source-{{n}}/polls",
    "posts of a source": f"{BASE}/sources/source-{{few}}/posts",
    "posts of a podcast": f"{BASE}/posts?limit=50",
    "unprocessed articles": f"{BASE}/articles?processed=false",
    "list hosts": "/api/hosts",
    "show a host": "/api/hosts/{host}",
    "health": "/api/health",
    "metrics": "/metrics",
}


@dataclass
class RouteLatency:
    """The results of the requests to one route."""

    path: str
    milliseconds: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class Served(NamedTuple):
    """A running service: its URL and its process."""

    base: str
    pid: int


async def measure(seconds: float, rate: float, sources: int, unindexed: int, folder: Path) -> None:
    """Fill a database, serve it, send the requests, and print one table."""
    url = f"sqlite:///{folder / 'bench.db'}"
    options = {"app.database-url": url, "app.fetch.allow-private-networks": True}
    async with open_app(load_settings(options=options, environ={})) as app:
        await fill(app, sources)
        await app.followers.catch_up()
        await add_unindexed(app, unindexed)
    async with serving(url, folder) as served, aiohttp.ClientSession(served.base) as session:
        await switch(session, paused=True)
        quiet = await routes_there(session)
        await send_requests(session, quiet, WARM_UP_SECONDS, rate, sources)
        quiet = await routes_there(session)
        await send_requests(session, quiet, seconds / 2, rate, sources)
        await switch(session, paused=False)
        routes = await routes_there(session)
        await send_requests(session, routes, WARM_UP_SECONDS, rate, sources)
        routes = await routes_there(session)
        before, cpu = await polls_so_far(session), await number(session, CPU)
        started, stolen = time.perf_counter(), stolen_seconds()
        await send_requests(session, routes, seconds, rate, sources)
        spent = time.perf_counter() - started
        stolen = (stolen_seconds() - stolen) / spent
        polled, cpu = await polls_so_far(session) - before, await number(session, CPU) - cpu
        left = await number(session, "headwater_sources_due")
    async with open_app(load_settings(options=options, environ={})) as app:
        print(f"unindexed posts: {unindexed:,} at the start, {await count_unindexed(app):,} left")
        await check(app, sources, int(before + polled))
    show(routes, polled / spent, left)
    print(f"the server had {cpu / spent:.2f} cores; others took {stolen:.2f} of this machine's")
    print(f"with the scheduler paused: p99 {together(quiet).at(0.99):.1f} ms")
    p99 = together(routes).at(0.99)
    verdict = "under" if p99 < LIMIT_MS else "NOT under"
    print(f"p99 of all requests: {p99:.1f} ms, {verdict} {LIMIT_MS:.0f} ms")


async def fill(app: App, sources: int) -> None:
    """Sources that were polled before and are all due, some of them with posts and articles."""
    now = app.clock.now()
    long_ago = now - timedelta(days=1)
    made = [
        Source(
            id=f"source-{n}",
            podcast_id="default",
            type=SourceType.RSS,
            url=f"http://{loopback_web.address(n % HOSTS)}:{WEB_PORT}/{n}.xml",
            created_at=long_ago + timedelta(milliseconds=n),
            host=loopback_web.address(n % HOSTS),
            last_polled=long_ago,
            first_poll_done=True,
            last_success_at=long_ago,
            validators=Validators(etag='"1"'),
            poll_interval_minutes=600,
        )
        for n in range(sources)
    ]
    await app.store.sources.add_many(made)
    for source in made[: POSTS // POSTS_PER_SOURCE]:
        posts = tuple(a_post(source, n) for n in range(POSTS_PER_SOURCE))
        await app.store.record(
            Outcome(source, source, OutcomeKind.STORED, started_at=now, posts=posts)
        )
    podcast = (await app.store.accounts.podcasts("default"))[0]
    await aggregate(app.store, podcast, now, app.policy)
    await app.followers.catch_up()  # the search index and stories, before requests are measured


async def add_unindexed(app: App, count: int) -> None:
    """Store posts of 150 words, different ones, that no follower has handled."""
    corpus, now = search.Corpus(count), to_ms(app.clock.now())
    first = await app.store.database.read(sequence_numbers.last)
    recent = {"published_at": now, "created_at": now}  # else they belong to no story

    def insert(session: Session, posts: Sequence[Post]) -> None:
        rows = [
            search.row_of(post)
            | recent
            | {"seq": first + (post.seq or 0), "source_id": f"source-{(post.seq or 0) % 200}"}
            for post in posts
        ]
        session.insert_rows("posts", rows)
        sequence_numbers.continue_after(session, first + (posts[-1].seq or 0))

    for begin in range(1, count + 1, 1000):
        posts = [post for post, _ in corpus.batch(begin, min(1000, count - begin + 1))]
        await app.store.database.write(partial(insert, posts=posts))


async def count_unindexed(app: App) -> int:
    """How many stored posts and articles the search index does not have yet."""
    sql = """SELECT count(*) FROM posts
        WHERE seq > (SELECT CAST(value AS BIGINT) FROM facts WHERE name = :cursor)"""
    return int((await app.store.database.fetch(sql, {"cursor": CURSOR}))[0][0])


def a_post(source: Source, number: int) -> Post:
    rng = Random(f"{source.id} {number}")  # different texts: the same would be one story
    body = " ".join(f"word{rng.randrange(VOCABULARY)}" for _ in range(WORDS))
    digest = content_hash(body)
    at = source.created_at + timedelta(seconds=number)
    return Post(
        id=timed_id(at, source.id, digest),
        source_id=source.id,
        title=f"Level {number}",
        body=body,
        url=f"https://example.org/{source.id}/{number}",
        published_at=at,
        author="Ada",
        content_hash=digest,
        created_at=at,
    )


@contextlib.asynccontextmanager
async def serving(url: str, folder: Path) -> AsyncIterator[Served]:
    """`headwater serve` as a separate process; its log is discarded."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {
        **os.environ,
        "APP__DATABASE_URL": url,
        "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
        "APP__SERVER__PORT": str(port),
    }
    command = [sys.executable, "-m", "headwater", "serve"]
    with subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.DEVNULL) as process:
        try:
            await is_ready(port)
            yield Served(f"http://127.0.0.1:{port}", process.pid)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 60) == 0
        finally:
            process.kill()


async def is_ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            assert time.monotonic() < deadline, "the server does not come up"
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return


async def routes_there(session: aiohttp.ClientSession) -> dict[str, RouteLatency]:
    """The routes of this version."""
    found = {}
    for name, path in ROUTES.items():
        async with session.get(spelled(path, 0)) as answer:
            if answer.status == 200:
                found[name] = RouteLatency(path)
            else:
                print(f"left out: {name} (status {answer.status})")
    return found


async def send_requests(
    session: aiohttp.ClientSession,
    routes: dict[str, RouteLatency],
    seconds: float,
    rate: float,
    sources: int,
) -> None:
    """Send requests to all routes in turn at a constant rate, independent of the responses."""
    started = time.perf_counter()
    waiting = []
    for n in range(int(seconds * rate)):
        asked = list(routes.values())[n % len(routes)]
        due = started + n / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        number = n * 7919 % sources
        waiting.append(asyncio.create_task(one(session, asked, number, due)))
    await asyncio.gather(*waiting)


async def one(session: aiohttp.ClientSession, asked: RouteLatency, number: int, due: float) -> None:
    async with session.get(spelled(asked.path, number)) as answer:
        body = await answer.read()
        assert answer.status == 200, (asked.path, answer.status, body)
    asked.milliseconds.append((time.perf_counter() - due) * 1000)


def spelled(path: str, number: int) -> str:
    few = number % (POSTS // POSTS_PER_SOURCE)
    return path.format(n=number, few=few, host=loopback_web.address(number % HOSTS))


async def polls_so_far(session: aiohttp.ClientSession) -> float:
    """All finished polls; none may have failed."""
    assert await number(session, 'headwater_polls_total{outcome="failed",type="rss"}') == 0
    return await number(session, 'headwater_polls_total{outcome="unchanged",type="rss"}')


async def number(session: aiohttp.ClientSession, sample: str) -> float:
    async with session.get("/metrics") as answer:
        text = await answer.text()
    found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    assert found is not None, sample
    return float(found[1])


async def check(app: App, sources: int, polls: int) -> None:
    """Counted polls must be stored, and none may have failed."""
    counts = await app.store.source_counts.by_health()
    assert counts[Health.OK] + counts[Health.NEW] == sources == sum(counts.values()), counts
    sql = "SELECT count(*), count(DISTINCT source_id) FROM polls WHERE outcome = 'unchanged'"
    stored, polled = (await app.store.database.read(lambda s: s.fetch(sql)))[0]
    assert stored >= polls, (stored, polls)
    assert polled == stored, "a source was polled twice within its interval"


async def switch(session: aiohttp.ClientSession, *, paused: bool) -> None:
    async with session.put("/api/scheduler", json={"paused": paused}) as answer:
        assert answer.status == 200, answer.status


def stolen_seconds() -> float:
    """CPU time that the hypervisor gave to other machines, of all cores."""
    fields = Path("/proc/stat").read_text().split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def together(routes: dict[str, RouteLatency]) -> RouteLatency:
    return RouteLatency("", [ms for asked in routes.values() for ms in asked.milliseconds])


def show(routes: dict[str, RouteLatency], polls_per_second: float, left: float) -> None:
    print(f"{'':22}{'requests':>9}{'p50':>8}{'p95':>8}{'p99':>8}{'max':>8}  ms")
    for name, asked in {**routes, "all": together(routes)}.items():
        cells = [asked.at(share) for share in (0.5, 0.95, 0.99, 1)]
        print(f"{name:22}{len(asked.milliseconds):9}" + "".join(f"{cell:8.1f}" for cell in cells))
    print(f"polls at the same time: {polls_per_second:.0f}/s; still due at the end: {left:,.0f}")
    if not left:
        print("not enough sources: use more of them, or fewer seconds")


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure and print one table."""
    defaults = (20.0, 50.0, 60_000.0, 0.0)
    seconds, rate, sources, unindexed = (*map(float, arguments), *defaults[len(arguments) :])
    print(f"{int(sources):,} sources on {HOSTS:,} hosts, all due, all 304; "
          f"{rate:g} requests a second for {seconds:g} s; {os.cpu_count()} cores")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, loopback_web.running(WEB_PORT, HOSTS):
        uvloop.run(measure(seconds, rate, int(sources), int(unindexed), Path(folder)))


if __name__ == "__main__":
    main()
