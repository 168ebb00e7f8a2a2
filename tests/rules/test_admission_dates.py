"""Which entries are new by date (R2), and what counts as seen afterwards (R3)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.model import SkipReason, SourceType
from headwater.rules.admission import (
    earliest_new_date,
    last_seen,
    new_by_date,
    seen_until,
    timestamp,
)
from tests.factories import CREATED_AT, NOW, a_policy, a_source, an_entry
from tests.rules.poll_outcomes import LATER, known_from, skips, succeed

POLICY = a_policy()
SEEN_AT = datetime(2026, 2, 16, 8, 0, tzinfo=UTC)
SEEN_ID = "2026-02-16T08:00:00.000Z"
MILLISECOND = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
Y2099 = datetime(2099, 1, 1, tzinfo=UTC)


def polled(**changes):
    """A source that has seen entries up to SEEN_AT."""
    return a_source(first_poll_done=True, last_seen_id=SEEN_ID, **changes)


@pytest.mark.parametrize(
    ("date", "new"),
    [
        (SEEN_AT - 365 * DAY, False),
        (SEEN_AT - MILLISECOND, False),
        (SEEN_AT, False),
        (SEEN_AT + timedelta(microseconds=400), False),  # the same millisecond
        (SEEN_AT + MILLISECOND, True),
        (NOW, True),
        (NOW + MILLISECOND, True),
        (Y2099, True),
        (None, True),
    ],
)
def test_r2_entries_later_than_last_seen_or_without_a_date_are_considered(date, new):
    sifted = new_by_date(polled(), [an_entry(published_at=date)], NOW, POLICY)
    assert len(sifted.candidates) == new
    assert sifted.already_seen == (not new)


def test_r2_before_the_first_poll_everything_is_considered():
    entries = [an_entry(str(n), published_at=NOW - n * DAY) for n in range(9)]
    assert len(new_by_date(a_source(), entries, NOW, POLICY).candidates) == 9


def test_r2_without_new_entries_a_poll_succeeds_without_posts():
    outcome = succeed(polled(), an_entry(published_at=SEEN_AT - HOUR))
    assert outcome.posts == ()
    assert outcome.skipped == {SkipReason.ALREADY_SEEN: 1}
    assert outcome.source.last_polled == NOW


def test_r2_equal_times_in_different_zones_are_equal():
    assert seen_until(polled()) == SEEN_AT
    assert seen_until(a_source(last_seen_id="2026-02-16T09:00:00+01:00")) == SEEN_AT
    assert seen_until(a_source(last_seen_id="2026-02-16T08:00:00")) == SEEN_AT


def test_r2_an_invalid_last_seen_id_counts_as_nothing_seen():
    source = a_source(first_poll_done=True, last_seen_id="yesterday")
    assert len(succeed(source, an_entry()).posts) == 1


def test_x2_the_id_of_an_x_source_is_never_taken_for_a_time():
    source = a_source(type=SourceType.TWITTER, url="@name", last_seen_id="2026")
    assert seen_until(source) is None


def test_r2_on_a_date_only_feed_a_new_entry_of_the_last_day_is_new():
    midnight = datetime(2026, 2, 17, tzinfo=UTC)
    morning = an_entry("morning", published_at=midnight)
    evening = an_entry("evening", published_at=midnight)
    first = succeed(a_source(first_poll_done=True), morning)
    second = succeed(first.source, evening, morning, now=NOW + HOUR)
    assert [post.title for post in second.posts] == ["The evening title"]
    assert second.skipped == {SkipReason.ALREADY_SEEN: 1}
    third = succeed(second.source, evening, morning, now=NOW + 2 * HOUR)
    assert third.skipped == {SkipReason.ALREADY_SEEN: 2}


def test_r2_without_remembered_keys_only_later_dates_are_new():
    source = polled(seen_keys=())
    assert skips(source, an_entry(published_at=SEEN_AT)) == {SkipReason.ALREADY_SEEN: 1}


def test_r2_an_edited_entry_of_the_last_seen_date_is_not_new():
    entry = an_entry(published_at=SEEN_AT)
    source = succeed(a_source(first_poll_done=True), entry).source
    edited = an_entry(published_at=SEEN_AT, body="Corrected.")
    assert skips(source, edited) == {SkipReason.ALREADY_SEEN: 1}


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ({"id": "a"}, {"id": "a", "url": "https://example.org/moved"}, True),
        ({"id": "a"}, {"id": "b"}, False),
        ({"id": None}, {"id": None, "body": "Corrected."}, True),
        ({"id": None}, {"id": None, "url": "https://example.org/other"}, False),
        ({"id": None, "url": None}, {"id": None, "url": None, "title": "Other"}, True),
        ({"id": None, "url": None}, {"id": None, "url": None, "body": "Other."}, False),
    ],
)
def test_r2_an_entry_is_identified_by_its_id_else_its_link_else_its_hash(before, after, same):
    day: dict[str, Any] = {"published_at": SEEN_AT}
    source = succeed(a_source(first_poll_done=True), an_entry(**before, **day)).source
    sifted = new_by_date(source, [an_entry(**after, **day)], NOW, POLICY)
    assert sifted.already_seen == same


def test_r2_only_the_keys_of_the_last_date_are_remembered():
    first = succeed(a_source(first_poll_done=True), an_entry("a", published_at=SEEN_AT)).source
    later = [an_entry(name, published_at=SEEN_AT + HOUR) for name in ("b", "c")]
    second = succeed(first, *later, an_entry("a", published_at=SEEN_AT)).source
    assert len(first.seen_keys) == 1
    assert len(second.seen_keys) == 2
    assert not set(first.seen_keys) & set(second.seen_keys)


def test_r2_remembered_keys_of_one_date_are_bounded():
    entries = [an_entry(str(n), published_at=SEEN_AT) for n in range(6000)]
    source = succeed(a_source(first_poll_done=True), *entries).source
    assert source.seen_keys == ()
    assert skips(source, an_entry("new", published_at=SEEN_AT)) == {SkipReason.ALREADY_SEEN: 1}


@pytest.mark.parametrize(
    ("dates", "seen"),
    [
        ([], None),
        ([None, None], None),
        ([SEEN_AT], SEEN_AT),
        ([SEEN_AT, NOW, SEEN_AT - DAY, None], NOW),
        ([SEEN_AT, NOW + MILLISECOND], SEEN_AT),
        ([Y2099], None),
        ([Y2099, SEEN_AT - 9 * DAY], SEEN_AT - 9 * DAY),
        ([datetime(1, 1, 1, tzinfo=UTC)], datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_r3_last_seen_is_the_latest_date_not_later_than_now(dates, seen):
    entries = [an_entry(str(n), published_at=date) for n, date in enumerate(dates)]
    source = succeed(a_source(), *entries).source
    assert seen_until(source) == seen


@pytest.mark.parametrize("dates", [[], [None], [SEEN_AT - DAY], [Y2099]])
def test_r3_last_seen_does_not_go_back_when_a_feed_loses_entries(dates):
    entries = [an_entry(str(n), published_at=date) for n, date in enumerate(dates)]
    assert last_seen(polled(seen_keys=("k",)), entries, NOW) == (SEEN_ID, ("k",))


def test_r3_history_skipped_by_a_first_poll_is_not_admitted_by_the_second():
    old = [an_entry(str(n), published_at=CREATED_AT - n * HOUR) for n in range(1, 9)]
    first = succeed(a_source(), *old)
    assert first.skipped == {SkipReason.BEFORE_CREATION: 8}
    second = succeed(first.source, *old, now=LATER)
    assert second.skipped == {SkipReason.ALREADY_SEEN: 8}


def test_r3_one_entry_dated_2099_does_not_silence_the_source():
    future = an_entry("future", published_at=Y2099)
    first = succeed(a_source(first_poll_done=True), future, an_entry("today"))
    assert len(first.posts) == 2
    news = an_entry("news", published_at=LATER)
    second = succeed(first.source, future, news, now=LATER, known=known_from(first.posts))
    assert [post.title for post in second.posts] == ["The news title"]
    assert second.skipped == {SkipReason.DUPLICATE: 1}


def test_o4_a_last_seen_date_from_a_fast_clock_does_not_silence_the_source():
    ahead = succeed(a_source(), an_entry("early", published_at=NOW + DAY), now=NOW + 300 * DAY)
    assert seen_until(ahead.source) == NOW + DAY
    back = succeed(ahead.source, an_entry("news", published_at=NOW))
    assert [post.title for post in back.posts] == ["The news title"]
    assert seen_until(back.source) == NOW


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 2, 16, 8, 0, tzinfo=UTC), "2026-02-16T08:00:00.000Z"),
        (datetime(2026, 2, 16, 8, 0, 0, 999_999, tzinfo=UTC), "2026-02-16T08:00:00.999Z"),
        (datetime(999, 1, 2, 3, 4, 5, 6_000, tzinfo=UTC), "0999-01-02T03:04:05.006Z"),
        (datetime.fromisoformat("2026-02-16T09:30:00+01:30"), "2026-02-16T08:00:00.000Z"),
    ],
)
def test_times_are_stored_in_the_format_of_the_api(moment, text):
    assert timestamp(moment) == text


@pytest.mark.parametrize("hours", [0, 24])
@pytest.mark.parametrize("keys", [(), ("0123456789abcdef",)])
@pytest.mark.parametrize("seen_id", [None, SEEN_ID, "2099-01-01T00:00:00.000Z"])
def test_r2_t1_no_entry_before_the_earliest_new_date_is_new(hours, keys, seen_id):
    source = a_source(
        first_poll_done=True, last_seen_id=seen_id, seen_keys=keys, late_entry_hours=hours,
        late_keys_kept=bool(hours),
    )  # fmt: skip
    earliest = earliest_new_date(source, NOW, POLICY)
    assert earliest == (SEEN_AT if seen_id == SEEN_ID and not hours else None)
    steps = (-DAY, -HOUR, -MILLISECOND, timedelta(), MILLISECOND, HOUR)
    for date in (None, Y2099, *(SEEN_AT + step for step in steps)):
        entry = an_entry(published_at=date)
        is_new = bool(new_by_date(source, [entry], NOW, POLICY).candidates)
        assert not (is_new and earliest and date and date < earliest)
