"""Dates that are impossible, false, or endless."""

from tests.hostile.documents import GOOD, good, item, rss
from tests.hostile.exchange import Exchange, answer
from tests.hostile.table import Misbehaviour, Stored, Unchanged, row


def dated(name: str, date: str, moment: object, tag: str = "pubDate") -> Misbehaviour:
    """A feed with one entry of this date, beside a good one."""
    odd = item("Odd", "Odd", more=f"<{tag}>{date}</{tag}>")
    facts = {"title": "Odd", "publishedAt": moment}
    return row(name, "M7", answer(rss(odd, good())), Stored(2, (facts, GOOD)))


def silenced(ex: Exchange) -> bytes:
    """An entry of a far future; the next visit has another of the past."""
    items = [item("Future", "Future", date="Thu, 01 Jan 2099 00:00:00 GMT")]
    if ex.number > 1:
        items.append(item("Later", "Later", date="Sat, 01 Aug 2026 12:00:00 GMT"))
    return answer(rss(*items))


def backwards(ex: Exchange) -> bytes:
    """A feed whose clock runs backwards: later entries have earlier dates."""
    year = 2026 - ex.number
    return answer(rss(item(f"Y{year}", f"Y{year}", date=f"Thu, 01 Jan {year} 12:00:00 GMT")))


ROWS = (
    dated("30th of February", "Mon, 30 Feb 2026 10:00:00 GMT", None),
    dated("32nd of a month", "Mon, 32 Jan 2026 10:00:00 GMT", None),
    dated("13th month", "2026-13-01T00:00:00Z", None),
    dated("hour 25", "2026-01-01T25:00:00Z", None),
    dated("year 0", "0000-01-01T00:00:00Z", None),
    dated("year 10000", "10000-01-01T00:00:00Z", None),
    dated("year of 5,000 digits", "9" * 5000 + "-01-01T00:00:00Z", None),
    dated("negative year", "-2026-01-01T00:00:00Z", None),
    dated("overflow into year 10000", "9999-12-31T23:59:59-23:59", None),
    dated("zone of 99 hours", "2026-01-01T00:00:00+99:99",
          lambda moment: moment is None or moment.startswith("2026-01-01")),
    dated("unknown time zone", "Thu, 01 Jan 2026 10:00:00 XYZZY",
          lambda moment: moment is None or moment.startswith("2026-01-01")),
    dated("leap second", "2025-12-31T23:59:60Z",
          lambda moment: moment is None or moment.startswith(("2025-12-31", "2026-01-01"))),
    dated("fraction of 10,000 digits", f"2026-01-01T00:00:00.{'1' * 10_000}Z",
          lambda moment: moment is None or moment.startswith("2026-01-01T00:00:00")),
    dated("in words", "yesterday at noon", None),
    dated("empty", "", None),
    dated("nan", "NaN", None),
    dated("infinity", "Infinity", None),
    dated("seconds without end", "9" * 400, None),
    dated("a megabyte of digits", "1" * 1_000_000, None),
    dated("a megabyte of blanks", " " * 1_000_000 + "Thu, 01 Jan 2026 10:00:00 GMT",
          lambda moment: moment in (None, "2026-01-01T10:00:00.000Z")),
    dated("unicode digits", "２０２６-０１-０１T００:００:００Z",
          lambda moment: moment is None or moment.startswith("2026-01-01")),
    dated("markup in the date", "<b>Thu, 01 Jan 2026 10:00:00 GMT</b>",
          lambda moment: moment in (None, "2026-01-01T10:00:00.000Z")),
    dated("controls in the date", "Thu, 01 Jan\x00 2026 10:00:00 GMT",
          lambda moment: moment in (None, "2026-01-01T10:00:00.000Z")),
    row("5,000 dates on one entry", "M7 M2",
        answer(rss(item("Odd", "Odd", more="<pubDate>never</pubDate>" * 5000), good())),
        Stored(2, ({"title": "Odd", "publishedAt": None}, GOOD))),
    row("dated 2099", "R3", silenced,
        Stored(1, ({"title": "Future", "publishedAt": "2099-01-01T00:00:00.000Z"},)),
        Stored(1, ({"title": "Later"},))),
    row("dated year 1", "M7 D2", answer(rss(item("Old", "Old", more="<pubDate>Mon, 01 Jan 0001 "
                                                 "00:00:00 +1400</pubDate>"), good())),
        Stored(2, (GOOD,))),
    row("dated before every age", "D2 M7",
        answer(rss(item("Old", "Old", date="Mon, 01 Jan 1601 00:00:00 GMT"), good())), Stored(1)),
    row("time that runs backwards", "R2", backwards, Stored(1), Unchanged()),
)  # fmt: skip
