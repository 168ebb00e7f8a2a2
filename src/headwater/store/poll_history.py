"""Poll history: one row per poll, kept for a bounded time, and statistics over a range of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple, get_type_hints

from headwater.model import Outcome, OutcomeKind, PollRecord, SkipReason
from headwater.store.database import Session, Tables, reads
from headwater.store.keyset_pages import PageBounds, fetch_items
from headwater.store.row_mapping import RowReader, columns, decoder, from_ms, row_reader, to_ms

_NAMES = (
    "id source_id started_at duration_ms outcome status bytes new_posts skipped failure_type "
    "failure_kind error redirected_to"
).split()
_COLUMNS = columns(_NAMES)
_SKIPPED = _NAMES.index("skipped")
# The id range is read first, so that the cost depends on its length only.
_BY_MINUTE = """
    SELECT (q.started_at + q.duration_ms) / 60000, p.user_id, q.outcome, count(*), sum(q.new_posts)
    FROM (SELECT source_id, started_at, duration_ms, outcome, new_posts FROM polls
        WHERE id > :after AND id <= :upto ORDER BY id LIMIT :most) q
    JOIN sources s ON s.id = q.source_id JOIN podcasts p ON p.id = s.podcast_id GROUP BY 1, 2, 3
"""


class PollTally(NamedTuple):
    """The number of polls of one owner that ended within a minute with the same outcome."""

    minute: int  # since the epoch
    owner: str
    outcome: OutcomeKind
    polls: int
    new_posts: int


class FailedPoll(NamedTuple):
    """A failed poll of a source that has not succeeded since."""

    source_id: str
    owner: str
    podcast_id: str
    host: str | None
    kind: str
    message: str
    at: datetime
    disabled: bool  # by a failure, or later by a person


_read_tally = row_reader(PollTally, "polls")
_read_failed = row_reader(FailedPoll, "polls")


def _skipped_from(text: str) -> dict[SkipReason, int]:
    return {SkipReason(name): count for name, count in json.loads(text).items()}


def _record_of(*row: Any) -> PollRecord:
    values = list(row)
    values[_SKIPPED] = row[_SKIPPED] or {}
    return PollRecord(*values)


_TYPES = get_type_hints(PollRecord).values()
_DECODERS = dict(zip(_NAMES, map(decoder, _TYPES), strict=True)) | {"skipped": _skipped_from}
_read_record = RowReader("polls", _DECODERS, _record_of)


def newest(
    session: Session, source_id: str, *, limit: int, before: int | None = None
) -> list[PollRecord]:
    """The last polls of a source, newest first; `before` continues after a poll's id."""
    bounds = PageBounds("source_id", source_id, limit, max_id=2**63 - 1)
    sql = f"SELECT {_COLUMNS} FROM polls {bounds.sql(session.kind)}"
    return fetch_items(
        lambda behind: session.fetch(sql, replace(bounds, behind=behind).params),
        _read_record.all,
        itemgetter(0),
        limit=limit,
        after=before,
    )


def _by_minute(session: Session, after: int, upto: int) -> list[PollTally]:
    """The polls in an id range, counted by minute, owner and outcome."""
    params = {"after": after, "upto": upto, "most": max(upto - after, 0)}
    rows = session.fetch(_BY_MINUTE, params)
    return _read_tally.all(rows)


def _failing(session: Session, since: datetime, limit: int) -> list[FailedPoll]:
    """The newest poll of each failing source that was polled since then, newest first."""
    sql = f"""SELECT s.id, p.user_id, s.podcast_id, s.host, coalesce(q.failure_kind, 'unexpected'),
            coalesce(q.error, ''), q.started_at + q.duration_ms, NOT s.enabled
        FROM (SELECT * FROM sources WHERE consecutive_failures > 0 AND last_polled >= :since
            ORDER BY last_polled DESC LIMIT :limit) s
        JOIN podcasts p ON p.id = s.podcast_id
        JOIN polls q ON q.id = (SELECT id FROM polls WHERE {newest_first("s.id")} LIMIT 1)
        ORDER BY q.id DESC"""
    rows = session.fetch(sql, {"since": to_ms(since), "limit": limit})
    return _read_failed.all(rows)


def _of_sources(session: Session, source_ids: Sequence[str], *, since: int) -> list[PollRecord]:
    """The polls of these sources with ids above `since`, oldest first."""
    sql = f"SELECT {_COLUMNS} FROM polls WHERE source_id IN :ids AND id > :since ORDER BY id"
    rows = session.fetch(sql, {"ids": source_ids, "since": since})
    return _read_record.all(rows)


def _newest_of_each(
    session: Session, source_ids: Sequence[str], *, limit: int
) -> dict[str, list[PollRecord]]:
    """The last polls of each of these sources, newest first."""
    # per source, the end of an index range that begins with the oldest poll wanted
    sql = f"""SELECT {columns(_NAMES, "p")} FROM sources s
        JOIN polls p ON p.source_id = s.id AND p.id >= coalesce((SELECT id FROM polls
            WHERE {newest_first("s.id")} LIMIT 1 OFFSET :others), 0)
        WHERE s.id IN :ids ORDER BY p.id DESC"""
    rows = session.fetch(sql, {"ids": source_ids, "others": limit - 1})
    found: dict[str, list[PollRecord]] = {id_: [] for id_ in source_ids}
    for record in _read_record.all(rows):
        found[record.source_id].append(record)
    return found


def _last_started(session: Session, source_ids: Sequence[str]) -> dict[str, datetime]:
    """When the newest poll of each of these sources began, without those never polled."""
    # the end of an index range per source: the cost does not grow with the history
    sql = f"""SELECT s.id, coalesce(
            (SELECT started_at FROM polls WHERE {newest_first("s.id")} LIMIT 1),
            (SELECT last_at FROM poll_days WHERE source_id = s.id ORDER BY day DESC LIMIT 1))
        FROM sources s WHERE s.id IN :ids"""
    rows = session.fetch(sql, {"ids": source_ids})
    return {id_: from_ms(started_at) for id_, started_at in rows if started_at is not None}


def newest_first(source: str) -> str:
    """The condition and order that read a source's polls from the end of its index range.

    BETWEEN keeps the source in the ORDER BY. With an equality PostgreSQL would drop it there, and
    might scan the polls of all sources by id until it finds some of this one.
    """
    return f"source_id BETWEEN {source} AND {source} ORDER BY source_id DESC, polls.id DESC"


def insert(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Add finished polls to the history."""
    session.insert_rows("polls", [_row(outcome) for outcome in outcomes])


def expired(session: Session, now: datetime, limit: int, *, days: int) -> list[int]:
    """The ids of polls older than `days`, among the oldest `limit` rows."""
    # ids grow with time, so the oldest rows come first: no index on the time is needed
    sql = """SELECT id FROM (SELECT id, started_at FROM polls ORDER BY id LIMIT :limit) AS oldest
        WHERE started_at < :before OR started_at > :ahead"""
    ahead = to_ms(now + timedelta(days=1))  # written while the clock was ahead (O4)
    params = {"limit": limit, "before": to_ms(now - timedelta(days=days)), "ahead": ahead}
    return [row[0] for row in session.fetch(sql, params)]


def _row(outcome: Outcome) -> dict[str, object]:
    failure = outcome.failure
    return {
        "source_id": outcome.source.id,
        "started_at": to_ms(outcome.started_at),
        "duration_ms": outcome.duration_ms,
        "outcome": outcome.kind.value,
        "status": outcome.status,
        "bytes": outcome.size,
        "new_posts": len(outcome.posts),
        "skipped": json.dumps(outcome.skipped) if outcome.skipped else None,
        "failure_type": failure and failure.type.value,
        "failure_kind": failure and failure.kind,
        "error": failure and failure.message,
        "redirected_to": outcome.redirected_to,
    }


class PollHistory(Tables):
    """The polls table."""

    newest = reads(newest)
    newest_of_each = reads(_newest_of_each)
    of_sources = reads(_of_sources)
    last_started = reads(_last_started)
    by_minute = reads(_by_minute)
    failing = reads(_failing)

    async def last_id(self) -> int:
        """The id of the newest poll; 0 if there is none."""
        rows = await self.database.fetch("SELECT max(id) FROM polls")
        return int(rows[0][0] or 0)
