"""Users with their podcasts and keys, lanes, the poll history, and key-values (P3, P9, U5)."""

from dataclasses import replace

import pytest

from headwater.errors import NotFound, UsageError
from headwater.model import (
    EPOCH,
    Hold,
    HostState,
    Podcast,
    SealedSecret,
    User,
    Visit,
)
from headwater.store import Store
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    a_post_of,
    a_success,
    everything,
    stored,
    with_posts,
)


async def test_p3_the_state_of_a_lane_is_stored_and_absent_values_overwrite_nothing(
    store: Store,
):
    hold = Hold(NOW + HOUR, NOW, "429")
    source = await stored(store)
    full = Visit("lane", NOW, next_allowed_at=NOW + HOUR, succeeded=True, resolved=True)
    await store.record(a_success(source, visits=(full,), hold=hold, hold_lane="lane"))
    state = HostState("lane", NOW + HOUR, NOW, hold, NOW, NOW)
    assert await store.hosts.get("lane") == state

    await store.hosts.keep([Visit("lane", NOW + DAY)])
    assert await store.hosts.get("lane") == state

    later = NOW + DAY
    await store.hosts.keep([Visit("lane", later, next_allowed_at=later + HOUR), Visit("b", NOW)])
    state = replace(state, next_allowed_at=later + HOUR, next_allowed_set_at=later)
    assert await store.hosts.get("lane") == state

    assert sorted(await store.hosts.all(), key=lambda s: s.lane) == [HostState("b"), state]
    assert await store.hosts.get("unknown") == HostState("unknown")


async def test_p9_a_new_hold_replaces_the_old_one(store: Store):
    for until in (NOW + DAY, NOW + HOUR):
        source = await stored(store)
        hold = Hold(until, NOW, "429")
        await store.record(a_success(source, hold=hold, hold_lane="lane"))

    assert (await store.hosts.get("lane")).hold == Hold(NOW + HOUR, NOW, "429")


async def test_the_history_is_listed_newest_first(store: Store):
    source, other = await stored(store), await stored(store)
    assert await store.polls.last_id() == 0
    for number in range(3):
        for one in (source, other):
            current = await store.sources.get(one.id)
            await store.record(a_success(current, duration_ms=number))

    newest = await store.polls.newest(source.id, limit=2)

    assert [poll.duration_ms for poll in newest] == [2, 1]
    assert await store.polls.last_id() >= newest[0].id


async def test_key_values_are_set_swapped_and_deleted(store: Store):
    assert await store.key_values.get("paused") is None
    assert await store.key_values.set("paused", "true") is None
    assert await store.key_values.set("paused", "false") == "true"
    assert await store.key_values.get("paused") == "false"
    assert await store.key_values.set("paused", None) == "false"
    assert await store.key_values.get("paused") is None


async def test_a_new_database_has_one_user_with_one_podcast(store: Store):
    assert await store.accounts.users() == [User("default", "default", EPOCH)]
    assert await store.accounts.podcasts("default") == [
        Podcast("default", "default", "default", EPOCH)
    ]


async def test_users_are_found_by_id_or_name_and_names_are_unique(store: Store):
    ann = User("u1", "Ann", NOW)
    await store.accounts.add_user(ann)

    assert await store.accounts.user("u1") == await store.accounts.user("Ann") == ann
    assert [user.name for user in await store.accounts.users()] == ["default", "Ann"]
    with pytest.raises(UsageError):
        await store.accounts.add_user(replace(ann, id="u2"))
    with pytest.raises(NotFound):
        await store.accounts.user("nobody")


async def test_podcasts_are_saved_changed_and_named_uniquely_per_user(store: Store):
    await store.accounts.add_user(User("u1", "Ann", NOW))
    mine = Podcast("p1", "u1", "Daily", NOW)
    await store.accounts.save_podcast(mine)
    changed = replace(mine, name="Weekly", max_article_age_days=3, dedupe_across_sources=True)
    await store.accounts.save_podcast(changed)
    await store.accounts.save_podcast(Podcast("p2", "default", "Weekly", NOW))

    assert await store.accounts.podcasts("u1") == [changed]
    assert await store.accounts.podcast("u1", "Weekly") == changed
    assert await store.accounts.podcast("u1", "p1") == changed
    with pytest.raises(UsageError):
        await store.accounts.save_podcast(replace(mine, id="p3", name="Weekly"))
    with pytest.raises(NotFound):
        await store.accounts.podcast("default", "p1")


async def test_u5_encrypted_keys_survive_a_round_trip(store: Store):
    sealed = SealedSecret("key 1", bytes(range(256)), b"\0\xff" * 1000)
    newer = replace(sealed, key_id="key 2", nonce=b"")
    await store.api_keys.set("default", "x", sealed, NOW)
    assert await store.api_keys.get("default", "x") == sealed
    await store.api_keys.set("default", "x", newer, NOW)
    await store.api_keys.set("default", "a", sealed, NOW)

    assert await store.api_keys.get("default", "x") == newer
    assert await store.api_keys.providers("default") == ["a", "x"]
    await store.api_keys.remove("default", "x")
    assert await store.api_keys.get("default", "x") is None
    with pytest.raises(NotFound):
        await store.api_keys.remove("default", "x")


async def test_deleting_a_user_deletes_everything_of_that_user(store: Store):
    before = await everything(store)
    await store.accounts.add_user(User("u1", "Ann", NOW))
    await store.accounts.save_podcast(Podcast("p1", "u1", "Daily", NOW))
    await store.api_keys.set("u1", "x", SealedSecret("k", b"n", b"c"), NOW)
    source = await stored(store, podcast_id="p1")
    await with_posts(store, source, a_post_of(source))

    await store.accounts.remove_user("u1")

    assert await everything(store) == before
