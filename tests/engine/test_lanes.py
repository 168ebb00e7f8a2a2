"""Lanes: one after another inside, independent of each other outside."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest

from headwater.engine.gates import Gates
from headwater.engine.lanes import Lanes
from headwater.errors import HostBusy, OnHold
from headwater.model import DueSource, Hold, HostState, Outcome, Visit
from tests.fakes import START, FakeClock, in_virtual_time

Behaviour = Callable[[], Awaitable[None]]


@dataclass
class Polls:
    """A poll that takes a second, or whatever a test says, and is written down."""

    clock: FakeClock
    gates: Gates
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    story: list[tuple[str, str, float]] = field(default_factory=list)

    async def __call__(self, due: DueSource) -> Outcome | None:
        lane = due.lane or ""
        self.story.append(("start", due.id, self.clock.monotonic() - 1000))
        try:
            await asyncio.sleep(self.seconds.get(due.id, 1.0))
            if due.id in self.errors:
                raise self.errors[due.id]
        finally:
            self.story.append(("end", due.id, self.clock.monotonic() - 1000))
            self.gates.leave(lane, due.delay_seconds)
        return None

    def order(self) -> list[str]:
        return [id_ for what, id_, _ in self.story if what == "start"]

    def at(self, what: str, id_: str) -> float:
        return next(at for kind, name, at in self.story if (kind, name) == (what, id_))


def world(
    *, slots: int = 256, states: list[HostState] | None = None, unclean: bool = False
) -> tuple[Lanes, Polls, Gates]:
    clock = FakeClock()
    gates = Gates(states or [], clock, unclean_stop=unclean)
    polls = Polls(clock, gates)
    return Lanes(polls, gates, slots=slots, rng=Random(1)), polls, gates


def due(
    id_: str,
    lane: str | None = "a.org",
    *,
    delay: float = 0.0,
    overdue: float = 0.0,
    requested: bool = False,
) -> DueSource:
    return DueSource(id_, lane, START - timedelta(seconds=overdue), delay, requested)


def test_p1_a_lane_polls_one_source_after_another_and_lanes_run_at_the_same_time() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world()
        lanes.offer([due("a1"), due("a2"), due("b1", "b.org"), due("b2", "b.org")])
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "b1") == 0 == polls.at("start", "a1")
    assert polls.at("start", "a2") >= polls.at("end", "a1")
    assert polls.at("end", "b2") == 2.0


def test_p1_requested_ones_go_first_then_the_longest_overdue() -> None:
    async def story() -> list[str]:
        lanes, polls, _ = world()
        lanes.offer(
            [
                due("late", overdue=10),
                due("latest", overdue=99),
                due("asked", requested=True),
                due("early", overdue=1),
            ]
        )
        await lanes.wait_until_idle()
        return polls.order()

    assert in_virtual_time(story) == ["asked", "latest", "late", "early"]


def test_s9_a_waiting_source_that_is_requested_moves_to_the_front() -> None:
    async def story() -> list[str]:
        lanes, polls, _ = world()
        lanes.offer([due(f"s{n}", overdue=10 - n) for n in range(5)])
        lanes.request(due("s4", requested=True))
        await lanes.wait_until_idle()
        return polls.order()

    assert in_virtual_time(story) == ["s0", "s4", "s1", "s2", "s3"]  # s0 ran already


def test_p2_p3_the_delay_counts_from_the_end_of_one_poll_to_the_start_of_the_next() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world()
        lanes.offer([due("one", delay=3, overdue=2), due("two", delay=5, overdue=1), due("three")])
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "two") - polls.at("end", "one") == 3
    assert polls.at("start", "three") - polls.at("end", "two") == 5


def test_p3_spacing_holds_over_ticks_and_manual_polls() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world()
        lanes.offer([due("tick", delay=60)])
        await lanes.wait_until_idle()
        lanes.request(due("by hand", delay=60, requested=True))
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "by hand") - polls.at("end", "tick") == 60


def test_p3_spacing_holds_over_a_restart() -> None:
    allowed = START + timedelta(seconds=42)

    async def story() -> Polls:
        state = HostState("a.org", next_allowed_at=allowed, next_allowed_set_at=START)
        lanes, polls, _ = world(states=[state])
        lanes.offer([due("one")])
        await lanes.wait_until_idle()
        return polls

    assert in_virtual_time(story).at("start", "one") == 42


def test_o4_a_clock_set_back_before_a_restart_lengthens_no_wait() -> None:
    set_at = START + timedelta(days=365)  # the clock was a year ahead when this was stored

    async def story() -> Polls:
        state = HostState("a.org", set_at + timedelta(seconds=10), set_at)
        lanes, polls, _ = world(states=[state])
        lanes.offer([due("one")])
        await lanes.wait_until_idle()
        return polls

    assert in_virtual_time(story).at("start", "one") == 10


@pytest.mark.parametrize("hours", [-24 * 365, -1, 1, 24 * 365])
def test_h6_o4_setting_the_wall_clock_shortens_and_lengthens_no_wait(hours: int) -> None:
    async def story() -> Polls:
        lanes, polls, gates = world()
        gates.hold("b.org", Hold(START + timedelta(seconds=90), START, "HTTP 429"))
        lanes.offer([due("one", delay=60, overdue=2), due("two"), due("held", "b.org")])
        await asyncio.sleep(10)
        polls.clock.set_by(timedelta(hours=hours))
        lanes.offer([due("two"), due("held", "b.org")])  # the next tick finds them due again
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "two") - polls.at("end", "one") == 60
    assert polls.at("start", "held") == 90


def test_p3_after_an_unclean_stop_a_lane_waits_the_longest_delay_of_its_due_sources_once() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world(unclean=True)
        lanes.offer([due("short", delay=3, overdue=5), due("long", delay=20), due("b", "b.org")])
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "short") == 20
    assert polls.at("start", "long") - polls.at("end", "short") == 3
    assert polls.at("start", "b") == 0


def test_s6_a_slow_host_delays_nobody_and_nothing_is_queued_twice() -> None:
    async def story() -> tuple[Polls, int]:
        lanes, polls, _ = world()
        polls.seconds["slow"] = 10_000
        lanes.offer([due("slow", "slow.org"), due("waits", "slow.org"), due("quick", "b.org")])
        await asyncio.sleep(60)
        again = lanes.offer(
            [due("slow", "slow.org"), due("waits", "slow.org"), due("quick", "b.org")]
        )
        await lanes.wait_until_idle()
        return polls, again

    polls, again = in_virtual_time(story)
    assert again == 1  # only the quick one
    assert polls.order().count("slow") == 1
    assert polls.order().count("waits") == 1
    assert polls.at("end", "quick") == 1


def test_s6_stuck_hosts_below_the_limit_leave_room_for_others() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world(slots=4)
        for n in range(3):
            polls.seconds[f"stuck{n}"] = 10_000
        lanes.offer([due(f"stuck{n}", f"s{n}.org") for n in range(3)])
        lanes.offer([due(f"ok{n}", f"ok{n}.org") for n in range(10)])
        await asyncio.sleep(60)
        return polls

    polls = in_virtual_time(story)
    assert [polls.at("start", f"ok{n}") for n in range(10)] == list(range(10))


def test_a_host_with_a_thousand_due_sources_and_a_delay_of_a_minute_holds_up_nobody() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world()
        lanes.offer([due(f"s{n}", "many.org", delay=60) for n in range(1000)])
        lanes.offer([due("other", "other.org")])
        await asyncio.sleep(1.5)
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "other") == 0
    assert len(polls.order()) == 2


def test_p5_an_unexpected_exception_leaves_the_lane_and_all_others_alone() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world()
        polls.errors["bad"] = RuntimeError("boom")
        lanes.offer([due("bad", overdue=5), due("next"), due("other", "b.org")])
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.order() == ["bad", "other", "next"]


def test_p4_sources_without_a_host_share_the_null_lane_without_delay() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world()
        polls.errors["bad"] = ValueError("no host")
        lanes.offer([due("bad", None, overdue=5), due("next", None)])
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "next") == polls.at("end", "bad")


def test_p9_a_hold_keeps_the_lane_from_starting_until_it_is_over() -> None:
    async def story() -> Polls:
        lanes, polls, gates = world()
        gates.hold("a.org", Hold(START + timedelta(seconds=600), START, "HTTP 429"))
        lanes.offer([due("one"), due("other", "b.org")])
        await lanes.wait_until_idle()
        return polls

    polls = in_virtual_time(story)
    assert polls.at("start", "one") == 600
    assert polls.at("start", "other") == 0


def test_p10_a_poll_in_flight_is_joined_and_not_repeated() -> None:
    async def story() -> tuple[list[str], bool]:
        lanes, polls, _ = world()
        lanes.offer([due("one")])
        await asyncio.sleep(0.5)
        answer = lanes.request(due("one", requested=True))
        await lanes.wait_until_idle()
        return polls.order(), answer.done()

    assert in_virtual_time(story) == (["one"], True)


def test_p3_a_redirect_waits_for_the_other_hosts_turn_and_marks_it_as_visited() -> None:
    async def story() -> list[float]:
        lanes, polls, gates = world()
        polls.seconds["b1"] = 5
        lanes.offer([due("b1", "b.org", delay=2)])
        await asyncio.sleep(1)
        async with gates.turn("b.org", 3.0, lambda _: None):
            entered = polls.clock.monotonic() - 1000
            lanes.offer([due("b2", "b.org")])
            await asyncio.sleep(4)
        await lanes.wait_until_idle()
        return [entered, polls.at("start", "b2")]

    # the lane's poll ends at 5 and its delay at 7; the redirect's visit ends at 11, its delay at 14
    assert in_virtual_time(story) == [7, 14]


def test_p3_a_redirect_that_gets_no_turn_within_half_a_minute_is_given_up() -> None:
    async def story() -> tuple[type[Exception], float]:
        _, polls, gates = world()
        gates.enter("b.org")
        try:
            async with gates.turn("b.org", 0.0, lambda _: None):
                raise AssertionError("the host is busy")
        except HostBusy as error:
            return type(error), polls.clock.monotonic() - 1000

    assert in_virtual_time(story) == (HostBusy, 30)


def test_p9_a_redirect_to_a_host_on_a_long_hold_says_so_at_once() -> None:
    async def story() -> float:
        _, polls, gates = world()
        gates.hold("b.org", Hold(START + timedelta(hours=1), START, "HTTP 429"))
        try:
            async with gates.turn("b.org", 0.0, lambda _: None):
                raise AssertionError("the host is on hold")
        except OnHold:
            return polls.clock.monotonic() - 1000

    assert in_virtual_time(story) == 0


def test_s8_stopping_lets_running_polls_finish_and_starts_no_other() -> None:
    async def story() -> Polls:
        lanes, polls, _ = world()
        lanes.offer([due("runs", overdue=5), due("waits")])
        await asyncio.sleep(0.5)
        await lanes.stop(10)
        await asyncio.sleep(100)
        return polls

    polls = in_virtual_time(story)
    assert [(what, id_) for what, id_, _ in polls.story] == [("start", "runs"), ("end", "runs")]


def test_s8_a_poll_cut_off_at_the_limit_leaves_its_lanes_spacing_behind() -> None:
    async def story() -> tuple[float, list[Visit]]:
        lanes, polls, gates = world()
        polls.seconds["stuck"] = 10_000
        lanes.offer([due("stuck", delay=30)])
        await asyncio.sleep(1)
        await lanes.stop(10)
        return polls.clock.monotonic() - 1000, gates.snapshot()

    at, left = in_virtual_time(story)
    assert at == 11
    assert left == [Visit("a.org", START + timedelta(seconds=11), START + timedelta(seconds=41))]


def test_p10_a_stop_leaves_nobody_waiting_for_an_answer() -> None:
    async def story() -> list[bool]:
        lanes, _, gates = world()
        gates.hold("b.org", Hold(START + timedelta(hours=1), START, "HTTP 429"))
        answers = [lanes.request(due("one")), lanes.request(due("held", "b.org", requested=True))]
        await lanes.stop(0.1)
        return [answer.done() for answer in answers]

    assert in_virtual_time(story) == [True, True]


def test_o2_while_paused_only_what_is_asked_for_by_hand_is_polled() -> None:
    async def story() -> list[str]:
        lanes, polls, _ = world()
        lanes.pause()
        lanes.offer([due("waits"), due("asked", "b.org", requested=True)])
        await asyncio.sleep(100)
        return polls.order()

    assert in_virtual_time(story) == ["asked"]


def test_o2_a_probe_polls_one_source_of_a_good_host() -> None:
    async def story() -> tuple[list[str], bool, bool]:
        lanes, polls, _ = world()
        lanes.pause()
        lanes.offer([due("good", "good.org"), due("bad", "bad.org")])
        first = lanes.probe(["good.org", "unknown.org"])
        await asyncio.sleep(10)
        second = lanes.probe(["good.org"])
        return polls.order(), first, second

    assert in_virtual_time(story) == (["good"], True, False)


def test_o2_lanes_come_back_spread_out() -> None:
    async def story() -> list[float]:
        lanes, polls, _ = world()
        lanes.pause()
        lanes.offer([due(f"s{n}", f"h{n}.org") for n in range(200)])
        lanes.resume(spread_seconds=100)
        await lanes.wait_until_idle()
        return [at for what, _, at in polls.story if what == "start"]

    starts = in_virtual_time(story)
    assert len(starts) == 200
    assert max(starts) > 80
    assert max(sum(1 for s in starts if n <= s < n + 5) for n in range(100)) < 30


def test_p3_a_lane_that_stands_in_line_waits_for_a_redirect_that_came_first() -> None:
    async def story() -> list[float]:
        lanes, polls, gates = world(slots=1)
        polls.seconds["busy"] = 5
        lanes.offer([due("busy", "a.org"), due("b1", "b.org")])  # b.org stands in line for a slot
        await asyncio.sleep(1)
        async with gates.turn("b.org", 0.0, lambda _: None):
            await asyncio.sleep(10)
        await lanes.wait_until_idle()
        return [polls.at("start", "b1")]

    assert in_virtual_time(story) == [11]


def test_o2_lanes_that_stand_in_line_when_polling_pauses_wait_too() -> None:
    async def story() -> list[str]:
        lanes, polls, _ = world(slots=1)
        lanes.offer([due("runs", "a.org"), due("waits", "b.org")])
        lanes.pause()
        await asyncio.sleep(60)
        paused = polls.order()
        lanes.resume()
        await lanes.wait_until_idle()
        return [*paused, "|", *polls.order()]

    assert in_virtual_time(story) == ["runs", "|", "runs", "waits"]


def test_p10_every_request_gets_its_answer_however_late_it_joins() -> None:
    async def story() -> bool:
        lanes, _, _ = world()
        asked: list[asyncio.Future[Outcome | None]] = []

        async def ask_again_and_again() -> None:
            for _ in range(50):
                asked.append(lanes.request(due("one", requested=True)))
                await asyncio.sleep(0.1)

        await ask_again_and_again()
        await lanes.wait_until_idle()
        return all(answer.done() for answer in asked)

    assert in_virtual_time(story)


def test_o2_a_probe_never_runs_a_lane_that_stands_in_line_already() -> None:
    async def story() -> tuple[bool, int]:
        lanes, polls, _ = world(slots=2)
        lanes.offer([due("a", "a.org"), due("c", "c.org"), due("b1", "b.org"), due("b2", "b.org")])
        probed = lanes.probe(["b.org"])
        await asyncio.sleep(0.5)
        return probed, len(polls.order())

    assert in_virtual_time(story) == (False, 2)


def test_p10_a_request_in_the_very_moment_a_poll_ends_is_answered() -> None:
    async def story() -> bool:
        lanes, _, _ = world()
        first = lanes.request(due("one", requested=True))
        later: list[asyncio.Future[Outcome | None]] = []
        first.add_done_callback(lambda _: later.append(lanes.request(due("one", requested=True))))
        await lanes.wait_until_idle()
        await asyncio.sleep(10)
        return later[0].done()

    assert in_virtual_time(story)
