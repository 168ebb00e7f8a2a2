"""A service on one database that is killed and restarted, round after round."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from headwater.demo.demo_web import DemoWeb
from tests.crash.audit import Finding, audit, failed_polls, missing, secrets_in
from tests.crash.fork_server import ForkedProcess, ForkServer
from tests.crash.growing_feeds import GrowingFeed, some_feeds, web_of_feeds
from tests.crash.killed_process import Plan
from tests.crash.raw_database import RawDatabase, RawSqlite, fill_as_first_version
from tests.crash.service_client import ServiceClient
from tests.hostile.memory_probe import run_delays

DEADLINE_SECONDS = 200.0  # a service that has not polled by then is stuck
_AGED = "8 * 86400000"
_SOURCES = "/api/users/default/podcasts/default/sources"


@dataclass(frozen=True, slots=True)
class StartTime:
    """How long a service took from its start to its first request."""

    seconds: float  # wall-clock seconds
    work: float  # CPU seconds
    starved: float  # seconds that its threads were ready to run without a free processor

    @property
    def undisturbed(self) -> float:
        """Wall-clock seconds without the time waited for a processor."""
        return max(self.seconds - self.starved, self.work)


@dataclass(slots=True)
class Round:
    """One start and its end."""

    plan: Plan
    reached: bool = False  # killed at the planned point
    cold: bool = False  # started by command, not by fork
    resumed: StartTime | None = None
    findings: list[Finding] = field(default_factory=list)
    stuck: list[Finding] = field(default_factory=list)  # findings after the previous kill


@dataclass
class RestartedService:
    """A folder with a database, a web server, and one service after the other."""

    database: RawDatabase
    folder: Path
    fork_server: ForkServer
    rng: Random
    small_batches: bool = False  # its services insert posts one by one
    feeds: Sequence[GrowingFeed] = field(default_factory=some_feeds)
    web: DemoWeb = field(init=False)
    client: ServiceClient = field(init=False)
    gate: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # cleared: the web server responds to no request
    _process: ForkedProcess | None = None
    _began: float = 0.0  # when the service was started
    _round: Round | None = None
    sent_keys: list[str] = field(default_factory=list)
    told_keys: int = 0
    _usual_seconds: float = 0.5  # from a start to the first request

    def __post_init__(self) -> None:
        self.client = ServiceClient(self.folder / "log.txt")

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator["RestartedService"]:
        """Serve the web and write the configuration."""
        self.gate.set()
        async with web_of_feeds(self.feeds, self.rng, self.gate, self._notice) as self.web:
            app = {
                "database-url": self.database.url,
                "server": {"port": 0},
                "source": {"tick-seconds": 1},
                "fetch": {"allow-private-networks": True},
            }
            (self.folder / "headwater.yaml").write_text(json.dumps({"app": app}))
            yield self

    @property
    def key_file(self) -> Path:
        if isinstance(self.database, RawSqlite):
            return self.database.path.with_name(f"{self.database.path.name}.key")
        return self.folder / "data" / "headwater.key"

    @property
    def log(self) -> str:
        return self.client.log

    def begin_with_first_schema(self) -> None:
        """Replace the database by one of the first schema version, if the plan has one."""
        if self.database.version == 1:
            return
        self.database.wipe()
        (self.folder / "log.txt").unlink(missing_ok=True)
        urls = [self.web.url(feed.host, f"/{feed.name}") for feed in self.feeds]
        fill_as_first_version(self.database, self.feeds, urls)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[ForkedProcess]:
        """A service that runs until the context ends."""
        process = await self._start(Round(Plan()))
        try:
            await self.client.until_ready()
            yield process
        finally:
            await process.kill()

    def request_all(self) -> None:
        """Publish new entries in every feed and request a poll of each."""
        for feed in self.feeds:
            feed.publish(2)
        now = round(time.time() * 1000)
        self.database.change("UPDATE sources SET requested_at = ?", now)

    async def round(self, plan: Plan) -> Round:
        """Publish entries, start the service, let it poll, kill it, and audit the database."""
        plan = plan.but(small_batches=plan.small_batches or self.small_batches)
        by_tick, by_hand = await asyncio.to_thread(self._arrange, plan)
        done = Round(plan, cold=plan.point == "at rest" and self.rng.random() < 0.3)
        self._began, self._round = time.monotonic(), done
        process = self._process = await self._start(done)
        watching: asyncio.Future[None] = asyncio.create_task(
            self._watch(process, plan, by_tick, by_hand)
        )
        try:
            ends: list[asyncio.Future[Any]] = [process.ended, watching]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            done.reached = process.ended.done() == (plan.name != plan.point)
        finally:
            watching.cancel()
            status = await process.kill()
            (trouble,) = await asyncio.gather(watching, return_exceptions=True)
        if status != -9:
            done.stuck.append(Finding("stuck", f"serve ended with {status}: {self.log[-300:]}"))
        elif isinstance(trouble, AssertionError):
            done.stuck.append(Finding("stuck", str(trouble)))
        elif isinstance(trouble, Exception):
            raise trouble
        if done.resumed is not None and not done.cold:
            self._usual_seconds = done.resumed.seconds
        polled = by_tick if plan.point == "at rest" and not done.stuck else ()
        done.findings = await asyncio.to_thread(self._audit, polled)
        return done

    def _notice(self) -> None:
        """Record when the first request came, and the CPU time until then."""
        if self._round is not None and self._round.resumed is None and self._process is not None:
            seconds, pid = time.monotonic() - self._began, self._process.pid
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
                work = sum(map(int, stat.split()[11:13])) / os.sysconf("SC_CLK_TCK")
                starved = max(run_delays(pid).values(), default=0) / 1e9
                self._round.resumed = StartTime(seconds, work, starved)

    def orphans(self) -> list[int]:
        """Processes left behind by a killed service."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if os.readlink(entry) == str(self.folder):
                    found.append(int(entry.parent.name))
        return found

    def _arrange(self, plan: Plan) -> tuple[list[GrowingFeed], list[GrowingFeed]]:
        """Publish entries and request polls; return the feeds polled by tick and manually."""
        if self.database.version == 0:
            return [], []
        quick = [feed for feed in self.feeds if not feed.large]
        heavy = [feed for feed in self.feeds if feed.large]
        by_hand = [] if plan.point == "at rest" else self.rng.sample(quick, 2)
        with_heavy = self.rng.random() < (0.5 if plan.point == "at rest" else 0.1)
        by_tick = [f for f in (*quick, *(heavy if with_heavy else ())) if f not in by_hand]
        for feed in by_tick:
            if self.rng.random() < 0.7:
                feed.publish(self.rng.randint(1, 3))
        ids = ", ".join(f"'{feed.source_id}'" for feed in by_tick)
        self.database.change(f"UPDATE sources SET requested_at = 1 WHERE id IN ({ids})")
        if plan.point == "cleanup" or self.rng.random() < 0.1:
            self._age()
        if plan.point == "key creation":
            self._forget_keys()
        return by_tick, by_hand

    def _age(self) -> None:
        """Make posts and articles expire."""
        some = self.rng.choice(self.feeds).source_id
        self.database.change(
            f"UPDATE posts SET created_at = created_at - {_AGED} WHERE NOT is_linked"
        )
        self.database.change(
            f"UPDATE articles SET created_at = created_at - {_AGED},"
            f" published_at = published_at - {_AGED} WHERE source_id = '{some}'"
        )

    def _forget_keys(self) -> None:
        self.database.change("DELETE FROM api_keys")
        self.key_file.unlink(missing_ok=True)
        self.sent_keys, self.told_keys = [], 0

    async def _start(self, done: Round) -> ForkedProcess:
        self.client.expect_restart()
        if not done.cold or done.plan.mutant is not None:
            done.cold = False
            return await self.fork_server.fork(self.folder, done.plan, "serve")
        with (self.folder / "log.txt").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "headwater", "serve",
                cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        forked = ForkedProcess(process.pid)
        waiting = asyncio.create_task(process.wait())
        waiting.add_done_callback(lambda task: forked.ended.set_result(task.result()))
        return forked

    async def _watch(
        self,
        process: ForkedProcess,
        plan: Plan,
        by_tick: Sequence[GrowingFeed],
        by_hand: Sequence[GrowingFeed],
    ) -> None:
        """Use the service until it is time to kill it; report it if it does not do its work."""
        if plan.point == "any instant":
            await asyncio.sleep(self.rng.uniform(0, 2 * self._usual_seconds))
            return
        errands = asyncio.create_task(self._errands(plan, by_hand))
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                if plan.point == "amid polls":
                    await self._until_requested(self.rng.randint(1, max(len(by_tick), 1)))
                    await asyncio.sleep(self.rng.uniform(0, 0.03))
                    return
                await self.until_polled()
                await errands
        except TimeoutError:
            raise AssertionError(f"not polled in time: {await self.waiting()}") from None
        finally:
            errands.cancel()
            await asyncio.gather(errands, return_exceptions=True)

    async def _until_requested(self, count: int) -> None:
        asked = sum(len(feed.history) for feed in self.feeds)
        while sum(len(feed.history) for feed in self.feeds) < asked + count:
            await asyncio.sleep(0.002)

    async def until_polled(self) -> None:
        while await self.waiting():
            await asyncio.sleep(0.05)

    async def waiting(self) -> list[str]:
        """The sources that are requested and not polled yet."""

        def read() -> list[str]:
            if self.database.version == 0:
                return []
            rows = self.database.rows("SELECT id FROM sources WHERE requested_at IS NOT NULL")
            return [row[0] for row in rows]

        return await asyncio.to_thread(read)

    async def _errands(self, plan: Plan, by_hand: Sequence[GrowingFeed]) -> None:
        """User actions at the same time: poll manually, create articles, store a key."""
        await self.client.until_ready()
        work = [self._poll(feed) for feed in by_hand]
        if plan.point == "aggregation" or self.rng.random() < 0.1:
            work.append(self._aggregate())
        if plan.point == "key creation":
            work.append(self._store_key())
        await asyncio.gather(*work)

    async def _poll(self, feed: GrowingFeed) -> None:
        feed.publish(self.rng.randint(1, 3))
        status, reported = await self.client.call("POST", f"{_SOURCES}/{feed.source_id}/poll")
        if status == 200 and reported["outcome"] in ("stored", "unchanged"):
            feed.claimed.add(feed.history[-1].version)

    async def _aggregate(self) -> None:
        await self.client.call("POST", "/api/users/default/podcasts/default/articles/aggregate")

    async def _store_key(self) -> None:
        key = f"key-{self.rng.randrange(10**9)}"
        self.sent_keys.append(key)
        path = "/api/users/default/api-keys/x"
        status, _ = await self.client.call("PUT", path, {"apiKey": key})
        if status == 200:
            self.told_keys = len(self.sent_keys)

    def _audit(self, polled: Sequence[GrowingFeed]) -> list[Finding]:
        found = audit(self.database, self.feeds, self.log) + failed_polls(self.database)
        if self.database.version:
            found += missing(self.database, polled)
            found += secrets_in(self.database, self.key_file, self.sent_keys, self.told_keys)
        if "Traceback" in self.log:
            found.append(Finding("torn", "a traceback in the log"))
        return found
