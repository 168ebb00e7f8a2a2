"""What the service counts of itself."""

import asyncio
import io
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from headwater.clock import SystemClock
from headwater.engine import metrics
from headwater.engine.metrics import OTHER, Histogram, LoopLag, Metrics, NameLookups
from headwater.engine.service import Service
from headwater.engine.thread_turns import ThreadTurns, Turns
from headwater.errors import (
    BadStatus,
    NameNotFound,
    NameUnresolved,
    NotAFeed,
    TimedOut,
    TooExpensive,
)
from headwater.fetch.names import SystemNames
from headwater.model import Answer, Source, SourceType
from headwater.rules.failure import KINDS
from tests.engine.conftest import Engine, World
from tests.engine.test_service import an_entry, polled
from tests.fakes import FakeClock, in_virtual_time
from tests.fetch.loopback import NXDOMAIN, SERVFAIL, name_server
from tests.fetch.test_parsers import odd_parsers, order
from tests.logs.recording import written


async def watching(world: World, *sources: Source) -> Service:
    await world.store.sources.add_many(sources)
    world.store.on_commit = world.service.metrics.committed
    return world.service


def test_polls_are_counted_by_outcome_and_type(engine: Engine):
    async def story(world: World) -> Metrics:
        service = await watching(
            world,
            polled("fresh", "https://a.example/"),
            polled("same", "https://b.example/"),
            polled("page", "https://c.example/", type=SourceType.WEBSITE),
            polled("gone", "https://d.example/"),
        )
        entries = (an_entry(1), an_entry(2))
        world.fetch.on("https://a.example/", Answer(200, entries=entries), seconds=3)
        world.fetch.on("https://c.example/", TimedOut("no answer"))
        world.fetch.on("https://d.example/", BadStatus(410, "odd"))
        await world.run(10)
        return service.metrics

    [seen] = engine.play(story)
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
    async def story(world: World) -> Metrics:
        service = await watching(world, polled())
        world.fetch.on(polled().url, Answer(200, entries=(an_entry(1),)), seconds=5)
        await service.tick()
        await asyncio.sleep(1)
        await world.store.sources.remove("s1")
        await service.lanes.wait_until_idle()
        return service.metrics

    [seen] = engine.play(story)
    assert seen.polls["discarded", "rss"] == 1
    assert (sum(seen.polls.values()), seen.posts) == (1, 0)


def test_failures_of_kinds_nobody_foresaw_share_one_count(engine: Engine):
    statuses = (402, 418, 451, 599)
    sources = [polled(f"s{status}", f"https://h{status}.example/") for status in statuses]

    async def story(world: World) -> Metrics:
        service = await watching(world, *sources)
        for status in statuses:
            world.fetch.on(f"https://h{status}.example/", BadStatus(status, "odd"))
        await world.run(5)
        return service.metrics

    [seen] = engine.play(story)
    assert seen.failures[OTHER] == len(statuses)
    assert set(seen.failures) == {*KINDS, OTHER}


def test_the_wait_in_a_lane_counts_from_the_moment_a_source_was_due(engine: Engine):
    async def story(world: World) -> Histogram:
        due_for = timedelta(minutes=30) + timedelta(seconds=100)  # the interval is 30 minutes
        service = await watching(world, polled(last_polled=world.clock.now() - due_for))
        await service.tick()
        await service.lanes.wait_until_idle()
        return service.metrics.lane_wait_seconds

    [seen] = engine.play(story)
    assert sum(seen.counts) == 1
    assert seen.total == pytest.approx(100, abs=0.1)


def test_a_clock_that_was_set_back_makes_no_negative_wait(engine: Engine):
    async def story(world: World) -> Histogram:
        service = await watching(world, polled())
        service.lanes.pause()
        await service.tick()
        world.clock.set_by(-timedelta(days=1))
        await world.store.sources.request(["s1"], world.clock.now())
        service.lanes.resume()
        await service.lanes.wait_until_idle()
        return service.metrics.lane_wait_seconds

    [seen] = engine.play(story)
    assert (sum(seen.counts), seen.total >= 0) == (1, True)


def test_sources_that_failures_disable_and_that_recover_are_counted(engine: Engine):
    async def story(world: World) -> Metrics:
        service = await watching(
            world,
            polled("dies", "https://a.example/", max_failures=1),
            polled("returns", "https://b.example/", consecutive_failures=1),
        )
        world.fetch.on("https://a.example/", BadStatus(410, "odd"))
        await world.run(5)
        return service.metrics

    [seen] = engine.play(story)
    assert (seen.disabled, seen.recovered) == (1, 1)


def test_ticks_are_counted_and_those_that_fail_apart(engine: Engine):
    async def story(world: World) -> Metrics:
        await world.run(130)
        away = "ALTER TABLE facts RENAME TO facts_away"
        await world.store.database.write(lambda s: s.execute(away))
        await world.run(70)
        back = "ALTER TABLE facts_away RENAME TO facts"
        await world.store.database.write(lambda s: s.execute(back))
        return world.service.metrics

    [seen] = engine.play(story)
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
    lates: Sequence[float] = ()  # those that come first

    async def sleep(self, seconds: float) -> None:
        late, *self.lates = self.lates or [self.late]
        await super().sleep(seconds + late)


def test_h2_a_stall_of_the_loop_is_seen_and_forgotten_after_two_minutes():
    async def story() -> list[float]:
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

    assert in_virtual_time(story) == [0.0, 0.3, 0.3, 0.0]


def wait() -> None:
    time.sleep(0.4)  # what nobody may do to a loop


def work() -> None:
    until = time.thread_time() + 0.4
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("do", [wait, work])
def test_h2_a_blocked_loop_is_noticed_and_told_of_with_its_reason(do: Callable[[], None]):
    async def story() -> float:
        seen = Metrics(SystemClock())
        async with seen.watching_loop():
            await asyncio.sleep(0)  # its timer is set
            do()
            await asyncio.sleep(0.01)
        return seen.loop_lag.worst()

    stream = io.StringIO()
    written(stream)
    assert asyncio.run(story()) >= 0.37
    told = re.search(
        r"held up ms=(\d+) worked_ms=(\d+) no_processor_ms=\d+ turns=\d+$", stream.getvalue(), re.M
    )
    assert told is not None
    assert int(told[1]) >= 370
    assert (int(told[2]) >= 390) is (do is work)


class SetTurns(ThreadTurns):
    """Those of a thread that waits for a processor all the time, or never."""

    def __init__(self, clock: FakeClock | None) -> None:
        super().__init__()
        self._clock = clock

    def so_far(self) -> Turns:
        return Turns(0.0, 0.0 if self._clock is None else self._clock.monotonic(), 1)


def stalls_told(*late: float, starves: bool = False) -> list[int]:
    """The milliseconds of the stalls that the log has; how late each look is, then on time."""

    async def story() -> None:
        clock = LateClock()
        lag = LoopLag(clock, lambda: SetTurns(clock if starves else None))
        clock.lates = late
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(300)
        watching.cancel()

    stream = io.StringIO()
    written(stream)
    in_virtual_time(story)
    return [int(ms) for ms in re.findall(r"\[Loop\] was held up ms=(\d+)", stream.getvalue())]


@pytest.mark.parametrize(("starves", "told"), [(True, []), (False, [900, 600, 300])])
def test_h2_every_stall_is_told_unless_a_processor_was_missing(starves, told):
    assert stalls_told(0.9, 0.0, 0.6, 0.2, 0.3, starves=starves) == told


def test_h2_of_many_stalls_of_a_minute_ten_are_told_and_the_longer_ones():
    minute = [0.0] * 600
    many = [0.5, *[0.3] * 29, 0.4, 0.7, 0.3]
    assert stalls_told(*many, *minute, 0.3) == [500, *[300] * 9, 700, 300]


def test_h2_a_loop_with_nothing_to_do_is_looked_at_less_often(monkeypatch):
    monkeypatch.setattr(metrics, "_IDLE_WORK_SECONDS", 0.004)  # looks cost more on a slow machine

    async def looks(do: Callable[[], None]) -> int:
        seen = Metrics(SystemClock())
        async with seen.watching_loop():
            for _ in range(20):
                do()
                await asyncio.sleep(0.025)
        return sum(seen.loop_lag.seconds.counts)

    def little() -> None:
        until = time.thread_time() + 0.008
        while time.thread_time() < until:
            pass

    assert asyncio.run(looks(lambda: None)) < asyncio.run(looks(little))


def test_names_asked_in_vain_are_forgotten_with_the_first_answer():
    async def story() -> list[int]:
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

    assert in_virtual_time(story) == [2, 0, 0, 100]


async def test_h2_workers_that_documents_cost_are_counted_and_refusals_are_not():
    seen = Metrics(SystemClock())
    async with odd_parsers() as parsers:
        parsers.on_kill = seen.parse_killed
        for text in ("leave 3", "refuse this", "hog", "echo fine"):
            with suppress(TooExpensive, NotAFeed):
                await order(parsers, text)
    assert seen.parse_kills == 2


async def test_h5_what_name_servers_answer_is_counted():
    seen = NameLookups(SystemClock())
    table = {"good.test": ["9.9.9.9"], "gone.test": NXDOMAIN, "sick.test": SERVFAIL}
    async with (
        name_server(table) as server,
        SystemNames(nameservers=[server.address]) as names,
    ):
        names.on_lookup = seen.note
        for host in ("good.test", "gone.test", "sick.test", "127.0.0.1", "localhost", "a.invalid"):
            with suppress(NameNotFound, NameUnresolved):
                await names.addresses(host)
    assert (seen.answered, seen.unanswered, seen.silent(600)) == (2, 1, 1)
