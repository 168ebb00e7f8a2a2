"""Aggregating posts into articles, and handing them over (A1-A3)."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.model import Article, Podcast
from headwater.rules.admission import article_age
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.articles import Aggregation

FeedWriter = Callable[[Podcast, Sequence[Article]], bytes]


@dataclass(frozen=True, slots=True)
class Marking:
    """How many articles were marked as processed, and how many were so before."""

    marked: int
    already: int
    missing: tuple[str, ...] = ()  # are not there, where those are skipped


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """Articles as feed readers take them, and what tells this document from any other."""

    content: bytes
    digest: str


async def aggregate(store: Store, podcast: Podcast, now: datetime, policy: Policy) -> Aggregation:
    """Make articles of a podcast's unlinked posts within the age window (A1)."""
    return await store.articles.aggregate(
        podcast.id,
        created_after=now - article_age(podcast.max_article_age_days, policy),
        make=lambda source, posts: articles_from(source, posts, now, policy),
    )


async def mark_processed(
    store: Store,
    podcast: Podcast,
    article_ids: Sequence[str],
    now: datetime,
    *,
    skip_missing: bool = False,
) -> Marking:
    """Mark articles as done with, all of them or, if one is not the podcast's, none (A3).

    Where missing ones are skipped, the others are marked all the same.
    """
    missing: Sequence[str] = ()
    if skip_missing:
        marked, missing = await store.articles.mark_present(podcast.id, article_ids, now)
    else:
        marked = await store.articles.mark_processed(podcast.id, article_ids, now)
    already = len(set(article_ids)) - marked - len(missing)
    return Marking(marked, already, tuple(missing))


async def mark_one_processed(
    store: Store, podcast: Podcast, article_id: str, now: datetime
) -> Article:
    """Mark an article as done with and show it."""
    await store.articles.mark_processed(podcast.id, [article_id], now)
    return await store.articles.get(podcast.id, article_id)


async def newest_as_feed(
    store: Store, podcast: Podcast, limit: int, write: FeedWriter
) -> FeedDocument:
    """The newest articles of a podcast as a document for feed readers."""
    newest = await store.articles.page(podcast.id, limit=limit)
    # off the event loop: strangers chose how long they are (H2)
    return await asyncio.to_thread(_document, write, podcast, newest.items)


def _document(write: FeedWriter, podcast: Podcast, articles: Sequence[Article]) -> FeedDocument:
    content = write(podcast, articles)
    return FeedDocument(content, hashlib.sha256(content).hexdigest())
