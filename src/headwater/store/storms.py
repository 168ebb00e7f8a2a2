"""Failure storms of hosts: since when many sources of a host fail in the same way (Y6).

A storm lasts until a poll of any source of the host succeeds, which the sources themselves show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.store.database import Session, Tables, reads, writes_apart
from headwater.store.row_mapping import from_ms, to_ms

_WINDOW = timedelta(hours=1)
_LASTING = """SELECT w.host, w.kind, w.since FROM storms w WHERE NOT EXISTS
    (SELECT 1 FROM sources s WHERE s.host = w.host AND s.last_success_at > w.since)"""


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


def _last_began(session: Session, host: str) -> datetime | None:
    """When the last storm of a host began, whether it lasts or not."""
    rows = session.fetch("SELECT since FROM storms WHERE host = :host", {"host": host})
    return from_ms(rows[0][0]) if rows else None


def _others_polled(
    session: Session, host: str, now: datetime, failing: Sequence[str], *, limit: int
) -> int:
    """How many other addresses of a host were polled within the last hour, up to a limit.

    Sources that never succeeded do not count, nor those that have not since the last storm began.
    """
    sql = """SELECT count(*) FROM (SELECT DISTINCT url FROM sources s WHERE host = :host
        AND first_poll_done AND last_polled >= :since AND NOT (url IN :failing)
        AND NOT EXISTS (SELECT 1 FROM storms w WHERE w.host = s.host
            AND (s.last_success_at IS NULL OR s.last_success_at <= w.since))
        LIMIT :limit) AS polled"""
    params = {"host": host, "since": to_ms(now - _WINDOW), "failing": failing, "limit": limit}
    return int(session.fetch(sql, params)[0][0])


def _begin(session: Session, host: str, kind: str, now: datetime) -> None:
    """Store that a storm began."""
    sql = """INSERT INTO storms (host, kind, since) VALUES (:host, :kind, :since)
        ON CONFLICT (host) DO UPDATE SET kind = excluded.kind, since = excluded.since"""
    session.execute(sql, {"host": host, "kind": kind, "since": to_ms(now)})


class Storms(Tables):
    """The storms table."""

    lasting = reads(_lasting)
    last_began = reads(_last_began)
    others_polled = reads(_others_polled)
    begin = writes_apart(_begin)
