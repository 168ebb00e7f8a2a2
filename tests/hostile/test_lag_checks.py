"""Delays are attributed to the machine only if it was measurably late, and within bounds."""

import time
from datetime import UTC, datetime

import pytest

from tests.hostile.healthy_client import QUIET_ROUNDS, ClientRound, TimedRequest
from tests.hostile.lag_checks import (
    healthy_client_faults,
    no_processor,
    stall_faults,
    starved_seconds,
    stolen,
)
from tests.hostile.memory_probe import MemoryUse, Sample

NO_USE = MemoryUse(0.0, {})


def samples_of(began: float, *, waited: float = 0.0, stolen: float = 0.0) -> list[Sample]:
    """Half a minute of samples, with the waited and stolen time of every second."""
    return [
        Sample(began + n / 20, NO_USE, waited / 20, 0.0, n * stolen / 20) for n in range(20 * 30)
    ]


# what the loop's thread got of 600 ms, waits of other threads and machines, and its fault
STALLS = [
    ((30, 590, 9), (0, 0), False),  # it waited for a processor, which is certain
    ((400, 100, 30), (3, 0), True),  # it ran, however late others were
    ((3, 10, 2), (3, 0), True),  # it slept; other threads do not matter
    ((3, 10, 2), (0, 0.8), False),  # another machine used the processor
    ((20, 10, 2_000), (0, 0), True),  # another thread held the interpreter lock
    ((20, 10, 2_000), (0.8, 0), False),  # the same, but it waited for a processor
]


@pytest.mark.parametrize(("got", "others", "is_fault"), STALLS)
def test_h2_a_stall_is_attributed_to_its_cause(got, others, is_fault):
    now = time.time()
    at = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    worked, waited, turns = got
    log = (
        "2026-02-16T08:00:00.000Z info serving\n"
        f"{at} warning [Loop] was held up ms=600 worked_ms={worked} "
        f"no_processor_ms={waited} turns={turns}\n"
    )
    seen = samples_of(time.monotonic() - 15, waited=others[0], stolen=others[1])
    assert bool(stall_faults(log, seen)) is is_fault


def test_h2_machine_load_does_not_excuse_a_long_stall():
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    reported = "[Loop] was held up ms=3000 worked_ms=9 no_processor_ms=10 turns=9000"
    assert stall_faults(f"{at} warning {reported}\n", samples_of(time.monotonic() - 15, waited=3))


def test_a_suspended_machine_takes_no_samples():
    """The last sample before the stall counts, and the first one after it."""
    seen = [Sample(at, NO_USE, 0.1, 0.0, 0.6 * (at > 1)) for at in (0.0, 0.03, 0.7, 1.3, 1.33)]
    assert stolen(seen, 0.74, 1.25) == pytest.approx(0.6)
    assert no_processor(seen, 0.74, 1.25) == pytest.approx(0.51)
    assert no_processor(seen, 0.04, 0.69) == pytest.approx(0.1)


def test_concurrent_waits_count_once():
    began = time.monotonic()
    assert starved_seconds(samples_of(began)) == 0
    assert starved_seconds(samples_of(began, waited=0.2, stolen=0.3)) == pytest.approx(15, rel=0.01)
    assert starved_seconds(samples_of(began, waited=3)) == pytest.approx(30, rel=0.01)


def a_round(slot, poll=0.01, api=0.005, posts=1):
    timed = [TimedRequest(1000.0 + slot, seconds, 0.0) for seconds in (poll, api)]
    return ClientRound(slot, timed[0], {"newPosts": posts}, timed[1], "")


def rounds(*busy):
    return [*(a_round(n) for n in range(-QUIET_ROUNDS, 0)), *busy]


def test_h3_a_few_slow_polls_among_many_are_tolerated():
    busy = [a_round(n, poll=0.9 if n % 30 == 7 else 0.03) for n in range(60)]
    assert not healthy_client_faults(rounds(*busy), [])


BUSY = {
    "not stored": [a_round(n, posts=n != 40) for n in range(60)],
    "left out": [a_round(n, poll=8.0 if n == 40 else 0.01) for n in [*range(41), *range(48, 60)]],
    "95% of polls": [a_round(n, poll=0.9 if n % 10 == 7 else 0.03) for n in range(60)],
    "50% of polls": [a_round(n, poll=0.2) for n in range(60)],
    "95% of API": [a_round(n, api=0.9 if n % 10 == 7 else 0.03) for n in range(60)],
    "50% of API": [a_round(n, api=0.2) for n in range(60)],
}


@pytest.mark.parametrize("fault", BUSY)
def test_h3_delays_of_a_healthy_client_are_reported(fault):
    reported = healthy_client_faults(rounds(*BUSY[fault]), [])
    assert [one for one in reported if fault in one]


def test_h3_a_busy_machine_excuses_half_of_the_time_at_most():
    busy = [a_round(n, poll=0.19) for n in range(60)]
    starved = [Sample(1000 + n / 20, NO_USE, 0.05, 0.0, 0.0) for n in range(60 * 20)]
    assert healthy_client_faults(rounds(*busy), [])
    assert not healthy_client_faults(rounds(*busy), starved)
    assert healthy_client_faults(rounds(*(a_round(n, poll=0.5) for n in range(60))), starved)
