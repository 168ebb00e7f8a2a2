"""Which expiring items were announced, and which are still to be (E5)."""

from dataclasses import replace
from functools import partial

from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.expiry import Announced, ExpiringCounts, ExpiringSoon
from tests.store.store_data import DAY, HOUR, NOW, a_post_of, stored, with_posts

WEEK = 7 * DAY
NONE, ONE = ExpiringCounts(0, 0), ExpiringCounts(articles=1, posts=0)


async def test_e5_an_article_that_is_not_committed_yet_is_announced_next_time_once(store: Store):
    """Its number is above the horizon of the first announcement, its date within the range."""
    source = await stored(store)
    horizon = await store.articles.horizon()
    await with_posts(store, source, a_post_of(source, published_at=NOW - WEEK + 12 * HOUR))
    make = partial(articles_from, now=NOW, policy=Policy())
    await store.articles.aggregate("default", created_after=NOW - WEEK, make=make)
    soon = ExpiringSoon("default", WEEK, NOW, NOW + DAY, last=None)
    assert await store.articles.count_unannounced(soon, horizon) == NONE

    last = Announced(soon.until, horizon, 7, {})
    soon = replace(soon, now=NOW + HOUR, until=NOW + HOUR + DAY, last=last)
    horizon = await store.articles.horizon()
    assert await store.articles.count_unannounced(soon, horizon) == ONE

    last = Announced(soon.until, horizon, 7, {})
    soon = replace(soon, now=NOW + 2 * HOUR, until=NOW + 2 * HOUR + DAY, last=last)
    assert await store.articles.count_unannounced(soon, horizon) == NONE


def test_e5_what_was_announced_is_read_as_it_was_written():
    announced = Announced(NOW, 12, 7, {"p": 3})
    assert Announced.from_json(announced.to_json()) == announced
    assert announced.dates_before("p") == NOW - 3 * DAY
    assert announced.dates_before("other") == NOW - 7 * DAY
    for other in (None, "", "2026-11-15T04:12:59+00:00", "[1, 2]", "{}", "nonsense"):
        assert Announced.from_json(other) is None
