"""Aggregating posts into articles, and handing them over (A1-A3)."""

from collections.abc import Sequence
from datetime import datetime

from headwater.model import Podcast
from headwater.rules.admission import article_age
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.articles import Aggregation


async def aggregate(store: Store, podcast: Podcast, now: datetime, policy: Policy) -> Aggregation:
    """Make articles of a podcast's unlinked posts within the age window (A1)."""
    return await store.articles.aggregate(
        podcast.id,
        created_after=now - article_age(podcast.max_article_age_days, policy),
        make=lambda source, posts: articles_from(source, posts, now, policy),
    )


async def mark_processed(
    store: Store, podcast: Podcast, article_ids: Sequence[str], now: datetime
) -> int:
    """Mark articles as done with and answer how many were not before (A3)."""
    return await store.articles.mark_processed(podcast.id, article_ids, now)
