"""Lanes: polls one after another within a lane, independent of other lanes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest

from headwater.engine.hosts.gates import GateEntry, Gates
from headwater.engine.lanes import Lanes
from headwater.errors import HostBusy, OnHold
from headwater.model import DueSource, Hold, HostState, Outcome, Visit
from tests.fakes import START, FakeClock, in_virtual_time, visiting

Behaviour = Callable[[], Awaitable[None]]


@dataclass
class Polls:
    """A poll that takes a second, or the configured time, and is recorded."""

    clock: FakeClock
    gates: Gates
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    recorded: list[tuple[str, str, float]] = field(default_factory=list)
    together: list[list[str]] = field(default_factory=list)  # sources of one request

    async def __call__(self, dues: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        due = dues[0]
        self.together.append([one.id for one in dues])
        self.recorded.append(("start", due.id, self.clock.monotonic() - 1000))
        try:
            await asyncio.sleep(self.seconds.get(due.id, 1.0))
            if due.id in self.errors:
                raise self.errors[due.id]
        finally:
            self.recorded.append(("end", due.id, self.clock.monotonic() - 1000))
            entry.leave(due.delay_seconds)
        return {}

    def order(self) -> list[str]:
        return [id_ for what, id_, _ in self.recorded if what == "start"]

    def at(self, what: str, id_: str) -> float:
        return next(at for kind, name, at in self.recorded if (kind, name) == (what, id_))


def make_lanes(
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
    key: int | None = None,
) -> DueSource:
    since = START - timedelta(seconds=overdue)
    return DueSource(id_, lane, since, delay, requested, request_key=key)


def test_p1_a_lane_polls_one_source_after_another_and_lanes_run_concurrently() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes()
        lanes.offer([due("a1"), due("a2"), due("b1", "b.org"), due("b2", "b.org")])
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "b1") == 0 == polls.at("start", "a1")
    assert polls.at("start", "a2") >= polls.at("end", "a1")
    assert polls.at("end", "b2") == 2.0


def test_p1_requested_ones_go_first_then_the_longest_overdue() -> None:
    async def scenario() -> list[str]:
        lanes, polls, _ = make_lanes()
        lanes.offer(
            [
                due("late", overdue=10),
                due("latest", overdue=99),
                due("asked", requested=True),
                due("early", overdue=1),
            ]
        )
        await lanes.emptied(lanes.names())
        return polls.order()

    assert in_virtual_time(scenario) == ["asked", "latest", "late", "early"]


def test_s9_a_waiting_source_that_is_requested_moves_to_the_front() -> None:
    async def scenario() -> list[str]:
        lanes, polls, _ = make_lanes()
        lanes.offer([due(f"s{n}", overdue=10 - n) for n in range(5)])
        lanes.request(due("s4", requested=True))
        await lanes.emptied(lanes.names())
        return polls.order()

    assert in_virtual_time(scenario) == ["s0", "s4", "s1", "s2", "s3"]  # s0 ran already


def test_p2_p3_the_delay_counts_from_the_end_of_one_poll_to_the_start_of_the_next() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes()
        lanes.offer([due("one", delay=3, overdue=2), due("two", delay=5, overdue=1), due("three")])
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "two") - polls.at("end", "one") == 3
    assert polls.at("start", "three") - polls.at("end", "two") == 5


def test_p3_spacing_holds_over_ticks_and_manual_polls() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes()
        lanes.offer([due("tick", delay=60)])
        await lanes.emptied(lanes.names())
        lanes.request(due("by hand", delay=60, requested=True))
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "by hand") - polls.at("end", "tick") == 60


def test_p3_spacing_holds_over_a_restart() -> None:
    allowed = START + timedelta(seconds=42)

    async def scenario() -> Polls:
        state = HostState("a.org", next_allowed_at=allowed, next_allowed_set_at=START)
        lanes, polls, _ = make_lanes(states=[state])
        lanes.offer([due("one")])
        await lanes.emptied(lanes.names())
        return polls

    assert in_virtual_time(scenario).at("start", "one") == 42


def test_o4_a_clock_set_back_before_a_restart_extends_no_wait() -> None:
    set_at = START + timedelta(days=365)  # the clock was a year ahead when this was stored

    async def scenario() -> Polls:
        state = HostState("a.org", set_at + timedelta(seconds=10), set_at)
        lanes, polls, _ = make_lanes(states=[state])
        lanes.offer([due("one")])
        await lanes.emptied(lanes.names())
        return polls

    assert in_virtual_time(scenario).at("start", "one") == 10


@pytest.mark.parametrize("hours", [-24 * 365, -1, 1, 24 * 365])
def test_h6_o4_setting_the_wall_clock_changes_no_wait(hours: int) -> None:
    async def scenario() -> Polls:
        lanes, polls, gates = make_lanes()
        gates.hold("b.org", Hold(START + timedelta(seconds=90), START, "HTTP 429"))
        lanes.offer([due("one", delay=60, overdue=2), due("two"), due("held", "b.org")])
        await asyncio.sleep(10)
        polls.clock.set_by(timedelta(hours=hours))
        lanes.offer([due("two"), due("held", "b.org")])  # the next tick finds them due again
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "two") - polls.at("end", "one") == 60
    assert polls.at("start", "held") == 90


def test_p3_after_an_unclean_stop_a_lane_waits_the_longest_delay_of_its_due_sources_once() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes(unclean=True)
        lanes.offer([due("short", delay=3, overdue=5), due("long", delay=20), due("b", "b.org")])
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "short") == 20
    assert polls.at("start", "long") - polls.at("end", "short") == 3
    assert polls.at("start", "b") == 0


def test_s6_a_slow_host_delays_no_other_and_nothing_is_queued_twice() -> None:
    async def scenario() -> tuple[Polls, int]:
        lanes, polls, _ = make_lanes()
        polls.seconds["slow"] = 10_000
        lanes.offer([due("slow", "slow.org"), due("waits", "slow.org"), due("quick", "b.org")])
        await asyncio.sleep(60)
        again = lanes.offer(
            [due("slow", "slow.org"), due("waits", "slow.org"), due("quick", "b.org")]
        )
        await lanes.emptied(lanes.names())
        return polls, again

    polls, again = in_virtual_time(scenario)
    assert again == 1  # only the quick one
    assert polls.order().count("slow") == 1
    assert polls.order().count("waits") == 1
    assert polls.at("end", "quick") == 1


def test_s6_stuck_hosts_below_the_limit_leave_slots_for_others() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes(slots=4)
        for n in range(3):
            polls.seconds[f"stuck{n}"] = 10_000
        lanes.offer([due(f"stuck{n}", f"s{n}.org") for n in range(3)])
        lanes.offer([due(f"ok{n}", f"ok{n}.org") for n in range(10)])
        await asyncio.sleep(60)
        return polls

    polls = in_virtual_time(scenario)
    assert [polls.at("start", f"ok{n}") for n in range(10)] == list(range(10))


def test_a_host_with_a_thousand_due_sources_and_a_delay_of_a_minute_delays_no_other() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes()
        lanes.offer([due(f"s{n}", "many.org", delay=60) for n in range(1000)])
        lanes.offer([due("other", "other.org")])
        await asyncio.sleep(1.5)
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "other") == 0
    assert len(polls.order()) == 2


def test_p5_an_unexpected_exception_affects_neither_its_lane_nor_others() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes()
        polls.errors["bad"] = RuntimeError("boom")
        lanes.offer([due("bad", overdue=5), due("next"), due("other", "b.org")])
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.order() == ["bad", "other", "next"]


def test_p4_sources_without_a_host_share_the_null_lane_without_delay() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes()
        polls.errors["bad"] = ValueError("no host")
        lanes.offer([due("bad", None, overdue=5), due("next", None)])
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "next") == polls.at("end", "bad")


def test_p9_a_lane_on_hold_starts_no_poll_until_the_hold_ends() -> None:
    async def scenario() -> Polls:
        lanes, polls, gates = make_lanes()
        gates.hold("a.org", Hold(START + timedelta(seconds=600), START, "HTTP 429"))
        lanes.offer([due("one"), due("other", "b.org")])
        await lanes.emptied(lanes.names())
        return polls

    polls = in_virtual_time(scenario)
    assert polls.at("start", "one") == 600
    assert polls.at("start", "other") == 0


def test_p10_a_poll_in_flight_is_joined_and_not_repeated() -> None:
    async def scenario() -> tuple[list[str], bool]:
        lanes, polls, _ = make_lanes()
        lanes.offer([due("one")])
        await asyncio.sleep(0.5)
        answer = lanes.request(due("one", requested=True))
        await lanes.emptied(lanes.names())
        return polls.order(), answer.done()

    assert in_virtual_time(scenario) == (["one"], True)


def test_p3_a_redirect_waits_for_the_other_host_and_marks_it_as_visited() -> None:
    async def scenario() -> list[float]:
        lanes, polls, gates = make_lanes()
        polls.seconds["b1"] = 5
        lanes.offer([due("b1", "b.org", delay=2)])
        await asyncio.sleep(1)
        async with visiting(gates, "b.org", 3.0):
            entered = polls.clock.monotonic() - 1000
            lanes.offer([due("b2", "b.org")])
            await asyncio.sleep(4)
        await lanes.emptied(lanes.names())
        return [entered, polls.at("start", "b2")]

    # the lane's poll ends at 5 and its delay at 7; the redirect's visit ends at 11, its delay at 14
    assert in_virtual_time(scenario) == [7, 14]


def test_p3_a_redirect_that_gets_no_access_within_half_a_minute_fails() -> None:
    async def scenario() -> tuple[type[Exception], float]:
        _, polls, gates = make_lanes()
        gates.enter("b.org")
        try:
            async with visiting(gates, "b.org"):
                raise AssertionError("the host is busy")
        except HostBusy as error:
            return type(error), polls.clock.monotonic() - 1000

    assert in_virtual_time(scenario) == (HostBusy, 30)


def test_p9_a_redirect_to_a_host_on_a_long_hold_fails_at_once() -> None:
    async def scenario() -> float:
        _, polls, gates = make_lanes()
        gates.hold("b.org", Hold(START + timedelta(hours=1), START, "HTTP 429"))
        try:
            async with visiting(gates, "b.org"):
                raise AssertionError("the host is on hold")
        except OnHold:
            return polls.clock.monotonic() - 1000

    assert in_virtual_time(scenario) == 0


def test_s8_stopping_lets_running_polls_finish_and_starts_no_other() -> None:
    async def scenario() -> Polls:
        lanes, polls, _ = make_lanes()
        lanes.offer([due("runs", overdue=5), due("waits")])
        await asyncio.sleep(0.5)
        await lanes.stop(10)
        await asyncio.sleep(100)
        return polls

    polls = in_virtual_time(scenario)
    assert [(what, id_) for what, id_, _ in polls.recorded] == [("start", "runs"), ("end", "runs")]


def test_s8_a_poll_cut_off_at_the_limit_still_delays_its_lane() -> None:
    async def scenario() -> tuple[float, list[Visit]]:
        lanes, polls, gates = make_lanes()
        polls.seconds["stuck"] = 10_000
        lanes.offer([due("stuck", delay=30)])
        await asyncio.sleep(1)
        await lanes.stop(10)
        return polls.clock.monotonic() - 1000, gates.snapshot()

    at, left = in_virtual_time(scenario)
    assert at == 11
    assert left == [Visit("a.org", START + timedelta(seconds=11), START + timedelta(seconds=41))]


def test_p10_a_stop_completes_every_waiting_request() -> None:
    async def scenario() -> list[bool]:
        lanes, _, gates = make_lanes()
        gates.hold("b.org", Hold(START + timedelta(hours=1), START, "HTTP 429"))
        answers = [lanes.request(due("one")), lanes.request(due("held", "b.org", requested=True))]
        await lanes.stop(0.1)
        return [answer.done() for answer in answers]

    assert in_virtual_time(scenario) == [True, True]


def test_o2_while_paused_only_manual_polls_run() -> None:
    async def scenario() -> list[str]:
        lanes, polls, _ = make_lanes()
        lanes.pause()
        lanes.offer([due("waits"), due("asked", "b.org", requested=True)])
        await asyncio.sleep(100)
        return polls.order()

    assert in_virtual_time(scenario) == ["asked"]


def test_o2_a_probe_polls_one_source_of_a_good_host() -> None:
    async def scenario() -> tuple[list[str], bool, bool]:
        lanes, polls, _ = make_lanes()
        lanes.pause()
        lanes.offer([due("good", "good.org"), due("bad", "bad.org")])
        first = lanes.probe(["good.org", "unknown.org"])
        await asyncio.sleep(10)
        second = lanes.probe(["good.org"])
        return polls.order(), first, second

    assert in_virtual_time(scenario) == (["good"], True, False)


def test_o2_lanes_resume_spread_out() -> None:
    async def scenario() -> list[float]:
        lanes, polls, _ = make_lanes()
        lanes.pause()
        lanes.offer([due(f"s{n}", f"h{n}.org") for n in range(200)])
        lanes.resume(spread_seconds=100)
        await lanes.emptied(lanes.names())
        return [at for what, _, at in polls.recorded if what == "start"]

    starts = in_virtual_time(scenario)
    assert len(starts) == 200
    assert max(starts) > 80
    assert max(sum(1 for s in starts if n <= s < n + 5) for n in range(100)) < 30


def test_p3_a_lane_waiting_for_a_slot_waits_for_an_earlier_redirect() -> None:
    async def scenario() -> list[float]:
        lanes, polls, gates = make_lanes(slots=1)
        polls.seconds["busy"] = 5
        lanes.offer([due("busy", "a.org"), due("b1", "b.org")])  # b.org waits for a slot
        await asyncio.sleep(1)
        async with visiting(gates, "b.org"):
            await asyncio.sleep(10)
        await lanes.emptied(lanes.names())
        return [polls.at("start", "b1")]

    assert in_virtual_time(scenario) == [11]


def test_o2_lanes_waiting_for_a_slot_when_polling_pauses_wait_too() -> None:
    async def scenario() -> list[str]:
        lanes, polls, _ = make_lanes(slots=1)
        lanes.offer([due("runs", "a.org"), due("waits", "b.org")])
        lanes.pause()
        await asyncio.sleep(60)
        paused = polls.order()
        lanes.resume()
        await lanes.emptied(lanes.names())
        return [*paused, "|", *polls.order()]

    assert in_virtual_time(scenario) == ["runs", "|", "runs", "waits"]


def test_p10_every_request_completes_however_late_it_joins() -> None:
    async def scenario() -> bool:
        lanes, _, _ = make_lanes()
        asked: list[asyncio.Future[Outcome | None]] = []

        async def request_repeatedly() -> None:
            for _ in range(50):
                asked.append(lanes.request(due("one", requested=True)))
                await asyncio.sleep(0.1)

        await request_repeatedly()
        await lanes.emptied(lanes.names())
        return all(answer.done() for answer in asked)

    assert in_virtual_time(scenario)


def test_o2_a_probe_never_runs_a_lane_that_waits_for_a_slot() -> None:
    async def scenario() -> tuple[bool, int]:
        lanes, polls, _ = make_lanes(slots=2)
        lanes.offer([due("a", "a.org"), due("c", "c.org"), due("b1", "b.org"), due("b2", "b.org")])
        probed = lanes.probe(["b.org"])
        await asyncio.sleep(0.5)
        return probed, len(polls.order())

    assert in_virtual_time(scenario) == (False, 2)


def test_p10_a_request_at_the_moment_a_poll_ends_completes() -> None:
    async def scenario() -> bool:
        lanes, _, _ = make_lanes()
        first = lanes.request(due("one", requested=True))
        later: list[asyncio.Future[Outcome | None]] = []
        first.add_done_callback(lambda _: later.append(lanes.request(due("one", requested=True))))
        await lanes.emptied(lanes.names())
        await asyncio.sleep(10)
        return later[0].done()

    assert in_virtual_time(scenario)


def test_y7_sources_with_the_same_request_are_polled_together() -> None:
    async def scenario() -> list[list[str]]:
        lanes, polls, _ = make_lanes()
        lanes.offer([due("busy", overdue=99), due("a", key=1, overdue=9), due("b", overdue=8)])
        lanes.offer([due("a", key=1, overdue=9), due("c", key=1), due("d", key=2)])
        lanes.offer([due("b", overdue=8, key=2), due("asked", key=1, requested=True)])
        await lanes.emptied(lanes.names())
        assert not lanes.names()
        return polls.together

    assert in_virtual_time(scenario) == [["busy"], ["asked"], ["a", "c"], ["b", "d"]]


def test_y7_p10_sources_that_are_polled_together_are_in_flight_and_not_queued_again() -> None:
    async def scenario() -> list[list[str]]:
        lanes, polls, _ = make_lanes()
        lanes.offer([due("a", key=1), due("b", key=1), due("c")])
        await asyncio.sleep(0.5)
        assert lanes.in_flight() == {"a.org": ("a", "b")}
        assert lanes.running_since().keys() == {"a", "b"}
        assert (lanes.waiting(), lanes.length("a.org"), lanes.ahead_of("a.org", "c")) == (1, 3, 0)
        assert lanes.offer([due("b", key=1)]) == 0
        joined = lanes.request(due("b", requested=True))
        await lanes.emptied(lanes.names())
        assert joined.done()
        return polls.together

    assert in_virtual_time(scenario) == [["a", "b"], ["c"]]
