"""Sources, posts and poll outcomes for store tests, and functions that read them back."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headwater.model import (
    Article,
    Failure,
    FailureType,
    Fence,
    Hold,
    LateKeys,
    Outcome,
    OutcomeKind,
    Post,
    SkipReason,
    Source,
    Suggestion,
    SuggestionKind,
    Validators,
    Visit,
)
from headwater.rules.admission import numbered
from headwater.store import Session, Store
from headwater.store.content_filter import ContentFilter
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
_post_numbers = itertools.count(1_000_000_000)  # beyond those that the store assigns


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


def a_polled_source(**changes: Any) -> Source:
    """A feed with a unique id and host, polled an hour ago."""
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
    """Add a source to the store."""
    source = a_polled_source(**changes)
    await store.sources.add_many([source])
    return source


async def open_shard(store: Store, shard: int, worker: str) -> Fence:
    """Open a shard for a worker, also if another one has it open."""
    sql = """UPDATE shards SET epoch = epoch + 1, worker = :worker WHERE shard = :shard
        RETURNING shard, epoch"""
    params = {"shard": shard, "worker": worker}
    return Fence(*(await store.database.write(lambda s: s.fetch(sql, params)))[0])


def a_post_of(source: Source, body: str = "Some news", **changes: Any) -> Post:
    """A post of a source, which is numbered already: storing it changes nothing."""
    post = factories.a_post(source_id=source.id, body=body, **changes)
    seq = next(_post_numbers)
    return replace(post, seq=seq) if "id" in changes else numbered(post, seq)


def a_success(source: Source, posts: Sequence[Post] = (), **changes: Any) -> Outcome:
    """A successful poll with these posts."""
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


def a_suggestion(id_: str = "s1", **changes: Any) -> Suggestion:
    """A suggestion to ignore a line of a page."""
    plain = Suggestion(id_, SuggestionKind.IGNORE, {"ignore": [f"{id_} #:#"]}, NOW)
    return replace(plain, **changes)


def a_rich_success(source: Source) -> Outcome:
    """A poll that writes to every possible table."""
    outcome = a_success(source, [a_post_of(source, "one"), a_post_of(source, "two")])
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
    """Record a poll with these posts and return the source afterwards."""
    recorded = await store.record(a_success(await store.sources.get(source.id), posts))
    assert recorded.recorded
    return await store.sources.get(source.id)


async def rows(store: Store, sql: str, **params: Any) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return await store.database.read(lambda session: session.fetch(sql, params))


async def newest_posts(store: Store, **options: Any) -> list[Post]:
    """Posts of a podcast or source, newest first."""
    return list((await store.posts.page(**options)).items)


async def newest_articles(
    store: Store, podcast_id: str, *, processed: bool | None = None, **options: Any
) -> list[Article]:
    """Articles of a podcast, newest first."""
    chosen = ContentFilter(processed=processed)
    return list((await store.articles.page(podcast_id, chosen=chosen, **options)).items)


async def bodies(store: Store, source: Source) -> list[str]:
    """The bodies of a source's posts, in alphabetical order."""
    posts = await newest_posts(store, source_id=source.id, limit=1000)
    return sorted(post.body for post in posts)


async def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, comparable across the two kinds of database."""
    tables = {
        "users": "id",
        "podcasts": "id",
        "api_keys": "user_id",
        "sources": "id",
        "posts": "id",
        "page_visits": "post_id",
        "feed_searches": "source_id",
        "tombstones": "source_id, mark",
        "late_keys": "source_id, key",
        "suggestions": "source_id, id",
        "page_versions": "source_id",
        "articles": "id",
        "post_articles": "post_id, article_id",
        "polls": "id",
        "poll_days": "source_id, day",
        "idempotency_keys": "id",
        "hosts": "lane",
        "webhooks": "id",
        "channels": "id",
        "deliveries": "number",
        "filter_changes": "podcast_id, source_id",
        "saved_searches": "podcast_id, name",
        "source_activity": "source_id",
        "incidents": "id",
        "incident_sources": "incident_id, source_id",
        "incident_podcasts": "incident_id, podcast_id",
        "storms": "host",
        "facts": "name",
    }

    def read(session: Session) -> dict[str, list[tuple[Any, ...]]]:
        found = {
            table: sorted(session.fetch(f"SELECT * FROM {table} ORDER BY {order}"), key=repr)
            for table, order in tables.items()
        }
        if session.kind == "postgres":  # SQLite has no shards
            for table in ("sources", "page_visits", "feed_searches"):
                sql = """SELECT column_name FROM information_schema.columns
                    WHERE table_name = :table AND table_schema = current_schema()
                    ORDER BY ordinal_position"""
                shard = session.fetch(sql, {"table": table}).index(("shard",))
                found[table] = [row[:shard] + row[shard + 1 :] for row in found[table]]
        return found

    return await store.database.read(read)
