"""A page of a long list costs what it shows, the last one as much as the first."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from headwater.model import Podcast, Post, Source
from headwater.store import Session, Store
from headwater.store.rows import content_of
from tests.store.pieces import MINUTE, NOW, a_post, a_source
from tests.store.test_due_plans import plans

SOURCES, POSTS_EACH = 5, 1000


async def long_lists(store: Store) -> tuple[Source, list[str]]:
    """Two podcasts' sources with much of everything; one of them, and the ids of its posts."""
    await store.people.save_podcast(Podcast("other", "default", "Other", NOW))
    podcasts = ["default"] * SOURCES + ["other"] * SOURCES
    sources = [a_source(podcast_id=podcast) for podcast in podcasts]
    await store.sources.add_many(sources)
    posts = [_post(s, n) for n in range(POSTS_EACH) for s in sources]
    podcast_of = {source.id: source.podcast_id for source in sources}

    def fill(session: Session) -> None:
        rows = [_row(post, podcast_of) for post in posts]
        session.insert_rows("posts", rows)
        articles = [row | {"is_processed": n % 20 > 0} for n, row in enumerate(rows)]
        session.insert_rows("articles", articles)
        links = [{"post_id": row["id"], "article_id": row["id"]} for row in rows]
        session.insert_rows("post_articles", links)
        polls = [_poll(source) for _ in range(POSTS_EACH) for source in sources]
        session.insert_rows("polls", polls)

    await store.database.write(fill)
    return sources[2], sorted(post.id for post in posts if post.source_id == sources[2].id)


def _post(source: Source, number: int) -> Post:
    """One of many that are stored in the order of their time, as posts are."""
    return a_post(source, f"{source.id} {number}", created_at=NOW + number * MINUTE)


def _row(post: Post, podcast_of: dict[str, str]) -> dict[str, Any]:
    return content_of(post) | {"podcast_id": podcast_of[post.source_id]}


def _poll(source: Source) -> dict[str, Any]:
    return {"source_id": source.id, "started_at": 0, "duration_ms": 1, "outcome": "unchanged"}


PAGES = {
    "posts of a source": "posts_source_newest",
    "posts of a podcast": "posts_podcast_newest",
    "articles": "articles_podcast_newest",
    "oldest articles": "articles_podcast_newest",
    "unprocessed articles": "articles_unprocessed",
    "oldest unprocessed articles": "articles_unprocessed",
    "processed articles": "articles_processed",
    "polls": "polls_source",
}


async def test_first_and_last_pages_read_one_range_of_an_index(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    source, ids = await long_lists(store)

    async def check() -> None:
        for name, index in PAGES.items():
            for behind in (None, ids[20]):
                look = partial(_first_of, store, name, source, behind)
                for plan in await plans(store, look, monkeypatch):
                    _check(plan, kind, index, is_first=behind is None)

    await check()  # SQLite is never analysed, PostgreSQL some time after many rows came in
    await store.database.write(lambda s: s.execute("ANALYZE"))
    await check()


def _check(plan: str, kind: str, index: str, *, is_first: bool) -> None:
    """No plan sorts, reads a table through, or throws away rows of others that it read."""
    detours = ("Sort", "Seq Scan", "Filter", "Bitmap") if kind == "postgres" else ("SCAN", "TEMP")
    if "post_articles" in plan:  # of a page's articles only
        assert "Seq Scan" not in plan, plan
        assert "SCAN post_articles" not in plan, plan
        return
    assert index in plan, plan
    assert [line for line in plan.splitlines() if any(word in line for word in detours)] == [], plan
    # where the last page begins is found in the index, not on a walk from the first
    begun = r"Index Cond: .*ROW\(" if kind == "postgres" else r" AND (row)?id[<>]\?"
    assert is_first or re.search(begun, plan), plan


async def _first_of(store: Store, name: str, source: Source, behind: str | None) -> None:
    assert await _page(store, name, source, behind)


async def _page(store: Store, name: str, source: Source, behind: str | None) -> Sequence[Any]:
    podcast = source.podcast_id
    match name:
        case "posts of a source":
            return (await store.posts.page(source_id=source.id, limit=50, before=behind)).items
        case "posts of a podcast":
            return (await store.posts.page(podcast_id=podcast, limit=50, before=behind)).items
        case "polls":
            before = None if behind is None else 5_000
            return await store.polls.newest(source.id, limit=50, before=before)
    part = await store.articles.page(
        podcast,
        processed=_is_processed(name),
        limit=50,
        behind=behind,
        oldest_first="oldest" in name,
    )
    return part.items


def _is_processed(name: str) -> bool | None:
    return "unprocessed" not in name if "processed" in name else None
