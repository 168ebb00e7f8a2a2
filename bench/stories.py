"""Grouping posts into stories with a million posts in the window (I1).

    python -m bench.stories [POSTS] [SOURCES]

Prints how many edited copies are recognised, and how many pairs of unrelated texts with the same
boilerplate are merged (I3); the CPU time per new post, with and without the other posts, how long
the lookup of its marks takes, and the size of their marks; the same for templated feeds: 20 posts
of each of 200 SOURCES with almost the same text.
The marks of the other posts are random numbers in the range of real ones: generating a million
texts would take an hour. SQLite only; the database is in a temporary folder.
"""

import asyncio
import resource
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from tests.rules.test_stories import is_merged
from tests.story_texts import EDITS, TextGenerator

from bench import feeds
from headwater.clock import SystemClock
from headwater.fetch.feed.feed_document import read_feed
from headwater.model import Post, Source, SourceType
from headwater.rules.admission import content_hash, numbered, timed_id
from headwater.rules.stories import marks_of
from headwater.store import Session, Store, open_database
from headwater.store.database import Params, Row
from headwater.store.story_grouping import group

_NOW = datetime(2026, 2, 17, 12, tzinfo=UTC)
_NEW, _BATCH, _WORDS = 1000, 100, 150
_PAIRS = 1000
_MARKS = 17
_FILL = """
    INSERT INTO story_marks
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :marks)
    SELECT DISTINCT :scope | abs(random()) % 430000000, n / 17 FROM numbers ORDER BY 1
"""


def _evaluate() -> None:
    """Print recall by edit, and wrong merges by where the common boilerplate is."""
    for name, edit in EDITS.items():
        texts = TextGenerator(seed=23)
        originals = [texts.text(texts.rng.choice((130, 150, 200, 300, 500))) for _ in range(_PAIRS)]
        merged = sum(is_merged(text, edit(texts, text)) for text in originals)
        print(f"recognised of {_PAIRS} copies, {name}: {merged / _PAIRS:.3f}")
    for place in ("before", "behind", "both", "byline"):
        texts = TextGenerator(seed=29)
        pairs = (texts.framed(place, texts.rng.choice((35, 50, 70, 100))) for _ in range(_PAIRS))
        wrong = sum(is_merged(*pair) for pair in pairs)
        print(f"wrong merges of {_PAIRS} pairs, boilerplate {place}: {wrong}", flush=True)


async def _run(count: int, feeds_count: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "stories.db"
        async with Store(open_database(f"sqlite:///{path}"), SystemClock()) as store:
            await store.prepare()
            sources = [_source(number) for number in range(max(20, feeds_count))]
            await store.sources.add_many(sources)
            texts = TextGenerator(1)
            print(f"sketch: {_sketch_cost(texts):.0f} µs a post")
            first = count + 1
            await _measure(store, "in an empty window", _posts(texts, sources[:20], first))
            size = await _size(store)
            scope = marks_of("default", "", "", texts.text(60)).text[0] >> 32 << 32
            params = {"marks": _MARKS * count, "scope": scope}
            filling = get_context("spawn").Process(
                target=_fill, args=(path, params)
            )  # its memory is not counted
            filling.start()
            await asyncio.to_thread(filling.join)
            assert filling.exitcode == 0
            grown = await _size(store) - size
            print(f"marks of {count:,} posts: {grown / 1e6:,.0f} MB, {grown / count:,.0f} B a post")
            await _measure(store, "beside them", _posts(texts, sources[:20], first + _NEW))
            await _measure(store, "templated", _templated(sources[:feeds_count], first + 2 * _NEW))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {memory:,.0f} MB")


def _fill(path: Path, params: Mapping[str, int]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA cache_size = -1000000")
        connection.execute(_FILL, params)


async def _size(store: Store) -> int:
    sql = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    return int((await store.database.fetch(sql))[0][0])


def _source(number: int) -> Source:
    url = f"https://feed{number}.example/rss"
    id_ = f"00000000-0000-4000-8000-{number:012}"
    return Source(id=id_, podcast_id="default", type=SourceType.RSS, url=url, created_at=_NOW)


def _sketch_cost(texts: TextGenerator) -> float:
    made = [texts.text(_WORDS) for _ in range(500)]
    started = time.process_time()
    for text in made:
        marks_of("default", "https://example.org/a?utm_source=x", "https://example.org/f", text)
    return (time.process_time() - started) / len(made) * 1e6


def _posts(texts: TextGenerator, sources: list[Source], first: int) -> list[Post]:
    """New posts, every fifth of them an edited copy of the one before."""
    posts: list[Post] = []
    for number in range(_NEW):
        copied = number % 5 == 4
        text = texts.edited(posts[-1].body, 0.1) if copied else texts.text(_WORDS)
        posts.append(_post(sources[number % len(sources)], text, first + number))
    return posts


def _templated(sources: list[Source], first: int) -> list[Post]:
    """The posts of feeds whose entries differ in a number and a name only."""
    found = (
        (source, entry.body)
        for index, source in enumerate(sources)
        for entry in read_feed(feeds.document(index, 0, _NOW), url=source.url)
    )
    return [_post(source, text, first + n) for n, (source, text) in enumerate(found)]


def _post(source: Source, text: str, seq: int) -> Post:
    digest = content_hash(text)
    post = Post(
        id=timed_id(_NOW, source.id, digest),
        source_id=source.id,
        title="Title",
        body=text,
        url=f"{source.url}/{seq}",
        published_at=_NOW,
        author=None,
        content_hash=digest,
        created_at=_NOW,
    )
    return replace(numbered(post, seq), seq=seq)


async def _measure(store: Store, where: str, posts: list[Post]) -> None:
    def insert(session: Session) -> None:
        names = "id source_id title body url published_at content_hash created_at seq".split()
        at = round(_NOW.timestamp() * 1000)
        rows = [
            {name: getattr(post, name) for name in names}
            | {"podcast_id": "default", "published_at": at, "created_at": at}
            for post in posts
        ]
        session.insert_rows("posts", rows)

    await store.database.write(insert)
    spent, longest, looking_up = 0.0, 0.0, 0.0
    for start in range(0, len(posts), _BATCH):
        batch = posts[start : start + _BATCH]
        cpu, wall = time.process_time(), time.monotonic()
        looking_up += await store.database.write(partial(_group, posts=batch))
        spent += time.process_time() - cpu
        longest = max(longest, time.monotonic() - wall)
    found = "SELECT count(DISTINCT story_id) FROM posts WHERE seq >= :first"
    stories = (await store.database.fetch(found, {"first": posts[0].seq}))[0][0]
    print(
        f"{where}: {spent / len(posts) * 1e6:.0f} µs CPU a post, "
        f"lookup {looking_up / len(posts) * 1e6:.0f} µs, longest batch of {_BATCH}: "
        f"{longest * 1000:.0f} ms, {stories} stories of {len(posts)} posts"
    )


def _group(session: Session, posts: list[Post]) -> float:
    """Group posts; return how long the lookups took, the only unprepared queries."""
    fetch, spent = session.fetch_unprepared, 0.0

    def timed(sql: str, params: Params) -> list[Row]:
        nonlocal spent
        started = time.monotonic()
        rows = fetch(sql, params)
        spent += time.monotonic() - started
        return rows

    with patch.object(session, "fetch_unprepared", timed):
        group(session, posts)
    return spent


if __name__ == "__main__":
    _evaluate()
    given = [int(each) for each in sys.argv[1:]]
    asyncio.run(_run(*(given + [1_000_000, 200][len(given) :])))
