"""A large SQLite database for page benchmarks: all kinds of rows, in a minute or two.

Most sources belong to one podcast and few of them fail, so a search for failing ones passes many
others. A second podcast has the largest number of sources that is still sorted, the rest is spread
over small ones. These hosts do not exist: the scheduler is paused.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from headwater.app import App, open_app
from headwater.engine.pause_state import PauseState
from headwater.model import FailureType, Hold, Podcast, Source, SourceType, User, Validators
from headwater.operations.source_views import MANY
from headwater.operations.tokens import add_token
from headwater.rules.admission import content_hash, timed_id
from headwater.rules.health import health_of
from headwater.rules.politeness import X_HOST
from headwater.settings import load_settings
from headwater.store.row_mapping import to_ms

BIG_HOST, BIG_SHARE = "big.example", 0.1
HOSTS, HELD_HOSTS = 4000, 300
LARGE, MIDDLING = "default", "middling"  # podcasts; their owners have the same names
SMALL_PODCASTS = 200
DAYS = 6  # age of the oldest content: older is cleaned up
POLL_DAYS = 13
BUSY_SHARE = 0.02  # share of all posts and polls of one source
ARTICLE_SHARE, UNPROCESSED_SHARE = 0.9, 0.6  # the newest ones are unprocessed
_BITE = 10_000
_WORDS = "river level gauge weather harbour bridge market council concert forest".split()
_TEXT = "The river rose by a few centimetres over night, and nobody knows why it did so. " * 60
_POSTS = """INSERT INTO posts (id, source_id, podcast_id, title, body, url, published_at, author,
    content_hash, created_at, is_linked, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_ARTICLES = """INSERT INTO articles (id, source_id, podcast_id, title, body, url, published_at,
    author, content_hash, created_at, is_processed, processed_at)
    SELECT id, source_id, podcast_id, title, body, url, published_at, author, content_hash,
        created_at, created_at < ? AND podcast_id <> ?, NULL FROM posts WHERE is_linked"""
_LINKS = "INSERT INTO post_articles (post_id, article_id) SELECT id, id FROM articles"
_POLLS = """INSERT INTO polls (source_id, started_at, duration_ms, outcome, status, bytes,
    new_posts, failure_type, failure_kind, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_HOSTS = """INSERT INTO hosts (lane, next_allowed_at, next_allowed_set_at, hold_until, hold_set_at,
    hold_reason, last_success_at, resolved_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""


@dataclass(frozen=True, slots=True)
class Large:
    """The objects of the database that pages are requested for."""

    sources: Sequence[Source]  # in the order they were added
    busy: Source  # with many posts and many polls
    admin: str  # tokens
    large_owner: str
    middling_owner: str
    small_owner: str


async def fill(path: Path, sources: int, posts: int, polls: int) -> Large:
    """Fill a new database."""
    options = {"app.database-url": f"sqlite:///{path}"}
    async with open_app(load_settings(options=options, environ={})) as app:
        now = app.clock.now()
        await PauseState(app.store.key_values, paused=False).store(paused=True)
        tokens = await add_users(app, now)
        made = [a_source(n, sources, now) for n in range(sources)]
        for first in range(0, sources, _BITE):
            await app.store.sources.add_many(made[first : first + _BITE])
    busy = next(s for s in reversed(made) if s.podcast_id == LARGE and not s.consecutive_failures)
    with sqlite3.connect(path, isolation_level=None) as connection:
        add_content(connection, made, busy, posts, polls, now)
    connection.close()
    return Large(made, busy, *tokens)


async def add_users(app: App, now: datetime) -> list[str]:
    """Users with a podcast each; tokens of an administrator and of three of them."""
    for number, name in enumerate([MIDDLING, *map(small, range(SMALL_PODCASTS))]):
        user = User(name, name, now - timedelta(days=30) + timedelta(minutes=number))
        await app.store.accounts.add_user(user)
        await app.store.accounts.save_podcast(
            Podcast(name, name, f"Podcast {name}", user.created_at)
        )
    owners = [await app.store.accounts.user(name) for name in (LARGE, MIDDLING, small(0))]
    return [(await add_token(app.store, owner, "bench", now)).secret for owner in (None, *owners)]


def small(number: int) -> str:
    return f"small-{number}"


def a_source(number: int, total: int, now: datetime) -> Source:
    """A source that depends on its number only, different from its neighbours."""
    rng = Random(number)
    podcast = a_podcast(number, total, rng)
    host = BIG_HOST if rng.random() < BIG_SHARE else f"host-{rng.randrange(HOSTS)}.example"
    type_ = rng.choices(tuple(SourceType), (900, 99, 1))[0]
    url = f"https://{host}/{rng.choice(_WORDS)}/{rng.choice(_WORDS)}/{number}.xml"
    created_at = now - timedelta(days=30) + timedelta(seconds=number)
    polled = now - timedelta(seconds=rng.randrange(7200))
    source = Source(
        id=timed_id(created_at, url),
        podcast_id=podcast,
        type=type_,
        url=f"@{rng.choice(_WORDS)}{number}" if type_ is SourceType.TWITTER else url,
        created_at=created_at,
        label=a_label(number, rng),
        host=X_HOST if type_ is SourceType.TWITTER else host,
        poll_interval_minutes=rng.choice((60, 120, 240, 1440)),
        poll_delay_seconds=rng.choice((None, None, None, 2)),
        last_polled=polled,
        last_success_at=polled,
        first_poll_done=True,
        last_seen_id="2026-11-15T04:12:59.000Z",
        validators=Validators(f'"{number:x}"', "Sun, 15 Nov 2026 04:12:59 GMT"),
        body_hash=content_hash(url),
        seen_keys=(content_hash(url)[:32],),
        generation=20,
    )
    return ailing(source, 0.2 if podcast == LARGE else 1.0, rng)


def a_podcast(number: int, total: int, rng: Random) -> str:
    """One has most of the sources, one as many as are sorted, the others share the rest."""
    middling = min(MANY - 100, total // 10)
    if number % 10 == 0 and number // 10 < middling:
        return MIDDLING
    return LARGE if rng.random() < 0.9 else small(rng.randrange(SMALL_PODCASTS))


def a_label(number: int, rng: Random) -> str | None:
    name = f"{rng.choice(_WORDS).title()} {rng.choice(_WORDS)} {number}"
    return rng.choice((None, name, f"Żółw ‘{name}’"))


def ailing(source: Source, often: float, rng: Random) -> Source:
    """Some fail, some were disabled for it, and very few were never polled."""
    place = rng.random() / often
    if place < 0.05:
        return replace(
            source,
            consecutive_failures=rng.randrange(1, 12),
            last_failure_type=FailureType.TRANSIENT,
            failing_since=source.created_at + timedelta(days=25),
            last_error="HTTP 503 Service Unavailable from https://example.org/feed.xml",
            hold=rng.choice((None, Hold(source.created_at, source.created_at, "asked to wait"))),
        )
    if place < 0.08:
        return replace(source, enabled=False, disabled_reason="HTTP 404 Not Found")
    if place < 0.081:
        return replace(source, last_success_at=None, first_poll_done=False)
    return source


def add_content(
    connection: sqlite3.Connection,
    sources: Sequence[Source],
    busy: Source,
    posts: int,
    polls: int,
    now: datetime,
) -> None:
    """Posts, articles and the history, without durability, with indexes created at the end."""
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -500000"):
        connection.execute(f"PRAGMA {pragma}")
    indexes = connection.execute(
        """SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL
        AND tbl_name IN ('posts', 'articles', 'post_articles', 'polls')"""
    ).fetchall()
    connection.execute("BEGIN")
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    start = millis(now - timedelta(days=DAYS))
    waiting_since = start + (1 - UNPROCESSED_SHARE) * DAYS * 86_400_000
    connection.executemany(_POSTS, post_rows(sources, busy, posts, start))
    connection.execute("UPDATE post_numbers SET last = ?", (posts,))
    connection.execute(_ARTICLES, (waiting_since, MIDDLING))
    connection.execute(_LINKS)
    connection.executemany(_POLLS, poll_rows(sources, busy, polls, now))
    connection.executemany(_HOSTS, host_rows(sources, now))
    for _, sql in indexes:
        connection.execute(sql)
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")


def post_rows(
    sources: Sequence[Source], busy: Source, posts: int, start: int
) -> Iterator[tuple[Any, ...]]:
    """Posts in order of time; most are in an article."""
    rng = Random(1)
    for number, source in enumerate(picked(sources, busy, posts, rng)):
        at = start + number * DAYS * 86_400_000 // posts
        digest = content_hash(f"{source.id} {number}")
        id_ = f"{at >> 16:08x}-{at & 0xFFFF:04x}-8{digest[:3]}-8{digest[3:6]}-{digest[6:18]}"
        body = f"{number} {_TEXT[: rng.choice((200, 300, 500, 4500))]}"
        url = f"https://example.org/{number}"
        linked = rng.random() < ARTICLE_SHARE
        yield (id_, source.id, source.podcast_id, f"Level {number}", body, url, at, "Ada",
               digest, at, linked, number + 1)  # fmt: skip


def poll_rows(
    sources: Sequence[Source], busy: Source, polls: int, now: datetime
) -> Iterator[tuple[Any, ...]]:
    """Polls in order of time that match the health of their sources."""
    rng = Random(2)
    start = millis(now - timedelta(days=POLL_DAYS))
    for number, source in enumerate(picked(sources, busy, polls, rng)):
        at, taken = start + number * POLL_DAYS * 86_400_000 // polls, rng.randrange(20, 900)
        match health_of(source).value:
            case "failing":
                kind = rng.choice(("503", "timeout", "DNS"))
                yield source.id, at, taken, "failed", None, 0, 0, "transient", kind, "No answer"
            case "disabled":
                yield source.id, at, taken, "failed", 404, 0, 0, "permanent", "404", "Not found"
            case _ if rng.random() < 0.2:
                yield source.id, at, taken, "stored", 200, 20_000, 3, None, None, None
            case _:
                yield source.id, at, taken, "unchanged", 304, 0, 0, None, None, None


def picked(sources: Sequence[Source], busy: Source, count: int, rng: Random) -> Iterator[Source]:
    """Random sources, with one of them repeated."""
    for _ in range(count):
        yield busy if rng.random() < BUSY_SHARE else sources[int(rng.random() * len(sources))]


def host_rows(sources: Iterable[Source], now: datetime) -> Iterator[tuple[Any, ...]]:
    """The state of every host; some are on hold, the largest among them."""
    at, later = millis(now), millis(now + timedelta(hours=3))
    for number, host in enumerate(sorted({source.host or "" for source in sources})):
        held = number < HELD_HOSTS
        hold = (later + number, at, "HTTP 429 Too Many Requests") if held else (None, None, None)
        yield host, at, at, *hold, at, at


def millis(moment: datetime) -> int:
    return to_ms(moment)
