"""Whom lateness is put down to: the machine only where it is known to be late, and with bounds."""

import time
from datetime import UTC, datetime

import pytest

from tests.hostile.bystander import QUIET_ROUNDS, Round, Timed
from tests.hostile.lateness import (
    bystander_faults,
    no_processor,
    stall_faults,
    starved_seconds,
    stolen,
)
from tests.hostile.memory import Look, Use

NO_USE = Use(0.0, {})


def looks(began: float, *, waited: float = 0.0, stolen: float = 0.0) -> list[Look]:
    """Half a minute of looks, with what was waited and stolen in every second."""
    return [Look(began + n / 20, NO_USE, waited / 20, 0.0, n * stolen / 20) for n in range(20 * 30)]


# what the loop's thread got of 600 ms, what other threads and machines did to it, and its fault
STALLS = [
    ((30, 590, 9), (0, 0), False),  # it waited for a processor, and that is known for sure
    ((400, 100, 30), (3, 0), True),  # it worked, whoever else was late
    ((3, 10, 2), (3, 0), True),  # it slept; nobody else matters
    ((3, 10, 2), (0, 0.8), False),  # another machine had the processor
    ((20, 10, 2_000), (0, 0), True),  # another thread had the interpreter
    ((20, 10, 2_000), (0.8, 0), False),  # the same, but for want of a processor
]


@pytest.mark.parametrize(("got", "others", "is_fault"), STALLS)
def test_h2_a_stall_is_put_down_to_who_caused_it(got, others, is_fault):
    now = time.time()
    at = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    worked, waited, turns = got
    log = (
        "2026-02-16T08:00:00.000Z info serving\n"
        f"{at} warning [Loop] was held up ms=600 worked_ms={worked} "
        f"no_processor_ms={waited} turns={turns}\n"
    )
    seen = looks(time.monotonic() - 15, waited=others[0], stolen=others[1])
    assert bool(stall_faults(log, seen)) is is_fault


def test_h2_no_machine_excuses_a_long_stall():
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    told = "[Loop] was held up ms=3000 worked_ms=9 no_processor_ms=10 turns=9000"
    assert stall_faults(f"{at} warning {told}\n", looks(time.monotonic() - 15, waited=3))


def test_a_machine_that_stands_still_has_nobody_look_meanwhile():
    """The last look before the stall counts, and the first one after it."""
    seen = [Look(at, NO_USE, 0.1, 0.0, 0.6 * (at > 1)) for at in (0.0, 0.03, 0.7, 1.3, 1.33)]
    assert stolen(seen, 0.74, 1.25) == pytest.approx(0.6)
    assert no_processor(seen, 0.74, 1.25) == pytest.approx(0.51)
    assert no_processor(seen, 0.04, 0.69) == pytest.approx(0.1)


def test_what_many_waited_at_once_counts_once():
    began = time.monotonic()
    assert starved_seconds(looks(began)) == 0
    assert starved_seconds(looks(began, waited=0.2, stolen=0.3)) == pytest.approx(15, rel=0.01)
    assert starved_seconds(looks(began, waited=3)) == pytest.approx(30, rel=0.01)


def a_round(slot, poll=0.01, api=0.005, posts=1):
    timed = [Timed(1000.0 + slot, seconds, 0.0) for seconds in (poll, api)]
    return Round(slot, timed[0], {"newPosts": posts}, timed[1], "")


def rounds(*busy):
    return [*(a_round(n) for n in range(-QUIET_ROUNDS, 0)), *busy]


def test_h3_a_few_slow_polls_among_many_are_not_noticed():
    busy = [a_round(n, poll=0.9 if n % 30 == 7 else 0.03) for n in range(60)]
    assert not bystander_faults(rounds(*busy), [])


BUSY = {
    "not stored": [a_round(n, posts=n != 40) for n in range(60)],
    "left out": [a_round(n, poll=8.0 if n == 40 else 0.01) for n in [*range(41), *range(48, 60)]],
    "95% of polls": [a_round(n, poll=0.9 if n % 10 == 7 else 0.03) for n in range(60)],
    "50% of polls": [a_round(n, poll=0.2) for n in range(60)],
    "95% of API": [a_round(n, api=0.9 if n % 10 == 7 else 0.03) for n in range(60)],
    "50% of API": [a_round(n, api=0.2) for n in range(60)],
}


@pytest.mark.parametrize("fault", BUSY)
def test_h3_what_a_bystander_notices_is_told(fault):
    told = bystander_faults(rounds(*BUSY[fault]), [])
    assert [one for one in told if fault in one]


def test_h3_a_busy_machine_excuses_half_of_the_time_at_most():
    busy = [a_round(n, poll=0.19) for n in range(60)]
    starved = [Look(1000 + n / 20, NO_USE, 0.05, 0.0, 0.0) for n in range(60 * 20)]
    assert bystander_faults(rounds(*busy), [])
    assert not bystander_faults(rounds(*busy), starved)
    assert bystander_faults(rounds(*(a_round(n, poll=0.5) for n in range(60))), starved)
