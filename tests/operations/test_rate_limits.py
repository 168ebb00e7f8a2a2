"""Limits for manual polls and previews by users (Y8)."""

from collections.abc import Callable

import pytest

from headwater.errors import TooMany
from headwater.operations.rate_limits import (
    MOST_VISITS,
    POLL_SECONDS,
    RateWindows,
    VisitLimits,
)
from tests.factories import a_source
from tests.store.store_data import StoreClock


def refusal_of(check: Callable[[], None]) -> TooMany:
    with pytest.raises(TooMany) as raised:
        check()
    return raised.value


def test_y8_a_user_polls_a_source_once_in_ten_seconds():
    clock = StoreClock()
    limits, source = VisitLimits(clock), a_source()
    limits.check_poll("ann", source)
    clock.seconds += 4
    error = refusal_of(lambda: limits.check_poll("ann", source))
    assert (error.retry_seconds, str(error)) == (
        POLL_SECONDS - 4,
        "a source can be polled manually once in 10 seconds",
    )
    limits.check_poll("ann", a_source(id="another"))
    assert limits.pollable("ann", [source.id, "third"]) == ["third"]
    clock.seconds += POLL_SECONDS - 4  # refused attempts do not extend the wait
    limits.check_poll("ann", source)


def test_s9_y8_a_key_requests_a_poll_once_in_ten_seconds_whatever_was_polled_before():
    clock = StoreClock()
    limits, source = VisitLimits(clock), a_source()
    limits.check_poll("ann", source)  # it has no key, and sends no request
    pollable = limits.pollable_with_key_for("ann")
    assert pollable is not None
    assert [pollable([source.id]), pollable([source.id, "b"])] == [[source.id], ["b"]]
    refusal_of(lambda: limits.check_poll("ann", a_source(id="b")))  # it is a manual poll, too
    clock.seconds += POLL_SECONDS
    assert pollable([source.id]) == [source.id]
    assert limits.pollable_with_key_for(None) is None


def test_y8_administrators_are_exempt():
    limits, source = VisitLimits(StoreClock()), a_source()
    for _ in range(2 * MOST_VISITS):
        limits.check_poll(None, source)
        limits.check_visit(None, source.url)
        assert limits.pollable(None, [source.id]) == [source.id]


def test_y8_polls_and_previews_of_one_host_are_limited_per_user():
    clock = StoreClock()
    limits = VisitLimits(clock)
    for number in range(MOST_VISITS // 2):
        limits.check_visit("ann", f"https://a.example/{number}")
        limits.check_poll("ann", a_source(id=str(number), url=f"https://A.example./{number}"))
    assert refusal_of(lambda: limits.check_visit("ann", "http://a.example/x")).retry_seconds == 10
    refusal_of(lambda: limits.check_poll("ann", a_source(id="new", url="http://a.example/x")))
    limits.check_visit("ann", "https://b.example/")
    limits.check_visit("bob", "https://a.example/")
    clock.seconds += POLL_SECONDS
    limits.check_visit("ann", "https://a.example/")


def test_y8_the_number_of_remembered_keys_is_limited():
    windows = RateWindows(StoreClock(), 10, most_keys=3)
    assert [windows.add(key).count for key in "abcda"] == [1, 1, 1, 1, 1]  # a was forgotten
    assert [windows.add(key).count for key in "cd"] == [2, 2]
