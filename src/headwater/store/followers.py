"""Followers: work that follows stored posts in batches, each in one transaction with its cursor.

A killed process loses and repeats nothing: a batch and the cursor after it are committed together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from headwater.model import Post
from headwater.query.tokens import MAX_CHARACTERS
from headwater.store.database import Session
from headwater.store.key_values import set_value
from headwater.store.numbered_rows import NumberedPage, NumberRange, fetch_numbered
from headwater.store.row_mapping import POST_COLUMNS, read_post, to_ms
from headwater.store.sequence_numbers import horizon, last

POSTS_PER_BATCH = 100  # polls wait while a batch is written
CHARACTERS_PER_BATCH = 500_000
_LONG_TEXTS = ("body", "markdown", "page_text")
_SKIPPED_POSTS = 5000  # old ones per batch
# When the next post was stored, and the newest one.
_BOUNDS = """SELECT created_at,
        (SELECT created_at FROM posts WHERE seq <= :until ORDER BY seq DESC LIMIT 1)
    FROM posts WHERE seq > :after AND seq <= :until ORDER BY seq LIMIT 1"""
# Of the next posts the last number, and the first of one that is recent.
_OLDER = f"""SELECT max(seq), min(CASE WHEN created_at >= :since THEN seq END) FROM
    (SELECT seq, created_at FROM posts WHERE seq > :after AND seq <= :until
        ORDER BY seq LIMIT {_SKIPPED_POSTS}) AS next"""


def beginnings(names: Sequence[str]) -> list[str]:
    """These columns of posts or articles, of long texts the searched beginning only.

    One text has up to 10 MB, which take several times as much memory (H1).
    """
    return [f"substr({n}, 1, {MAX_CHARACTERS})" if n in _LONG_TEXTS else n for n in names]


def stored_posts(session: Session, wanted: NumberRange, limit: int) -> NumberedPage[Post]:
    """The next posts of a batch, with the beginnings of their texts."""
    names, read = beginnings(POST_COLUMNS), read_post.all
    return fetch_numbered(session, "posts", names, wanted, limit, read, CHARACTERS_PER_BATCH)


def recent_posts(
    session: Session, wanted: NumberRange, limit: int, *, window: timedelta
) -> NumberedPage[Post]:
    """The next posts of a batch that were stored at most `window` before the newest post.

    Of older posts, which may be very many after an upgrade, no text is read.
    """
    params = {"after": wanted.after, "until": wanted.until}
    bounds = session.fetch(_BOUNDS, params)
    if not bounds:
        return NumberedPage((), max(wanted.after, wanted.until), more=False)
    next_at, newest_at = bounds[0]
    since = newest_at - round(window.total_seconds() * 1000)
    if next_at < since:
        last_old, first_recent = session.fetch(_OLDER, params | {"since": since})[0]
        if first_recent is None:
            return NumberedPage((), last_old, more=True)
        wanted = replace(wanted, after=first_recent - 1)
    page = stored_posts(session, wanted, limit)
    recent = (post for post in page.items if to_ms(post.created_at) >= since)
    return replace(page, items=tuple(recent))


@dataclass(frozen=True, slots=True)
class Follower:
    """Handles every post once after it was stored or, by `changed_seq`, after each change.

    One with a function `read` of its own handles what that returns.
    """

    name: str
    handle: Callable[[Session, Sequence[Any]], None]
    column: str = "seq"
    read: Callable[[Session, NumberRange, int], NumberedPage[Any]] = stored_posts

    @property
    def key(self) -> str:
        """The name of the stored cursor."""
        return f"cursor:{self.name}"


def behind(session: Session, followers: Sequence[Follower]) -> list[Follower]:
    """The followers that may have something to do."""
    sql = "SELECT name, value FROM facts WHERE name IN :names"
    cursors: dict[str, str] = dict(
        session.fetch(sql, {"names": [follower.key for follower in followers]})
    )
    final = last(session)
    return [f for f in followers if int(cursors.get(f.key, 0)) < final]


def follow(session: Session, follower: Follower, limit: int = POSTS_PER_BATCH) -> bool:
    """Handle the next posts and advance the cursor; True: there are more."""
    after = _locked_cursor(session, follower)
    wanted = NumberRange(after, horizon(session), column=follower.column)
    page = follower.read(session, wanted, limit)
    if page.items:
        follower.handle(session, page.items)
    if page.next_after > after:
        set_value(session, follower.key, str(page.next_after))
    return page.more


def skip_next(session: Session, follower: Follower) -> str | None:
    """Advance the cursor past the next post without handling it; return the post's id."""
    after = _locked_cursor(session, follower)
    wanted = NumberRange(after, horizon(session), column=follower.column)
    page = follower.read(session, wanted, 1)
    set_value(session, follower.key, str(max(after, page.next_after)))
    return page.items[0].id if page.items else None


def _locked_cursor(session: Session, follower: Follower) -> int:
    """The number up to which the follower has handled posts; one process at a time has it."""
    sql = "INSERT INTO facts (name, value) VALUES (:key, '0') ON CONFLICT (name) DO NOTHING"
    session.execute(sql, {"key": follower.key})
    sql = "SELECT value FROM facts WHERE name = :key FOR UPDATE"
    return int(session.fetch(sql, {"key": follower.key})[0][0])
