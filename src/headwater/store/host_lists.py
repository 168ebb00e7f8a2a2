"""Hosts as people see them: which there are, what is watched on them, how they answered."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.model import PollRecord, Source, SourceType
from headwater.store import polls
from headwater.store.database import Row, Session
from headwater.store.rows import SOURCE_COLUMNS, columns, from_ms, source_from

# For many sources, with the podcasts gathered once; and for the first that is met along an index.
_OWNED = "s.podcast_id IN (SELECT p.id FROM podcasts p WHERE p.user_id = :owner)"
_IS_OWNED = "EXISTS (SELECT 1 FROM podcasts p WHERE p.id = s.podcast_id AND p.user_id = :owner)"
# All of them: from host to host along the index, over the many sources that one host may have.
_NAMES = """
    WITH RECURSIVE names (host, place) AS (
        SELECT (SELECT s.host FROM sources s WHERE s.host > :after {owned}
            ORDER BY s.host LIMIT 1), 1
        UNION ALL
        SELECT (SELECT s.host FROM sources s WHERE s.host > names.host {owned}
            ORDER BY s.host LIMIT 1), place + 1
        FROM names WHERE names.host IS NOT NULL AND place < :limit
    ) SELECT host FROM names WHERE host IS NOT NULL
"""
# Of somebody with few sources among many of others: cheaper from the sources to their hosts.
_NAMES_OF_FEW = """
    SELECT DISTINCT s.host FROM podcasts p JOIN sources s ON s.podcast_id = p.id
    WHERE p.user_id = :owner AND s.host > :after ORDER BY s.host LIMIT :limit
"""
_COUNT_UP_TO = """
    SELECT count(*) FROM (
        SELECT 1 FROM podcasts p JOIN sources s ON s.podcast_id = p.id
        WHERE p.user_id = :owner LIMIT :most
    ) AS few
"""
_TALLIES = """
    SELECT s.host, s.type, count(*), count(*) FILTER (WHERE s.enabled),
        count(*) FILTER (WHERE s.enabled AND s.consecutive_failures > 0),
        count(s.poll_delay_seconds), max(s.poll_delay_seconds), max(s.last_success_at)
    FROM sources s WHERE {among} {owned} GROUP BY s.host, s.type ORDER BY s.host, s.type
"""
_POLLED_LAST = """
    SELECT s.id FROM sources s WHERE s.host = :host AND s.last_polled IS NOT NULL {owned}
    ORDER BY s.last_polled DESC LIMIT :limit
"""
# Those that fail come first, whoever looks wants to know why.
_WATCHED = f"""
    SELECT {columns(SOURCE_COLUMNS, "s")} FROM sources s WHERE s.host = :host {{owned}}
    ORDER BY CASE WHEN s.enabled AND s.consecutive_failures > 0 THEN 0 ELSE 1 END, s.id
    LIMIT :limit
"""
_BY_PODCAST = """
    SELECT s.podcast_id, count(*) FROM sources s WHERE s.host = :host {owned}
    GROUP BY s.podcast_id ORDER BY count(*) DESC, s.podcast_id LIMIT :limit
"""
_FAILED_LAST = f"""
    SELECT (SELECT failure_kind FROM polls WHERE {polls.newest_first("s.id")} LIMIT 1)
    FROM sources s WHERE s.host = :host AND s.enabled AND s.consecutive_failures > 0 {{owned}}
    LIMIT :limit
"""
_FEW = 5000


@dataclass(frozen=True, slots=True)
class HostTally:
    """What is watched on a host, of one type."""

    host: str
    type: SourceType
    sources: int
    enabled: int
    failing: int
    own_delays: int  # how many have a delay of their own
    longest_own_delay: int | None
    last_success_at: datetime | None


def names(session: Session, owner: str | None, after: str, limit: int) -> list[str]:
    """The hosts of a user's sources, or of everybody's, in order, behind a given one."""
    params = {"owner": owner, "after": after, "limit": limit}
    if owner is None:
        sql, params = _NAMES.format(owned=""), {"after": after, "limit": limit}
    elif session.fetch(_COUNT_UP_TO, {"owner": owner, "most": _FEW})[0][0] < _FEW:
        sql = _NAMES_OF_FEW
    else:
        sql = _NAMES.format(owned=f"AND {_IS_OWNED}")
    return [row[0] for row in session.fetch(sql, params)]


def tallies(session: Session, owner: str | None, hosts: Sequence[str]) -> list[HostTally]:
    """What a user, or everybody, watches on these hosts, type by type."""
    sql = _TALLIES.format(among=session.among("s.host", "hosts"), owned=_owned(owner))
    rows = session.fetch(sql, _params(owner) | {"hosts": session.array(hosts)})
    return [_tally_from(row) for row in rows]


def answers(session: Session, owner: str | None, host: str, limit: int) -> list[PollRecord]:
    """The last polls of a user's, or everybody's, sources of a host, newest first."""
    sql = _POLLED_LAST.format(owned=_owned(owner))
    rows = session.fetch(sql, _params(owner) | {"host": host, "limit": limit})
    # the newest of all are among the newest of the sources that were polled last
    found = [record for row in rows for record in polls.newest_of(session, row[0], limit)]
    return sorted(found, key=lambda record: record.id, reverse=True)[:limit]


def watched(session: Session, owner: str | None, host: str, limit: int) -> list[Source]:
    """Sources of a user's, or of everybody's, on a host, those that fail first."""
    params = _params(owner) | {"host": host, "limit": limit}
    rows = session.fetch(_WATCHED.format(owned=_owned(owner)), params)
    return [source_from(row) for row in rows]


def counts_by_podcast(
    session: Session, owner: str | None, host: str, limit: int
) -> list[tuple[str, int]]:
    """How many sources on a host each podcast has, by its id, those with the most first."""
    params = _params(owner) | {"host": host, "limit": limit}
    rows = session.fetch(_BY_PODCAST.format(owned=_owned(owner)), params)
    return [(podcast_id, count) for podcast_id, count in rows]


def causes(
    session: Session, owner: str | None, hosts: Sequence[str], limit: int
) -> dict[str, list[tuple[str, int]]]:
    """Of what kinds the last failures on these hosts were and how many, the most frequent first.

    It looks at `limit` sources that fail on each of the hosts.
    """
    sql = _FAILED_LAST.format(owned=_owned(owner))
    found = {}
    for host in hosts:
        rows = session.fetch(sql, _params(owner) | {"host": host, "limit": limit})
        found[host] = Counter(row[0] for row in rows if row[0] is not None).most_common()
    return found


def _owned(owner: str | None) -> str:
    return "" if owner is None else f"AND {_OWNED}"


def _params(owner: str | None) -> dict[str, object]:
    return {} if owner is None else {"owner": owner}


def _tally_from(row: Row) -> HostTally:
    host, type_name, sources, enabled, failing, own_delays, longest, success_at = row
    return HostTally(
        host, SourceType(type_name), sources, enabled, failing, own_delays, longest,
        from_ms(success_at),
    )  # fmt: skip
