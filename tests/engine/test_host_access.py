"""Host access: polls with redirects, previews, and visits of other processes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import pytest

from headwater.engine.hosts.access import HostAccess, HostLocker, HostVisit
from headwater.engine.hosts.gates import Gates
from headwater.engine.hosts.visitors import VisitorLocks, visitor_access
from headwater.errors import BadStatus, HostBusy, OnHold
from headwater.model import Answer, Fence, Hold, HostState, SourceType, Subject, Visit
from headwater.rules.policy import Policy
from headwater.store.host_locks import HostLocks
from headwater.store.hosts import Hosts
from tests.engine.conftest import Engine, RunningEngine
from tests.factories import a_source
from tests.fakes import START, FakeClock, in_virtual_time, visiting

MINUTE = Policy(type_delay_seconds={SourceType.RSS: 60.0})
HOME = a_source(url="https://a.org/feed", host="a.org")


@asynccontextmanager
async def polling(gates: Gates, policy: Policy) -> AsyncIterator[HostVisit]:
    """A poll of a.org, whose lane has just been granted access; its outcome stores the visit."""
    hosts = HostAccess(gates, cast(Hosts, None), policy)
    async with hosts.visit(HOME, "a.org", gates.enter("a.org")) as visit:
        yield visit


async def there_and_back(visit: HostVisit, clock: FakeClock, *, seconds: float = 1.0) -> float:
    """Go to b.org and return; returns the time at which the poll is back at its own host."""
    async with visit.redirect_to("b.org"):
        await asyncio.sleep(seconds)
    async with visit.redirect_to("a.org"):
        return clock.monotonic() - 1000


def test_p3_a_redirect_back_is_the_same_visit_and_waits_for_no_delay() -> None:
    async def scenario() -> tuple[float, float]:
        clock = FakeClock()
        gates = Gates([], clock)
        async with polling(gates, MINUTE) as visit:
            back = await there_and_back(visit, clock)
            async with visit.redirect_to("b.org"):  # and once more
                pass
        return back, gates.seconds_until_open("a.org")

    # the delay of the lane counts once, from the end of the poll
    assert in_virtual_time(scenario) == (1, 60)


def test_p3_the_delay_counts_from_the_end_of_the_poll_and_not_of_its_requests() -> None:
    class Permit:
        released = False

        def release(self) -> None:
            self.released = True

    async def scenario() -> tuple[float, float, bool, bool]:
        gates, permit = Gates([], FakeClock()), Permit()
        async with polling(gates, MINUTE) as visit:
            visit.keep(permit)
            (record,) = visit.finish()
            assert record.next_allowed_at == START + timedelta(seconds=60)
            assert gates.gate("a.org").busy is False, "others may enter while the poll is stored"
            await asyncio.sleep(5)
            at_end, kept = gates.seconds_until_open("a.org"), permit.released
        return at_end, gates.seconds_until_open("a.org"), kept, permit.released

    assert in_virtual_time(scenario) == (55, 60, False, True)


def test_p3_a_redirect_back_waits_for_the_current_visit_of_its_host() -> None:
    async def scenario() -> float:
        clock = FakeClock()
        gates = Gates([], clock)

        async def another() -> None:
            await asyncio.sleep(0.5)  # while the poll is at b.org
            async with visiting(gates, "a.org"):
                await asyncio.sleep(10)

        async with polling(gates, Policy()) as visit:
            other = asyncio.create_task(another())
            back = await there_and_back(visit, clock)
        await other
        return back

    assert in_virtual_time(scenario) == 10.5


def test_p3_the_delay_of_another_visit_counts_on_the_way_back() -> None:
    async def scenario() -> float:
        clock = FakeClock()
        gates = Gates([], clock)

        async def another() -> None:
            await asyncio.sleep(0.5)
            async with visiting(gates, "a.org", 20.0):
                pass

        async with polling(gates, Policy()) as visit:
            other = asyncio.create_task(another())
            back = await there_and_back(visit, clock)
        await other
        return back

    assert in_virtual_time(scenario) == 20.5


def test_p3_a_redirect_back_that_waits_too_long_fails() -> None:
    async def scenario() -> str:
        gates = Gates([], FakeClock())
        async with polling(gates, Policy()) as visit:
            async with visit.redirect_to("b.org"):
                gates.enter("a.org")
            with pytest.raises(HostBusy) as error:
                async with visit.redirect_to("a.org"):
                    pass
        return str(error.value)

    assert in_virtual_time(scenario) == "a.org was not free within 30 s"


def test_p3_p9_stored_lane_state_shortens_no_wait() -> None:
    async def scenario() -> list[float]:
        clock = FakeClock()
        gates = Gates([], clock)
        until = [START + timedelta(seconds=n) for n in (10, 20, 30, 40)]
        waits = []
        for moment, held in ((until[1], until[3]), (until[0], until[2])):
            hold = Hold(held, START, "HTTP 429 from a.org")
            gates.learn(HostState("a.org", moment, START, hold))
            state = gates.state("a.org")
            assert state.next_allowed_at is not None
            assert state.hold is not None
            waits += [
                (state.next_allowed_at - START).total_seconds(),
                (state.hold.until - START).total_seconds(),
            ]
        return waits

    assert in_virtual_time(scenario) == [20, 40, 20, 40]


def test_p3_the_service_reads_visits_of_another_process(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[float]:
        await env.store.sources.add_many([HOME])
        stop = asyncio.Event()
        running = asyncio.create_task(env.service.run(stop))
        await asyncio.sleep(1.5)
        beside = visitor_access(env.store, env.clock, MINUTE)
        async with beside as hosts, hosts.visit(replace(HOME, id="preview"), "a.org"):
            await asyncio.sleep(5)
        await asyncio.sleep(2)
        outcome = await env.service.poll_now(HOME.id, wait_seconds=None)
        assert outcome is not None
        stop.set()
        await running
        return [at - 1000 for at in env.fetch.times(HOME.url)]

    # the visit ends at 6.5, and its delay at 66.5; first contact was not due before
    [times] = engine.with_policy(type_delay_seconds={SourceType.RSS: 60.0}).play(scenario)
    assert times == [pytest.approx(66.5, abs=0.1)]


def test_p9_the_service_reads_holds_that_another_process_received(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> str:
        await env.store.sources.add_many([HOME])
        stop = asyncio.Event()
        running = asyncio.create_task(env.service.run(stop))
        until = START + timedelta(hours=1)
        beside = visitor_access(env.store, env.clock, Policy())
        async with beside as hosts, hosts.visit(HOME, "a.org") as visit:
            await visit.hold("a.org", Hold(until, START, "HTTP 429 from a.org"))
        await asyncio.sleep(2)
        outcome = await env.service.poll_now(HOME.id)
        stop.set()
        await running
        assert outcome is not None
        assert outcome.failure is not None
        assert not env.fetch.visits
        return outcome.failure.message

    reported = "on hold until 2026-02-16T09:00:00Z: HTTP 429 from a.org"
    assert engine.play(scenario) == [reported]


def test_p3_a_visit_outside_the_lanes_waits_for_the_host_and_is_stored(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[list[float], bool]:
        await env.store.sources.add_many([HOME])
        env.fetch.on(HOME.url, Answer(304, unchanged=True), seconds=4)
        polling = asyncio.create_task(env.service.poll_now(HOME.id))
        while not env.service.lanes.in_flight():
            await asyncio.sleep(0)
        async with env.service.hosts.visit(replace(HOME, id="preview"), "a.org"):
            entered = env.clock.monotonic() - 1000
            again = asyncio.create_task(env.service.poll_now(HOME.id))
            await asyncio.sleep(1)
        stored = (await env.store.hosts.get("a.org")).next_allowed_at is not None
        await asyncio.gather(polling, again)
        return [entered, *(at - 1000 for at in env.fetch.times(HOME.url))], stored

    [(times, stored)] = engine.with_policy(type_delay_seconds={SourceType.RSS: 10.0}).play(scenario)
    # polled from 0 to 4, free at 14, visited until 15, polled again at 25
    assert times == [14, 0, 25]
    assert stored


def test_s8_a_visit_outside_the_lanes_is_refused_once_the_service_stops(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> str:
        env.service.lanes.close()
        try:
            async with env.service.hosts.visit(HOME, "a.org"):
                return "let in"
        except Exception as error:
            return type(error).__name__

    assert engine.play(scenario) == ["Stopping"]


def test_p9_a_hold_names_the_host_and_not_the_source(engine: Engine) -> None:
    secret = replace(HOME, url="https://a.org/private/feed?token=abc")
    other = replace(HOME, id="other", url="https://a.org/other")

    async def limited(_: Subject, visit: HostVisit) -> Answer:
        raise BadStatus(429, f"HTTP 429 from {secret.url}", host="a.org", hold_seconds=600)

    async def scenario(env: RunningEngine) -> str:
        await env.store.sources.add_many([secret, other])
        env.fetch.answers[secret.url] = limited
        await env.service.poll_now(secret.id)
        outcome = await env.service.poll_now(other.id)
        assert outcome is not None
        assert outcome.failure is not None
        with pytest.raises(OnHold, match=r"HTTP 429 from a\.org"):
            async with visiting(env.service.gates, "a.org"):
                pass
        return outcome.failure.message

    [message] = engine.play(scenario)
    assert message == "on hold until 2026-02-16T08:10:00Z: HTTP 429 from a.org"


def test_p3_a_visit_of_another_process_waits_for_the_stored_state(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[float, bool]:
        beside = visitor_access(env.store, env.clock, MINUTE)
        async with beside as hosts, hosts.visit(HOME, "a.org") as visit:
            async with visit.redirect_to("b.org"):
                await asyncio.sleep(1)
            async with visit.redirect_to("a.org"):  # without its own delay
                back = env.clock.monotonic() - 1000
        async with visitor_access(env.store, env.clock, MINUTE) as hosts:
            for host in ("a.org", "b.org"):
                with pytest.raises(HostBusy, match=f"{host} was visited recently; try again in"):
                    async with hosts.visit(replace(HOME, url=f"https://{host}/"), host):
                        pass
            await asyncio.sleep(40)
            async with hosts.visit(HOME, "a.org"):
                waited = env.clock.monotonic() - 1000 - back
        return back, waited == pytest.approx(60, abs=0.1)

    assert engine.play(scenario) == [(1, True)]


class CountingLocker(HostLocker):
    """Locks of one process, which several of its visits may hold, and the stored state."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self.visits: list[Visit] = []

    def fence(self, _lane: str) -> Fence | None:
        return None

    def check(self, _fence: Fence | None, lanes: Collection[str]) -> None:
        assert all(self.held[lane] for lane in lanes)

    async def lock(self, lane: str, *_: object) -> HostState | None:
        self.held[lane] += 1
        return HostState(lane)

    async def unlock(self, lane: str, visit: Visit | None) -> None:
        self.held[lane] -= 1
        await self.keep([] if visit is None else [visit])

    async def keep(self, visits: Sequence[Visit]) -> None:
        self.visits += visits

    async def announce(self, lane: str, _now: datetime) -> None:
        assert lane


def test_k8_a_visit_unlocks_only_what_it_locked_itself() -> None:
    async def scenario() -> tuple[int, list[tuple[str, bool]]]:
        clock, locker = FakeClock(), CountingLocker()
        policy = Policy(type_delay_seconds={SourceType.RSS: 1.0})
        hosts = HostAccess(Gates([], clock), cast(Hosts, locker), policy, locker)
        async with hosts.visit(HOME, "a.org") as first:
            async with first.redirect_to("b.org"):
                await asyncio.sleep(2)  # a.org is free again
            second = hosts.visit(HOME, "a.org")
            await second.__aenter__()
        second.check()
        held = locker.held["a.org"]
        await second.__aexit__()
        return held, [(visit.lane, visit.is_last) for visit in locker.visits]

    held, visits = in_virtual_time(scenario)
    assert held == 1
    assert visits == [("a.org", True), ("b.org", True), ("a.org", False), ("a.org", True)]


class SlowLocker(CountingLocker):
    """Takes a second for everything that a cancellation can interrupt."""

    async def announce(self, lane: str, now: datetime) -> None:
        await asyncio.sleep(1)
        await super().announce(lane, now)

    async def unlock(self, lane: str, visit: Visit | None) -> None:
        self.held[lane] -= 1  # sent at once, as over a connection; the response takes a while
        await asyncio.sleep(1)
        await self.keep([] if visit is None else [visit])


@pytest.mark.parametrize("after_seconds", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
def test_k8_a_visit_that_is_cancelled_leaves_no_host_locked(after_seconds: float) -> None:
    async def visit(locker: SlowLocker, clock: FakeClock) -> None:
        policy = Policy(type_delay_seconds={SourceType.RSS: 1.0})
        locks = VisitorLocks(cast(HostLocks, locker), cast(Hosts, locker), clock)
        hosts = HostAccess(Gates([], clock), cast(Hosts, locker), policy, locks)
        async with hosts.visit(HOME, "a.org") as visit:
            await asyncio.sleep(1)
            async with visit.redirect_to("b.org"):
                await asyncio.sleep(1)

    async def scenario() -> Counter[str]:
        clock, locker = FakeClock(), SlowLocker()
        task = asyncio.create_task(visit(locker, clock))
        await asyncio.sleep(after_seconds)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        return +locker.held

    assert in_virtual_time(scenario) == Counter()


def test_p9_a_poll_waits_for_a_hold_that_is_not_stored_yet() -> None:
    class Leased(CountingLocker):
        def fence(self, lane: str) -> Fence | None:
            return Fence(1, 1) if lane else None

    async def scenario() -> Counter[str]:
        clock, locker = FakeClock(), Leased()
        gates = Gates([], clock)
        hosts = HostAccess(gates, cast(Hosts, locker), MINUTE, locker)
        entry = gates.enter("a.org")
        gates.hold("a.org", Hold(START + timedelta(minutes=5), START, "HTTP 429"))
        with pytest.raises(HostBusy):
            await hosts.visit(HOME, "a.org", entry).__aenter__()
        return +locker.held

    assert in_virtual_time(scenario) == Counter()
