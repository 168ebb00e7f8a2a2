"""Sources as stored and queried, and the public tables."""

from datetime import timedelta
from typing import Any

import pytest

from headwater.errors import NotFound, UsageError
from headwater.model import (
    EPOCH,
    FailureType,
    Health,
    Hold,
    Podcast,
    SourceType,
    Subject,
    Validators,
)
from headwater.store import Store
from headwater.store.sources import SourceFilter
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    ODD_TEXT,
    a_polled_source,
    a_post_of,
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


async def test_times_are_epoch_milliseconds(store: Store):
    at = NOW + 123 * MS
    source = await stored(store, created_at=at, last_polled=EPOCH)
    await with_posts(store, source, a_post_of(source, created_at=at, published_at=EPOCH - DAY))

    (moment,) = await rows(store, "SELECT created_at FROM sources")
    (post,) = await rows(store, "SELECT created_at, published_at FROM posts")

    assert moment == (1_771_329_600_123,)
    assert post == (1_771_329_600_123, -86_400_000)


async def test_a_source_survives_a_round_trip(store: Store):
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
    good, duplicate = a_polled_source(), a_polled_source()

    with pytest.raises(Exception, match=r"refused|constraint|duplicate"):
        await store.sources.add_many([good, duplicate, duplicate])

    assert not await store.source_counts.any_sources(None)


async def test_a_failed_edit_changes_nothing(store: Store):
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

    counts = await store.source_counts.by_health()
    assert (counts[Health.FAILING], counts[Health.DISABLED], sum(counts.values())) == (1, 1, 3)


async def test_sources_are_found_by_their_fields(store: Store):
    await store.accounts.save_podcast(Podcast("p", "default", "P", NOW))
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
    sources = [a_polled_source(created_at=NOW + (n // 3) * MS) for n in range(10)]
    await store.sources.add_many(sources)
    found: list[Any] = []
    after = None
    while page := await store.sources.find(SourceFilter(), limit=4, after=after):
        found += page
        after = (round(page[-1].created_at.timestamp() * 1000), page[-1].id)

    assert found == sources


async def test_a_source_is_found_by_id_url_or_id_prefix(store: Store):
    one = await stored(store, id="abc-1")
    two = await stored(store, id="abc-2", url=one.url)
    percent = await stored(store, id="%")

    assert await store.sources.find_by_reference("abc-1") == [one]
    assert {s.id for s in await store.sources.find_by_reference(one.url)} == {one.id, two.id}
    assert {s.id for s in await store.sources.find_by_reference("abc")} == {one.id, two.id}
    assert await store.sources.find_by_reference("%") == [percent]
    assert await store.sources.find_by_reference("a_c") == []
    assert await store.sources.find_by_reference("") == []
