"""Failures of workers and databases, run with real processes, and their measured effects.

Tests assert these numbers; `python -m bench.cluster_failures` prints them as a table.
"""

import asyncio
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import psycopg

from headwater.app import App, open_app
from headwater.model import Source
from headwater.rules.shards import shard_of
from headwater.settings import load_settings
from tests.cluster.recording_web import RecordedRequest, RecordingWeb, a_web
from tests.cluster.worker_processes import (
    WorkerProcesses,
    add_due,
    contact_of,
    number,
    stored_polls,
    until,
)
from tests.postgres import PostgresServer

HOSTS = [f"127.30.0.{n}" for n in range(1, 41)]
LEASE_SECONDS = 10  # a heartbeat every third of it: a busy machine must not miss three of them
_FIRST_TURN_SECONDS = 0.5
LOST = "[Cluster] shards were taken over by other workers"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run, as recorded by the web and the database."""

    polls: int
    double_fetches: int
    stored_twice: int
    lost: int
    overlaps: int
    too_soon: int
    in_flight: int = 0  # requested but not stored at the failure: these may be requested again
    take_over_seconds: float | None = None  # until the last shard was polled again
    remarks: str = ""

    def faults(self, *, take_over_limit: float = 60.0) -> list[str]:
        """Violations of the requirements; a take-over takes less than a minute (K8)."""
        found = {
            "fetched twice": self.double_fetches > self.in_flight,
            "stored twice": self.stored_twice,
            "lost": self.lost,
            "overlaps": self.overlaps,
            "requested too soon": self.too_soon,
            "taken over too late": (self.take_over_seconds or 0) > take_over_limit,
        }
        return [what for what, is_so in found.items() if is_so]


@dataclass
class ClusterRun:
    """Workers that poll a recording web, with sources that are all due once."""

    app: App
    web: RecordingWeb
    processes: WorkerProcesses
    interval_minutes: int
    sources: list[Source] = field(default_factory=list)
    failed_at: float | None = None
    in_flight: int | None = None
    struck_at: float = 0.0
    victim: bytes = b""  # its name in the User-Agent
    woke_at: float = inf
    begun: frozenset[str] = frozenset()  # URLs it had requested by then
    stored: frozenset[str] = frozenset()  # URLs at the time of the failure
    shards: Collection[int] = ()  # that another worker must take over
    delays: dict[str, int] = field(default_factory=dict)  # of hosts with a different delay

    async def add(self, hosts: list[str], each: int, delay_seconds: int | None = None) -> None:
        """Make some more sources due."""
        first = len(self.sources)
        urls = urls_of(self.web, hosts, each, first // len(hosts))
        self.sources += await add_due(
            self.app,
            urls,
            interval_minutes=self.interval_minutes,
            first=first,
            delay_seconds=delay_seconds,
        )
        if delay_seconds is not None:
            self.delays.update(dict.fromkeys(hosts, delay_seconds))

    async def shards_of(self, worker: "subprocess.Popen[bytes]") -> set[int]:
        """The shards that a worker has open."""
        sql = f"""SELECT shard FROM shards WHERE worker IN
            (SELECT id FROM workers WHERE pid = {worker.pid})"""
        return {row[0] for row in await self.app.store.database.fetch(sql)}

    async def inject_failure(
        self, victim: "subprocess.Popen[bytes]", how: signal.Signals | None = None
    ) -> None:
        """Apply the failure to a worker and record its open requests and shards.

        `how`: None if the caller applies it.
        """
        self.shards = await self.shards_of(victim)
        self.failed_at = self.struck_at = time.monotonic()
        if how is not None:
            victim.send_signal(how)
        if how is signal.SIGKILL:
            victim.wait()
        self.victim = contact_of(self.processes.workers.index(victim)).encode()
        sql = "SELECT DISTINCT s.url FROM polls p JOIN sources s ON s.id = p.source_id"
        rows = await self.app.store.database.read(lambda s: s.fetch(sql))
        self.stored = frozenset(row[0].partition("//")[2] for row in rows)

    async def kill_with_requests_open(self, victim: "subprocess.Popen[bytes]") -> None:
        """Kill a worker that waits for responses, once all others have started."""
        self.web.hold()
        await until(lambda: sum(self.web.open_now.values()) > 5, "no request was open")
        await self.all_live()
        await self.inject_failure(victim, signal.SIGKILL)
        self.web.responding.set()

    async def all_live(self) -> None:
        """Wait until every started worker is live."""

        async def live() -> bool:
            return await number(self.app, "SELECT count(*) FROM workers") == len(
                self.processes.workers
            )

        await until(live, "not all started")

    async def all_have_shards(self) -> None:
        """Wait until every started worker has its share of the shards."""
        workers = len(self.processes.workers)

        async def shared() -> bool:
            sql = "SELECT count(*) FROM shards WHERE worker IS NOT NULL GROUP BY worker"
            rows = await self.app.store.database.fetch(sql)
            return sorted(row[0] for row in rows)[:1] == [256 // workers] and len(rows) == workers

        await until(shared, "the shards were not shared")

    async def all_stored(self) -> None:
        """Wait until every due source is stored."""

        async def stored() -> bool:
            sql = "SELECT count(DISTINCT source_id) FROM polls"
            return await number(self.app, sql) >= len(self.sources)

        await until(stored, "not all were stored")

    async def record(self, remarks: str = "") -> RunResult:
        """The result of the run."""
        sql = "SELECT count(*), count(DISTINCT source_id) FROM polls"
        polls, polled = (await self.app.store.database.read(lambda s: s.fetch(sql)))[0]
        return RunResult(
            polls=polls,
            double_fetches=repeated_requests(self.web).total(),
            stored_twice=polls - polled,
            lost=len(self.sources) - polled,
            overlaps=len(self.web.overlaps),
            too_soon=sum(self._too_soon(host) for host in self.web.recorded),
            in_flight=self._left_in_flight() if self.in_flight is None else self.in_flight,
            take_over_seconds=self._take_over_seconds(),
            remarks=remarks,
        )

    def _left_in_flight(self) -> int:
        """How many URLs a failed worker had requested and not stored.

        The web may have read its last requests a moment later.
        """
        if not self.victim:
            return 0
        asked = {
            self._url(host, one)
            for host, all_ in self.web.recorded.items()
            for one in all_
            if self.victim in one.by and (one.began < self.woke_at or self._was_sent(host, one))
        }
        return len(asked - self.stored)

    def _was_sent(self, host: str, one: RecordedRequest) -> bool:
        """Whether a request of a resumed worker was sent before it was stopped.

        A stopped event loop sends the bytes of its current iteration when it is resumed.
        """
        in_time = self.woke_at <= one.began < self.woke_at + _FIRST_TURN_SECONDS
        return in_time and self.victim in one.by and self._url(host, one) in self.begun

    def _url(self, host: str, one: RecordedRequest) -> str:
        return f"{host}:{self.web.port}{one.path}"

    def _too_soon(self, host: str) -> int:
        """How often a host was requested before its delay was over."""
        delay = self.delays.get(host, self.processes.delay_seconds)
        sent = [one for one in self.web.recorded[host] if self._was_sent(host, one)]
        return sum(pause < delay for pause in self.web.pauses(host, sent))

    def _take_over_seconds(self) -> float | None:
        """Seconds from the failure until the last abandoned shard was polled again."""
        if self.failed_at is None:
            return None
        again: dict[int, float] = {}
        for host, all_ in self.web.recorded.items():
            shard = shard_of(host)
            for one in all_:
                if host in self.delays:
                    continue  # it is not requested at once, whichever worker has its shard
                if shard in self.shards and one.began > self.failed_at:
                    again[shard] = min(again.get(shard, one.began), one.began)
        return max(again.values(), default=self.failed_at) - self.failed_at


def urls_of(web: RecordingWeb, hosts: list[str], each: int, first: int = 0) -> list[str]:
    """`count` URLs of each of these hosts."""
    return [f"http://{host}:{web.port}/{n}" for n in range(first, first + each) for host in hosts]


def longer_than(seconds: float, log: str) -> frozenset[str]:
    """URLs without scheme whose polls took longer."""
    logged = re.findall(r"\[Polling\].* url=http://(\S+) .*\bms=(\d+)", log)
    return frozenset(url for url, ms in logged if int(ms) >= 1000 * seconds)


def repeated_requests(web: RecordingWeb) -> Counter[str]:
    """How many requests repeated an earlier URL."""
    return web.request_counts() - Counter(dict.fromkeys(web.request_counts(), 1))


@asynccontextmanager
async def a_cluster_run(
    url: str,
    folder: Path,
    *,
    each: int,
    hosts: list[str] = HOSTS,
    delay_seconds: float = 0.0,
    lease_seconds: float = LEASE_SECONDS,
    interval_minutes: int = 600,
) -> AsyncIterator[ClusterRun]:
    """A database with due sources and a web that serves them, without workers yet."""
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_app(settings) as app, a_web(hosts) as web:
        processes = WorkerProcesses(
            url, folder, lease_seconds=lease_seconds, delay_seconds=delay_seconds
        )
        cluster = ClusterRun(app, web, processes, interval_minutes)
        await cluster.add(hosts, each)
        try:
            yield cluster
        finally:
            processes.stop_all()


async def killed(url: str, folder: Path) -> RunResult:
    """SIGKILL with requests open."""
    async with a_cluster_run(url, folder, each=12, delay_seconds=0.2) as cluster:
        cluster.web.answer_seconds = 0.1
        victim = cluster.processes.start()
        await until(lambda: cluster.web.requests() > 40, "nothing was polled")
        cluster.processes.start()
        await cluster.kill_with_requests_open(victim)
        await cluster.all_stored()
        return await cluster.record(f"lease {LEASE_SECONDS} s")


async def killed_by_default(url: str, folder: Path) -> RunResult:
    """SIGKILL with default settings; two workers remain, some delays exceed the lease."""
    quick, slow = HOSTS[:20], HOSTS[20:26]
    stage_of = a_cluster_run(url, folder, hosts=HOSTS, each=0, delay_seconds=0.2, lease_seconds=30)
    async with stage_of as cluster:
        await cluster.add(quick, 15)
        await cluster.add(slow, 2, 32)
        victim = cluster.processes.start()
        await until(lambda: all(cluster.web.recorded[host] for host in slow), "nothing was polled")
        cluster.processes.start()
        cluster.processes.start()
        await cluster.kill_with_requests_open(victim)
        await cluster.all_stored()
        return await cluster.record("lease 30 s; of 26 hosts 6 have a delay of 32 s")


async def killed_at_a_redirect(url: str, folder: Path) -> RunResult:
    """SIGKILL during a visit to a redirect target that other workers visit next."""
    goal, others = HOSTS[0], HOSTS[1:]
    stage_of = a_cluster_run(url, folder, each=0, delay_seconds=3.0, lease_seconds=30)
    async with stage_of as cluster:
        web = cluster.web
        web.redirects = {host: f"http://{goal}:{web.port}/from-{host}" for host in others}
        victim = cluster.processes.start()
        cluster.processes.start()
        await cluster.all_have_shards()
        theirs = await cluster.shards_of(victim)
        await cluster.add([host for host in others if shard_of(host) in theirs][:6], 1)
        await until(lambda: web.recorded[goal], "no redirect was followed")
        web.hold()
        await until(lambda: web.open_now[goal], "no worker visited it again")
        await cluster.inject_failure(victim, signal.SIGKILL)
        killed_at = time.monotonic()
        web.responding.set()
        await cluster.add([host for host in others if shard_of(host) not in theirs][:6], 1)

        def was_requested_again() -> bool:
            return any(one.began > killed_at for one in web.recorded[goal])

        await until(was_requested_again, "no redirect was followed again")
        again = min(one.began for one in web.recorded[goal] if one.began > killed_at)
        cluster.failed_at = None  # this run does not wait for its shards
        record = await cluster.record(f"requested again {again - killed_at:.1f} s later, delay 3 s")
        soon = again - killed_at < 3.0
        # the web ends the killed worker's request after its death: checked above
        return replace(record, lost=0, too_soon=int(soon))


async def stopped_by_sigterm(url: str, folder: Path) -> RunResult:
    """SIGTERM while hosts respond later than a worker waits; then another worker polls them."""
    slow = HOSTS[:4]
    async with a_cluster_run(url, folder, each=1) as cluster:
        cluster.web.slow.update(dict.fromkeys(slow, 40.0))
        leaving = cluster.processes.start(APP__FETCH__READ_TIMEOUT_SECONDS="60")
        await until(lambda: all(cluster.web.open_now[host] for host in slow), "nothing was polled")
        started = time.monotonic()
        await cluster.inject_failure(leaving, signal.SIGTERM)
        assert await asyncio.to_thread(leaving.wait, 60) == 0
        took = time.monotonic() - started
        assert all(cluster.web.open_now[host] for host in slow), "it waited for all responses"
        released = f"SELECT count(*) FROM shards WHERE worker LIKE '%/{leaving.pid}/%'"
        assert await number(cluster.app, released) == 0, "it did not release its shards"
        await until(lambda: not sum(cluster.web.open_now.values()), "the web still responds")
        cluster.web.slow.clear()
        cluster.processes.start()
        await cluster.all_stored()
        cluster.failed_at = None
        return await cluster.record(f"it ended after {took:.0f} s; responses take 40 s")


async def suspended(url: str, folder: Path) -> RunResult:
    """SIGSTOP for longer than the lease."""
    async with a_cluster_run(url, folder, each=20, delay_seconds=0.2) as cluster:
        app = cluster.app
        sleeper = cluster.processes.start()
        await until(lambda: cluster.web.requests() > 40, "nothing was polled")
        cluster.processes.start()
        await cluster.inject_failure(sleeper, signal.SIGSTOP)

        async def resume() -> bool:
            released = f"SELECT count(*) FROM workers WHERE pid = {sleeper.pid}"
            others = f"SELECT coalesce(max(polls), 0) FROM workers WHERE pid <> {sleeper.pid}"
            return await number(app, released) == 0 and await number(app, others) > 20

        await until(resume, "no worker took over")
        cluster.woke_at = time.monotonic()
        sleeper.send_signal(signal.SIGCONT)
        await until(
            lambda: LOST in cluster.processes.log(0).read_text(),
            "the suspended worker did not notice",
        )
        await cluster.all_stored()
        slept_seconds = cluster.woke_at - cluster.struck_at
        cluster.begun = longer_than(slept_seconds, cluster.processes.log(0).read_text())
        return await cluster.record(f"lease {LEASE_SECONDS} s; it was resumed")


async def database_restarted(server: PostgresServer, folder: Path, seconds: float) -> RunResult:
    """PostgreSQL stopped and started again."""
    stage_of = a_cluster_run(
        server.new_database(), folder, each=12, delay_seconds=0.2, lease_seconds=10
    )
    async with stage_of as cluster:
        workers = [cluster.processes.start(), cluster.processes.start()]
        await until(lambda: cluster.web.requests() > 40, "nothing was polled")
        stored = await stored_polls(cluster.app)
        server.stop()
        await asyncio.sleep(seconds)  # the outage itself
        # nothing can be stored during the outage, and no host is requested twice at a time
        cluster.in_flight = min(cluster.web.requests() - stored, len(HOSTS))
        server.start()
        cluster.failed_at, cluster.shards = time.monotonic(), range(256)
        await cluster.all_stored()
        assert [worker.poll() for worker in workers] == [None, None], "a worker gave up"
        acquired = await cluster.app.store.database.acquire_poll_lock()
        assert not acquired, "the workers lost their right to poll with the server"
        return await cluster.record("counted from its return")


async def abandoned(url: str, folder: Path) -> RunResult:
    """Shards that belong to a worker of which nothing else is left."""
    async with a_cluster_run(url, folder, each=2) as cluster:
        await cluster.app.store.database.execute("UPDATE shards SET worker = 'gone/1/1'")
        cluster.failed_at, cluster.shards = time.monotonic(), range(256)
        cluster.processes.start()
        await cluster.all_stored()
        return await cluster.record("all 256 shards; counted from the worker's start")


async def sessions_cut(url: str, folder: Path, spared: str = "none") -> RunResult:
    """A worker whose sessions are cut and that gets no new ones, beside a sound one.

    `spared`: the sessions whose last statement contains this are left to it.
    """
    async with a_cluster_run(url, folder, each=2) as cluster:
        role = f"role_of_{url.split('?')[0].rpartition('/')[2]}"
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {role} LOGIN")
            admin.execute(f"GRANT {admin.info.user} TO {role}")
            theirs = url.replace(f"//{admin.info.user}", f"//{role}")
            rare = {"APP__SOURCE__TICK_SECONDS": "20"}  # a take-over does not wait for a tick
            victim = cluster.processes.start(APP__DATABASE_URL=theirs, **rare)
            cluster.processes.start(**rare)
            await cluster.all_stored()
            await cluster.all_have_shards()
            await cluster.inject_failure(victim)
            admin.execute(f"ALTER ROLE {role} NOLOGIN")
            admin.execute(
                f"""SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                WHERE usename = '{role}' AND query NOT LIKE '%{spared}%'"""
            )
            await cluster.add(HOSTS, 2)
            await cluster.all_stored()
            assert victim.poll() is None, "it gave up"
            admin.execute(f"ALTER ROLE {role} LOGIN")
            await cluster.all_have_shards()  # it works again
        return await cluster.record(f"lease {LEASE_SECONDS} s; all polled by the other worker")


async def table_locked(url: str, folder: Path) -> RunResult:
    """The table of sources is locked for longer than the lease."""
    async with a_cluster_run(url, folder, each=12, delay_seconds=0.2) as cluster:
        for _ in range(2):
            cluster.processes.start()
        await until(lambda: cluster.web.requests() > 40, "nothing was polled")
        with psycopg.connect(url) as session:
            session.execute("LOCK TABLE sources IN ACCESS EXCLUSIVE MODE")
            await asyncio.sleep(20)  # the failure itself
        cluster.failed_at, cluster.shards = time.monotonic(), range(256)
        await cluster.all_stored()
        logs = [cluster.processes.log(worker) for worker in range(2)]
        for text in ("is waiting for the database", "responds to the scheduler again"):
            is_logged = partial(_is_logged, text, logs)
            await until(is_logged, f"not logged: {text}")
        lost = "SELECT coalesce(sum(leases_lost), 0) FROM workers"
        leases = f"lease {LEASE_SECONDS} s; {await number(cluster.app, lost)} leases lost"
        return await cluster.record(f"locked for 20 s, {leases}; counted from its end")


def _is_logged(text: str, logs: Collection[Path]) -> bool:
    return any(text in log.read_text() for log in logs)


async def drained(url: str, folder: Path) -> RunResult:
    """A worker is drained under load, then stopped."""
    async with a_cluster_run(url, folder, each=10, delay_seconds=0.2, lease_seconds=60) as cluster:
        leaving = cluster.processes.start()
        cluster.processes.start()
        await cluster.all_have_shards()
        await cluster.inject_failure(leaving)
        cluster.in_flight = 0  # it stores what it fetched: nothing is requested again
        (name,) = await cluster.app.store.database.fetch(
            "SELECT id FROM workers WHERE pid = :pid", {"pid": leaving.pid}
        )
        started = time.monotonic()
        run = cluster.processes.command_output
        assert "is drained" in await asyncio.to_thread(run, "cluster", "drain", name[0])
        took = time.monotonic() - started
        assert "draining" in await asyncio.to_thread(run, "cluster")
        await cluster.all_stored()
        held = f"SELECT count(*) FROM shards WHERE worker = '{name[0]}'"
        assert await number(cluster.app, held) == 0
        await asyncio.to_thread(run, "cluster", "drain", name[0], "--undo")
        await cluster.all_have_shards()
        return await cluster.record(f"its last shard was handed over {took:.1f} s later")


async def long_delay(url: str, folder: Path) -> RunResult:
    """A delay longer than the lease, with a crash during it."""
    stage_of = a_cluster_run(
        url, folder, hosts=HOSTS[:6], each=2, delay_seconds=15.0, lease_seconds=8
    )
    async with stage_of as cluster:
        victim = cluster.processes.start()
        await until(lambda: cluster.web.requests() >= 6, "nothing was polled")
        cluster.processes.start()
        await cluster.inject_failure(victim, signal.SIGKILL)
        await cluster.all_stored()
        return await cluster.record("lease 8 s, delay 15 s")


async def slow_host(url: str, folder: Path) -> RunResult:
    """A host that responds after 45 s, in a shard with three others."""
    every = [f"127.31.{a}.{b}" for a in range(8) for b in range(1, 250)]
    slow, *quick = [host for host in every if shard_of(host) == shard_of(every[0])][:4]
    async with a_cluster_run(url, folder, hosts=[slow, *quick], each=2) as cluster:
        cluster.web.slow[slow] = 45.0
        cluster.processes.start(APP__FETCH__READ_TIMEOUT_SECONDS="60")
        await until(lambda: cluster.web.open_now[slow], "nothing was polled")
        started = time.monotonic()

        def others_done(times: int) -> bool:
            return all(len(cluster.web.recorded[host]) == times for host in quick)

        await until(lambda: others_done(2), "they waited for the slow host")
        took = time.monotonic() - started
        remarks = f"other hosts of the shard were done {took:.1f} s after the request to it"
        await cluster.add(quick, 1)
        await until(lambda: others_done(3), "they waited for the slow host to finish")
        assert not cluster.web.recorded[slow], "the slow host was finished first"
        cluster.web.slow.clear()
        await cluster.all_stored()
        return await cluster.record(remarks)


async def wrong_clock(url: str, folder: Path) -> RunResult:
    """A worker whose clock is an hour ahead, beside one with the correct time."""
    stage_of = a_cluster_run(
        url,
        folder,
        hosts=HOSTS[:10],
        each=4,
        delay_seconds=0.2,
        lease_seconds=60,
        interval_minutes=30,
    )
    async with stage_of as cluster:
        app = cluster.app
        cluster.processes.start("tests.cluster.worker_with_wrong_clock")
        cluster.processes.start()
        await cluster.all_stored()
        ticked = "SELECT min(ticked_at) FROM workers"
        before = await number(app, ticked)

        async def more_ticks() -> bool:
            return await number(app, ticked) >= before + 4000

        await until(more_ticks, "no further ticks")  # an hour ahead, all would be due again
        in_a_minute = "(extract(epoch FROM now()) + 60) * 1000"
        ahead = f"SELECT count(*) FROM sources WHERE last_polled > {in_a_minute}"
        assert await number(app, ahead) == 0
        return await cluster.record("one hour ahead")


async def two_tickers(url: str, folder: Path) -> RunResult:
    """Two workers that tick ten times a second at the same time."""
    async with a_cluster_run(url, folder, each=8, delay_seconds=0.1, lease_seconds=60) as cluster:
        cluster.processes.start("tests.cluster.worker_ticking_often")
        cluster.processes.start("tests.cluster.worker_ticking_often")
        await cluster.all_stored()
        return await cluster.record("ten ticks a second in each of two workers")


async def added_and_removed(url: str, folder: Path) -> RunResult:
    """A third worker is added under load, then the first one is stopped."""
    stage_of = a_cluster_run(url, folder, each=10, delay_seconds=0.2, lease_seconds=60)
    async with stage_of as cluster:
        leaving = cluster.processes.start()
        cluster.processes.start()
        await until(lambda: cluster.web.requests() > 40, "nothing was polled")
        third = cluster.processes.start()

        async def is_polling() -> bool:
            if cluster.web.requests() > len(cluster.sources) - 100:
                await cluster.add(HOSTS, 5)  # the load continues
            mine = f"SELECT count(*) FROM workers WHERE pid = {third.pid} AND polls > 20"
            return await number(cluster.app, mine) == 1

        await until(is_polling, "the new worker polled nothing")
        await cluster.add(HOSTS, 5)
        await cluster.inject_failure(leaving, signal.SIGTERM)
        cluster.in_flight = 0  # it stores what it fetched: nothing is requested again
        assert await asyncio.to_thread(leaving.wait, 60) == 0  # the web responds again
        await cluster.all_stored()
        return await cluster.record("lease 60 s, not waited for")


async def redirect_chain(url: str, folder: Path) -> RunResult:
    """Three polls that are redirected over twenty hosts to a slow one."""
    middle, delay, answer = HOSTS[:20], 3.0, 5.0
    first = [[f"127.30.{1 + k}.{n}" for n in range(1, 21)] for k in range(3)]
    last = [[f"127.30.{11 + k}.{n}" for n in range(1, 21)] for k in range(3)]
    hosts = [*middle, *(host for some in (*first, *last) for host in some)]
    stage_of = a_cluster_run(
        url, folder, hosts=hosts, each=0, delay_seconds=delay, lease_seconds=30
    )
    async with stage_of as cluster:
        web = cluster.web
        for n, goal in enumerate(middle):
            for k in range(3):
                web.redirects[first[k][n]] = f"http://{goal}:{web.port}/{k}"
                web.redirects[f"{goal}/{k}"] = f"http://{last[k][n]}:{web.port}/"
                web.slow[last[k][n]] = answer
        for _ in range(3):
            cluster.processes.start()
        await cluster.all_live()
        await cluster.add(first[0], 1)
        await until(lambda: all(web.recorded[host] for host in middle), "no redirect was followed")
        passed = max(web.recorded[host][0].ended for host in middle)
        await cluster.add(first[1], 1)
        # by the time the first are stored, others have visited the same hosts
        await until(lambda: time.monotonic() > passed + answer - 0.05, "its time is not over yet")
        await cluster.add(first[2], 1)
        await cluster.all_stored()
        return await cluster.record(
            "delay 3 s; each poll is redirected to a host that responds after 5 s"
        )


async def stopped_during_database_outage(server: PostgresServer, folder: Path) -> RunResult:
    """SIGTERM while PostgreSQL is stopped."""
    stage_of = a_cluster_run(
        server.new_database(), folder, each=12, delay_seconds=0.2, lease_seconds=30
    )
    async with stage_of as cluster:
        leaving = cluster.processes.start()
        await until(lambda: cluster.web.requests() > 40, "nothing was polled")
        stored = await stored_polls(cluster.app)
        server.stop()
        started = time.monotonic()
        leaving.send_signal(signal.SIGTERM)
        await asyncio.to_thread(leaving.wait, 60)
        took = time.monotonic() - started
        cluster.in_flight = min(cluster.web.requests() - stored, len(HOSTS))
        server.start()
        cluster.processes.start()
        await cluster.all_stored()
        return await cluster.record(f"it ended after {took:.0f} s")


async def single_process_and_worker(url: str, folder: Path, first: str, then: str) -> RunResult:
    """A single polling process is killed and a worker follows, or the reverse."""
    host, delay = HOSTS[0], 6.0
    stage_of = a_cluster_run(url, folder, hosts=[host], each=2, delay_seconds=delay)
    async with stage_of as cluster:
        cluster.web.hold()
        victim = cluster.processes.start(command=first)
        await until(lambda: cluster.web.open_now[host], "nothing was polled")
        asked_at = time.monotonic()
        await until(lambda: time.monotonic() > asked_at + delay + 1, "its time is not over yet")
        await cluster.inject_failure(victim, signal.SIGKILL)
        killed_at = time.monotonic()
        cluster.web.responding.set()
        cluster.processes.start(command=then)
        await until(lambda: cluster.web.requests() >= 2, "no process followed")
        pause = time.monotonic() - killed_at
        cluster.failed_at = None
        record = await cluster.record(f"requested again {pause:.1f} s later, delay {delay:.0f} s")
        return replace(record, lost=0, too_soon=int(pause < delay))


async def unlocked(url: str, folder: Path) -> RunResult:
    """The control: workers without locks must be detected by the checks."""
    async with a_cluster_run(url, folder, hosts=HOSTS[:4], each=40) as cluster:
        cluster.web.answer_seconds = 0.3
        for _ in range(3):
            cluster.processes.start("tests.cluster.worker_without_locks")
        await until(lambda: cluster.web.overlaps, "no overlap: the check detects nothing")
        return await cluster.record("stopped at the first overlap")


WORKER_THEN_SERVE = partial(single_process_and_worker, first="worker", then="serve")
SERVE_THEN_WORKER = partial(single_process_and_worker, first="serve", then="worker")
Run = Callable[[str, Path], Coroutine[Any, Any, RunResult]]
RUNS: dict[str, Run] = {
    "SIGKILL, default settings": killed_by_default,
    "SIGKILL with requests open": killed,
    "SIGKILL at a redirect's target": killed_at_a_redirect,
    "SIGTERM while hosts are slow": stopped_by_sigterm,
    "SIGSTOP past the lease": suspended,
    "sessions cut and no new ones": sessions_cut,
    "sessions cut but the one of heartbeats": partial(sessions_cut, spared="INTO workers"),
    "the table of sources locked": table_locked,
    "shards of a deleted worker": abandoned,
    "a worker drained under load": drained,
    "a delay longer than the lease, and a crash": long_delay,
    "a slow host in a busy shard": slow_host,
    "a clock that is wrong": wrong_clock,
    "two tickers": two_tickers,
    "a worker added and one removed under load": added_and_removed,
    "redirects that pass the same hosts": redirect_chain,
    "`serve` after a worker's death": WORKER_THEN_SERVE,
    "a worker after the death of `serve`": SERVE_THEN_WORKER,
}
