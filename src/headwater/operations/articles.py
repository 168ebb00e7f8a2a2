"""Articles: aggregation from posts, marks and undo, scores, feeds (A1-A3, E1, E2, E4)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.engine.article_upkeep import aggregate_podcast
from headwater.errors import UsageError
from headwater.model import Article, Podcast, Post
from headwater.rules.policy import Policy
from headwater.rules.text_checks import is_one_line
from headwater.store import Store
from headwater.store.aggregation import Aggregation
from headwater.store.annotations import Annotation
from headwater.store.article_processing import Undo
from headwater.store.audit import describe

MAX_BATCH_NAME = 200
FeedWriter = Callable[[Podcast, Sequence[Article | Post]], bytes]


@dataclass(frozen=True, slots=True)
class Marking:
    """Which articles were marked as processed, and how many had been before."""

    marked_ids: tuple[str, ...]
    already: int
    missing: tuple[str, ...] = ()  # ids without an article, if they are skipped

    @property
    def marked(self) -> int:
        """How many articles were marked."""
        return len(self.marked_ids)


async def aggregate(store: Store, podcast: Podcast, now: datetime, policy: Policy) -> Aggregation:
    """Make articles of a podcast's unlinked posts within the age window (A1)."""
    target = f"podcast {podcast.id}"
    describe("articles.aggregate", target)
    made = await aggregate_podcast(store, podcast, now, policy)
    describe("articles.aggregate", target, articles=len(made.created), posts=made.linked_posts)
    return made


async def mark_processed(
    store: Store,
    podcast: Podcast,
    article_ids: Sequence[str],
    now: datetime,
    *,
    batch: str | None = None,
    skip_missing: bool = False,
) -> Marking:
    """Mark articles as processed: all, or none if one is not in the podcast (A3).

    With `skip_missing` the others are marked nevertheless. `batch` is a name to undo them by (E1).
    """
    target, named = f"podcast {podcast.id}", {} if batch is None else {"batch": batch}
    if batch is not None and not (
        0 < len(batch) <= MAX_BATCH_NAME and batch == batch.strip() and is_one_line(batch)
    ):
        reason = f"the name of a batch is one line of 1 to {MAX_BATCH_NAME} characters"
        raise UsageError(f"{reason}, without blanks around it", field="batch")
    describe("articles.process", target, **named)
    marked, missing = await store.articles.mark_processed(
        podcast.id, article_ids, now, batch=batch, skip_missing=skip_missing
    )
    describe("articles.process", target, articles=len(marked), **named)
    already = len(set(article_ids)) - len(marked) - len(missing)
    return Marking(tuple(marked), already, tuple(missing))


async def mark_one_processed(
    store: Store, podcast: Podcast, article_id: str, now: datetime
) -> Article:
    """Mark an article as processed and return it."""
    describe("articles.process", f"article {article_id}")
    await store.articles.mark_processed(podcast.id, [article_id], now)
    return await store.articles.get(podcast.id, article_id)


async def undo_processed(
    store: Store,
    podcast: Podcast,
    now: datetime,
    *,
    article_ids: Sequence[str] | None = None,
    batch: str | None = None,
) -> Undo:
    """Undo the marking of some articles, or of a whole batch: all or none (E1)."""
    if (article_ids is None) == (batch is None):
        raise UsageError("give either the ids of articles or a batch", field="ids")
    target, named = f"podcast {podcast.id}", {} if batch is None else {"batch": batch}
    describe("articles.unprocess", target, **named)
    undone = await store.articles.undo(podcast.id, now, article_ids=article_ids, batch=batch)
    describe("articles.unprocess", target, articles=undone.unmarked, **named)
    return undone


async def delete_article(
    store: Store, podcast: Podcast, article_id: str, now: datetime, *, drop_posts: bool
) -> int:
    """Delete an article; its posts are freed, or deleted with it. Return how many (E2)."""
    posts = "drop" if drop_posts else "free"
    describe("article.delete", f"article {article_id}", posts=posts)
    return await store.articles.delete(podcast.id, article_id, now, drop_posts=drop_posts)


async def annotate_post(store: Store, podcast: Podcast, change: Annotation) -> Post:
    """Set the score or the annotations of a post, and return it (E4)."""
    describe("post.annotate", f"post {change.id}")
    await store.annotations.annotate("posts", podcast.id, [change])
    return await store.posts.get(podcast.id, change.id)


async def annotate_article(store: Store, podcast: Podcast, change: Annotation) -> Article:
    """Set the score or the annotations of an article, and return it (E4)."""
    describe("article.annotate", f"article {change.id}")
    await store.annotations.annotate("articles", podcast.id, [change])
    return await store.articles.get(podcast.id, change.id)


async def annotate_articles(store: Store, podcast: Podcast, changes: Sequence[Annotation]) -> int:
    """Set the scores or annotations of many articles, all or none; return how many (E4)."""
    seen: set[str] = set()
    for number, change in enumerate(changes):
        if change.id in seen:
            text = f"the article {change.id} is given more than once"
            raise UsageError(text, field=f"{number}.id")
        seen.add(change.id)
    describe("articles.annotate", f"podcast {podcast.id}", articles=len(changes))
    await store.annotations.annotate("articles", podcast.id, changes, in_list=True)
    return len(changes)


async def newest_as_feed(store: Store, podcast: Podcast, limit: int, write: FeedWriter) -> bytes:
    """The newest articles of a podcast as a feed document."""
    newest = await store.articles.page(podcast.id, limit=limit)
    return await asyncio.to_thread(write, podcast, newest.items)  # they may be very long (H2)
