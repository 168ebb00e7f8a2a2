"""Failure storms of hosts: since when many sources of a host fail in the same way (Y6).

A storm lasts until a poll of any source of the host succeeds, which the sources themselves show.
The next tick stores its end, with requests for the polls of its sources. `begin` sets later success
times to now, so that after a clock was set back they do not end the storm (O4).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import FailureType
from headwater.store.database import Session, Tables, reads, writes_apart
from headwater.store.row_mapping import from_ms, to_ms

_WINDOW = timedelta(hours=1)
_FUTURE = timedelta(seconds=5)  # as S2
_SUCCESS = "SELECT 1 FROM sources s WHERE s.host = w.host AND s.last_success_at > w.since"
_LASTING = f"""SELECT w.host, w.kind, w.since FROM storms w
    WHERE w.ended_at IS NULL AND NOT EXISTS ({_SUCCESS})"""
_OVER = f"SELECT w.host FROM storms w WHERE w.ended_at IS NULL AND EXISTS ({_SUCCESS})"
_AHEAD = "SELECT w.host FROM storms w WHERE w.ended_at IS NULL AND w.since > :future"


@dataclass(frozen=True, slots=True)
class Storm:
    """A storm that lasts."""

    host: str
    kind: str  # of the failures
    since: datetime


def all_lasting(session: Session) -> list[Storm]:
    """The storms that last."""
    return [Storm(host, kind, from_ms(since)) for host, kind, since in session.fetch(_LASTING)]


def _lasting(session: Session, host: str) -> Storm | None:
    """The storm of a host, if it lasts."""
    rows = session.fetch(f"{_LASTING} AND w.host = :host", {"host": host})
    return Storm(rows[0][0], rows[0][1], from_ms(rows[0][2])) if rows else None


def _others_polled(
    session: Session, host: str, now: datetime, failing: Sequence[str], *, limit: int
) -> int:
    """How many other addresses of a host were polled within the last hour, up to a limit.

    Sources that never succeeded do not count, nor those that have not since the last storm.
    """
    sql = """SELECT count(*) FROM (SELECT DISTINCT url FROM sources WHERE host = :host
        AND first_poll_done AND last_polled >= :since AND NOT (url IN :failing) AND NOT in_storm
        LIMIT :limit) AS polled"""
    params = {"host": host, "since": to_ms(now - _WINDOW), "failing": failing, "limit": limit}
    return int(session.fetch(sql, params)[0][0])


def _begin(session: Session, host: str, kind: str, now: datetime) -> None:
    """Store that a storm began."""
    sql = """INSERT INTO storms (host, kind, since) VALUES (:host, :kind, :since)
        ON CONFLICT (host) DO UPDATE SET kind = excluded.kind, since = excluded.since,
            ended_at = NULL"""
    session.execute(sql, {"host": host, "kind": kind, "since": to_ms(now)})
    _clamp_successes(session, host, now)


def _clamp_successes(session: Session, host: str, now: datetime) -> None:
    """Let no success of a host be later than now: the clock was set back (O4)."""
    sql = "UPDATE sources SET last_success_at = :now WHERE host = :host AND last_success_at > :now"
    session.execute(sql, {"host": host, "now": to_ms(now)})


def _is_any_over(session: Session, now: datetime) -> bool:
    """Whether there is something to finish."""
    return bool(session.fetch(f"{_OVER} UNION {_AHEAD}", {"future": to_ms(now + _FUTURE)}))


def _finish(session: Session, now: datetime) -> list[str]:
    """End the storms that are over: request a poll of the sources that still fail, once (Y6).

    Their backoff may be long. A storm that began while the clock was ahead counts as begun now: it
    is over with the next success (O4). Returns the hosts.
    """
    params: dict[str, object] = {"now": to_ms(now)}
    hosts = [row[0] for row in session.fetch(_OVER)]
    for (host,) in session.fetch(_AHEAD, {"future": to_ms(now + _FUTURE)}):
        session.execute(
            "UPDATE storms SET since = :now WHERE host = :host", params | {"host": host}
        )
        _clamp_successes(session, host, now)
    ended = "UPDATE storms SET ended_at = :now WHERE host = :host AND ended_at IS NULL"
    found = [host for host in hosts if session.execute(ended, params | {"host": host})]
    sql = """UPDATE sources SET requested_at = :now WHERE host = :host AND enabled
        AND in_storm AND requested_at IS NULL AND last_failure_type = :permanent"""
    for host in found:
        session.execute(sql, params | {"host": host, "permanent": FailureType.PERMANENT.value})
    return found


class Storms(Tables):
    """The storms table."""

    lasting = reads(_lasting)
    others_polled = reads(_others_polled)
    begin = writes_apart(_begin)
    is_any_over = reads(_is_any_over)
    finish = writes_apart(_finish)
