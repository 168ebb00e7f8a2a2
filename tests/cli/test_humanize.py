"""Times and durations as text."""

from datetime import UTC, datetime, timedelta

import pytest

from headwater.cli import humanize
from headwater.model import Completeness, SkipReason, TextFrom
from tests.factories import a_post

NOW = datetime(2026, 2, 16, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("completeness", "text_from", "shown"),
    [
        (Completeness.UNKNOWN, TextFrom.FEED, "from the feed; unknown whether complete"),
        (Completeness.FULL, TextFrom.PAGE, "full, from the page"),
        (None, None, None),
    ],
)
def test_t3_whether_a_text_is_complete_is_said_only_if_it_is_known(completeness, text_from, shown):
    post = a_post(completeness=completeness, text_from=text_from)
    assert humanize.text_state(post) == shown


@pytest.mark.parametrize(
    ("seconds", "reported"),
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
def test_a_duration_shows_its_two_largest_units(seconds, reported):
    assert humanize.span(seconds) == reported


@pytest.mark.parametrize(
    ("seconds", "reported"), [(0, "now"), (720, "in 12 min"), (-10_800, "3 h ago"), (-1, "now")]
)
def test_a_time_is_shown_relative_to_now(seconds, reported):
    assert humanize.when(NOW + timedelta(seconds=seconds), NOW) == reported


def test_a_time_in_the_past_is_shown_as_due():
    assert humanize.coming(NOW - timedelta(hours=1), NOW) == "due"
    assert humanize.coming(None, NOW) == "–"
    assert humanize.when(None, NOW) == "never"


@pytest.mark.parametrize(
    ("number", "noun", "reported"),
    [(1, "post", "1 post"), (0, "entry", "0 entries"), (2, "day", "2 days"), (3, "key", "3 keys")],
)
def test_a_number_agrees_with_its_noun(number, noun, reported):
    assert humanize.counted(number, noun) == reported


def test_d3_skips_are_reported_with_numbers_and_a_remedy():
    counts = {SkipReason.TOO_OLD: 3, SkipReason.BEFORE_CREATION: 12}
    reported = humanize.skips(counts, timedelta(days=7), remedy="--include-history")
    past = "12 published before you added it (--include-history stores them)"
    assert sorted(reported.split(", ")) == sorted([past, "3 older than 7 days"])
    assert "3 too old" in humanize.skips(counts, None, remedy="")


@pytest.mark.parametrize("skip", list(SkipReason))
def test_every_skip_reason_has_a_text(skip):
    assert humanize.reason(skip, timedelta(days=7))
