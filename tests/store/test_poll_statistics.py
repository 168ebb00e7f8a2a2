"""Statistics of a period of the poll history."""

from dataclasses import replace
from datetime import timedelta

from headwater.model import OutcomeKind
from headwater.operations.users_and_podcasts import add_podcast, add_user
from headwater.store import Store
from headwater.store.poll_history import FailedPoll, PollTally
from tests.store.store_data import DAY, NOW, TIMEOUT, a_failure, a_post_of, a_success, stored

THIS_MINUTE = int(NOW.timestamp()) // 60 - 1  # polls of `pieces` begin a second before NOW


async def test_polls_are_counted_by_minute_owner_and_outcome(store: Store):
    user = await add_user(store, "bob", NOW)
    podcast = await add_podcast(store, user, "news", NOW)
    own, other = await stored(store), await stored(store, podcast_id=podcast.id)
    await store.record(a_success(own, [a_post_of(own, "one"), a_post_of(own, "two")]))
    await store.record(a_success(other))
    last = await store.polls.last_id()
    later = replace(await store.sources.get(other.id), generation=1)
    await store.record(a_success(later, started_at=NOW + timedelta(minutes=5)))
    assert set(await store.polls.by_minute(0, last)) == {
        PollTally(THIS_MINUTE, "default", OutcomeKind.STORED, 1, 2),
        PollTally(THIS_MINUTE, user.id, OutcomeKind.UNCHANGED, 1, 0),
    }
    (tally,) = await store.polls.by_minute(last, last + 100)
    assert (tally.minute, tally.polls) == (THIS_MINUTE + 6, 1)
    assert await store.polls.by_minute(last + 100, last + 200) == []


async def test_failures_list_only_sources_that_still_fail(store: Store):
    fails, mended = await stored(store), await stored(store)
    for source in (fails, mended):
        await store.record(a_failure(source))
    again = await store.sources.get(fails.id)
    await store.record(a_failure(again))
    await store.sources.edit(mended.id, lambda s: replace(s, consecutive_failures=0))
    (poll,) = await store.polls.failing(NOW - timedelta(hours=1), 10)
    assert poll == FailedPoll(
        fails.id, "default", "default", fails.host, TIMEOUT.kind, TIMEOUT.message, poll.at,
        disabled=False,
    )  # fmt: skip
    assert await store.polls.failing(NOW + timedelta(hours=1), 10) == []
    assert await store.polls.failing(NOW - timedelta(hours=1), 0) == []


async def test_c3_the_newest_data_is_the_last_poll_or_without_polls_the_last_post(store: Store):
    assert await store.newest_at() is None
    source = await stored(store)
    posts = [a_post_of(source, str(days), created_at=NOW - days * DAY) for days in (3, 2)]
    await store.record(a_success(source, posts, started_at=NOW - DAY))
    assert await store.newest_at() == NOW - DAY
    await store.database.write(lambda session: session.execute("DELETE FROM polls"))
    assert await store.newest_at() == NOW - 2 * DAY
