"""Numbers that increase as rows are stored or changed, each used once (R9, V1).

`seq` of posts and articles, and `changed_seq` of those that changed later, are numbers of one
sequence, `post_numbers`. On PostgreSQL several transactions take numbers at a time and commit in
any order. Each of them first takes a shared advisory lock, whose key is the last number taken
before. Readers stay below the lowest of these locks (`horizon`).
"""

from collections.abc import Sequence
from datetime import datetime

from headwater.model import Outcome, Post, changed
from headwater.rules.admission import numbered
from headwater.store.database import Session
from headwater.store.key_values import set_value

_RESERVED_KEY = "numbers of earlier posts"  # the first and last unused one, "1-99"
_LAST = "CASE WHEN is_called THEN last_value ELSE last_value - 1 END"
# The lock class is the id of the sequence: each schema has its own. Keys have 31 bits.
_LOCK_CLASS = "CAST(CAST('post_numbers' AS REGCLASS) AS OID)"
_KEYS = 1 << 31
_GUARD = f"""
    SELECT pg_advisory_xact_lock_shared(CAST({_LOCK_CLASS} AS INTEGER),
        CAST({_LAST} & {_KEYS - 1} AS INTEGER)) FROM post_numbers
"""
_GUARDED = f"""
    SELECT CAST(objid AS BIGINT) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
        AND classid = {_LOCK_CLASS} AND mode = 'ShareLock'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def assign(session: Session, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with numbers for their posts, in order; a number that is not stored is lost."""
    count = sum(post.seq is None for outcome in outcomes for post in outcome.posts)
    numbers = iter(take(session, count))

    def with_number(post: Post) -> Post:
        return post if post.seq is not None else numbered(post, next(numbers))

    return [
        changed(outcome, {"posts": tuple(map(with_number, outcome.posts))})
        if outcome.posts
        else outcome
        for outcome in outcomes
    ]


def take(session: Session, count: int) -> Sequence[int]:
    """So many new numbers, in order."""
    if not count:
        return ()
    if session.kind == "postgres":
        session.execute(_GUARD)  # before the first number is taken
        sql = "SELECT nextval('post_numbers') FROM generate_series(1, :count)"
        return [row[0] for row in session.fetch(sql, {"count": count})]
    session.execute("UPDATE post_numbers SET last = last + :count", {"count": count})
    final = last(session)
    return range(final - count + 1, final + 1)


def mark_changed(session: Session, table: str, ids: Sequence[str]) -> None:
    """Give posts or articles that changed a new `changed_seq`, in this order (V1)."""
    numbers = take(session, len(ids))
    rows = [{"id": id_, "changed_seq": n} for id_, n in zip(ids, numbers, strict=True)]
    session.update_rows(table, rows)


def last(session: Session) -> int:
    """The last number that was taken, even if its row was deleted since."""
    column = "last" if session.kind == "sqlite" else _LAST
    return int(session.fetch(f"SELECT {column} FROM post_numbers")[0][0])


def horizon(session: Session) -> int:
    """The number up to which every row is committed, or its number lost (V1).

    It holds for snapshots that are taken later. The session must not be on a snapshot of its own:
    call it with `read_single`, or in a write transaction.
    """
    final = last(session)  # before the locks: who takes a number later has a higher one
    if session.kind == "postgres":
        behind = ((final - row[0]) % _KEYS for row in session.fetch(_GUARDED))
        # a key above `final` is of a later transaction
        final -= max((each for each in behind if each < _KEYS // 2), default=0)
    reserved = _reserved(session)
    if reserved and session.fetch("SELECT 1 FROM posts WHERE seq IS NULL LIMIT 1"):
        return min(final, reserved[0] - 1)  # cleanup has yet to use these lower numbers
    return final


def continue_after(session: Session, number: int) -> None:
    """Let numbers continue after this one, unless they are already beyond it."""
    if session.kind == "sqlite":
        sql = "UPDATE post_numbers SET last = max(last, :number)"
    else:
        sql = "SELECT setval('post_numbers', greatest(last_value, :number)) FROM post_numbers"
    session.execute(sql, {"number": number})


def find_unnumbered(session: Session, _now: datetime, limit: int, *, table: str) -> list[str]:
    """Ids of rows that a version without numbers has stored, oldest first."""
    sql = f"SELECT id FROM {table} WHERE seq IS NULL ORDER BY created_at, id LIMIT :limit"
    return [row[0] for row in session.fetch(sql, {"limit": limit})]


def number_posts(session: Session, ids: Sequence[str], _limit: int) -> int:
    """Number these posts, unless another process has done it; return how many."""
    reserved = _reserved(session, "FOR UPDATE")  # so that batches are numbered in their order
    rows = _unnumbered(session, "posts", ids)
    numbers = [*reserved[: len(rows)]]
    if numbers:
        set_value(session, _RESERVED_KEY, f"{numbers[-1] + 1}-{reserved[-1]}")
    numbers += take(session, len(rows) - len(numbers))  # stored by an old process since
    _set_numbers(session, "posts", rows, numbers)
    return len(rows)


def number_articles(session: Session, ids: Sequence[str], _limit: int) -> int:
    """Number these articles, unless another process has done it; return how many."""
    rows = _unnumbered(session, "articles", ids)
    _set_numbers(session, "articles", rows, take(session, len(rows)))
    return len(rows)


def _unnumbered(session: Session, table: str, ids: Sequence[str]) -> list[str]:
    """The given rows that have no number, locked."""
    sql = f"""SELECT id FROM {table} WHERE id IN :ids AND seq IS NULL
        ORDER BY created_at, id FOR UPDATE"""
    return [row[0] for row in session.fetch(sql, {"ids": ids})]


def _set_numbers(session: Session, table: str, ids: Sequence[str], numbers: Sequence[int]) -> None:
    rows = [{"id": id_, "seq": seq} for id_, seq in zip(ids, numbers, strict=True)]
    session.update_rows(table, rows)


def _reserved(session: Session, lock: str = "") -> range:
    """The numbers below those of new posts that are left for posts without a number."""
    sql = f"SELECT value FROM facts WHERE name = :name {lock}"
    for (value,) in session.fetch(sql, {"name": _RESERVED_KEY}):
        first, _, final = value.partition("-")
        return range(int(first), int(final) + 1)
    return range(0)
