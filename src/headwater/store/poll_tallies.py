"""A stretch of the poll history in short: how many polls when, and which sources fail since."""

from datetime import datetime
from typing import NamedTuple

from headwater.model import OutcomeKind
from headwater.store.database import Row, Session
from headwater.store.rows import moment

# A stretch of ids is cut out first, so that the cost follows its length and nothing else.
_STRETCH = """(SELECT id, source_id, started_at + duration_ms AS ended_at, outcome, new_posts,
        failure_kind, error
    FROM polls WHERE id > :after AND id <= :upto ORDER BY id LIMIT :most) q
    JOIN sources s ON s.id = q.source_id JOIN podcasts p ON p.id = s.podcast_id"""
_BY_MINUTE = f"""
    SELECT q.ended_at / 60000, p.user_id, q.outcome, count(*), sum(q.new_posts)
    FROM {_STRETCH} GROUP BY 1, 2, 3
"""
_FAILED = f"""
    SELECT q.id, s.id, p.user_id, s.podcast_id, s.host, q.failure_kind, q.error, q.ended_at,
        s.enabled
    FROM {_STRETCH}
    WHERE q.outcome = '{OutcomeKind.FAILED}' AND s.consecutive_failures > 0 ORDER BY q.id DESC
"""


class PollTally(NamedTuple):
    """Polls of one owner that ended alike within a minute."""

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
    disabled: bool  # by a failure, or by a person since


def by_minute(session: Session, after: int, upto: int) -> list[PollTally]:
    """The polls between two ids, counted."""
    return [_tally_from(row) for row in session.fetch(_BY_MINUTE, _stretch(after, upto))]


def failed(session: Session, after: int, upto: int) -> list[FailedPoll]:
    """The newest failed poll of each source that still fails, newest first."""
    found: dict[str, FailedPoll] = {}
    for row in session.fetch(_FAILED, _stretch(after, upto)):
        poll = _failed_from(row)
        found.setdefault(poll.source_id, poll)
    return list(found.values())


def _stretch(after: int, upto: int) -> dict[str, int]:
    return {"after": after, "upto": upto, "most": max(upto - after, 0)}


def _tally_from(row: Row) -> PollTally:
    minute, owner, outcome, polls, new_posts = row
    return PollTally(int(minute), owner, OutcomeKind(outcome), int(polls), int(new_posts))


def _failed_from(row: Row) -> FailedPoll:
    _, source_id, owner, podcast_id, host, kind, error, ended_at, enabled = row
    told = kind or "unexpected", error or ""
    return FailedPoll(source_id, owner, podcast_id, host, *told, moment(ended_at), not enabled)
