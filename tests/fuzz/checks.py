"""Invariants of everything parsed from outside."""

import re
from datetime import UTC, datetime, timedelta

from headwater.errors import HeadwaterError
from headwater.model import Entry
from headwater.rules.failure_kinds import classify

_CONTROL_BUT_TAB_AND_LINE_FEED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BREAK = re.compile("[\t\n\u2028\u2029]")


def is_storable(text: str | None) -> None:
    """Check that any database accepts the text: no control characters, valid UTF-8 (M6)."""
    if text is None:
        return
    assert _CONTROL_BUT_TAB_AND_LINE_FEED.search(text) is None, ascii(text[:200])
    text.encode()  # raises for lone surrogates


def is_line(text: str | None, limit: int | None = None) -> None:
    """Check that the text is storable and on one line, no longer than a limit (M6, M8)."""
    if text is None:
        return
    is_storable(text)
    assert _BREAK.search(text) is None, ascii(text[:200])
    assert limit is None or len(text) <= limit, len(text)


def is_moment(moment: datetime | None) -> None:
    """Check that a time is in UTC, in whole milliseconds, and allows arithmetic (M7)."""
    if moment is None:
        return
    assert moment.tzinfo is UTC
    assert moment.microsecond % 1000 == 0, moment
    assert abs(moment - datetime(1970, 1, 1, tzinfo=UTC)) < timedelta(days=3_000_000)


def is_entry(entry: Entry) -> None:
    """Check that an entry can be stored unchanged (M6-M8)."""
    is_line(entry.id, 2_048)
    is_line(entry.title, 1_000)
    is_line(entry.url, 8_192)
    is_line(entry.author, 500)
    is_storable(entry.body)
    is_storable(entry.plain_body)
    is_moment(entry.published_at)
    assert entry.author is None or entry.author.strip()


def is_refusal(error: HeadwaterError) -> None:
    """Check that an error is one line that can be stored and shown (M6, F2)."""
    is_line(classify(error).message, 500)
