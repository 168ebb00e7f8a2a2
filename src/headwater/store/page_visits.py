"""Page visits: pages of new posts that are to be read for their full text (T4).

Due searches for lost feeds are returned with them: they are visited in the same way (Y5).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headwater.model import DueSource, Outcome, SourceType, TextFrom
from headwater.rules.full_text import (
    GIVE_UP_AFTER,
    PageResult,
    PageVisit,
    page_completeness,
    pages_to_visit,
)
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds
from headwater.store import hosts, sequence_numbers
from headwater.store.database import Session, Tables, reads, reads_single, writes
from headwater.store.row_mapping import POST_COLUMNS, columns, encoded, from_ms, read_post, to_ms
from headwater.store.shards import overtaken

PER_LANE = 100  # due visits that one query returns; the next one returns more
_MAX_DUE = 20_000
_DUE_IN = """
    SELECT v.{key} AS id, v.host, v.not_before, {is_search} AS is_search, s.type,
        s.host AS source_host, s.poll_delay_seconds
    FROM {table} v JOIN sources s ON s.id = v.source_id
    WHERE v.not_before IS NOT NULL AND (v.not_before <= :now OR v.not_before > :wrong)
        AND {condition} {{in_shards}}
"""
_DUE_PAGES = _DUE_IN.format(
    key="post_id", is_search="FALSE", table="page_visits", condition="s.enabled"
)
# auto-disabled sources are searched for as well
_DUE_SEARCHES = _DUE_IN.format(
    key="source_id", is_search="TRUE", table="feed_searches", condition="TRUE"
)
_DUE = f"""
    SELECT id, host, not_before, is_search, type, source_host, poll_delay_seconds FROM (
        SELECT due.*, row_number() OVER (PARTITION BY host ORDER BY not_before, id) AS lane_rank
        FROM ({_DUE_PAGES} UNION ALL {_DUE_SEARCHES}) AS due
    ) AS by_lane WHERE lane_rank <= {PER_LANE} ORDER BY lane_rank LIMIT {_MAX_DUE}
"""
_SEARCH = "search:"  # begins the id of a search, so that it differs from that of its source

_BY_HOST = """
    SELECT v.host, count(*) FROM page_visits v JOIN sources s ON s.id = v.source_id
    WHERE v.host IN :hosts {owned} GROUP BY v.host
"""


def add(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Store the visits to the pages of new posts, in the transaction that stores the posts."""
    rows = [
        {"id": post.id, "host": host}
        for outcome in outcomes
        if outcome.posts
        for post, host in pages_to_visit(outcome.source, outcome.posts)
    ]
    if rows:
        # a post that was stored before is not inserted again, and has no row of this id
        sql = """INSERT INTO page_visits (post_id, source_id, host, created_at, not_before)
            SELECT id, source_id, :host, created_at, created_at FROM posts WHERE id = :id
            ON CONFLICT (post_id) DO NOTHING"""
        session.execute_many(sql, rows)


def _due(session: Session, now: datetime, policy: Policy) -> list[DueSource]:
    """The visits that are due, at most PER_LANE per lane."""
    rows = session.fetch(_DUE.format(in_shards=""), _times(now))
    return [_due_page(policy, *row) for row in rows]


def _due_in(
    session: Session, shards: Sequence[int], now: datetime, policy: Policy
) -> list[DueSource]:
    """The same for the lanes of some shards (K8)."""
    sql = _DUE.format(in_shards="AND v.shard IN :shards")
    rows = session.fetch(sql, _times(now) | {"shards": shards})
    return [_due_page(policy, *row) for row in rows]


def _times(now: datetime) -> dict[str, object]:
    """The bounds of `rules.full_text.is_visit_due`."""
    return {"now": to_ms(now), "wrong": to_ms(now + GIVE_UP_AFTER)}


def _due_page(policy: Policy, *row: Any) -> DueSource:
    id_, host, not_before, is_search, type_, source_host, own = row
    own_delay = own if source_host == host else None  # as `rules.full_text.own_delay`
    return DueSource(
        id=_SEARCH + id_ if is_search else id_,
        lane=host,
        overdue_since=from_ms(not_before),
        delay_seconds=delay_seconds(own_delay, SourceType(type_), host, policy),
        is_page=True,
        is_search=bool(is_search),
    )


def source_of_search(due: DueSource) -> str:
    """The id of the source that a due search belongs to (Y5)."""
    return due.id.removeprefix(_SEARCH)


def _pending(session: Session, post_id: str) -> PageVisit | None:
    """The pending visit to the page of a post; None if there is none any more."""
    rows = session.fetch(
        f"""SELECT v.host, v.attempts, v.not_before, v.give_up_at, {columns(POST_COLUMNS, "p")}
        FROM page_visits v JOIN posts p ON p.id = v.post_id WHERE v.post_id = :id""",
        {"id": post_id},
    )
    if not rows:
        return None
    host, attempts, not_before, give_up_at, *post_row = rows[0]
    return PageVisit(
        read_post.one(post_row),
        host,
        attempts=attempts,
        not_before=from_ms(not_before),
        give_up_at=None if give_up_at is None else from_ms(give_up_at),
    )


def record(session: Session, results: Sequence[PageResult]) -> list[bool]:
    """Store what visits changed; return whether each was stored.

    It is not if the post or the visit was deleted meanwhile, or another worker took over (K8).
    Delays and holds of hosts apply in any case (P3, P9).
    """
    outcomes = [result.outcome for result in results]
    late = overtaken(session, (o.fence for o in outcomes if o.fence is not None))
    # posts are locked before visits, as when a source is deleted
    sql = """SELECT p.id FROM posts p JOIN page_visits v ON v.post_id = p.id
        WHERE p.id IN :ids ORDER BY p.id FOR NO KEY UPDATE OF p"""
    pending = {row[0] for row in session.fetch(sql, {"ids": {r.visit.post.id for r in results}})}
    stored = []
    for result in results:
        stored.append(result.visit.post.id in pending and result.outcome.fence not in late)
        if stored[-1]:
            _store(session, result)
    used = [
        result.visit.post.id
        for result, is_stored in zip(results, stored, strict=True)
        if is_stored and result.page is not None
    ]
    sequence_numbers.mark_changed(session, "posts", used)
    hosts.keep_of_outcomes(session, outcomes, late)
    return stored


def _store(session: Session, result: PageResult) -> None:
    page, post_id, retry = result.page, result.visit.post.id, result.retry
    changes: dict[str, object] = {"id": post_id, "full_text_error": result.error}
    if page is not None:
        changes |= {
            "page_text": page.body,
            "markdown": page.markdown,
            "text_from": encoded(TextFrom.PAGE),
            "completeness": encoded(page_completeness(page)),
        }
    session.update_rows("posts", [changes])
    if retry is None:
        session.execute("DELETE FROM page_visits WHERE post_id = :id", {"id": post_id})
        return
    sql = """UPDATE page_visits SET attempts = :attempts, not_before = :not_before,
        give_up_at = :give_up_at WHERE post_id = :id"""
    give_up_at = encoded(retry.give_up_at)
    times = {"not_before": to_ms(retry.not_before), "give_up_at": give_up_at}
    session.execute(sql, {"id": post_id, "attempts": retry.attempts, **times})


def remove_of_sources(session: Session, source_ids: Iterable[str]) -> None:
    """Delete the pending visits of sources."""
    session.execute("DELETE FROM page_visits WHERE source_id IN :ids", {"ids": list(source_ids)})


def _drop(session: Session, post_id: str) -> None:
    """Delete one pending visit."""
    session.execute("DELETE FROM page_visits WHERE post_id = :id", {"id": post_id})


def _count_of_source(session: Session, source_id: str) -> int:
    """How many pages of a source are pending."""
    sql = "SELECT count(*) FROM page_visits WHERE source_id = :source"
    return int(session.fetch(sql, {"source": source_id})[0][0])


def _count_by_host(
    session: Session, names: Sequence[str], *, owner: str | None
) -> Mapping[str, int]:
    """How many pages on each of these hosts are pending, of a user or of all users."""
    rows = hosts.fetch_owned(session, _BY_HOST, owner, hosts=list(names))
    return Counter(dict(rows))


def _count(session: Session) -> int:
    """How many pages are pending."""
    return int(session.fetch("SELECT count(*) FROM page_visits")[0][0])


def _pages(session: Session, post_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The source and the address of the page of each of these posts."""
    sql = "SELECT id, source_id, url FROM posts WHERE id IN :ids"
    rows = session.fetch(sql, {"ids": list(post_ids)})
    return {post_id: (source_id, url) for post_id, source_id, url in rows}


class PageVisits(Tables):
    """The page_visits table."""

    due = reads(_due)
    due_in = reads_single(_due_in)
    pending = reads(_pending)
    drop = writes(_drop)
    count = reads(_count)
    count_of_source = reads(_count_of_source)
    count_by_host = reads(_count_by_host)
    pages = reads(_pages)
