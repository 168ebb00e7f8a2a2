"""The service's own metrics."""

import asyncio
import io
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from headwater.clock import SystemClock
from headwater.engine.local_service import LocalService
from headwater.engine.metrics import (
    OTHER,
    CpuTimes,
    Histogram,
    LoopLag,
    Metrics,
    NameLookups,
    ThreadCpu,
)
from headwater.errors import (
    BadStatus,
    NameNotFound,
    NameUnresolved,
    NotAFeed,
    TimedOut,
    TooExpensive,
)
from headwater.fetch.net.dns import SystemResolver
from headwater.model import Answer, Source, SourceType
from headwater.rules.failure_kinds import KINDS
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_service import feed_entry, polled
from tests.fakes import FakeClock, in_virtual_time
from tests.fetch.loopback_servers import NXDOMAIN, SERVFAIL, name_server
from tests.fetch.test_parser_pool import odd_parsers, order
from tests.logs.recorded_log import written


async def watching(env: RunningEngine, *sources: Source) -> LocalService:
    await env.store.sources.add_many(sources)
    env.store.on_commit = env.service.metrics.committed
    return env.service


def test_polls_are_counted_by_outcome_and_type(engine: Engine):
    async def scenario(env: RunningEngine) -> Metrics:
        service = await watching(
            env,
            polled("fresh", "https://a.example/"),
            polled("same", "https://b.example/"),
            polled("page", "https://c.example/", type=SourceType.WEBSITE),
            polled("gone", "https://d.example/"),
        )
        entries = (feed_entry(1), feed_entry(2))
        env.fetch.on("https://a.example/", Answer(200, entries=entries), seconds=3)
        env.fetch.on("https://c.example/", TimedOut("no answer"))
        env.fetch.on("https://d.example/", BadStatus(410, "odd"))
        await env.run(10)
        return service.metrics

    [seen] = engine.play(scenario)
    counted = {labels: count for labels, count in seen.polls.items() if count}
    assert counted == {
        ("stored", "rss"): 1,
        ("unchanged", "rss"): 1,
        ("failed", "website"): 1,
        ("failed", "rss"): 1,
    }
    assert seen.posts == 2
    assert {kind: n for kind, n in seen.failures.items() if n} == {"timeout": 1, "410": 1}
    assert sum(seen.poll_seconds["rss"].counts) == 3
    assert seen.poll_seconds["rss"].total == pytest.approx(3, abs=0.1)
    assert seen.commit_sizes.total == 4


def test_d4_a_poll_whose_source_was_edited_meanwhile_counts_as_discarded(engine: Engine):
    async def scenario(env: RunningEngine) -> Metrics:
        service = await watching(env, polled())
        env.fetch.on(polled().url, Answer(200, entries=(feed_entry(1),)), seconds=5)
        await service.tick()
        await asyncio.sleep(1)
        await env.store.sources.remove("s1")
        await service.lanes.emptied(service.lanes.names())
        return service.metrics

    [seen] = engine.play(scenario)
    assert seen.polls["discarded", "rss"] == 1
    assert (sum(seen.polls.values()), seen.posts) == (1, 0)


def test_failures_of_unknown_kinds_share_one_count(engine: Engine):
    statuses = (402, 418, 451, 599)
    sources = [polled(f"s{status}", f"https://h{status}.example/") for status in statuses]

    async def scenario(env: RunningEngine) -> Metrics:
        service = await watching(env, *sources)
        for status in statuses:
            env.fetch.on(f"https://h{status}.example/", BadStatus(status, "odd"))
        await env.run(5)
        return service.metrics

    [seen] = engine.play(scenario)
    assert seen.failures[OTHER] == len(statuses)
    assert set(seen.failures) == {*KINDS, OTHER}


def test_the_wait_in_a_lane_counts_from_the_due_time(engine: Engine):
    async def scenario(env: RunningEngine) -> Histogram:
        due_for = timedelta(minutes=30) + timedelta(seconds=100)  # the interval is 30 minutes
        service = await watching(env, polled(last_polled=env.clock.now() - due_for))
        await service.tick()
        await service.lanes.emptied(service.lanes.names())
        return service.metrics.lane_wait_seconds

    [seen] = engine.play(scenario)
    assert sum(seen.counts) == 1
    assert seen.total == pytest.approx(100, abs=0.1)


def test_a_clock_set_back_causes_no_negative_wait(engine: Engine):
    async def scenario(env: RunningEngine) -> Histogram:
        service = await watching(env, polled())
        service.lanes.pause()
        await service.tick()
        env.clock.set_by(-timedelta(days=1))
        await env.store.sources.request(["s1"], env.clock.now())
        service.lanes.resume()
        await service.lanes.emptied(service.lanes.names())
        return service.metrics.lane_wait_seconds

    [seen] = engine.play(scenario)
    assert (sum(seen.counts), seen.total >= 0) == (1, True)


def test_automatic_disabling_and_recovery_are_counted(engine: Engine):
    async def scenario(env: RunningEngine) -> Metrics:
        service = await watching(
            env,
            polled("dies", "https://a.example/", max_failures=1),
            polled("returns", "https://b.example/", consecutive_failures=1),
        )
        env.fetch.on("https://a.example/", BadStatus(410, "odd"))
        await env.run(5)
        return service.metrics

    [seen] = engine.play(scenario)
    assert (seen.disabled, seen.recovered) == (1, 1)


def test_ticks_and_failed_ticks_are_counted_separately(engine: Engine):
    async def scenario(env: RunningEngine) -> Metrics:
        await env.run(130)
        away = "ALTER TABLE facts RENAME TO facts_away"
        await env.store.database.write(lambda s: s.execute(away))
        await env.run(70)
        back = "ALTER TABLE facts_away RENAME TO facts"
        await env.store.database.write(lambda s: s.execute(back))
        return env.service.metrics

    [seen] = engine.play(scenario)
    assert (sum(seen.tick_seconds.counts), seen.ticks_failed) == (3, 2)


def test_a_value_on_a_bound_counts_below_it():
    seen = Histogram((1, 5))
    for value in (0, 1, 1.01, 5, 6):
        seen.add(value)
    assert seen.counts == [2, 2, 1]
    assert seen.total == pytest.approx(13.01)


class LateClock(FakeClock):
    """A clock whose sleepers wake too late."""

    late = 0.0
    lates: Sequence[float] = ()  # the first ones

    async def sleep(self, seconds: float) -> None:
        late, *self.lates = self.lates or [self.late]
        await super().sleep(seconds + late)


def test_h2_a_stall_of_the_loop_is_reported_and_forgotten_after_two_minutes():
    async def scenario() -> list[float]:
        clock = LateClock()
        lag = LoopLag(clock)
        watching = asyncio.create_task(lag.watch())
        worst = []
        for clock.late, seconds in ((0.0, 10), (0.3, 1), (0.0, 50), (0.0, 130)):
            await asyncio.sleep(seconds)
            worst.append(round(lag.worst(), 3))
        watching.cancel()
        assert lag.seconds.counts[lag.seconds.bounds.index(0.5)] >= 1
        assert sum(lag.seconds.counts) > 600
        return worst

    assert in_virtual_time(scenario) == [0.0, 0.3, 0.3, 0.0]


def wait() -> None:
    time.sleep(0.4)  # blocks the loop, which no callback may do


def work() -> None:
    until = time.thread_time() + 0.4
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("do", [wait, work])
def test_h2_a_blocked_loop_is_detected_and_logged_with_its_cause(do: Callable[[], None]):
    async def scenario() -> float:
        seen = Metrics(SystemClock())
        async with seen.watching_loop():
            await asyncio.sleep(0)  # its timer is set
            do()
            await asyncio.sleep(0.01)
        return seen.loop_lag.worst()

    stream = io.StringIO()
    written(stream)
    assert asyncio.run(scenario()) >= 0.37
    reported = re.search(
        r"held up ms=(\d+) worked_ms=(\d+) no_processor_ms=\d+ turns=\d+$", stream.getvalue(), re.M
    )
    assert reported is not None
    assert int(reported[1]) >= 370
    assert (int(reported[2]) >= 390) is (do is work)


class FixedThreadCpu(ThreadCpu):
    """The CPU times of a thread that always waits for a processor, or never."""

    def __init__(self, clock: FakeClock | None) -> None:
        super().__init__()
        self._clock = clock

    def so_far(self) -> CpuTimes:
        return CpuTimes(0.0, 0.0 if self._clock is None else self._clock.monotonic(), 1)


def logged_stalls(*late: float, starves: bool = False) -> list[int]:
    """The milliseconds of the logged stalls; each check is late by this much, then on time."""

    async def scenario() -> None:
        clock = LateClock()
        lag = LoopLag(clock, lambda: FixedThreadCpu(clock if starves else None))
        clock.lates = late
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(300)
        watching.cancel()

    stream = io.StringIO()
    written(stream)
    in_virtual_time(scenario)
    return [int(ms) for ms in re.findall(r"\[Loop\] was held up ms=(\d+)", stream.getvalue())]


@pytest.mark.parametrize(("starves", "reported"), [(True, []), (False, [900, 600, 300])])
def test_h2_every_stall_is_reported_unless_a_processor_was_missing(starves, reported):
    assert logged_stalls(0.9, 0.0, 0.6, 0.2, 0.3, starves=starves) == reported


def test_h2_ten_stalls_per_minute_and_longer_ones_are_logged():
    minute = [0.0] * 600
    many = [0.5, *[0.3] * 29, 0.4, 0.7, 0.3]
    assert logged_stalls(*many, *minute, 0.3) == [500, *[300] * 9, 700, 300]


class BusyThread(ThreadCpu):
    """A thread that works for a share of the time."""

    def __init__(self, clock: FakeClock, share: float) -> None:
        super().__init__()
        self._clock, self._share = clock, share

    def so_far(self) -> CpuTimes:
        return CpuTimes(self._share * self._clock.monotonic(), 0.0, 1)


def checks_in_a_minute(share: float) -> int:
    """How often the lag of a loop is measured that works for a share of the time."""

    async def scenario() -> int:
        clock = FakeClock()
        lag = LoopLag(clock, lambda: BusyThread(clock, share))
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(60)
        watching.cancel()
        return sum(lag.seconds.counts)

    return in_virtual_time(scenario)


def test_h2_an_idle_loop_is_checked_less_often():
    assert 3 * checks_in_a_minute(0.0) < checks_in_a_minute(0.1)


def test_unresolved_names_are_forgotten_after_the_first_response():
    async def scenario() -> list[int]:
        clock = FakeClock()
        names = NameLookups(clock)
        for host in ("a.example", "b.example", "a.example"):
            names.note(host, False)
        silent = [names.silent(600)]
        await clock.sleep(700)
        silent.append(names.silent(600))
        names.note("c.example", False)
        names.note("d.example", True)
        silent.append(names.silent(600))
        assert (names.answered, names.unanswered) == (1, 4)
        for number in range(10_000):
            names.note(f"{number}.example", False)
        silent.append(names.silent(600))
        return silent

    assert in_virtual_time(scenario) == [2, 0, 0, 100]


async def test_h2_parse_workers_ended_by_documents_are_counted_and_refusals_are_not():
    seen = Metrics(SystemClock())
    async with odd_parsers() as parsers:
        parsers.on_kill = seen.parse_killed
        for text in ("leave 3", "refuse this", "hog", "echo fine"):
            with suppress(TooExpensive, NotAFeed):
                await order(parsers, text)
    assert seen.parse_kills == 2


async def test_h5_responses_of_name_servers_are_counted():
    seen = NameLookups(SystemClock())
    table = {"good.test": ["9.9.9.9"], "gone.test": NXDOMAIN, "sick.test": SERVFAIL}
    async with (
        name_server(table) as server,
        SystemResolver(nameservers=[server.address]) as names,
    ):
        names.on_lookup = seen.note
        for host in ("good.test", "gone.test", "sick.test", "127.0.0.1", "localhost", "a.invalid"):
            with suppress(NameNotFound, NameUnresolved):
                await names.addresses(host)
    assert (seen.answered, seen.unanswered, seen.silent(600)) == (2, 1, 1)
