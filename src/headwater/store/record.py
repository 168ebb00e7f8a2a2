"""record: what polls decided becomes stored, all of a poll or nothing (D4, K1).

Many polls share one transaction. Should one of them not be storable, the transaction is undone
and each is stored by itself, so that a bad one harms no other (K5).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from headwater.model import Fence, Hold, LateKeys, Outcome, OutcomeKind, SkipReason, Source
from headwater.rules.admission import mark
from headwater.store import hosts, marks, polls, posts
from headwater.store.database import Session
from headwater.store.rows import columns_of, to_ms
from headwater.store.shards import overtaken

# what a poll may change of its source; a person's settings are not among it
_POLLED = frozenset({
    "last_polled", "last_success_at", "last_seen_id", "consecutive_failures", "last_failure_type",
    "failing_since", "last_error", "disabled_reason", "host", "first_poll_done",
    "permanent_failures", "permanent_kind", "validators", "body_hash", "seen_keys",
    "late_keys_kept", "hold", "enabled",
})  # fmt: skip
# Of a source's row on PostgreSQL: who locks it may change it, and others may only point to it. A
# row that is pointed to may be changed by anybody, but it cannot go.
_LOCK = "FOR NO KEY UPDATE"
_PRESENT = "FOR KEY SHARE"
_LATE_KEY_DAYS = 30  # how long a key outlives its entry in the feed


class Overtaken(Exception):
    """Somebody edited the source, or took its shard, while its posts were being stored (D4)."""


def record(session: Session, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Store outcomes whose sources nobody edited meanwhile; answer what became of each (D4)."""
    marks.lock(session, {o.source.podcast_id for o in outcomes if _is_for_podcast(o)})
    late = overtaken(session, (o.fence for o in outcomes if o.fence is not None))
    current = _current(session, outcomes, _LOCK)
    results = []
    for outcome in outcomes:
        if current.pop(outcome.before.id, None) != _as_polled(outcome) or outcome.fence in late:
            outcome = replace(outcome, posts=(), recorded=False)
        results.append(outcome)
    results = [_without_podcast_twins(session, o) if _is_for_podcast(o) else o for o in results]
    _store(session, [outcome for outcome in results if outcome.recorded])
    _keep_hosts(session, outcomes, late)
    return results


def record_large(session: Session, outcome: Outcome) -> Outcome:
    """Store an outcome of many posts; nothing that others wait for is locked before the end (H3).

    Until then people may change the source, which ends this with `Overtaken`: all is undone.

    Two polls of one source at once, as by a worker and the one that took its shard over, may wait
    in a circle: a small one has locked the source and waits for a post that is stored here, and
    the end here waits for the source. PostgreSQL then ends one of them, which is tried again.
    """
    for part in posts.parts(outcome):
        _refuse_overtaken(session, outcome, _PRESENT)
        posts.insert(session, [part])
        if outcome.dedupe_in_podcast:
            marks.keep(session, outcome.source, part.posts)
    _keep_late_keys(session, [outcome])
    if outcome.dedupe_in_podcast:
        marks.lock(session, [outcome.source.podcast_id])
        outcome, twins = _parted(session, outcome)
        marks.withdraw(session, outcome.source, twins)
    if outcome.fence is not None and overtaken(session, [outcome.fence]):
        raise Overtaken
    _refuse_overtaken(session, outcome, _LOCK)
    _update_sources(session, [outcome])
    polls.insert(session, [outcome])
    _keep_hosts(session, [outcome], ())
    return outcome


def _as_polled(outcome: Outcome) -> tuple[object, ...]:
    before = outcome.before
    return before.generation, before.url, before.type, before.enabled


def _refuse_overtaken(session: Session, outcome: Outcome, lock: str) -> None:
    if _current(session, [outcome], lock).get(outcome.before.id) != _as_polled(outcome):
        raise Overtaken


def _current(
    session: Session, outcomes: Sequence[Outcome], lock: str
) -> dict[str, tuple[object, ...]]:
    rows = session.fetch_together(
        "id, generation, url, type, enabled",
        f"""FROM sources WHERE {session.among("id", "ids")}
        {f"ORDER BY id {lock}" if session.kind == "postgres" else ""}""",
        {"ids": session.array({outcome.before.id for outcome in outcomes})},
    )
    return {row[0]: (row[1], row[2], row[3], bool(row[4])) for row in rows}


def _store(session: Session, outcomes: Sequence[Outcome]) -> None:
    if not outcomes:
        return
    _update_sources(session, outcomes)
    posts.insert(session, outcomes)
    _keep_late_keys(session, outcomes)
    polls.insert(session, outcomes)


def _keep_hosts(session: Session, outcomes: Sequence[Outcome], late: Collection[Fence]) -> None:
    """What hosts asked for holds even if the poll's result is discarded (P3, P9).

    Who was overtaken knows nothing of when others were there since (K8).
    """
    timely = [o for o in outcomes if o.fence not in late] if late else outcomes
    hosts.keep_visits(session, [visit for outcome in timely for visit in outcome.visits])
    hosts.keep_holds(session, _holds(timely))
    if late:
        overtaken_ = [outcome for outcome in outcomes if outcome.fence in late]
        hosts.keep_holds(session, _holds(overtaken_), only_longer=True)


def _holds(outcomes: Sequence[Outcome]) -> list[tuple[str, Hold]]:
    return [(o.hold_lane, o.hold) for o in outcomes if o.hold is not None and o.hold_lane]


def _update_sources(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Write what changed and nothing else: an index that is not touched costs nothing."""
    alike: dict[tuple[str, ...], list[dict[str, object]]] = {}
    for outcome in outcomes:
        before, after = outcome.before, outcome.source
        row: dict[str, object] = {"id": after.id}
        was = vars(before)
        for name, value in vars(after).items():
            if value is not was[name] and name in _POLLED and value != was[name]:
                row |= columns_of(after, name)
        alike.setdefault(tuple(row), []).append(row)
    # a request made while the poll ran is answered by it too (S9, P10)
    also = "generation = generation + 1, requested_at = NULL"
    for rows in alike.values():
        session.update_rows("sources", rows, also)


def _is_for_podcast(outcome: Outcome) -> bool:
    """Whether its posts are held against those of the podcast's other sources (D5)."""
    return outcome.recorded and outcome.dedupe_in_podcast and bool(outcome.posts)


def _without_podcast_twins(session: Session, outcome: Outcome) -> Outcome:
    """Leave out what another source of the podcast stored since the poll looked (D5)."""
    outcome, _ = _parted(session, outcome)
    posts.insert(session, [outcome])  # at once, so that the next one of this transaction sees them
    marks.keep(session, outcome.source, outcome.posts)
    return outcome


def _parted(session: Session, outcome: Outcome) -> tuple[Outcome, list[str]]:
    """An outcome without what other sources of the podcast have, and the hashes of that."""
    found = marks.known(session, outcome.source, (post.content_hash for post in outcome.posts))
    kept = tuple(post for post in outcome.posts if mark(post.content_hash) not in found)
    twins = [p.content_hash for p in outcome.posts if mark(p.content_hash) in found]
    if not twins:
        return outcome, twins
    duplicates = outcome.skipped.get(SkipReason.DUPLICATE, 0) + len(twins)
    left = replace(
        outcome,
        kind=OutcomeKind.STORED if kept else OutcomeKind.UNCHANGED,
        posts=kept,
        skipped={**outcome.skipped, SkipReason.DUPLICATE: duplicates},
    )
    return left, twins


def _keep_late_keys(session: Session, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.late_keys is not None:
            _keep_keys(session, outcome.source, outcome.late_keys)


def _keep_keys(session: Session, source: Source, keys: LateKeys) -> None:
    if keys.forget_all:
        session.execute("DELETE FROM late_keys WHERE source_id = :id", {"id": source.id})
        return
    now = to_ms(source.last_polled) or 0
    session.execute_many(
        """INSERT INTO late_keys (source_id, key, seen_at) VALUES (:id, :key, :now)
        ON CONFLICT (source_id, key) DO UPDATE SET seen_at = excluded.seen_at""",
        [{"id": source.id, "key": key, "now": now} for key in keys.remember],
    )
    session.execute(
        "DELETE FROM late_keys WHERE source_id = :id AND seen_at < :before",
        {"id": source.id, "before": now - _LATE_KEY_DAYS * 86_400_000},
    )
