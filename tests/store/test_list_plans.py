"""The cost of a page of a long list depends on what it shows, not on its position."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from headwater.model import Podcast, Post, Source
from headwater.store import Session, Store
from headwater.store.content_filter import ContentFilter
from headwater.store.row_mapping import ARTICLE_COLUMNS, row_of_post
from headwater.store.sources import SourceFilter
from tests.store.store_data import MINUTE, NOW, a_polled_source, a_post_of
from tests.store.test_due_plans import plans

SOURCES, POSTS_EACH = 5, 1000


async def long_lists(store: Store) -> tuple[Source, list[str]]:
    """Sources of two podcasts with many rows; one source, and the ids of its posts."""
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    podcasts = ["default"] * SOURCES + ["other"] * SOURCES
    sources = [a_polled_source(podcast_id=podcast) for podcast in podcasts]
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
        session.execute("ANALYZE")  # as autovacuum does after this many rows

    await store.database.write(fill)
    return sources[2], sorted(post.id for post in posts if post.source_id == sources[2].id)


def _post(source: Source, number: int) -> Post:
    """One of many posts stored in order of time."""
    return a_post_of(source, f"{source.id} {number}", created_at=NOW + number * MINUTE)


def _row(post: Post, podcast_of: dict[str, str]) -> dict[str, Any]:
    """The columns that posts and articles share."""
    row = row_of_post(post)
    shared = {name: row[name] for name in ARTICLE_COLUMNS if name in row}
    return shared | {"podcast_id": podcast_of[post.source_id]}


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

    await check()  # SQLite is never analysed, PostgreSQL some time after many inserts
    await store.database.write(lambda s: s.execute("ANALYZE"))
    await check()


async def test_pages_across_podcasts_read_one_range_of_an_index(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    podcasts = ["default"] * 1000 + ["other"] * 1000
    await store.sources.add_many([a_polled_source(podcast_id=podcast) for podcast in podcasts])
    for after in (None, ("default", 0, "")):
        look = partial(store.sources.find_in_all_podcasts, SourceFilter(), limit=20, after=after)
        for plan in await plans(store, look, monkeypatch):
            assert "sources_podcast" in plan, plan
            assert not re.search("Sort|Seq Scan|TEMP", plan), plan


def _check(plan: str, kind: str, index: str, *, is_first: bool) -> None:
    """No plan sorts, scans a table, or discards rows of others."""
    detours = ("Sort", "Seq Scan", "Filter", "Bitmap") if kind == "postgres" else ("SCAN", "TEMP")
    if "on sources" in plan or "SEARCH sources" in plan:  # of the articles of a page only
        return
    if "post_articles" in plan:  # of the articles of a page only
        assert "Seq Scan" not in plan, plan
        assert "SCAN post_articles" not in plan, plan
        return
    assert index in plan, plan
    plan = plan.replace("Filter: (filtered_by IS NULL)", "")  # of the same list (B2)
    assert [line for line in plan.splitlines() if any(word in line for word in detours)] == [], plan
    # the start of the last page is found in the index, not by a walk from the first
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
        chosen=ContentFilter(processed=_is_processed(name)),
        limit=50,
        behind=behind,
        oldest_first="oldest" in name,
    )
    return part.items


def _is_processed(name: str) -> bool | None:
    return "unprocessed" not in name if "processed" in name else None
