"""What ticks do with articles: aggregate automatically, and announce what expires (E2, E5)."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from headwater.clock import Clock
from headwater.engine.events import EventKind, Events
from headwater.engine.followers import STORIES, handle_batch
from headwater.errors import HeadwaterError
from headwater.logs import get_logger
from headwater.model import Podcast
from headwater.rules.admission import article_age
from headwater.rules.digest import MAX_POSTS, articles_from
from headwater.rules.full_text import ARTICLES_WAIT
from headwater.rules.policy import Policy
from headwater.rules.retention import EXPIRING
from headwater.store import Store
from headwater.store.aggregation import Aggregation, Plan
from headwater.store.expiry import ANNOUNCED_KEY, Announced, ExpiringCounts, ExpiringSoon

log = get_logger()
_BATCHES = 20  # of posts that are grouped into stories before they are aggregated
_SECONDS_PER_TICK = 10.0  # after which automatic aggregation continues at the next tick
_ANNOUNCE_EVERY = timedelta(hours=1)  # so that there are few events


async def aggregate_podcast(
    store: Store, podcast: Podcast, now: datetime, policy: Policy
) -> Aggregation:
    """Make articles of a podcast's unlinked posts within the age window (A1)."""
    if podcast.stories:
        await _group_new_posts(store)
    return await store.articles.aggregate(podcast.id, **_arguments(podcast, now, policy))


async def plan_aggregation(store: Store, podcast: Podcast, now: datetime, policy: Policy) -> Plan:
    """What `aggregate_podcast` would make now; nothing is stored (E2)."""
    return await store.articles.plan(podcast.id, **_arguments(podcast, now, policy))


async def _group_new_posts(store: Store) -> None:
    """Group posts of the last seconds into stories; if they are many, the service does it."""
    for _ in range(_BATCHES):
        if not await handle_batch(store, STORIES):
            break


def _arguments(podcast: Podcast, now: datetime, policy: Policy) -> dict[str, Any]:
    """What an aggregation of a podcast needs to know."""
    return {
        "created_after": now - article_age(podcast.max_article_age_days, policy),
        "pending_since": now - ARTICLES_WAIT,
        "story_once": podcast.stories,
        "make": partial(articles_from, now=now, policy=policy),
    }


@dataclass(slots=True)
class ArticleUpkeep:
    """Started by every tick, in a cluster in one worker; runs beside polls, within bounds."""

    store: Store
    events: Events
    clock: Clock
    policy: Policy
    posts_per_tick: int = 5 * MAX_POSTS  # of automatic aggregation
    _run: asyncio.Task[None] | None = None
    _last_id: str = ""  # of the podcast that was aggregated last

    def start(self) -> None:
        """Start a run in the background, unless one has not ended: no tick waits for it (S6)."""
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self._aggregate_and_announce())

    async def finish(self, seconds: float) -> None:
        """Wait until the run has ended; cancel it after some time."""
        if self._run is not None:
            await asyncio.wait([self._run], timeout=seconds)
            self._run.cancel()

    async def _aggregate_and_announce(self) -> None:
        """Aggregate where that is automatic, then announce what expires; never raise."""
        text = "[Polling] automatic aggregation failed; the next tick tries again"
        try:
            await self._aggregate()
            await self._announce()
        except HeadwaterError as error:  # polling does not depend on it
            log.warning(text, error=str(error))
        except Exception:  # nor on an error of ours (H4)
            log.exception(text)

    async def _aggregate(self) -> None:
        """Aggregate podcast by podcast; those that are left when time is up come first next."""
        podcasts = await self.store.accounts.automatic()
        podcasts.sort(key=lambda one: (one.id <= self._last_id, one.id))
        ends_at, left = self.clock.monotonic() + _SECONDS_PER_TICK, self.posts_per_tick
        if any(podcast.stories for podcast in podcasts):
            await _group_new_posts(self.store)
        for podcast in podcasts:
            if left <= 0 or self.clock.monotonic() >= ends_at:
                return
            arguments = _arguments(podcast, self.clock.now(), self.policy)
            made = await self.store.articles.aggregate(
                podcast.id, **arguments, limit=self.posts_per_tick
            )
            self._last_id = podcast.id
            left -= made.linked_posts
            if made.linked_posts:
                log.info(
                    "[Polling] aggregated",
                    podcast=podcast.id, articles=len(made.created), posts=made.linked_posts,
                )  # fmt: skip

    async def _announce(self) -> None:
        """Report, once per podcast, items that expire within a day and were not reported yet."""
        now = self.clock.now()
        until, last = now + EXPIRING, await self._last_announced(now)
        if last is not None and until - last.until < _ANNOUNCE_EVERY:
            return
        podcasts = await self.store.accounts.podcasts(None)
        horizon = await self.store.articles.horizon()
        found: list[tuple[Podcast, ExpiringCounts]] = []
        for podcast in podcasts:
            age = article_age(podcast.max_article_age_days, self.policy)
            soon = ExpiringSoon(podcast.id, age, now, until, last)
            counts = await self.store.articles.count_unannounced(soon, horizon)
            if counts.articles or counts.posts:
                found.append((podcast, counts))
        expiring = {podcast.id: counts for podcast, counts in found}
        own = {one.id: one.max_article_age_days for one in podcasts}
        own_days = {id_: days for id_, days in own.items() if days is not None}
        announced = Announced(until, horizon, self.policy.max_article_age_days, own_days)
        await self.store.articles.announce_expiring(expiring, announced, now)
        for podcast, counts in found:
            self.events.emit(EventKind.ARTICLES_EXPIRING, podcast=podcast, expiring=counts)

    async def _last_announced(self, now: datetime) -> Announced | None:
        """What was announced before; None if nothing was, or by a clock that was far ahead."""
        last = Announced.from_json(await self.store.key_values.get(ANNOUNCED_KEY))
        if last is not None and last.until > now + EXPIRING + _ANNOUNCE_EVERY:
            return None
        return last
