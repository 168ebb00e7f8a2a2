"""Sources, people, hosts, history and facts, and what others may read of the tables (CONTRACT)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headwater.errors import NotFound, UsageError
from headwater.model import (
    EPOCH,
    FailureType,
    Hold,
    HostState,
    Podcast,
    SealedSecret,
    SourceType,
    Subject,
    User,
    Validators,
    Visit,
)
from headwater.store import Store
from headwater.store.sources import SourceFilter
from tests.store.pieces import (
    DAY,
    HOUR,
    NOW,
    ODD_TEXT,
    a_post,
    a_source,
    a_success,
    everything,
    rows,
    stored,
    with_posts,
)

MS = timedelta(milliseconds=1)
PUBLIC = {
    "users": "id name",
    "podcasts": "id user_id name max_article_age_days",
    "sources": (
        "id podcast_id type url label enabled poll_interval_minutes poll_delay_seconds "
        "max_failures max_backoff_hours late_entry_hours aggregate include_history created_at "
        "last_polled last_success_at last_seen_id consecutive_failures last_failure_type "
        "failing_since last_error disabled_reason"
    ),
    "posts": "id source_id title body url published_at author content_hash created_at",
    "articles": (
        "id source_id title body url published_at author content_hash created_at is_processed"
    ),
    "post_articles": "post_id article_id",
}


@pytest.mark.parametrize("table", PUBLIC)
async def test_the_public_tables_have_the_names_of_the_spec(store: Store, table: str):
    columns = ", ".join(PUBLIC[table].split())

    await rows(store, f"SELECT {columns} FROM {table}")


async def test_moments_are_epoch_milliseconds(store: Store):
    at = NOW + 123 * MS
    source = await stored(store, created_at=at, last_polled=EPOCH)
    await with_posts(store, source, a_post(source, created_at=at, published_at=EPOCH - DAY))

    (moment,) = await rows(store, "SELECT created_at FROM sources")
    (post,) = await rows(store, "SELECT created_at, published_at FROM posts")

    assert moment == (1_771_228_800_123,)
    assert post == (1_771_228_800_123, -86_400_000)


async def test_a_source_comes_back_as_it_went_in(store: Store):
    plain = await stored(store)
    full = await stored(
        store,
        type=SourceType.WEBSITE,
        label=ODD_TEXT,
        enabled=False,
        poll_interval_minutes=525_600,
        poll_delay_seconds=0,
        max_failures=1_000_000,
        max_backoff_hours=1_000_000,
        late_entry_hours=0,
        aggregate=False,
        include_history=True,
        last_polled=NOW,
        last_success_at=NOW - HOUR,
        last_seen_id="x",
        consecutive_failures=2**62,
        last_failure_type=FailureType.PERMANENT,
        failing_since=NOW - DAY,
        last_error="HTTP 404",
        disabled_reason="Auto-disabled",
        first_poll_done=True,
        requested_at=NOW + MS,
        permanent_failures=2**62,
        permanent_kind="404",
        validators=Validators('W/"1"', "yesterday"),
        body_hash="0" * 64,
        seen_keys=("a", ODD_TEXT),
        late_keys_kept=True,
        hold=Hold(NOW, NOW - HOUR, "busy"),
        generation=2**62,
    )

    assert await store.sources.get(plain.id) == plain
    assert await store.sources.get(full.id) == full
    assert await store.sources.subject(full.id) == Subject(full, "default")
    assert await store.sources.subject("nobody") is None
    with pytest.raises(NotFound):
        await store.sources.get("nobody")


async def test_sources_are_added_all_or_none(store: Store):
    good, twin = a_source(), a_source()

    with pytest.raises(Exception, match=r"refused|constraint|duplicate"):
        await store.sources.add_many([good, twin, twin])

    assert await store.sources.counts() == {"sources": 0, "enabled": 0, "failing": 0}


async def test_an_edit_that_fails_changes_nothing(store: Store):
    source = await stored(store)

    def refused(_: Any) -> Any:
        raise UsageError("no", field="url")

    with pytest.raises(UsageError):
        await store.sources.edit(source.id, refused)
    with pytest.raises(NotFound):
        await store.sources.edit("nobody", lambda s: s)

    assert await store.sources.get(source.id) == source


async def test_sources_are_counted_by_state(store: Store):
    await stored(store)
    await stored(store, consecutive_failures=2)
    await stored(store, enabled=False, consecutive_failures=2)

    assert await store.sources.counts() == {"sources": 3, "enabled": 2, "failing": 1}


async def test_sources_are_found_by_what_they_are(store: Store):
    await store.people.save_podcast(Podcast("p", "default", "P", NOW))
    feed = await stored(store, label="100% news_letter!")
    page = await stored(store, type=SourceType.WEBSITE, enabled=False, label="Other")
    far = await stored(store, podcast_id="p", created_at=NOW)
    cases = [
        (SourceFilter(), [feed, page, far]),
        (SourceFilter(podcast_id="p"), [far]),
        (SourceFilter(type=SourceType.WEBSITE), [page]),
        (SourceFilter(enabled=True), [feed, far]),
        (SourceFilter(enabled=False), [page]),
        (SourceFilter(host=far.host), [far]),
        (SourceFilter(url=feed.url), [feed]),
        (SourceFilter(text="100% NEWS_"), [feed]),
        (SourceFilter(text="_"), [feed]),
        (SourceFilter(text="!"), [feed]),
        (SourceFilter(text="/RSS"), [feed, page, far]),
        (SourceFilter(text="e", enabled=True, podcast_id="p"), [far]),
    ]
    for wanted, found in cases:
        assert await store.sources.find(wanted, limit=10) == found, wanted


async def test_sources_are_listed_page_by_page(store: Store):
    sources = [a_source(created_at=NOW + (n // 3) * MS) for n in range(10)]
    await store.sources.add_many(sources)
    found: list[Any] = []
    after = None
    while page := await store.sources.find(SourceFilter(), limit=4, after=after):
        found += page
        after = (round(page[-1].created_at.timestamp() * 1000), page[-1].id)

    assert found == sources


async def test_a_source_is_named_by_id_url_or_the_beginning_of_its_id(store: Store):
    one = await stored(store, id="abc-1")
    two = await stored(store, id="abc-2", url=one.url)
    percent = await stored(store, id="%")

    assert await store.sources.named("abc-1") == [one]
    assert {s.id for s in await store.sources.named(one.url)} == {one.id, two.id}
    assert {s.id for s in await store.sources.named("abc")} == {one.id, two.id}
    assert await store.sources.named("%") == [percent]
    assert await store.sources.named("a_c") == []
    assert await store.sources.named("") == []


async def test_p3_what_is_known_of_a_lane_survives_and_nothing_is_lost_to_an_absent_value(
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

    await store.hosts.release("lane")
    state = replace(state, hold=None)
    assert sorted(await store.hosts.all(), key=lambda s: s.lane) == [HostState("b"), state]
    assert await store.hosts.get("unknown") == HostState("unknown")


async def test_p9_a_new_hold_replaces_the_old_one(store: Store):
    for until in (NOW + DAY, NOW + HOUR):
        source = await stored(store)
        hold = Hold(until, NOW, "429")
        await store.record(a_success(source, hold=hold, hold_lane="lane"))

    assert (await store.hosts.get("lane")).hold == Hold(NOW + HOUR, NOW, "429")


async def test_the_history_is_read_newest_first(store: Store):
    source, other = await stored(store), await stored(store)
    assert await store.polls.last_id() == 0
    for number in range(3):
        for one in (source, other):
            current = await store.sources.get(one.id)
            await store.record(a_success(current, duration_ms=number))

    newest = await store.polls.newest(source.id, limit=2)

    assert [poll.duration_ms for poll in newest] == [2, 1]
    assert await store.polls.since(source.id, newest[1].id, limit=5) == [newest[0]]
    assert await store.polls.since(source.id, newest[0].id, limit=5) == []
    assert await store.polls.last_id() >= newest[0].id


async def test_facts_are_set_swapped_and_forgotten(store: Store):
    assert await store.facts.get("paused") is None
    assert await store.facts.set("paused", "true") is None
    assert await store.facts.set("paused", "false") == "true"
    assert await store.facts.get("paused") == "false"
    assert await store.facts.set("paused", None) == "false"
    assert await store.facts.get("paused") is None


async def test_a_new_database_has_one_user_with_one_podcast(store: Store):
    assert await store.people.users() == [User("default", "default", EPOCH)]
    assert await store.people.podcasts("default") == [
        Podcast("default", "default", "default", EPOCH)
    ]


async def test_users_are_found_by_id_or_name_and_names_are_unique(store: Store):
    ann = User("u1", "Ann", NOW)
    await store.people.add_user(ann)

    assert await store.people.user("u1") == await store.people.user("Ann") == ann
    assert [user.name for user in await store.people.users()] == ["default", "Ann"]
    with pytest.raises(UsageError):
        await store.people.add_user(replace(ann, id="u2"))
    with pytest.raises(NotFound):
        await store.people.user("nobody")


async def test_podcasts_are_saved_changed_and_named_uniquely_per_user(store: Store):
    await store.people.add_user(User("u1", "Ann", NOW))
    mine = Podcast("p1", "u1", "Daily", NOW)
    await store.people.save_podcast(mine)
    changed = replace(mine, name="Weekly", max_article_age_days=3, dedupe_across_sources=True)
    await store.people.save_podcast(changed)
    await store.people.save_podcast(Podcast("p2", "default", "Weekly", NOW))

    assert await store.people.podcasts("u1") == [changed]
    assert await store.people.podcast("u1", "Weekly") == changed
    assert await store.people.podcast("u1", "p1") == changed
    with pytest.raises(UsageError):
        await store.people.save_podcast(replace(mine, id="p3", name="Weekly"))
    with pytest.raises(NotFound):
        await store.people.podcast("default", "p1")


async def test_u5_sealed_keys_come_back_bit_by_bit(store: Store):
    sealed = SealedSecret("key 1", bytes(range(256)), b"\0\xff" * 1000)
    newer = replace(sealed, key_id="key 2", nonce=b"")
    await store.people.set_key("default", "x", sealed, NOW)
    assert await store.people.key("default", "x") == sealed
    await store.people.set_key("default", "x", newer, NOW)
    await store.people.set_key("default", "a", sealed, NOW)

    assert await store.people.key("default", "x") == newer
    assert await store.people.key_providers("default") == ["a", "x"]
    await store.people.remove_key("default", "x")
    assert await store.people.key("default", "x") is None
    with pytest.raises(NotFound):
        await store.people.remove_key("default", "x")


async def test_a_deleted_user_takes_everything_along(store: Store):
    before = await everything(store)
    await store.people.add_user(User("u1", "Ann", NOW))
    await store.people.save_podcast(Podcast("p1", "u1", "Daily", NOW))
    await store.people.set_key("u1", "x", SealedSecret("k", b"n", b"c"), NOW)
    source = await stored(store, podcast_id="p1")
    await with_posts(store, source, a_post(source))

    await store.people.remove_user("u1")

    assert await everything(store) == before
