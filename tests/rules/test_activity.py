"""What a source usually publishes, and when it counts as silent (Y1)."""

from datetime import datetime, timedelta

import pytest

from headwater.model import EPOCH
from headwater.rules.activity import newest_at, pace_text, published_times, silent_after, usual_pace
from tests.factories import NOW, a_post

DAY = 24 * 60


def minutes(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(minutes=1)


def times(*gaps: int) -> list[int]:
    found = [minutes(NOW)]
    for gap in gaps:
        found.append(found[-1] + gap)
    return found


@pytest.mark.parametrize(
    ("gaps", "days"),
    [
        ([DAY] * 8, None),  # nine posts are too few
        ([DAY] * 9, 7),  # at least a week
        ([60] * 20, 7),
        ([DAY] * 8 + [3 * DAY], 9),  # three times the longest gap
        ([30 * DAY] * 9, 90),
    ],
)
def test_y1_a_source_is_silent_after_a_week_and_three_times_its_longest_gap(
    gaps: list[int], days: int | None
):
    known = times(*gaps)
    expected = None if days is None else newest_at(known) + timedelta(days=days)
    assert silent_after(known) == expected


def test_y1_publication_times_are_kept_once_without_future_and_missing_ones():
    hour = timedelta(hours=1)
    posts = [
        a_post("one", published_at=NOW - hour),
        a_post("same minute", published_at=NOW - hour),
        a_post("future", published_at=NOW + hour),
        a_post("undated", published_at=None),
    ]
    known = [minutes(NOW - 3 * hour)]
    assert published_times(known, posts, NOW) == [*known, minutes(NOW - hour)]


def test_y1_only_the_newest_publication_times_are_kept():
    posts = [a_post(str(n), published_at=NOW - timedelta(hours=n)) for n in range(80)]
    found = published_times((), posts, NOW)
    assert len(found) == 50
    assert found[-1] == minutes(NOW)


@pytest.mark.parametrize(
    ("gap", "text"),
    [(DAY // 4, "4 a day"), (DAY, "1 a day"), (2 * DAY, "4 a week"), (14 * DAY, "2 a month"),
     (90 * DAY, "1 a month")],
)  # fmt: skip
def test_y1_the_usual_pace_is_a_short_text(gap: int, text: str):
    assert usual_pace(times(*[gap] * 12)) == text
    assert usual_pace(times(gap, gap)) is None


@pytest.mark.parametrize(
    ("gaps", "text"),
    [
        ([1] * 10, "11 posts so far, something today"),  # a feed that was just filled
        ([60] * 40, "41 posts so far, something today"),
        ([1] * 49, "usually 50 a day or more, something today"),  # older posts are not kept
        ([60] * 49, "usually 24 a day, something today"),
        ([5 * 60] * 10, "usually 5 a day, something today"),
    ],
)
def test_y1_posts_of_a_short_time_do_not_show_what_is_usual(gaps: list[int], text: str):
    known = times(*gaps)
    assert pace_text(known, newest_at(known)) == text
