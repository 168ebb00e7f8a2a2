"""What store tests put in: sources, posts and outcomes with just the fields that matter."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headwater.model import (
    Failure,
    FailureType,
    Hold,
    LateKeys,
    Outcome,
    OutcomeKind,
    Post,
    SkipReason,
    Source,
    Validators,
    Visit,
)
from headwater.store import Session, Store
from tests import factories

NOW = factories.NOW
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TIMEOUT = Failure(FailureType.TRANSIENT, "timeout", "timed out after 10 s")
GONE = Failure(FailureType.PERMANENT, "410", "HTTP 410 Gone", status=410)
ODD_TEXT = (
    "Grüße 👩‍🚀🏳️‍🌈 \U0010ffff שלום \u202eabc\u202c e\u0301 ﷽ "
    "'quote\" \\ % %s :name ? \ufeff \t\n end"
)

_numbers = itertools.count()


class StoreClock:
    """Wall-clock time stands still; sleeping moves the monotonic clock and wakes at once."""

    doubt_seconds: float = 0.0

    def __init__(self) -> None:
        self.at = NOW
        self.seconds = 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.on_sleep()
        await asyncio.sleep(0)


def a_source(**changes: Any) -> Source:
    """A feed with an id and a host of its own, polled an hour ago."""
    number = next(_numbers)
    host = f"feed{number}.example.org"
    plain: dict[str, Any] = {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "url": f"https://{host}/rss",
        "host": host,
        "last_polled": NOW - HOUR,
    }
    return factories.a_source(**plain | changes)


async def stored(store: Store, **changes: Any) -> Source:
    """A source that is in the store."""
    source = a_source(**changes)
    await store.sources.add_many([source])
    return source


def a_post(source: Source, body: str = "Some news", **changes: Any) -> Post:
    """A post of a source."""
    return factories.a_post(source_id=source.id, body=body, **changes)


def a_success(source: Source, posts: Sequence[Post] = (), **changes: Any) -> Outcome:
    """A poll that went well and brought these posts."""
    after = replace(
        source,
        last_polled=NOW,
        last_success_at=NOW,
        first_poll_done=True,
        requested_at=None,
        last_seen_id="2026-02-17T11:00:00.000Z",
    )
    outcome = Outcome(
        before=source,
        source=after,
        kind=OutcomeKind.STORED if posts else OutcomeKind.UNCHANGED,
        started_at=NOW - timedelta(seconds=1),
        posts=tuple(posts),
        status=200,
        size=4711,
        duration_ms=412,
    )
    return replace(outcome, **changes)


def a_rich_success(source: Source) -> Outcome:
    """A poll that writes to every table it can."""
    outcome = a_success(source, [a_post(source, "one"), a_post(source, "two")])
    after = replace(
        outcome.source,
        validators=Validators('"v2"', "Mon, 16 Feb 2026 07:00:00 GMT"),
        body_hash="b" * 64,
        seen_keys=("k1", "k2"),
        late_keys_kept=True,
        permanent_kind=None,
    )
    lane = source.host or "nowhere"
    visit = Visit(lane, NOW, next_allowed_at=NOW + HOUR, succeeded=True, resolved=True)
    return replace(
        outcome,
        source=after,
        skipped={SkipReason.ALREADY_SEEN: 3, SkipReason.TOO_OLD: 1},
        late_keys=LateKeys(remember=("k1", "k2")),
        visits=(visit,),
        hold=Hold(NOW + HOUR, NOW, "429"),
        hold_lane=lane,
        redirected_to="https://example.org/new",
    )


def a_failure(source: Source, failure: Failure = TIMEOUT, **changes: Any) -> Outcome:
    """A poll that failed."""
    after = replace(
        source,
        last_polled=NOW,
        requested_at=None,
        consecutive_failures=source.consecutive_failures + 1,
        last_failure_type=failure.type,
        last_error=failure.message,
        failing_since=NOW,
    )
    outcome = Outcome(
        before=source,
        source=after,
        kind=OutcomeKind.FAILED,
        started_at=NOW - timedelta(seconds=1),
        failure=failure,
        status=failure.status,
    )
    return replace(outcome, **changes)


async def with_posts(store: Store, source: Source, *posts: Post) -> Source:
    """Record a poll with these posts and answer the source as it is afterwards."""
    recorded = await store.record(a_success(await store.sources.get(source.id), posts))
    assert recorded.recorded
    return await store.sources.get(source.id)


async def rows(store: Store, sql: str, **params: Any) -> list[tuple[Any, ...]]:
    """What a query finds."""
    return await store.database.read(lambda session: session.fetch(sql, params))


async def bodies(store: Store, source: Source) -> list[str]:
    """The bodies of a source's posts, in alphabetical order."""
    posts = await store.posts.newest(source_id=source.id, limit=1000)
    return sorted(post.body for post in posts)


async def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, comparable across the two kinds of database."""
    tables = {
        "users": "id",
        "podcasts": "id",
        "api_keys": "user_id",
        "sources": "id",
        "posts": "id",
        "tombstones": "source_id, mark",
        "late_keys": "source_id, key",
        "articles": "id",
        "post_articles": "post_id, article_id",
        "polls": "id",
        "hosts": "lane",
        "facts": "name",
    }

    def read(session: Session) -> dict[str, list[tuple[Any, ...]]]:
        found = {
            table: sorted(session.fetch(f"SELECT * FROM {table} ORDER BY {order}"), key=repr)
            for table, order in tables.items()
        }
        if session.kind == "postgres":  # the shard comes last, and SQLite has none
            found["sources"] = [row[:-1] for row in found["sources"]]
        return found

    return await store.database.read(read)
