"""What waits in a podcast: posts for an aggregation, items that expire soon (E2, E5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.model import Podcast
from headwater.rules.admission import article_age
from headwater.rules.policy import Policy
from headwater.rules.retention import EXPIRING
from headwater.store import Store
from headwater.store.content_filter import Expiring


@dataclass(frozen=True, slots=True)
class ListedPodcast:
    """A podcast, and how many posts wait."""

    podcast: Podcast
    pending_posts: int


async def with_pending(
    store: Store, podcasts: Sequence[Podcast], now: datetime, policy: Policy
) -> list[ListedPodcast]:
    """Podcasts with the numbers of posts that the next aggregation uses; large ones are capped."""
    windows = {one.id: now - article_age(one.max_article_age_days, policy) for one in podcasts}
    counts = await store.articles.pending(windows)
    return [ListedPodcast(podcast, counts[podcast.id]) for podcast in podcasts]


def expiring_soon(podcast: Podcast, now: datetime, policy: Policy) -> Expiring:
    """The filter for what expires within a day (E5)."""
    until = now + EXPIRING
    return Expiring(until - article_age(podcast.max_article_age_days, policy), until)


async def pending_posts(store: Store, podcast: Podcast, now: datetime, policy: Policy) -> int:
    """How many posts of a podcast the next aggregation uses."""
    return (await with_pending(store, [podcast], now, policy))[0].pending_posts
