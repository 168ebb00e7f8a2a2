"""What goes wrong with workers and databases, run for real, and what came of it, in numbers.

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

from headwater.app import App, open_app
from headwater.engine.cluster import SHARD_SECONDS
from headwater.engine.jobs import SCHEMA
from headwater.model import Source
from headwater.rules.shards import shard_of
from headwater.settings import load_settings
from headwater.store.database import Session
from headwater.store.shards import Shards
from tests.cluster.crew import Crew, add_due, contact_of, number, stored_polls, until
from tests.cluster.web import Asked, Web, a_web
from tests.postgres import PostgresServer

HOSTS = [f"127.30.0.{n}" for n in range(1, 41)]
_FIRST_TURN_SECONDS = 0.5
LOST = "[Cluster] shards were taken over by other workers"


@dataclass(frozen=True, slots=True)
class Record:
    """What came of a run, as the web and the database have it."""

    polls: int
    double_fetches: int
    stored_twice: int
    lost: int
    overlaps: int
    too_soon: int
    in_flight: int = 0  # asked and not stored yet when it happened: these may be asked again
    take_over_seconds: float | None = None  # until the last shard was polled again
    told: str = ""

    def faults(self, *, take_over_limit: float = 60.0) -> list[str]:
        """What must not be; a take-over takes less than a minute (K8)."""
        found = {
            "fetched twice": self.double_fetches > self.in_flight,
            "stored twice": self.stored_twice,
            "lost": self.lost,
            "overlaps": self.overlaps,
            "asked too soon": self.too_soon,
            "taken over late": (self.take_over_seconds or 0) > take_over_limit,
        }
        return [what for what, is_so in found.items() if is_so]


@dataclass
class Stage:
    """Workers before a web, with sources that are all due once."""

    app: App
    web: Web
    crew: Crew
    interval_minutes: int
    sources: list[Source] = field(default_factory=list)
    failed_at: float | None = None
    in_flight: int | None = None
    struck_at: float = 0.0
    victim: bytes = b""  # what it calls itself
    woke_at: float = inf
    begun: frozenset[str] = frozenset()  # URLs it polled then, wherever its question was
    stored: frozenset[str] = frozenset()  # URLs, when it happened
    shards: Collection[int] = ()  # that somebody else must take over
    delays: dict[str, int] = field(default_factory=dict)  # of hosts with one of their own

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

    async def strike(self, victim: "subprocess.Popen[bytes]", how: signal.Signals) -> None:
        """Do it to a worker, and note what it leaves behind."""
        theirs = f"""SELECT shard FROM shards WHERE worker IN
            (SELECT id FROM workers WHERE pid = {victim.pid})"""
        rows = await self.app.store.database.read(lambda s: s.fetch(theirs))
        self.shards = {row[0] for row in rows}
        self.failed_at = self.struck_at = time.monotonic()
        victim.send_signal(how)
        if how is signal.SIGKILL:
            victim.wait()
        self.victim = contact_of(self.crew.workers.index(victim)).encode()
        sql = "SELECT DISTINCT s.url FROM polls p JOIN sources s ON s.id = p.source_id"
        rows = await self.app.store.database.read(lambda s: s.fetch(sql))
        self.stored = frozenset(row[0].partition("//")[2] for row in rows)

    async def strike_with_requests_open(self, victim: "subprocess.Popen[bytes]") -> None:
        """Kill a worker that waits for answers, when all others have started."""
        self.web.hold()
        await until(lambda: sum(self.web.open_now.values()) > 5, "no request was open")
        await self.all_live()
        await self.strike(victim, signal.SIGKILL)
        self.web.answering.set()

    async def all_live(self) -> None:
        """Wait until every worker that was started takes part."""

        async def live() -> bool:
            return await number(self.app, "SELECT count(*) FROM workers") == len(self.crew.workers)

        await until(live, "not all started")

    async def all_stored(self) -> None:
        """Wait until everything that was due is stored."""

        async def stored() -> bool:
            sql = "SELECT count(DISTINCT source_id) FROM polls"
            return await number(self.app, sql) >= len(self.sources)

        await until(stored, "not all were stored")

    async def record(self, told: str = "") -> Record:
        """What came of it."""
        sql = "SELECT count(*), count(DISTINCT source_id) FROM polls"
        polls, polled = (await self.app.store.database.read(lambda s: s.fetch(sql)))[0]
        return Record(
            polls=polls,
            double_fetches=asked_again(self.web).total(),
            stored_twice=polls - polled,
            lost=len(self.sources) - polled,
            overlaps=len(self.web.overlaps),
            too_soon=sum(self._too_soon(host) for host in self.web.asked),
            in_flight=self._left_in_flight() if self.in_flight is None else self.in_flight,
            take_over_seconds=self._take_over_seconds(),
            told=told,
        )

    def _left_in_flight(self) -> int:
        """How many URLs a victim had asked for and not stored when it happened.

        The web may have read its last questions a moment later.
        """
        if not self.victim:
            return 0
        asked = {
            self._url(host, one)
            for host, all_ in self.web.asked.items()
            for one in all_
            if self.victim in one.by and (one.began < self.woke_at or self._was_sent(host, one))
        }
        return len(asked - self.stored)

    def _was_sent(self, host: str, one: Asked) -> bool:
        """Whether a question of who woke up again was on its way before.

        A loop that is stopped sends what was written in that turn when it goes on.
        """
        in_time = self.woke_at <= one.began < self.woke_at + _FIRST_TURN_SECONDS
        return in_time and self.victim in one.by and self._url(host, one) in self.begun

    def _url(self, host: str, one: Asked) -> str:
        return f"{host}:{self.web.port}{one.path}"

    def _too_soon(self, host: str) -> int:
        """How often a host was asked before its delay was over."""
        delay = self.delays.get(host, self.crew.delay_seconds)
        sent = [one for one in self.web.asked[host] if self._was_sent(host, one)]
        return sum(pause < delay for pause in self.web.pauses(host, sent))

    def _take_over_seconds(self) -> float | None:
        """From the failure until the last shard that was left behind was polled again."""
        if self.failed_at is None:
            return None
        again: dict[int, float] = {}
        for host, all_ in self.web.asked.items():
            shard = shard_of(host)
            for one in all_:
                if host in self.delays:
                    continue  # it is not asked at once, whoever has its shard
                if shard in self.shards and one.began > self.failed_at:
                    again[shard] = min(again.get(shard, one.began), one.began)
        return max(again.values(), default=self.failed_at) - self.failed_at


def urls_of(web: Web, hosts: list[str], each: int, first: int = 0) -> list[str]:
    """So many URLs of each of these hosts."""
    return [f"http://{host}:{web.port}/{n}" for n in range(first, first + each) for host in hosts]


def longer_than(seconds: float, log: str) -> frozenset[str]:
    """URLs whose polls took longer, without the scheme."""
    told = re.findall(r"\[Polling\].* url=http://(\S+) .*\bms=(\d+)", log)
    return frozenset(url for url, ms in told if int(ms) >= 1000 * seconds)


def asked_again(web: Web) -> Counter[str]:
    """How often URLs were asked for beyond the first time."""
    return web.times_asked() - Counter(dict.fromkeys(web.times_asked(), 1))


@asynccontextmanager
async def a_stage(
    url: str,
    folder: Path,
    *,
    each: int,
    hosts: list[str] = HOSTS,
    delay_seconds: float = 0.0,
    lease_seconds: float = 4,
    interval_minutes: int = 600,
) -> AsyncIterator[Stage]:
    """A database with due sources, a web that has them, and nobody at work yet."""
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_app(settings) as app, a_web(hosts) as web:
        crew = Crew(url, folder, lease_seconds=lease_seconds, delay_seconds=delay_seconds)
        stage = Stage(app, web, crew, interval_minutes)
        await stage.add(hosts, each)
        try:
            yield stage
        finally:
            crew.dismiss()


async def killed(url: str, folder: Path) -> Record:
    """SIGKILL with requests open."""
    async with a_stage(url, folder, each=12, delay_seconds=0.2) as stage:
        stage.web.answer_seconds = 0.1
        victim = stage.crew.start()
        await until(lambda: stage.web.requests() > 40, "nothing was polled")
        stage.crew.start()
        await stage.strike_with_requests_open(victim)
        await stage.all_stored()
        return await stage.record("lease 4 s")


async def killed_by_default(url: str, folder: Path) -> Record:
    """SIGKILL with default settings; two go on, some hosts have a delay longer than the lease."""
    quick, slow = HOSTS[:20], HOSTS[20:26]
    stage_of = a_stage(url, folder, hosts=HOSTS, each=0, delay_seconds=0.2, lease_seconds=30)
    async with stage_of as stage:
        await stage.add(quick, 15)
        await stage.add(slow, 2, 32)
        victim = stage.crew.start()
        await until(lambda: all(stage.web.asked[host] for host in slow), "nothing was polled")
        stage.crew.start()
        stage.crew.start()
        await stage.strike_with_requests_open(victim)
        await stage.all_stored()
        return await stage.record("lease 30 s; of 26 hosts 6 have a delay of 32 s")


async def killed_at_a_redirect(url: str, folder: Path) -> Record:
    """SIGKILL while a redirect's target is visited, to which others are sent right after."""
    goal, sent, sent_later = HOSTS[0], HOSTS[1:13], HOSTS[13:20]
    stage_of = a_stage(url, folder, each=0, delay_seconds=3.0, lease_seconds=30)
    async with stage_of as stage:
        web = stage.web
        web.redirects = {
            host: f"http://{goal}:{web.port}/from-{host}" for host in (*sent, *sent_later)
        }
        await stage.add(sent, 1)
        victim = stage.crew.start()
        await until(lambda: web.asked[goal], "nobody was sent there")
        stage.crew.start()
        await stage.all_live()
        web.hold()
        await until(lambda: web.open_now[goal], "nobody came again")
        await stage.strike(victim, signal.SIGKILL)
        killed_at = time.monotonic()
        web.answering.set()
        fresh = [host for host in sent_later if shard_of(host) not in stage.shards]
        await stage.add(fresh, 1)

        def was_asked_again() -> bool:
            return any(one.began > killed_at for one in web.asked[goal])

        await until(was_asked_again, "nobody was sent there again")
        again = min(one.began for one in web.asked[goal] if one.began > killed_at)
        stage.failed_at = None  # its shards are not waited for here
        record = await stage.record(f"asked again {again - killed_at:.1f} s later, delay 3 s")
        soon = again - killed_at < 3.0
        # the web ends the dead one's request after the death: judged above
        return replace(record, lost=0, too_soon=int(soon))


async def told_to_stop(url: str, folder: Path) -> Record:
    """SIGTERM while hosts take longer than a worker waits for; then another one asks them."""
    slow = HOSTS[:4]
    async with a_stage(url, folder, each=1, lease_seconds=4) as stage:
        stage.web.slow.update(dict.fromkeys(slow, 40.0))
        leaving = stage.crew.start(APP__FETCH__READ_TIMEOUT_SECONDS="60")
        await until(lambda: all(stage.web.open_now[host] for host in slow), "nothing was polled")
        started = time.monotonic()
        await stage.strike(leaving, signal.SIGTERM)
        assert await asyncio.to_thread(leaving.wait, 60) == 0
        took = time.monotonic() - started
        assert all(stage.web.open_now[host] for host in slow), "it waited for all answers"
        buried = f"SELECT count(*) FROM shards WHERE worker LIKE '%/{leaving.pid}/%'"
        assert await number(stage.app, buried) == 0, "it left shards behind"
        await until(lambda: not sum(stage.web.open_now.values()), "the web still answers")
        stage.web.slow.clear()
        stage.crew.start()
        await stage.all_stored()
        stage.failed_at = None
        return await stage.record(f"it was gone after {took:.0f} s; answers take 40 s")


async def slept(url: str, folder: Path) -> Record:
    """SIGSTOP past the lease."""
    async with a_stage(url, folder, each=20, delay_seconds=0.2) as stage:
        app = stage.app
        sleeper = stage.crew.start()
        await until(lambda: stage.web.requests() > 40, "nothing was polled")
        stage.crew.start()
        await stage.strike(sleeper, signal.SIGSTOP)

        async def goes_on() -> bool:
            buried = f"SELECT count(*) FROM workers WHERE pid = {sleeper.pid}"
            others = f"SELECT coalesce(max(polls), 0) FROM workers WHERE pid <> {sleeper.pid}"
            return await number(app, buried) == 0 and await number(app, others) > 20

        await until(goes_on, "nobody took over")
        stage.woke_at = time.monotonic()
        sleeper.send_signal(signal.SIGCONT)
        await until(lambda: LOST in stage.crew.log(0).read_text(), "the sleeper did not notice")
        await stage.all_stored()
        slept_seconds = stage.woke_at - stage.struck_at
        stage.begun = longer_than(slept_seconds, stage.crew.log(0).read_text())
        return await stage.record("lease 4 s; it woke up again")


async def database_away(server: PostgresServer, folder: Path, seconds: float) -> Record:
    """PostgreSQL stopped and started again."""
    stage_of = a_stage(server.new_database(), folder, each=12, delay_seconds=0.2, lease_seconds=10)
    async with stage_of as stage:
        workers = [stage.crew.start(), stage.crew.start()]
        await until(lambda: stage.web.requests() > 40, "nothing was polled")
        stored = await stored_polls(stage.app)
        server.stop()
        await asyncio.sleep(seconds)  # the outage itself
        # nothing can be stored meanwhile, and no host is asked twice at a time
        stage.in_flight = min(stage.web.requests() - stored, len(HOSTS))
        server.start()
        stage.failed_at, stage.shards = time.monotonic(), range(256)
        await stage.all_stored()
        assert [worker.poll() for worker in workers] == [None, None], "a worker gave up"
        claimed = await stage.app.store.database.try_claim()
        assert not claimed, "their right to poll went with the server: anybody could have it alone"
        return await stage.record("counted from its return")


async def stalled(url: str, folder: Path) -> Record:
    """A dead worker's jobs and the ones that a tick put behind them: a retry would block both."""
    async with a_stage(url, folder, each=2) as stage:
        database = stage.app.store.database
        await Shards(database).prepare_queue(SCHEMA)
        await database.write(_stall)
        stage.failed_at, stage.shards = time.monotonic(), range(256)
        stage.crew.start()
        await stage.all_stored()
        return await stage.record("all 256 shards; counted from the worker's start")


def _stall(session: Session) -> None:
    session.execute(
        """INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args,
            status)
        SELECT 'shards', 'headwater.shard', 'shard:' || n, 'shard:' || n,
            jsonb_build_object('shard', n), CAST(status AS procrastinate_job_status)
        FROM generate_series(0, 255) n, unnest(ARRAY['doing', 'todo']) status"""
    )


async def long_delay(url: str, folder: Path) -> Record:
    """A delay longer than the lease, across a crash."""
    stage_of = a_stage(url, folder, hosts=HOSTS[:6], each=2, delay_seconds=10.0, lease_seconds=3)
    async with stage_of as stage:
        victim = stage.crew.start()
        await until(lambda: stage.web.requests() >= 6, "nothing was polled")
        stage.crew.start()
        await stage.strike(victim, signal.SIGKILL)
        await stage.all_stored()
        return await stage.record("lease 3 s, delay 10 s")


async def slow_host(url: str, folder: Path) -> Record:
    """A host that answers after 45 s, in a shard with three others, before and after its time."""
    every = [f"127.31.{a}.{b}" for a in range(8) for b in range(1, 250)]
    slow, *quick = [host for host in every if shard_of(host) == shard_of(every[0])][:4]
    async with a_stage(url, folder, hosts=[slow, *quick], each=2) as stage:
        stage.web.slow[slow] = 45.0
        stage.crew.start(APP__FETCH__READ_TIMEOUT_SECONDS="60")
        await until(lambda: stage.web.open_now[slow], "nothing was polled")
        started = time.monotonic()

        def others_done(times: int) -> bool:
            return all(len(stage.web.asked[host]) == times for host in quick)

        await until(lambda: others_done(2), "they waited for the slow one")
        told = f"its neighbours were done {time.monotonic() - started:.1f} s after it was asked"
        time_is_up = started + SHARD_SECONDS + 3
        await until(lambda: time.monotonic() > time_is_up, "it is not so late yet")
        await stage.add(quick, 1)  # the job's time is over, and only the slow one keeps it
        await until(lambda: others_done(3), "they waited for the slow one to end")
        assert not stage.web.asked[slow], "the slow host was done first"
        stage.web.slow.clear()
        await stage.all_stored()
        return await stage.record(told)


async def wrong_clock(url: str, folder: Path) -> Record:
    """A worker whose clock is an hour ahead, beside one whose clock is right."""
    stage_of = a_stage(
        url,
        folder,
        hosts=HOSTS[:10],
        each=4,
        delay_seconds=0.2,
        lease_seconds=60,
        interval_minutes=30,
    )
    async with stage_of as stage:
        app = stage.app
        stage.crew.start("tests.cluster.skewed")
        stage.crew.start()
        await stage.all_stored()
        jobs_so_far = "SELECT last_value FROM procrastinate_jobs_id_seq"
        before = await number(app, jobs_so_far)

        async def more_ticks() -> bool:
            return await number(app, jobs_so_far) >= before + 4

        await until(more_ticks, "no further ticks")  # an hour ahead, all would be due again
        in_a_minute = "(extract(epoch FROM now()) + 60) * 1000"
        ahead = f"SELECT count(*) FROM sources WHERE last_polled > {in_a_minute}"
        assert await number(app, ahead) == 0
        return await stage.record("one hour ahead")


async def two_tickers(url: str, folder: Path) -> Record:
    """Two workers that tick ten times a second, at the same time and past the queue."""
    async with a_stage(url, folder, each=8, delay_seconds=0.1, lease_seconds=60) as stage:
        stage.crew.start("tests.cluster.eager")
        stage.crew.start("tests.cluster.eager")
        await stage.all_stored()
        waiting = "SELECT count(*) - count(DISTINCT lock) FROM procrastinate_jobs"
        assert await number(stage.app, f"{waiting} WHERE status = 'todo'") == 0
        return await stage.record("ten ticks a second in each of two workers")


async def added_and_removed(url: str, folder: Path) -> Record:
    """A third worker comes under load, then the first one is told to go."""
    stage_of = a_stage(url, folder, each=10, delay_seconds=0.2, lease_seconds=60)
    async with stage_of as stage:
        few = {"APP__CLUSTER__CONCURRENCY": "8"}  # so that there is work left for a third one
        leaving = stage.crew.start(**few)
        stage.crew.start(**few)
        await until(lambda: stage.web.requests() > 40, "nothing was polled")
        third = stage.crew.start(**few)

        async def takes_part() -> bool:
            if stage.web.requests() > len(stage.sources) - 100:
                await stage.add(HOSTS, 5)  # the load goes on
            mine = f"SELECT count(*) FROM workers WHERE pid = {third.pid} AND polls > 20"
            return await number(stage.app, mine) == 1

        await until(takes_part, "the new one got nothing to do")
        await stage.add(HOSTS, 5)
        await stage.strike(leaving, signal.SIGTERM)
        stage.in_flight = 0  # it stores what it fetched: nothing needs to be asked for again
        assert await asyncio.to_thread(leaving.wait, 60) == 0  # the web goes on answering
        await stage.all_stored()
        return await stage.record("lease 60 s: nobody waits for it")


async def redirect_chain(url: str, folder: Path) -> Record:
    """Three polls that pass each of twenty hosts on their way to one that is slow."""
    middle, delay, answer = HOSTS[:20], 3.0, 5.0
    first = [[f"127.30.{1 + k}.{n}" for n in range(1, 21)] for k in range(3)]
    last = [[f"127.30.{11 + k}.{n}" for n in range(1, 21)] for k in range(3)]
    hosts = [*middle, *(host for some in (*first, *last) for host in some)]
    stage_of = a_stage(url, folder, hosts=hosts, each=0, delay_seconds=delay, lease_seconds=30)
    async with stage_of as stage:
        web = stage.web
        for n, goal in enumerate(middle):
            for k in range(3):
                web.redirects[first[k][n]] = f"http://{goal}:{web.port}/{k}"
                web.redirects[f"{goal}/{k}"] = f"http://{last[k][n]}:{web.port}/"
                web.slow[last[k][n]] = answer
        for _ in range(3):
            stage.crew.start()
        await stage.all_live()
        await stage.add(first[0], 1)
        await until(lambda: all(web.asked[host] for host in middle), "nobody was sent there")
        passed = max(web.asked[host][0].ended for host in middle)
        await stage.add(first[1], 1)
        # when the first ones are stored, others have passed the same hosts meanwhile
        await until(lambda: time.monotonic() > passed + answer - 0.05, "it is not so late yet")
        await stage.add(first[2], 1)
        await stage.all_stored()
        return await stage.record("delay 3 s; each poll goes on to a host that answers after 5 s")


async def stopped_while_away(server: PostgresServer, folder: Path) -> Record:
    """SIGTERM while PostgreSQL is away."""
    stage_of = a_stage(server.new_database(), folder, each=12, delay_seconds=0.2, lease_seconds=30)
    async with stage_of as stage:
        leaving = stage.crew.start()
        await until(lambda: stage.web.requests() > 40, "nothing was polled")
        stored = await stored_polls(stage.app)
        server.stop()
        started = time.monotonic()
        leaving.send_signal(signal.SIGTERM)
        await asyncio.to_thread(leaving.wait, 60)
        took = time.monotonic() - started
        stage.in_flight = min(stage.web.requests() - stored, len(HOSTS))
        server.start()
        stage.crew.start()
        await stage.all_stored()
        return await stage.record(f"it was gone after {took:.0f} s")


async def one_at_a_time(url: str, folder: Path) -> Record:
    """One worker that opens one shard at a time, and a slow host with very much to do."""
    slow, quick = HOSTS[:2]
    assert shard_of(slow) != shard_of(quick)
    async with a_stage(url, folder, hosts=[slow, quick], each=0, lease_seconds=30) as stage:
        stage.web.slow[slow] = 12.0
        await stage.add([slow], 40)
        few = {"APP__CLUSTER__CONCURRENCY": "1", "APP__FETCH__READ_TIMEOUT_SECONDS": "60"}
        stage.crew.start(**few)
        await until(lambda: stage.web.open_now[slow], "nothing was polled")
        started = time.monotonic()
        await stage.add([quick], 1)
        await until(lambda: stage.web.asked[quick], "it waited for all of the slow one")
        told = f"another shard was polled {time.monotonic() - started:.0f} s later"
        return replace(await stage.record(told), lost=0)  # the rest is not waited for


async def alone_and_together(url: str, folder: Path, first: str, then: str) -> Record:
    """A process that polls alone is killed and a worker follows, or the other way round."""
    host, delay = HOSTS[0], 6.0
    stage_of = a_stage(url, folder, hosts=[host], each=2, delay_seconds=delay)
    async with stage_of as stage:
        stage.web.hold()
        victim = stage.crew.start(command=first)
        await until(lambda: stage.web.open_now[host], "nothing was polled")
        asked_at = time.monotonic()
        await until(lambda: time.monotonic() > asked_at + delay + 1, "it is not so late yet")
        await stage.strike(victim, signal.SIGKILL)
        killed_at = time.monotonic()
        stage.web.answering.set()
        stage.crew.start(command=then)
        await until(lambda: stage.web.requests() >= 2, "nobody followed")
        pause = time.monotonic() - killed_at
        stage.failed_at = None
        record = await stage.record(f"asked again {pause:.1f} s later, delay {delay:.0f} s")
        return replace(record, lost=0, too_soon=int(pause < delay))


async def unlocked(url: str, folder: Path) -> Record:
    """The control: were the checks blind, they would say nothing of this either."""
    async with a_stage(url, folder, hosts=HOSTS[:4], each=40) as stage:
        stage.web.answer_seconds = 0.3
        for _ in range(3):
            stage.crew.start("tests.cluster.unlocked")
        await until(lambda: stage.web.overlaps, "nobody overlapped: the check sees nothing")
        return await stage.record("stopped at the first overlap")


WORKER_THEN_SERVE = partial(alone_and_together, first="worker", then="serve")
SERVE_THEN_WORKER = partial(alone_and_together, first="serve", then="worker")
Run = Callable[[str, Path], Coroutine[Any, Any, Record]]
RUNS: dict[str, Run] = {
    "SIGKILL, all settings as they come": killed_by_default,
    "SIGKILL with requests open": killed,
    "SIGKILL at a redirect's target": killed_at_a_redirect,
    "SIGTERM while hosts are slow": told_to_stop,
    "SIGSTOP past the lease": slept,
    "stalled jobs, each with one behind it": stalled,
    "a delay longer than the lease, and a crash": long_delay,
    "a slow host in a busy shard": slow_host,
    "a clock that is wrong": wrong_clock,
    "two tickers": two_tickers,
    "a worker added and one removed under load": added_and_removed,
    "redirects that pass the same hosts": redirect_chain,
    "one shard at a time, and a slow host": one_at_a_time,
    "`serve` after a worker's death": WORKER_THEN_SERVE,
    "a worker after the death of `serve`": SERVE_THEN_WORKER,
}
