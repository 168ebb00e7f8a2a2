"""A stretch of the poll history in short."""

from dataclasses import replace
from datetime import timedelta

from headwater.model import OutcomeKind
from headwater.operations.people import add_podcast, add_user
from headwater.store import Store
from headwater.store.poll_tallies import FailedPoll, PollTally
from tests.store.pieces import NOW, TIMEOUT, a_failure, a_post, a_success, stored

THIS_MINUTE = int(NOW.timestamp()) // 60 - 1  # polls of `pieces` begin a second before NOW


async def test_polls_are_counted_by_minute_owner_and_outcome(store: Store):
    user = await add_user(store, "bob", NOW)
    podcast = await add_podcast(store, user, "news", NOW)
    own, other = await stored(store), await stored(store, podcast_id=podcast.id)
    await store.record(a_success(own, [a_post(own, "one"), a_post(own, "two")]))
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


async def test_only_sources_that_still_fail_are_among_the_failed(store: Store):
    fails, mended = await stored(store), await stored(store)
    for source in (fails, mended):
        await store.record(a_failure(source))
    again = await store.sources.get(fails.id)
    await store.record(a_failure(again))
    await store.sources.edit(mended.id, lambda s: replace(s, consecutive_failures=0))
    (poll,) = await store.polls.failed(0, await store.polls.last_id())
    assert poll == FailedPoll(
        fails.id, "default", "default", fails.host, TIMEOUT.kind, TIMEOUT.message, poll.at,
        disabled=False,
    )  # fmt: skip
