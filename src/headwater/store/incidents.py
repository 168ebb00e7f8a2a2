"""Incidents: the stored data that they follow from, and their table (Y1)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

from headwater.model import OutcomeKind
from headwater.rules.activity import newest_at, usual_pace
from headwater.rules.incident_texts import SourceState
from headwater.rules.incidents import (
    REJECTED_KINDS,
    REJECTING_AFTER,
    SELECTOR_POLLS,
    Evidence,
    Incident,
    IncidentChanges,
    Severity,
)
from headwater.rules.url_secrets import masked
from headwater.store import channels
from headwater.store.database import Row, Session, Tables, reads, writes_apart
from headwater.store.keyset_pages import fetch_items
from headwater.store.poll_history import newest_first
from headwater.store.row_mapping import (
    RowReader,
    columns,
    decoder,
    encoded,
    from_ms,
    row_reader,
    to_ms,
)
from headwater.store.source_activity import times_in
from headwater.store.storms import all_lasting

_MOST_SOURCES = 20_000  # with a problem that are read; those that have it for the longest time
_RECENT_POLLS = 1000  # among which the newest success is searched
_NAMES = tuple(field.name for field in fields(Incident) if field.name != "source_ids")
_read_incident = row_reader(Incident, "incidents")
IncidentPosition = tuple[int, str, int, str]  # in the list of all incidents
_POSITION = "(CASE WHEN closed_at IS NULL THEN 0 ELSE 1 END, severity, opened_at, id)"
_KINDS = ", ".join(
    f"""CASE WHEN {"s.failing_since IS NOT NULL" if n == 0 else "s.watch IS NOT NULL"} THEN
        (SELECT failure_kind FROM polls WHERE {newest_first("s.id")} LIMIT 1 OFFSET {n}) END"""
    for n in range(SELECTOR_POLLS)
)
_STATE = f"""SELECT s.id, p.user_id, s.host, s.label, s.title, s.url, s.enabled,
        s.consecutive_failures, s.failing_since, s.disabled_reason IS NOT NULL AND NOT s.enabled,
        CASE WHEN s.last_success_at > a.silent_after THEN a.published END,
        (SELECT detail FROM suggestions o WHERE o.source_id = s.id AND o.state = 'open'
            AND o.kind <> 'ignore' ORDER BY o.created_at, o.id LIMIT 1), {_KINDS}
    FROM sources s JOIN podcasts p ON p.id = s.podcast_id
    LEFT JOIN source_activity a ON a.source_id = s.id"""
# the conditions of every kind, so that each finds its candidates by an index
_CANDIDATES = (
    """s.failing_since IS NOT NULL AND (s.failing_since <= :long_ago AND s.enabled
        OR s.disabled_reason IS NOT NULL AND NOT s.enabled
        OR s.watch IS NOT NULL AND s.consecutive_failures >= :selector_polls AND s.enabled)
        ORDER BY s.failing_since LIMIT :most""",
    """s.id IN (SELECT a.source_id FROM source_activity a JOIN sources s ON s.id = a.source_id
        WHERE a.silent_after IS NOT NULL AND a.silent_after < :now AND s.enabled
        AND s.last_success_at > a.silent_after ORDER BY a.silent_after LIMIT :most)""",
    """s.id IN (SELECT m.source_id FROM incident_sources m
        JOIN incidents i ON i.id = m.incident_id WHERE i.closed_at IS NULL)""",
)


def _evidence(
    session: Session, now: datetime, failing_hours: int, free_bytes: int | None
) -> Evidence:
    """What the rules of incidents need; the cost grows with the sources that have problems."""
    shortest = min(timedelta(hours=failing_hours), REJECTING_AFTER)
    params = {
        "now": to_ms(now),
        "long_ago": to_ms(now - shortest),
        "selector_polls": SELECTOR_POLLS,
        "most": _MOST_SOURCES,
    }
    rows = {
        row[0]: row
        for condition in _CANDIDATES
        for row in session.fetch(f"{_STATE} WHERE {condition}", params)
    }
    stormy = [storm.host for storm in all_lasting(session)]
    if stormy:
        condition = """s.host IN :hosts AND s.enabled AND s.first_poll_done
            AND s.consecutive_failures > 0 LIMIT :most"""
        found = session.fetch(
            f"{_STATE} WHERE {condition}", {"hosts": stormy, "most": _MOST_SOURCES}
        )
        rows |= {row[0]: row for row in found}
    states = _read_state.all(list(rows.values()))
    return Evidence(
        incidents=_open(session),
        sources=states,
        working=_working(session, states, now),
        succeeded_at=_succeeded_at(session),
        storms=frozenset(stormy),
        free_bytes=free_bytes,
    )


def _state(
    id_: str,
    user_id: str,
    host: str | None,
    label: str | None,
    title: str | None,
    url: str,
    enabled: bool,
    failures: int,
    since: datetime | None,
    auto_disabled: bool,
    times: list[int] | None,
    suggested: Mapping[str, Any] | None,
    *kinds: str | None,
) -> SourceState:
    return SourceState(
        id=id_,
        user_id=user_id,
        host=host,
        name=label or title or masked(url),
        enabled=enabled,
        failures=failures,
        failing_since=since,
        auto_disabled=auto_disabled,
        kinds=kinds,
        silent_since=newest_at(times) if times else None,
        pace=usual_pace(times or ()),
        suggested_url=None if suggested is None else suggested["url"],
    )


_TEXT_COLUMNS = dict.fromkeys(("user_id", "host", "label", "title", "url"), decoder(str))
_read_state = RowReader(
    "sources",
    {"id": decoder(str), **_TEXT_COLUMNS, "enabled": decoder(bool)}
    | {"failures": int, "failing_since": from_ms, "auto_disabled": decoder(bool)}
    | {"published": times_in, "suggested": json.loads}
    | {f"kind_{n}": decoder(str) for n in range(SELECTOR_POLLS)},
    _state,
)


def _open(session: Session) -> list[Incident]:
    sql = f"SELECT {columns(_NAMES)} FROM incidents WHERE closed_at IS NULL"
    return _with_sources(session, _read_incident.all(session.fetch(sql)))


def _with_sources(session: Session, incidents: Sequence[Incident]) -> list[Incident]:
    if not incidents:
        return []
    found: dict[str, list[str]] = {incident.id: [] for incident in incidents}
    sql = """SELECT incident_id, source_id FROM incident_sources WHERE incident_id IN :ids
        ORDER BY incident_id, source_id"""
    for incident_id, source_id in session.fetch(sql, {"ids": list(found)}):
        found[incident_id].append(source_id)
    return [replace(one, source_ids=tuple(found[one.id])) for one in incidents]


def _working(
    session: Session, states: Sequence[SourceState], now: datetime
) -> frozenset[tuple[str, str | None]]:
    """User and host with a recent success, among those that reject some sources."""
    rejected = {
        (state.user_id, state.host)
        for state in states
        if state.host is not None and state.kinds and state.kinds[0] in REJECTED_KINDS
    }
    sql = """SELECT 1 FROM sources s JOIN podcasts p ON p.id = s.podcast_id
        WHERE s.host = :host AND p.user_id = :user AND s.enabled AND s.last_success_at >= :since
        LIMIT 1"""
    since = to_ms(now - REJECTING_AFTER)
    return frozenset(
        (user, host)
        for user, host in rejected
        if session.fetch(sql, {"host": host, "user": user, "since": since})
    )


def _succeeded_at(session: Session) -> datetime | None:
    """When the newest successful poll began, if it is among the last ones."""
    sql = """SELECT max(started_at) FROM (SELECT started_at, outcome FROM polls
        ORDER BY id DESC LIMIT :most) AS newest WHERE outcome <> :failed"""
    params = {"most": _RECENT_POLLS, "failed": OutcomeKind.FAILED.value}
    newest = session.fetch(sql, params)[0][0]
    return None if newest is None else from_ms(newest)


def _apply(session: Session, changes: IncidentChanges) -> IncidentChanges:
    """Store changes; return those that no other process has stored before."""
    made = IncidentChanges()
    for incident in changes.opened:
        row = {name: encoded(getattr(incident, name)) for name in _NAMES}
        given = ", ".join(f":{name}" for name in _NAMES)
        sql = f"""INSERT INTO incidents ({columns(_NAMES)}) VALUES ({given})
            ON CONFLICT DO NOTHING"""
        if session.execute(sql, row):
            _set_sources(session, incident)
            _set_podcasts(session, incident)
            made.opened.append(incident)
    for incident in changes.updated:
        sql = """UPDATE incidents SET title = :title, advice = :advice
            WHERE id = :id AND closed_at IS NULL"""
        params = {"id": incident.id, "title": incident.title, "advice": incident.advice}
        if session.execute(sql, params):
            _set_sources(session, incident)
            made.updated.append(incident)
    for incident in changes.closed:
        sql = "UPDATE incidents SET closed_at = :at WHERE id = :id AND closed_at IS NULL"
        if session.execute(sql, {"id": incident.id, "at": encoded(incident.closed_at)}):
            made.closed.append(incident)
    channels.publish_incidents(session, [*made.opened, *made.closed])
    return made


def _set_sources(session: Session, incident: Incident) -> None:
    """Store the sources of an incident; one that was deleted meanwhile is left out."""
    params = {"incident": incident.id, "ids": list(incident.source_ids)}
    sql = """DELETE FROM incident_sources
        WHERE incident_id = :incident AND NOT (source_id IN :ids)"""
    session.execute(sql, params)
    sql = """INSERT INTO incident_sources (incident_id, source_id)
        SELECT :incident, id FROM sources WHERE id IN :ids ON CONFLICT DO NOTHING"""
    session.execute(sql, params)


def _set_podcasts(session: Session, incident: Incident) -> None:
    """Store the podcasts of the sources that an incident begins with."""
    sql = """INSERT INTO incident_podcasts (incident_id, podcast_id)
        SELECT DISTINCT :incident, podcast_id FROM sources WHERE id IN :ids"""
    session.execute(sql, {"incident": incident.id, "ids": list(incident.source_ids)})


def _page(
    session: Session,
    owner: str | None,
    *,
    limit: int,
    is_open: bool | None = None,
    after: IncidentPosition | None = None,
) -> list[Incident]:
    """Incidents of a user, or all: open ones first, then by severity, then the oldest first."""
    conditions = ["TRUE"] if owner is None else ["user_id = :owner"]
    if is_open is not None:
        conditions.append("closed_at IS NULL" if is_open else "closed_at IS NOT NULL")

    def fetch(behind: IncidentPosition | None) -> list[Row]:
        bound = [] if behind is None else [f"{_POSITION} > (:p0, :p1, :p2, :p3)"]
        sql = f"""SELECT {columns(_NAMES)} FROM incidents WHERE {" AND ".join(conditions + bound)}
            ORDER BY {_POSITION[1:-1]} LIMIT :limit"""
        places = {f"p{n}": value for n, value in enumerate(behind or ())}
        return session.fetch(sql, {"owner": owner, "limit": limit} | places)

    found = fetch_items(fetch, _read_incident.all, _position_of_row, limit=limit, after=after)
    return _with_sources(session, found)


def _position_of_row(row: Row) -> IncidentPosition:
    """The position of a row in the list."""
    named = dict(zip(_NAMES, row, strict=True))
    is_closed = named["closed_at"] is not None
    return int(is_closed), named["severity"], named["opened_at"], named["id"]


def incident_position(incident: Incident) -> IncidentPosition:
    """The position of an incident in the list."""
    is_closed = incident.closed_at is not None
    return int(is_closed), incident.severity.value, to_ms(incident.opened_at), incident.id


def _newest(session: Session, owner: str | None, *, limit: int) -> list[Incident]:
    """The incidents of a user, or all, that opened last."""
    where = "" if owner is None else "WHERE user_id = :owner"
    sql = f"""SELECT {columns(_NAMES)} FROM incidents {where}
        ORDER BY opened_at DESC, id DESC LIMIT :limit"""
    rows = session.fetch(sql, {"owner": owner, "limit": limit})
    return _with_sources(session, _read_incident.all(rows))


def _open_by_severity(session: Session) -> dict[Severity, int]:
    sql = "SELECT severity, count(*) FROM incidents WHERE closed_at IS NULL GROUP BY severity"
    found: dict[str, int] = dict(session.fetch(sql))
    return {severity: found.get(severity.value, 0) for severity in Severity}


class Incidents(Tables):
    """The tables of incidents."""

    page = reads(_page)
    newest = reads(_newest)
    open_by_severity = reads(_open_by_severity)
    apply = writes_apart(_apply)

    async def evidence(self, now: datetime, failing_hours: int) -> Evidence:
        """What the rules of incidents need, with the free space of the disk."""

        def read(session: Session) -> Evidence:
            return _evidence(session, now, failing_hours, self.database.free_bytes())

        return await self.database.read(read)
