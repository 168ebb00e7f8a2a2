"""Moments and spans in words."""

from datetime import UTC, datetime, timedelta

import pytest

from headwater.cli import words
from headwater.model import SkipReason

NOW = datetime(2026, 2, 16, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (720, "12 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (10**9, "11574 d"),
    ],
)
def test_a_span_has_its_two_largest_units(seconds, told):
    assert words.span(seconds) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "now"), (720, "in 12 min"), (-10_800, "3 h ago"), (-1, "now")]
)
def test_a_moment_is_told_from_now(seconds, told):
    assert words.when(NOW + timedelta(seconds=seconds), NOW) == told


def test_what_should_have_happened_is_due():
    assert words.coming(NOW - timedelta(hours=1), NOW) == "due"
    assert words.coming(None, NOW) == "–"
    assert words.when(None, NOW) == "never"


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [(1, "post", "1 post"), (0, "entry", "0 entries"), (2, "day", "2 days"), (3, "key", "3 keys")],
)
def test_a_number_agrees_with_its_noun(number, noun, told):
    assert words.counted(number, noun) == told


def test_d3_skips_are_told_with_numbers_and_a_remedy():
    counts = {SkipReason.TOO_OLD: 3, SkipReason.BEFORE_CREATION: 12}
    told = words.skips(counts, timedelta(days=7), remedy="--include-history")
    past = "12 published before you added it (--include-history takes those)"
    assert sorted(told.split(", ")) == sorted([past, "3 older than 7 days"])
    assert "3 too old" in words.skips(counts, None, remedy="")


@pytest.mark.parametrize("skip", list(SkipReason))
def test_every_reason_has_words(skip):
    assert words.reason(skip, timedelta(days=7))
