"""Dates as feeds write them (M7)."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.feed.dates import parse_by_patterns, parse_date


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Mon, 16 Feb 2026 08:00:00 GMT", utc(2026, 2, 16, 8)),
        ("Mon, 16 Feb 2026 08:00:00 -0530", utc(2026, 2, 16, 13, 30)),
        ("16 Feb 26 08:00 EST", utc(2026, 2, 16, 13)),
        ("Mon,16 February 2026 08:00:00 +0000 (UTC)", utc(2026, 2, 16, 8)),
        ("Mon, 16-Feb-2026 08:00:00GMT", utc(2026, 2, 16, 8)),
        ("2026-02-16T08:00:00Z", utc(2026, 2, 16, 8)),
        ("2026-02-16T08:00:00.1234567+02:00", utc(2026, 2, 16, 6, 0, 0, 123000)),
        ("2026-02-16 08:00:00 +0000 UTC", utc(2026, 2, 16, 8)),
        ("2026-02-16T24:00:00Z", utc(2026, 2, 17)),
        ("2026-02-16", utc(2026, 2, 16)),
        ("Mon, 16 Feb 2026 08:00:00 AT", utc(2026, 2, 16, 12)),
        ("Mon, 2026/02/16 08:19:53 EDT", utc(2026, 2, 16, 12, 19, 53)),
        ("2026-02", utc(2026, 2, 1)),
        ("2026", utc(2026, 1, 1)),
        ("20260216", utc(2026, 2, 16)),
        ("20260216T080000Z", utc(2026, 2, 16, 8)),
        ("2026-047", utc(2026, 2, 16)),
        ("Feb 16, 2026 8:00 PM", utc(2026, 2, 16, 20)),
        ("February 16th, 2026 at 12:30 am EDT", utc(2026, 2, 16, 4, 30)),
        ("Mon Feb 16 08:00:00 +0100 2026", utc(2026, 2, 16, 7)),
        ("Mon Feb 16 2026 08:00:00 GMT+0100 (CET)", utc(2026, 2, 16, 7)),
        ("02/16/2026", utc(2026, 2, 16)),
        ("16/02/2026 08:00", utc(2026, 2, 16, 8)),
        ("16.02.2026 08:00", utc(2026, 2, 16, 8)),
        ("Mo, 16. März 2026 08:00:00 MEZ", utc(2026, 3, 16, 7)),
        ("lun. 16 févr. 2026 08:00", utc(2026, 2, 16, 8)),
        ("16 de agosto de 2026", utc(2026, 8, 16)),
        ("Пн, 16 фев 2026 08:00:00 +0300", utc(2026, 2, 16, 5)),
        ("2026년 02월 16일 오후 08:00:00", utc(2026, 2, 16, 11)),
        ("1771228800", utc(2026, 2, 16, 8)),
        ("1771228800123", utc(2026, 2, 16, 8, 0, 0, 123000)),
        ("31 Dec 99 23:59:60 GMT", utc(1999, 12, 31, 23, 59, 59)),
    ],
)
def test_date_formats_of_real_feeds_are_parsed(text, moment):
    assert parse_date(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "Mon, 30 Feb 2026 08:00:00 GMT",
        "2026-02-16T25:00:00Z",
        "2026-02-16T08:61:00Z",
        "2026-02-16T08:00:00-99:00",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+01:00",
        "0000-00-00T00:00:00Z",
        "99999999999999999999",
        "Mon, 16 Xyz 2026 08:00:00 GMT",
        "2026-02-16T08:00:00Z and more",
        "1" * 10_000,
        "\ud800",
        "²²²²-²²-²²",
    ],
)
def test_m7_an_impossible_date_counts_as_no_date(text):
    assert parse_date(text) is None


@given(st.text(max_size=120))
def test_m7_no_text_raises(text):
    moment = parse_date(text)
    assert moment is None or moment.utcoffset() == timedelta(0)


@given(st.text(alphabet="0123456789-+:TZ. ,/JanFebMonpmGT年월", max_size=60))
def test_m7_nothing_similar_to_a_date_raises(text):
    parse_date(text)


MOMENTS = st.datetimes(
    min_value=datetime(1970, 1, 2),
    max_value=datetime(2100, 1, 1),
    timezones=st.integers(-840, 840).map(lambda east: timezone(timedelta(minutes=east))),
).map(lambda moment: moment.replace(microsecond=0))


@given(MOMENTS)
def test_the_two_standard_formats_are_parsed_exactly(moment):
    assert parse_date(moment.isoformat()) == moment
    assert parse_date(format_datetime(moment)) == moment


@given(
    st.from_regex(
        r"[A-Z][a-z]{2}, [0-3][0-9] (Jan|Feb|May|Sep|Dec|Foo) [0-9]{4} "
        r"[0-2][0-9]:[0-6][0-9]:[0-6][0-9] (GMT|[+-][0-2][0-9][0-6][0-9])",
        fullmatch=True,
    )
)
def test_the_fast_path_agrees_with_the_general_parser(text):
    try:
        by_patterns = parse_by_patterns(text)
    except (ValueError, OverflowError):
        by_patterns = None
    assert parse_date(text) == by_patterns
