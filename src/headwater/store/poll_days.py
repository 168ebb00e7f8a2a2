"""Daily poll history: counts per source and day (UTC) of polls that are no longer kept (C4)."""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from headwater.model import EPOCH, OutcomeKind, PollDay
from headwater.store.database import Params, Row, Session, Tables, reads
from headwater.store.poll_history import newest_first
from headwater.store.row_mapping import RowReader, decoder, from_ms

_DAY_MS = 86_400_000
_LOCK = zlib.crc32(b"headwater poll days")
_MAX_POLLS = 50_000  # of one source that are counted for a list
_NAMES = (
    "source_id day stored unchanged failed new_posts bytes duration_ms failures first_at last_at"
).split()
_COLUMNS = ", ".join(_NAMES)
_SUMS = ("stored", "unchanged", "failed", "new_posts", "bytes", "duration_ms")
_ADDED = ", ".join(f"{name} = poll_days.{name} + excluded.{name}" for name in _SUMS)
# the last condition excludes a text, which another program can write into SQLite
_ROLLED_UP = "id IN :ids AND source_id IN :sources AND started_at < 253402300800000"
_ADD_POLLS = f"""
    INSERT INTO poll_days ({_COLUMNS})
    SELECT source_id, started_at / {_DAY_MS}, count(*) FILTER (WHERE outcome = 'stored'),
        count(*) FILTER (WHERE outcome = 'unchanged'), count(*) FILTER (WHERE outcome = 'failed'),
        sum(new_posts), sum(bytes), sum(duration_ms), NULL, min(started_at), max(started_at)
    FROM polls WHERE {_ROLLED_UP} GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (source_id, day) DO UPDATE SET {_ADDED},
        first_at = {{least}}(poll_days.first_at, excluded.first_at),
        last_at = {{greatest}}(poll_days.last_at, excluded.last_at)
"""


def day_number(day: date) -> int:
    """A day as it is stored."""
    return (day - EPOCH.date()).days


def _day(number: int) -> date:
    return EPOCH.date() + timedelta(days=int(number))


def _failures_in(text: str) -> Counter[str]:
    """Stored counts by kind; none if another program wrote something else."""
    try:
        return Counter({str(kind): int(polls) for kind, polls in json.loads(text).items()})
    except (ValueError, TypeError, AttributeError):
        return Counter()


def _poll_day(*row: Any) -> PollDay:
    values = dict(zip(_NAMES, row, strict=True))
    values["size"] = values.pop("bytes")
    return PollDay(**values | {"failures": values["failures"] or {}})


def _counted(
    source_id: str, day: date, outcome: OutcomeKind, kind: str | None, polls: int, *rest: Any
) -> PollDay:
    """Polls of one source and day with the same result, as a day of their own."""
    new_posts, size, duration_ms, first_at, last_at = rest
    by_outcome = {one.value: polls * (one is outcome) for one in OutcomeKind}
    failures = {kind or "unexpected": polls} if outcome is OutcomeKind.FAILED else {}
    return PollDay(
        source_id, day, **by_outcome, new_posts=new_posts, size=size, duration_ms=duration_ms,
        failures=failures, first_at=first_at, last_at=last_at,
    )  # fmt: skip


_TYPES = dict.fromkeys(_NAMES, int) | {"first_at": datetime, "last_at": datetime}
_read_day = RowReader(
    "poll_days",
    {name: decoder(kind) for name, kind in _TYPES.items()}
    | {"source_id": decoder(str), "day": _day, "failures": _failures_in},
    _poll_day,
)
_read_counted = RowReader(
    "polls",
    {
        "source_id": decoder(str),
        "day": _day,
        "outcome": decoder(OutcomeKind),
        "failure_kind": decoder(str),
        "polls": int,
        "new_posts": int,
        "bytes": int,
        "duration_ms": int,
        "first_at": from_ms,
        "last_at": from_ms,
    },
    _counted,
)


def roll_up(session: Session, ids: Sequence[int], _limit: int) -> int:
    """Add polls to their days and delete them, in the caller's transaction.

    Returns how many were deleted. Polls that are gone already were counted by another process.
    """
    least, greatest = ("min", "max")
    if session.kind == "postgres":
        least, greatest = ("least", "greatest")
        # one worker at a time: between its statements another one would count the same polls
        session.execute("SELECT pg_advisory_xact_lock(:lock)", {"lock": _LOCK})
    # locked first: a day of a source that is deleted meanwhile cannot be stored
    sql = """SELECT id FROM sources WHERE id IN (SELECT source_id FROM polls WHERE id IN :ids)
        ORDER BY id FOR KEY SHARE"""
    params = {"ids": ids, "sources": [row[0] for row in session.fetch(sql, {"ids": ids})]}
    session.execute(_ADD_POLLS.format(least=least, greatest=greatest), params)
    _add_failures(session, params)
    return session.execute("DELETE FROM polls WHERE id IN :ids", {"ids": ids})


def _add_failures(session: Session, params: Params) -> None:
    """Add the failed ones of these polls to their days, by kind."""
    sql = f"""SELECT source_id, started_at / {_DAY_MS}, coalesce(failure_kind, 'unexpected'),
        count(*) FROM polls WHERE {_ROLLED_UP} AND outcome = 'failed' GROUP BY 1, 2, 3"""
    added: dict[tuple[str, int], Counter[str]] = {}
    for source_id, day, kind, polls in session.fetch(sql, params):
        added.setdefault((source_id, day), Counter())[kind] += polls
    if not added:
        return
    sources, days = ({key[place] for key in added} for place in (0, 1))
    sql = """SELECT source_id, day, failures FROM poll_days
        WHERE source_id IN :sources AND day IN :days AND failures IS NOT NULL"""
    for source_id, day, text in session.fetch(sql, {"sources": sources, "days": days}):
        if (source_id, day) in added:
            added[source_id, day] += _failures_in(text)
    session.execute_many(
        "UPDATE poll_days SET failures = :failures WHERE source_id = :source AND day = :day",
        [
            {"source": source_id, "day": day, "failures": json.dumps(counts, sort_keys=True)}
            for (source_id, day), counts in sorted(added.items())
        ],
    )


def _merged(days: Iterable[PollDay]) -> list[PollDay]:
    """One value per source and day, in their order."""
    found: dict[tuple[str, date], PollDay] = {}
    for day in days:
        key = day.source_id, day.day
        found[key] = found[key] + day if key in found else day
    return [found[key] for key in sorted(found)]


def expired(session: Session, now: datetime, limit: int, *, days: int) -> list[Row]:
    """The keys of days before the retention, and of days written while the clock was ahead (O4)."""
    sql = """SELECT source_id, day FROM poll_days WHERE day < :before OR day > :ahead
        LIMIT :limit"""
    before, ahead = (day_number((now + timedelta(days=n)).date()) for n in (-days, 1))
    return session.fetch(sql, {"before": before, "ahead": ahead, "limit": limit})


def delete(session: Session, keys: Sequence[Row], _limit: int) -> int:
    """Delete days by source and number; return how many."""
    sql = "DELETE FROM poll_days WHERE source_id = :source AND day = :day"
    session.execute_many(sql, [{"source": source, "day": day} for source, day in keys])
    return len(keys)


def _newest(
    session: Session, source_id: str, *, limit: int, before: int | None = None
) -> list[PollDay]:
    """The last days on which a source was polled, newest first, with polls of the history.

    `before` continues after the number of a day.
    """
    params = {"source": source_id, "before": 2**31 - 1 if before is None else before}
    sql = f"""SELECT {_COLUMNS} FROM poll_days WHERE source_id = :source AND day < :before
        ORDER BY day DESC LIMIT :limit"""
    old = _read_day.all(session.fetch(sql, params | {"limit": limit}))
    sql = f"""SELECT source_id, started_at / {_DAY_MS}, outcome, failure_kind, count(*),
            sum(new_posts), sum(bytes), sum(duration_ms), min(started_at), max(started_at)
        FROM (SELECT * FROM polls WHERE {newest_first(":source")} LIMIT :most) AS recent
        WHERE started_at / {_DAY_MS} < :before GROUP BY 1, 2, 3, 4"""
    recent = _read_counted.all(session.fetch(sql, params | {"most": _MAX_POLLS}))
    return _merged([*old, *recent])[: -limit - 1 : -1]


class PollDays(Tables):
    """The poll_days table."""

    newest = reads(_newest)
