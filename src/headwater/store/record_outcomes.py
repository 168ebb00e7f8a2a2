"""record: stores outcomes of polls, each as a whole or not at all (D4, K1).

Many polls share one transaction. If one of them cannot be stored, the transaction is rolled back
and each is stored separately, so that it does not affect the others (K5).
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.model import Outcome, OutcomeKind, Post, SkipReason, Source
from headwater.rules.admission import hash_prefix
from headwater.rules.outcome import ended_failures
from headwater.store import (
    feed_searches,
    hosts,
    page_visits,
    podcast_duplicates,
    poll_history,
    posts,
    sequence_numbers,
    source_activity,
    suggestions,
    webhooks,
)
from headwater.store.database import Session, chunks, grouped_by_columns
from headwater.store.row_mapping import changed_columns, encoded
from headwater.store.shards import overtaken

# the fields of a source that a poll may change; settings are not among them
_POLLED = frozenset({
    "title", "last_polled", "last_success_at", "last_seen_id", "consecutive_failures",
    "last_failure_type", "failing_since", "last_error", "disabled_reason", "host",
    "first_poll_done", "permanent_failures", "permanent_kind", "validators", "body_hash",
    "seen_keys", "late_keys_kept", "hold", "enabled", "redirect", "disabled_at",
    "in_storm",
})  # fmt: skip
# Locks on a source's row in PostgreSQL. The first excludes other changes but allows foreign keys to
# it. The second allows changes but prevents deletion.
_LOCK = "FOR NO KEY UPDATE"
_KEEP = "FOR KEY SHARE"
_LATE_KEY_DAYS = 30  # how long a key is kept after its entry left the feed


class WriteConflict(Exception):
    """The source was edited, or its shard taken over, while its posts were being stored (D4)."""


def record(session: Session, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Store outcomes except those whose source was edited meanwhile; return all as stored (D4)."""
    podcast_duplicates.lock(session, {o.source.podcast_id for o in outcomes if _is_deduplicated(o)})
    late = overtaken(session, (o.fence for o in outcomes if o.fence is not None))
    current = _current(session, outcomes, _LOCK)
    results = []
    for outcome in outcomes:
        is_as_polled = _is_as_polled(current.pop(outcome.before.id, None), outcome)
        if not is_as_polled or outcome.fence in late:
            outcome = replace(outcome, posts=(), recorded=False)
        results.append(outcome)
    results = sequence_numbers.assign(session, results)
    results = [_store_deduplicated(session, o) if _is_deduplicated(o) else o for o in results]
    store_outcomes(session, [outcome for outcome in results if outcome.recorded])
    hosts.keep_of_outcomes(session, outcomes, late)
    return results


def record_large(session: Session, outcome: Outcome) -> Outcome:
    """Store an outcome of many posts; rows that others wait for are locked at the end only (H3).

    If the source is edited before that, this raises `WriteConflict` and everything is rolled back.

    Two concurrent polls of one source, as by a worker and the one that took over its shard, can
    deadlock: a small one has locked the source and waits for a post inserted here, while this one
    waits for the source. PostgreSQL then aborts one of them, which is retried.
    """
    return finish_large(session, insert_large(session, outcome))


def insert_large(session: Session, outcome: Outcome) -> Outcome:
    """Insert the posts of `record_large` without a lock that others wait for."""
    (outcome,) = sequence_numbers.assign(session, [outcome])
    for some in map(tuple, chunks(outcome.posts, posts.ROWS_PER_STATEMENT)):
        refuse_edited(session, outcome, _KEEP)
        posts.insert(session, [replace(outcome, posts=some)])
        if outcome.dedupe_in_podcast:
            _add_to_index(session, outcome.source, some)
    _store_late_keys(session, [outcome])
    return outcome


def finish_large(session: Session, outcome: Outcome) -> Outcome:
    """Store the rest of `record_large` and return the outcome as stored."""
    if outcome.dedupe_in_podcast:
        podcast_duplicates.lock(session, [outcome.source.podcast_id])
        outcome, duplicates = _split_duplicates(session, outcome)
        podcast_duplicates.remove_posts(session, outcome.source, duplicates)
    page_visits.add(session, [outcome])
    if outcome.fence is not None and overtaken(session, [outcome.fence]):
        raise WriteConflict
    refuse_edited(session, outcome, _LOCK)
    update_sources(session, [outcome])
    poll_history.insert(session, [outcome])
    source_activity.remember(session, [outcome])
    webhooks.publish(session, [outcome])
    hosts.keep_of_outcomes(session, [outcome], ())
    return outcome


def _is_as_polled(row: tuple[object, ...] | None, outcome: Outcome) -> bool:
    """Whether a source is as the poll read it, apart from edits that do not matter (D4).

    When an outage takes back failures, those of a poll in flight would count from them (O2).
    """
    before = outcome.before
    polled = (before.generation, before.url, before.type, before.enabled)
    if row is None or row[:-1] != polled:
        return False
    return outcome.failure is None or row[-1] == before.consecutive_failures


def refuse_edited(session: Session, outcome: Outcome, lock: str) -> None:
    """Lock the source; raise WriteConflict if it was edited since the poll read it (D4)."""
    if not _is_as_polled(_current(session, [outcome], lock).get(outcome.before.id), outcome):
        raise WriteConflict


def _current(
    session: Session, outcomes: Sequence[Outcome], lock: str
) -> dict[str, tuple[object, ...]]:
    rows = session.fetch_bulk(
        "id, generation, url, type, enabled, consecutive_failures",
        f"""FROM sources WHERE id IN :ids
        ORDER BY id {lock}""",
        {"ids": {outcome.before.id for outcome in outcomes}},
    )
    return {row[0]: (row[1], row[2], row[3], bool(row[4]), row[5]) for row in rows}


def store_outcomes(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Write sources, posts, late keys, poll history and publication times."""
    update_sources(session, outcomes)
    posts.insert(session, outcomes)
    page_visits.add(session, outcomes)
    posts.keep_versions(session, outcomes)
    suggestions.record(session, outcomes)
    feed_searches.start(session, outcomes)
    _store_late_keys(session, outcomes)
    poll_history.insert(session, outcomes)
    source_activity.remember(session, outcomes)
    webhooks.publish(session, outcomes)


def update_sources(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Write the state that polls changed."""
    changes = (
        changed_columns(outcome.before, outcome.source, _POLLED) | ended_failures(outcome)
        for outcome in outcomes
    )
    # this poll also fulfils a request made while it ran (S9, P10)
    also = "generation = generation + 1, requested_at = NULL"
    for rows in grouped_by_columns(changes):
        session.update_rows("sources", rows, also)


def _is_deduplicated(outcome: Outcome) -> bool:
    """Whether its posts are compared with those of the podcast's other sources (D5)."""
    return outcome.recorded and outcome.dedupe_in_podcast and bool(outcome.posts)


def _store_deduplicated(session: Session, outcome: Outcome) -> Outcome:
    """Remove duplicates that other sources of the podcast stored since the poll's lookup (D5)."""
    outcome, _ = _split_duplicates(session, outcome)
    posts.insert(session, [outcome])  # now: later outcomes of this transaction must find them
    _add_to_index(session, outcome.source, outcome.posts)
    return outcome


def _add_to_index(session: Session, source: Source, added: Sequence[Post]) -> None:
    hashes = [post.content_hash for post in added]
    podcast_duplicates.add(session, source.podcast_id, source.id, hashes)


def _split_duplicates(session: Session, outcome: Outcome) -> tuple[Outcome, list[str]]:
    """The outcome without posts that other sources of the podcast have, and their hashes."""
    found = podcast_duplicates.known(
        session, outcome.source, (post.content_hash for post in outcome.posts)
    )
    new = tuple(post for post in outcome.posts if hash_prefix(post.content_hash) not in found)
    duplicates = [p.content_hash for p in outcome.posts if hash_prefix(p.content_hash) in found]
    if not duplicates:
        return outcome, duplicates
    count = outcome.skipped.get(SkipReason.DUPLICATE, 0) + len(duplicates)
    left = replace(
        outcome,
        kind=OutcomeKind.STORED if new else OutcomeKind.UNCHANGED,
        posts=new,
        skipped={**outcome.skipped, SkipReason.DUPLICATE: count},
    )
    return left, duplicates


def _store_late_keys(session: Session, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        keys, id_ = outcome.late_keys, outcome.source.id
        if keys is None:
            continue
        if keys.forget_all:
            session.execute("DELETE FROM late_keys WHERE source_id = :id", {"id": id_})
            continue
        now = encoded(outcome.source.last_polled) or 0
        sql = """INSERT INTO late_keys (source_id, key, seen_at) VALUES (:id, :key, :now)
            ON CONFLICT (source_id, key) DO UPDATE SET seen_at = excluded.seen_at"""
        session.execute_many(sql, [{"id": id_, "key": key, "now": now} for key in keys.remember])
        sql = "DELETE FROM late_keys WHERE source_id = :id AND seen_at < :before"
        session.execute(sql, {"id": id_, "before": now - _LATE_KEY_DAYS * 86_400_000})
