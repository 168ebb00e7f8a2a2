"""Reading by number while several processes write: is every post read, once and in order (V1)?

    python -m bench.cursors [SECONDS] [WRITERS]

Processes store polls with a few posts each in one PostgreSQL database. A consumer reads the posts
by number at the same time. At the end both are compared.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from random import Random

from bench import postgres
from headwater.app import open_app
from headwater.model import Outcome, OutcomeKind, Post, Source, SourceType
from headwater.rules.admission import content_hash
from headwater.settings import load_settings
from headwater.store import Store

SOURCES_EACH = 20
PAGE = 500


async def write(url: str, name: str, seconds: float) -> None:
    """Store polls until the time is over."""
    rng = Random(name)
    settings = load_settings(options={"app.database-url": url}, environ={})
    ends_at = time.monotonic() + seconds
    async with open_app(settings) as app:
        sources = [_source(app.clock.now(), f"{name}-{n}") for n in range(SOURCES_EACH)]
        await app.store.sources.add_many(sources)

        async def poll(source: Source) -> None:
            number = 0
            while time.monotonic() < ends_at:
                posts = [_post(source, number + n) for n in range(rng.randrange(6))]
                number += len(posts)
                current = await app.store.sources.get(source.id)
                kind = OutcomeKind.STORED if posts else OutcomeKind.UNCHANGED
                outcome = Outcome(current, current, kind, current.created_at, tuple(posts))
                await app.store.record(outcome)

        await asyncio.gather(*(poll(source) for source in sources))


def _source(now: datetime, name: str) -> Source:
    url = f"https://{name}.example.org/feed"
    return Source(
        id=name, podcast_id="default", created_at=now, type=SourceType.RSS, url=url, host=name
    )


def _post(source: Source, number: int) -> Post:
    body = f"{source.id} {number}"
    return Post(
        f"{source.id}-{number:09}", source.id, body, body, source.url, None, None,
        content_hash(body), source.created_at,
    )  # fmt: skip


async def consume(store: Store, writers: list[subprocess.Popen[bytes]]) -> list[str]:
    """The ids of all posts in the order they were read, until all writers have ended."""
    found: list[str] = []
    after, is_last = 0, False
    while True:
        page = await store.posts.after(None, after, PAGE)
        found += [post.id for post in page.items]
        after = page.next_after
        if page.more:
            continue
        if is_last:
            return found
        is_last = all(writer.poll() is not None for writer in writers)


async def main(seconds: float, count: int) -> None:
    """Run the writers and the consumer, and print the result."""
    with tempfile.TemporaryDirectory() as folder, postgres.running(Path(folder)) as server:
        url = server.new_database()
        settings = load_settings(options={"app.database-url": url}, environ={})
        async with open_app(settings) as app:
            command = [sys.executable, "-m", "bench.cursors", "--writer", url]
            writers = [
                subprocess.Popen([*command, f"w{number}", str(seconds)]) for number in range(count)
            ]
            try:
                found = await consume(app.store, writers)
            finally:
                for writer in writers:
                    writer.kill()
                    writer.wait()
            rows = await app.store.database.fetch("SELECT id FROM posts ORDER BY seq")
            stored = [row[0] for row in rows]
            print(
                f"{count} writers, {seconds:.0f} s: {len(stored):,} posts stored, "
                f"{len(set(stored) - set(found)):,} missed, "
                f"{len(found) - len(set(found)):,} repeated, "
                f"{'in order' if found == stored else 'not in order'}"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--writer"]:
        asyncio.run(write(sys.argv[2], sys.argv[3], float(sys.argv[4])))
    else:
        given = sys.argv[1:]
        asyncio.run(main(float(given[0]) if given else 60, int(given[1]) if given[1:] else 4))
