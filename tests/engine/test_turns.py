"""Turns outside the lanes: redirects that come back, previews, visits of other processes."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.engine.gates import Gates
from headwater.engine.turns import VisitTurns
from headwater.errors import BadStatus, HostBusy, OnHold
from headwater.model import Answer, Hold, HostState, SourceType, Subject
from headwater.operations.turns import ServiceDoor, StoredDoor
from headwater.rules.policy import Policy
from tests.engine.conftest import Engine, World
from tests.factories import a_source
from tests.fakes import START, FakeClock, in_virtual_time

MINUTE = Policy(type_delay_seconds={SourceType.RSS: 60.0})
HOME = a_source(url="https://a.org/feed", host="a.org")


def at_home(gates: Gates, policy: Policy) -> VisitTurns:
    """A poll of a.org that has just begun."""
    gates.enter("a.org")
    turns = VisitTurns(gates, "a.org")
    turns.begin(HOME, policy)
    return turns


async def there_and_back(turns: VisitTurns, clock: FakeClock, *, seconds: float = 1.0) -> float:
    """Go to b.org and return; answers when the poll is back at its own host."""
    async with turns.at("b.org"):
        await asyncio.sleep(seconds)
    async with turns.at("a.org"):
        return clock.monotonic() - 1000


def test_p3_a_redirect_back_is_the_same_visit_and_waits_for_no_delay_of_its_own() -> None:
    async def story() -> tuple[float, float]:
        clock = FakeClock()
        gates = Gates([], clock)
        turns = at_home(gates, MINUTE)
        back = await there_and_back(turns, clock)
        async with turns.at("b.org"):  # and once more
            pass
        turns.end()
        return back, gates.seconds_until_open("a.org")

    # the delay of the lane counts from the end of the poll, once
    assert in_virtual_time(story) == (1, 60)


def test_p3_a_redirect_back_waits_for_whoever_is_at_its_host_meanwhile() -> None:
    async def story() -> float:
        clock = FakeClock()
        gates = Gates([], clock)
        turns = at_home(gates, Policy())

        async def another() -> None:
            await asyncio.sleep(0.5)  # while the poll is at b.org
            async with gates.turn("a.org", 0.0, lambda _: None):
                await asyncio.sleep(10)

        other = asyncio.create_task(another())
        back = await there_and_back(turns, clock)
        turns.end()
        await other
        return back

    assert in_virtual_time(story) == 10.5


def test_p3_the_delay_of_another_visit_counts_on_the_way_back() -> None:
    async def story() -> float:
        clock = FakeClock()
        gates = Gates([], clock)
        turns = at_home(gates, Policy())

        async def another() -> None:
            await asyncio.sleep(0.5)
            async with gates.turn("a.org", 20.0, lambda _: None):
                pass

        other = asyncio.create_task(another())
        back = await there_and_back(turns, clock)
        turns.end()
        await other
        return back

    assert in_virtual_time(story) == 20.5


def test_p3_who_waits_too_long_for_the_way_back_gives_up() -> None:
    async def story() -> str:
        clock = FakeClock()
        gates = Gates([], clock)
        turns = at_home(gates, Policy())
        async with turns.at("b.org"):
            gates.enter("a.org")
        with pytest.raises(HostBusy) as error:
            async with turns.at("a.org"):
                pass
        turns.end()
        return str(error.value)

    assert in_virtual_time(story) == "a.org had no turn for us within 30 s"


def test_p3_p9_what_is_learned_of_a_lane_shortens_nothing() -> None:
    async def story() -> list[float]:
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

    assert in_virtual_time(story) == [20, 40, 20, 40]


def test_p3_the_service_learns_of_visits_that_another_process_makes(engine: Engine) -> None:
    async def story(world: World) -> list[float]:
        await world.store.sources.add_many([HOME])
        stop = asyncio.Event()
        running = asyncio.create_task(world.service.run(stop))
        await asyncio.sleep(1.5)
        aside = StoredDoor(world.store, world.clock, MINUTE)
        async with aside.visit(replace(HOME, id="preview"), "a.org"):
            await asyncio.sleep(5)
        await asyncio.sleep(2)
        outcome = await world.service.poll_now(HOME.id, wait_seconds=None)
        assert outcome is not None
        stop.set()
        await running
        return [at - 1000 for at in world.fetch.times(HOME.url)]

    # the visit ends at 6.5, and its delay at 66.5; first contact was not due before
    [times] = engine.with_policy(type_delay_seconds={SourceType.RSS: 60.0}).play(story)
    assert times == [pytest.approx(66.5, abs=0.1)]


def test_p9_the_service_learns_of_holds_that_another_process_was_told(engine: Engine) -> None:
    async def story(world: World) -> str:
        await world.store.sources.add_many([HOME])
        stop = asyncio.Event()
        running = asyncio.create_task(world.service.run(stop))
        aside = StoredDoor(world.store, world.clock, Policy())
        until = START + timedelta(hours=1)
        await aside.hold("a.org", Hold(until, START, "HTTP 429 from a.org"))
        await asyncio.sleep(2)
        outcome = await world.service.poll_now(HOME.id)
        stop.set()
        await running
        assert outcome is not None
        assert outcome.failure is not None
        assert not world.fetch.visits
        return outcome.failure.message

    told = "on hold until 2026-02-16T09:00:00Z: HTTP 429 from a.org"
    assert engine.play(story) == [told]


def test_p3_a_visit_beside_the_lanes_takes_its_turn_and_is_remembered(engine: Engine) -> None:
    async def story(world: World) -> tuple[list[float], bool]:
        await world.store.sources.add_many([HOME])
        world.fetch.on(HOME.url, Answer(304, unchanged=True), seconds=4)
        polling = asyncio.create_task(world.service.poll_now(HOME.id))
        while not world.service.lanes.in_flight():
            await asyncio.sleep(0)
        door = ServiceDoor(world.service, world.store, engine_policy)
        async with door.visit(replace(HOME, id="preview"), "a.org"):
            entered = world.clock.monotonic() - 1000
            again = asyncio.create_task(world.service.poll_now(HOME.id))
            await asyncio.sleep(1)
        stored = (await world.store.hosts.get("a.org")).next_allowed_at is not None
        await asyncio.gather(polling, again)
        return [entered, *(at - 1000 for at in world.fetch.times(HOME.url))], stored

    engine_policy = Policy(type_delay_seconds={SourceType.RSS: 10.0})
    [(times, stored)] = engine.with_policy(type_delay_seconds={SourceType.RSS: 10.0}).play(story)
    # polled from 0 to 4, free at 14, visited until 15, polled again at 25
    assert times == [14, 0, 25]
    assert stored


def test_s8_a_visit_beside_the_lanes_is_refused_once_the_service_stops(engine: Engine) -> None:
    async def story(world: World) -> str:
        world.service.lanes.close()
        door = ServiceDoor(world.service, world.store, Policy())
        try:
            async with door.visit(HOME, "a.org"):
                return "let in"
        except Exception as error:
            return type(error).__name__

    assert engine.play(story) == ["Stopping"]


def test_p9_a_hold_names_the_host_and_not_the_source_that_was_answered(engine: Engine) -> None:
    secret = replace(HOME, url="https://a.org/private/feed?token=abc")
    other = replace(HOME, id="other", url="https://a.org/other")

    async def limited(_: Subject, turns: VisitTurns) -> Answer:
        raise BadStatus(429, f"HTTP 429 from {secret.url}", host="a.org", hold_seconds=600)

    async def story(world: World) -> str:
        await world.store.sources.add_many([secret, other])
        world.fetch.answers[secret.url] = limited
        await world.service.poll_now(secret.id)
        outcome = await world.service.poll_now(other.id)
        assert outcome is not None
        assert outcome.failure is not None
        with pytest.raises(OnHold, match=r"HTTP 429 from a\.org"):
            async with world.service.gates.turn("a.org", 0.0, lambda _: None):
                pass
        return outcome.failure.message

    [message] = engine.play(story)
    assert message == "on hold until 2026-02-16T08:10:00Z: HTTP 429 from a.org"
