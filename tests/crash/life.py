"""The life of one database: a service that is killed and started again, round after round."""

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

from headwater.demo import DemoWeb
from tests.crash.audit import Finding, audit, failed_polls, missing, secrets_in
from tests.crash.books import Books, SqliteBooks, fill_as_first_version
from tests.crash.doomed import Plan
from tests.crash.door import Door
from tests.crash.nest import Hatched, Nest
from tests.crash.web import GrowingFeed, some_feeds, web_of_feeds
from tests.hostile.memory import run_delays

DEADLINE_SECONDS = 200.0  # a service that has not polled by then never will
_AGED = "8 * 86400000"
_SOURCES = "/api/users/default/podcasts/default/sources"


@dataclass(frozen=True, slots=True)
class Resumed:
    """How long a service took from its start to its first request."""

    seconds: float  # by the clock
    work: float  # of processor time
    starved: float  # that its threads were ready to run and no processor was free

    @property
    def undisturbed(self) -> float:
        """By the clock, had it had a processor whenever it wanted one."""
        return max(self.seconds - self.starved, self.work)


@dataclass(slots=True)
class Round:
    """One start and its end."""

    plan: Plan
    reached: bool = False  # it died where the plan wanted it
    cold: bool = False  # a process of its own from the very start
    resumed: Resumed | None = None
    findings: list[Finding] = field(default_factory=list)
    stuck: list[Finding] = field(default_factory=list)  # what the end before this one left behind


@dataclass
class Life:
    """A folder with a database, a web beside it, and one service after the other."""

    books: Books
    folder: Path
    nest: Nest
    rng: Random
    small_bites: bool = False  # its services store posts one by one
    feeds: Sequence[GrowingFeed] = field(default_factory=some_feeds)
    web: DemoWeb = field(init=False)
    door: Door = field(init=False)
    gate: asyncio.Event = field(default_factory=asyncio.Event)  # closed, the web answers nobody
    _process: Hatched | None = None
    _began: float = 0.0  # when the service was started
    _round: Round | None = None
    sent_keys: list[str] = field(default_factory=list)
    told_keys: int = 0
    _usual_seconds: float = 0.5  # from a start to the first request

    def __post_init__(self) -> None:
        self.door = Door(self.folder / "log.txt")

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator["Life"]:
        """Serve the web and write the configuration."""
        self.gate.set()
        async with web_of_feeds(self.feeds, self.rng, self.gate, self._notice) as self.web:
            app = {
                "database-url": self.books.url,
                "server": {"port": 0},
                "source": {"tick-seconds": 1},
                "fetch": {"allow-private-networks": True},
            }
            (self.folder / "headwater.yaml").write_text(json.dumps({"app": app}))
            yield self

    @property
    def key_file(self) -> Path:
        if isinstance(self.books, SqliteBooks):
            return self.books.path.with_name(f"{self.books.path.name}.key")
        return self.folder / "data" / "headwater.key"

    @property
    def log(self) -> str:
        return self.door.log

    def begin_with_first_schema(self) -> None:
        """Take the place of a database as the first version left it, unless there is such a one."""
        if self.books.version == 1:
            return
        self.books.wipe()
        (self.folder / "log.txt").unlink(missing_ok=True)
        urls = [self.web.url(feed.host, f"/{feed.name}") for feed in self.feeds]
        fill_as_first_version(self.books, self.feeds, urls)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Hatched]:
        """A service that lives on until it is no longer needed."""
        process = await self._start(Round(Plan()))
        try:
            await self.door.until_answers()
            yield process
        finally:
            await process.kill()

    def request_all(self) -> None:
        """Publish news of every feed and ask for a poll of each."""
        for feed in self.feeds:
            feed.publish(2)
        now = round(time.time() * 1000)
        self.books.change("UPDATE sources SET requested_at = ?", now)

    async def round(self, plan: Plan) -> Round:
        """Let news come in, start, let it poll, kill it, and look at what is left."""
        plan = plan.but(small_bites=plan.small_bites or self.small_bites)
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
        done.findings = await asyncio.to_thread(self._look, polled)
        return done

    def _notice(self) -> None:
        """Remember when the first request came, and what it took to get there."""
        if self._round is not None and self._round.resumed is None and self._process is not None:
            seconds, pid = time.monotonic() - self._began, self._process.pid
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
                work = sum(map(int, stat.split()[11:13])) / os.sysconf("SC_CLK_TCK")
                starved = max(run_delays(pid).values(), default=0) / 1e9
                self._round.resumed = Resumed(seconds, work, starved)

    def orphans(self) -> list[int]:
        """Processes that still are where a killed service was."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if os.readlink(entry) == str(self.folder):
                    found.append(int(entry.parent.name))
        return found

    def _arrange(self, plan: Plan) -> tuple[list[GrowingFeed], list[GrowingFeed]]:
        """Publish, and ask for polls; answer who is polled by the tick, and who by hand."""
        if self.books.version == 0:
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
        self.books.change(f"UPDATE sources SET requested_at = 1 WHERE id IN ({ids})")
        if plan.point == "cleanup" or self.rng.random() < 0.1:
            self._age()
        if plan.point == "key creation":
            self._forget_keys()
        return by_tick, by_hand

    def _age(self) -> None:
        """Let posts and articles be past their time."""
        some = self.rng.choice(self.feeds).source_id
        self.books.change(f"UPDATE posts SET created_at = created_at - {_AGED} WHERE NOT is_linked")
        self.books.change(
            f"UPDATE articles SET created_at = created_at - {_AGED},"
            f" published_at = published_at - {_AGED} WHERE source_id = '{some}'"
        )

    def _forget_keys(self) -> None:
        self.books.change("DELETE FROM api_keys")
        self.key_file.unlink(missing_ok=True)
        self.sent_keys, self.told_keys = [], 0

    async def _start(self, done: Round) -> Hatched:
        self.door.expect_another()
        if not done.cold or done.plan.mutant is not None:
            done.cold = False
            return await self.nest.hatch(self.folder, done.plan, "serve")
        with (self.folder / "log.txt").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "headwater", "serve",
                cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        hatched = Hatched(process.pid)
        waiting = asyncio.create_task(process.wait())
        waiting.add_done_callback(lambda task: hatched.ended.set_result(task.result()))
        return hatched

    async def _watch(
        self,
        process: Hatched,
        plan: Plan,
        by_tick: Sequence[GrowingFeed],
        by_hand: Sequence[GrowingFeed],
    ) -> None:
        """Use the service until it is time to kill it; complain if it does not do its work."""
        if plan.point == "any instant":
            await asyncio.sleep(self.rng.uniform(0, 2 * self._usual_seconds))
            return
        errands = asyncio.create_task(self._errands(plan, by_hand))
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                if plan.point == "amid polls":
                    await self._until_asked(self.rng.randint(1, max(len(by_tick), 1)))
                    await asyncio.sleep(self.rng.uniform(0, 0.03))
                    return
                await self.until_polled()
                await errands
        except TimeoutError:
            raise AssertionError(f"not polled in time: {await self.waiting()}") from None
        finally:
            errands.cancel()
            await asyncio.gather(errands, return_exceptions=True)

    async def _until_asked(self, count: int) -> None:
        asked = sum(len(feed.history) for feed in self.feeds)
        while sum(len(feed.history) for feed in self.feeds) < asked + count:
            await asyncio.sleep(0.002)

    async def until_polled(self) -> None:
        while await self.waiting():
            await asyncio.sleep(0.05)

    async def waiting(self) -> list[str]:
        """The sources that were asked for and not polled yet."""

        def look() -> list[str]:
            if self.books.version == 0:
                return []
            rows = self.books.rows("SELECT id FROM sources WHERE requested_at IS NOT NULL")
            return [row[0] for row in rows]

        return await asyncio.to_thread(look)

    async def _errands(self, plan: Plan, by_hand: Sequence[GrowingFeed]) -> None:
        """What people do meanwhile: poll by hand, make articles, store a key."""
        await self.door.until_answers()
        work = [self._poll(feed) for feed in by_hand]
        if plan.point == "aggregation" or self.rng.random() < 0.1:
            work.append(self._aggregate())
        if plan.point == "key creation":
            work.append(self._store_key())
        await asyncio.gather(*work)

    async def _poll(self, feed: GrowingFeed) -> None:
        feed.publish(self.rng.randint(1, 3))
        status, told = await self.door.call("POST", f"{_SOURCES}/{feed.source_id}/poll")
        if status == 200 and told["outcome"] in ("stored", "unchanged"):
            feed.claimed.add(feed.history[-1].version)

    async def _aggregate(self) -> None:
        await self.door.call("POST", "/api/users/default/podcasts/default/articles/aggregate")

    async def _store_key(self) -> None:
        key = f"key-{self.rng.randrange(10**9)}"
        self.sent_keys.append(key)
        path = "/api/users/default/api-keys/x"
        status, _ = await self.door.call("PUT", path, {"apiKey": key})
        if status == 200:
            self.told_keys = len(self.sent_keys)

    def _look(self, polled: Sequence[GrowingFeed]) -> list[Finding]:
        found = audit(self.books, self.feeds, self.log) + failed_polls(self.books)
        if self.books.version:
            found += missing(self.books, polled)
            found += secrets_in(self.books, self.key_file, self.sent_keys, self.told_keys)
        if "Traceback" in self.log:
            found.append(Finding("torn", "a traceback in the log"))
        return found
