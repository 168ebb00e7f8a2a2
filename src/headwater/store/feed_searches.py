"""Searches for lost feeds (Y5): the state of the last one of each source."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from headwater.model import Outcome, SuggestionKind
from headwater.rules.feed_search import (
    MIN_PAUSE,
    FeedSearch,
    FoundFeed,
    SearchResult,
    found_suggestions,
    host_of_step,
    new_search,
    result_text,
    wants_search,
)
from headwater.store import hosts, suggestions
from headwater.store.database import Session, Tables, reads, writes
from headwater.store.row_mapping import from_ms, to_ms
from headwater.store.shards import overtaken

_TIMES = ("started_at", "not_before")


@dataclass(frozen=True, slots=True)
class LastSearch:
    """The last search for a source."""

    started_at: datetime
    result: str | None  # None: it is not over yet


def start(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Begin searches for feeds that polls have lost, in the transaction that stores the polls."""
    for outcome in outcomes:
        now = outcome.source.last_polled
        if outcome.failure is None or now is None or not wants_search(outcome):
            continue
        search = new_search(outcome.source, now)
        sql = """INSERT INTO feed_searches
                (source_id, feed_url, started_at, not_before, host, progress)
            VALUES (:source, :url, :now, :now, :host, :progress)
            ON CONFLICT (source_id) DO UPDATE SET feed_url = excluded.feed_url,
                started_at = excluded.started_at, not_before = excluded.not_before,
                host = excluded.host, progress = excluded.progress, result = NULL
            WHERE feed_searches.not_before IS NULL AND (feed_searches.started_at <= :earlier
                OR feed_searches.started_at > :now)"""
        params = {"source": search.source_id, "url": search.feed_url, "now": to_ms(now)}
        steps = {"host": host_of_step(search), "progress": _progress(search)}
        session.execute(sql, params | steps | {"earlier": to_ms(now - MIN_PAUSE)})


def record(session: Session, results: Sequence[SearchResult]) -> list[bool]:
    """Store steps of searches; return whether each was stored.

    It is not if the search was dropped meanwhile, or another worker took over (K8). Delays and
    holds of hosts apply in any case (P3, P9).
    """
    outcomes = [result.outcome for result in results]
    late = overtaken(session, (o.fence for o in outcomes if o.fence is not None))
    stored = [
        result.outcome.fence not in late and _store(session, result.before, result.after)
        for result in results
    ]
    hosts.keep_of_outcomes(session, outcomes, late)
    return stored


def _store(session: Session, before: FeedSearch, after: FeedSearch) -> bool:
    source_id, now = before.source_id, after.not_before
    # the source is locked first, as when it is edited or deleted
    locked = "SELECT 1 FROM sources WHERE id = :id FOR KEY SHARE"
    if not session.fetch(locked, {"id": source_id}) or _pending(session, source_id) != before:
        return False
    if after.next_url is not None:
        sql = """UPDATE feed_searches SET not_before = :at, host = :host, progress = :progress
            WHERE source_id = :id"""
        step = {"at": to_ms(after.not_before), "host": host_of_step(after)}
        session.execute(sql, {"id": source_id, "progress": _progress(after)} | step)
        return True
    _end(session, source_id, result_text(after))
    suggestions.replace_all(
        session, source_id, SuggestionKind.FEED, list(found_suggestions(after, now))
    )
    return True


def _end(session: Session, source_id: str, result: str) -> None:
    """End a search, with its result in one line."""
    sql = """UPDATE feed_searches SET not_before = NULL, host = NULL, result = :result
        WHERE source_id = :id"""
    session.execute(sql, {"id": source_id, "result": result})


def _postpone(session: Session, source_id: str, not_before: datetime) -> None:
    """Set the time of the next step."""
    sql = """UPDATE feed_searches SET not_before = :at
        WHERE source_id = :id AND not_before IS NOT NULL"""
    session.execute(sql, {"id": source_id, "at": to_ms(not_before)})


def forget(session: Session, source_ids: Sequence[str]) -> None:
    """Delete searches, such as those of sources whose URL has changed."""
    session.execute("DELETE FROM feed_searches WHERE source_id IN :ids", {"ids": list(source_ids)})


def _pending(session: Session, source_id: str) -> FeedSearch | None:
    """The search of a source that is not over."""
    sql = """SELECT progress, not_before FROM feed_searches
        WHERE source_id = :id AND not_before IS NOT NULL"""
    rows = session.fetch(sql, {"id": source_id})
    return None if not rows else _search(rows[0][0], rows[0][1])


def _last(session: Session, source_id: str) -> LastSearch | None:
    """The last search of a source, over or not."""
    sql = "SELECT started_at, result FROM feed_searches WHERE source_id = :id"
    rows = session.fetch(sql, {"id": source_id})
    return LastSearch(from_ms(rows[0][0]), rows[0][1]) if rows else None


def _progress(search: FeedSearch) -> str:
    values = asdict(search)
    return json.dumps(values | {name: to_ms(values[name]) for name in _TIMES})


def _search(progress: str, not_before: int) -> FeedSearch:
    values: dict[str, Any] = json.loads(progress)
    found = tuple(FoundFeed(**each) for each in values.pop("found"))
    lists = {name: tuple(each) for name, each in values.items() if isinstance(each, list)}
    times = {"started_at": from_ms(values["started_at"]), "not_before": from_ms(not_before)}
    return FeedSearch(**values | lists | times, found=found)


class FeedSearches(Tables):
    """The feed_searches table."""

    pending = reads(_pending)
    last = reads(_last)
    end = writes(_end)
    drop = writes(forget)
    postpone = writes(_postpone)
