"""Suggestions: changes to the settings of sources that are proposed to their owners (W6, Y4)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headwater.errors import NotFound
from headwater.model import Outcome, Suggestion, SuggestionKind
from headwater.store.database import Session, Tables, reads, writes
from headwater.store.row_mapping import RowReader, columns, decoder, from_ms, to_ms

_DECODERS = {
    "id": None, "kind": decoder(SuggestionKind), "detail": json.loads, "created_at": from_ms,
    "accepted_at": from_ms, "previous_url": None,
}  # fmt: skip
_NAMES = tuple(_DECODERS)
_read = RowReader("suggestions", _DECODERS, Suggestion)


def record(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Store what polls suggest, in the transaction that stores their outcomes.

    A suggestion that was accepted is open again if it still applies, a dismissed one is not.
    """
    for outcome in outcomes:
        for kind, suggestion in outcome.suggestions.items():
            those = [] if suggestion is None else [suggestion]
            replace_all(session, outcome.source.id, kind, those)


def replace_all(
    session: Session, source_id: str, kind: SuggestionKind, those: Sequence[Suggestion]
) -> None:
    """Replace the open suggestions of one kind."""
    owner = {"source": source_id, "kind": kind.value}
    sql = """DELETE FROM suggestions WHERE source_id = :source AND kind = :kind
        AND state = 'open' AND NOT (id IN :ids)"""
    session.execute(sql, owner | {"ids": [suggestion.id for suggestion in those]})
    sql = """INSERT INTO suggestions (source_id, id, kind, detail, created_at, state)
        VALUES (:source, :id, :kind, :detail, :at, 'open')
        ON CONFLICT (source_id, id) DO UPDATE SET state = 'open', detail = excluded.detail,
            created_at = excluded.created_at, accepted_at = NULL, previous_url = NULL
        WHERE suggestions.state = 'accepted'"""
    for suggestion in those:
        row = {"id": suggestion.id, "at": to_ms(suggestion.created_at)}
        session.execute(sql, owner | row | {"detail": json.dumps(suggestion.detail)})


def _of_sources(
    session: Session, source_ids: Sequence[str]
) -> Mapping[str, tuple[Suggestion, ...]]:
    """The open and the accepted suggestions of these sources that have any, the oldest first."""
    sql = f"""SELECT source_id, {columns(_NAMES)} FROM suggestions
        WHERE source_id IN :ids AND state <> 'dismissed' ORDER BY source_id, created_at, id"""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for source_id, *row in session.fetch(sql, {"ids": list(source_ids)}):
        found.setdefault(source_id, []).append(tuple(row))
    return {source_id: tuple(_read.all(rows)) for source_id, rows in found.items()}


def _with_open(
    session: Session, owner: str | None, kinds: Sequence[SuggestionKind], *, limit: int
) -> list[str]:
    """Sources of a user, or of all, with open suggestions of these kinds, the newest first."""
    owned = """AND EXISTS (SELECT 1 FROM sources s JOIN podcasts p ON p.id = s.podcast_id
        WHERE s.id = source_id AND p.user_id = :owner)"""
    sql = f"""SELECT source_id FROM suggestions WHERE state = 'open' AND kind IN :kinds
        {"" if owner is None else owned} ORDER BY created_at DESC, source_id LIMIT :limit"""
    params = {"owner": owner, "kinds": [kind.value for kind in kinds], "limit": limit}
    return list(dict.fromkeys(row[0] for row in session.fetch(sql, params)))


def _get(session: Session, source_id: str, id_: str) -> tuple[Suggestion, str]:
    """A suggestion and its state: `open`, `accepted` or `dismissed`."""
    sql = f"""SELECT state, {columns(_NAMES)} FROM suggestions
        WHERE source_id = :source AND id = :id"""
    rows = session.fetch(sql, {"source": source_id, "id": id_})
    if not rows:
        raise NotFound(f"the source has no suggestion {id_!r}")
    state, *row = rows[0]
    return _read.one(row), state


def forget(session: Session, source_ids: Sequence[str], *, kind: SuggestionKind | None) -> None:
    """Delete open suggestions that an edit of the sources has made obsolete; None: of any kind."""
    sql = "DELETE FROM suggestions WHERE source_id IN :ids AND state = 'open'"
    sql += "" if kind is None else " AND kind = :kind"
    session.execute(sql, {"ids": list(source_ids), "kind": kind and kind.value})


def accept(session: Session, source_id: str, id_: str, now: datetime) -> bool:
    """Set the state of a suggestion to `accepted`; False: it is accepted already, or dismissed.

    The URL of the source is kept for an undo.
    """
    sql = """UPDATE suggestions SET state = 'accepted', accepted_at = :now,
            previous_url = (SELECT url FROM sources WHERE id = :source)
        WHERE source_id = :source AND id = :id AND state = 'open'"""
    return bool(session.execute(sql, {"source": source_id, "id": id_, "now": to_ms(now)}))


def dismiss(session: Session, source_id: str, id_: str) -> None:
    """Set the state of a suggestion to `dismissed`: it is not made again."""
    sql = "UPDATE suggestions SET state = 'dismissed' WHERE source_id = :source AND id = :id"
    if not session.execute(sql, {"source": source_id, "id": id_}):
        raise NotFound(f"the source has no suggestion {id_!r}")


class Suggestions(Tables):
    """The suggestions table."""

    of_sources = reads(_of_sources)
    with_open = reads(_with_open)
    get = reads(_get)
    dismiss = writes(dismiss)
