"""Changed filters: posts that are in no article yet are evaluated again, batch by batch (B2).

A row of `filter_changes` is written in the transaction that changes a filter and is deleted when
all posts were evaluated twice: at once, and again after `SECOND_PASS_AFTER`, for the posts of polls
that had begun with the old filter. A batch and the new position are stored in one transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headwater.errors import SearchTooSlow
from headwater.model import FilteredBy, FilterMatches, Post, Source, Subject
from headwater.rules.filters import filtered_by
from headwater.store import sequence_numbers
from headwater.store.database import Session
from headwater.store.followers import beginnings
from headwater.store.keyset_pages import count_within
from headwater.store.row_mapping import (
    LENGTHS,
    POST_COLUMNS,
    columns,
    encoded,
    from_ms,
    read_post,
    to_ms,
)
from headwater.store.source_pages import subjects

POSTS_PER_BATCH = 500
MAX_PREVIEWED = 3000  # posts
_TITLES = 10  # of posts that would be hidden
_PREVIEW_TOO_SLOW = "this preview takes too long: try it for one source, or again later"
CHARACTERS_PER_BATCH = 2_000_000
SECOND_PASS_AFTER = timedelta(minutes=10)  # no poll takes that long
_COLUMNS = ("podcast_id", "source_id", "version", "position_at", "position_id", "not_before")
ALL_SOURCES = ""
NEWEST = (1 << 62, "")
_OWN_FILTERS = {
    "source_id": (FilteredBy.SOURCE_KEEP, FilteredBy.SOURCE_BLOCK),
    "podcast_id": (FilteredBy.PODCAST_KEEP, FilteredBy.PODCAST_BLOCK),
}
Position = tuple[int, str]  # creation time and id of a post


@dataclass(frozen=True, slots=True)
class FilterChange:
    """A changed filter and the position up to which posts were evaluated."""

    podcast_id: str
    source_id: str  # ALL_SOURCES: the filter is the podcast's
    version: int  # increases with each change of the filter
    position_at: int  # creation time and id of the last post that was evaluated
    position_id: str
    not_before: int | None  # of the second pass; None: the first pass

    @property
    def key(self) -> dict[str, object]:
        """The columns that identify it as long as it is unchanged."""
        values = {name: getattr(self, name) for name in _COLUMNS}
        return values | {"not_before": self.not_before or 0}


@dataclass(frozen=True, slots=True)
class EvaluatedBatch:
    """Posts that were evaluated with the current filters."""

    change: FilterChange
    count: int
    differing: Sequence[dict[str, Any]]  # id and new `filtered_by`
    position: Position | None  # of the last post; None: there is none left
    at: datetime


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """What changed filters would do to the posts that are in no article."""

    hidden: int  # posts that would be hidden
    shown: int  # hidden posts that would reappear
    titles: tuple[str, ...]  # of the newest that would be hidden
    checked: int  # posts
    is_complete: bool  # False: there are more posts


def note_sources(session: Session, edits: Iterable[tuple[Source, Source]]) -> None:
    """Note the sources whose filters an edit changes."""
    changed = [
        (after.podcast_id, after.id)
        for before, after in edits
        if (before.keep, before.block) != (after.keep, after.block)
    ]
    _note(session, changed)


def note_podcast(session: Session, podcast_id: str) -> None:
    """Note that the filters of a podcast changed."""
    _note(session, [(podcast_id, ALL_SOURCES)])


def _note(session: Session, owners: Sequence[tuple[str, str]]) -> None:
    sql = """INSERT INTO filter_changes (podcast_id, source_id) VALUES (:podcast, :source)
        ON CONFLICT (podcast_id, source_id) DO UPDATE SET version = filter_changes.version + 1,
            position_at = 0, position_id = '', not_before = NULL"""
    session.execute_many(sql, [{"podcast": one, "source": two} for one, two in owners])


def evaluate(session: Session, now: datetime, _limit: int) -> list[EvaluatedBatch]:
    """Evaluate the next batch of posts, if there is one."""
    sql = f"""SELECT {columns(_COLUMNS)} FROM filter_changes
        WHERE not_before IS NULL OR not_before <= :now ORDER BY podcast_id, source_id LIMIT 1"""
    rows = session.fetch(sql, {"now": to_ms(now)})
    if not rows:
        return []
    change = FilterChange(*rows[0])
    position = (change.position_at, change.position_id)
    keys = _next_keys(session, change.podcast_id, change.source_id, position)
    if not keys:
        return [EvaluatedBatch(change, 0, (), None, now)]
    differing = [
        {"id": post.id, "filtered_by": encoded(reason)}
        for post, reason in _evaluated(session, keys, lambda subject: subject)
        if reason is not post.filtered_by
    ]
    return [EvaluatedBatch(change, len(keys), differing, keys[-1], now)]


def _next_keys(
    session: Session,
    podcast_id: str,
    source_id: str,
    position: Position,
    *,
    newest_first: bool = False,
) -> list[Position]:
    """The positions of the next posts; unlinked posts past the age limit are deleted soon (C2)."""
    of_source = "" if source_id == ALL_SOURCES else "AND source_id = :source"
    compared, direction = ("<", " DESC") if newest_first else (">", "")
    sql = f"""SELECT created_at, id, {LENGTHS["posts"]} FROM posts
        WHERE podcast_id = :podcast AND NOT is_linked {of_source} AND created_at {compared}= :at
            AND (created_at, id) {compared} (:at, :id)
        ORDER BY created_at{direction}, id{direction} LIMIT {POSTS_PER_BATCH}"""
    params = {"podcast": podcast_id, "source": source_id, "at": position[0], "id": position[1]}
    rows = session.fetch(sql, params)
    count = count_within([row[2] for row in rows], CHARACTERS_PER_BATCH)
    return [(row[0], row[1]) for row in rows[:count]]


def _evaluated(
    session: Session, keys: Sequence[Position], change: Callable[[Subject], Subject]
) -> Iterator[tuple[Post, FilteredBy | None]]:
    """Posts, each with the filter that hides it once subjects are changed like this."""
    sql = f"SELECT {columns(beginnings(POST_COLUMNS))} FROM posts WHERE id IN :ids"
    posts = {
        post.id: post for post in read_post.all(session.fetch(sql, {"ids": [k[1] for k in keys]}))
    }
    ids = sorted({post.source_id for post in posts.values()})
    owners = {
        id_: change(subject)
        for id_, subject in zip(ids, subjects(session, ids), strict=True)
        if isinstance(subject, Subject)
    }
    for _, id_ in keys:
        post = posts.get(id_)
        if post is not None and post.source_id in owners:
            yield post, filtered_by(owners[post.source_id], post)


def preview(
    session: Session,
    podcast_id: str,
    source_id: str,
    change: Callable[[Subject], Subject],
    *,
    seconds: float,
) -> FilterEffect:
    """What other filters would change among the newest posts that are evaluated in this time.

    SearchTooSlow if not a single one is.
    """
    hidden, shown, checked = list[str](), 0, 0
    is_complete = False
    evaluated = _newest_evaluated(session, podcast_id, source_id, change)
    try:
        with session.time_limit(seconds) as is_over:
            while checked < MAX_PREVIEWED and not (checked and is_over()):
                found = next(evaluated, None)
                if found is None:
                    is_complete = True
                    break
                post, reason = found
                checked += 1
                if post.filtered_by is None and reason is not None:
                    hidden.append(post.title)
                shown += post.filtered_by is not None and reason is None
    except SearchTooSlow:
        if not checked:
            raise SearchTooSlow(_PREVIEW_TOO_SLOW) from None
    return FilterEffect(len(hidden), shown, tuple(hidden[:_TITLES]), checked, is_complete)


def _newest_evaluated(
    session: Session, podcast_id: str, source_id: str, change: Callable[[Subject], Subject]
) -> Iterator[tuple[Post, FilteredBy | None]]:
    """All posts, newest first, read batch by batch."""
    position = NEWEST
    while keys := _next_keys(session, podcast_id, source_id, position, newest_first=True):
        yield from _evaluated(session, keys, change)
        position = keys[-1]


def store(session: Session, found: Sequence[EvaluatedBatch], _limit: int) -> int:
    """Store a batch unless the filter was changed since, or another process has stored it."""
    (batch,) = found
    change = batch.change
    where = """podcast_id = :podcast_id AND source_id = :source_id AND version = :version
        AND position_at = :position_at AND position_id = :position_id
        AND coalesce(not_before, 0) = :not_before"""
    sql = f"UPDATE filter_changes SET position_at = :next_at, position_id = :next_id WHERE {where}"
    params = change.key
    if batch.position is not None:
        params |= {"next_at": batch.position[0], "next_id": batch.position[1]}
    elif change.not_before is None:
        sql = f"""UPDATE filter_changes SET position_at = 0, position_id = '',
            not_before = :second_pass WHERE {where}"""
        params |= {"second_pass": to_ms(batch.at + SECOND_PASS_AFTER)}
    else:
        sql = f"DELETE FROM filter_changes WHERE {where}"
    if not session.execute(sql, params):
        return 0
    _update(session, batch.differing)
    return max(batch.count, 1)


def _update(session: Session, differing: Sequence[dict[str, Any]]) -> None:
    """Store what filters decided; a post that is in an article by now stays as it is."""
    if not differing:
        return
    sql = "SELECT id FROM posts WHERE id IN :ids AND NOT is_linked ORDER BY id FOR NO KEY UPDATE"
    rows = session.fetch(sql, {"ids": [row["id"] for row in differing]})
    unlinked = [row[0] for row in rows]
    if unlinked:
        new = {row["id"]: row for row in differing}
        session.update_rows("posts", [new[id_] for id_ in unlinked])
        sequence_numbers.mark_changed(session, "posts", unlinked)


def matches_of(
    session: Session, column: str, owners: Sequence[str]
) -> Mapping[tuple[str, FilteredBy], FilterMatches]:
    """What each filter of these owners hides; `column` is `source_id` or `podcast_id`."""
    own = _OWN_FILTERS[column]
    sql = f"""SELECT {column}, filtered_by, count(*), max(id) FROM posts
        WHERE {column} IN :owners AND filtered_by IS NOT NULL AND filtered_by IN :filters
        GROUP BY {column}, filtered_by"""
    rows = session.fetch(sql, {"owners": owners, "filters": [one.value for one in own]})
    sql = "SELECT id, title, created_at FROM posts WHERE id IN :ids"
    newest = {
        id_: (title, from_ms(at))
        for id_, title, at in session.fetch(sql, {"ids": [row[3] for row in rows]})
    }
    return {
        (owner, FilteredBy(reason)): FilterMatches(count, *newest[last])
        for owner, reason, count, last in rows
    }
