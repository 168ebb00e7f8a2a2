"""The outcome of a poll is stored completely or not at all (K1, K5, D4, D5)."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from headwater.errors import DatabaseUnavailable, StoreError
from headwater.model import (
    FailureType,
    Hold,
    LateKeys,
    OutcomeKind,
    Validators,
)
from headwater.store import Session, Store
from headwater.store.record_outcomes import record
from tests.store.store_data import (
    DAY,
    GONE,
    HOUR,
    NOW,
    ODD_TEXT,
    a_failure,
    a_polled_source,
    a_post_of,
    a_rich_success,
    a_success,
    bodies,
    everything,
    newest_posts,
    rows,
    stored,
    with_posts,
)


async def test_the_whole_outcome_of_a_poll_is_stored(store: Store):
    source = await stored(store, requested_at=NOW - HOUR, consecutive_failures=4)
    outcome = a_rich_success(source)

    assert await store.record(outcome) == outcome

    assert await store.sources.get(source.id) == replace(outcome.source, generation=1)
    found = await newest_posts(store, source_id=source.id, limit=10)
    assert set(found) == set(outcome.posts)
    assert await rows(store, "SELECT key FROM late_keys ORDER BY key") == [("k1",), ("k2",)]
    (poll,) = await store.polls.newest(source.id, limit=10)
    assert (poll.outcome, poll.status, poll.size) == (OutcomeKind.STORED, 200, 4711)
    assert (poll.started_at, poll.duration_ms) == (NOW - timedelta(seconds=1), 412)
    assert (poll.new_posts, poll.skipped) == (2, outcome.skipped)
    assert (poll.failure_type, poll.failure_kind, poll.error) == (None, None, None)
    assert poll.redirected_to == "https://example.org/new"
    lane = await store.hosts.get(source.host or "")
    assert lane.hold == outcome.hold
    assert lane.next_allowed_at == NOW + HOUR
    assert lane.next_allowed_set_at == lane.last_success_at == lane.resolved_at == NOW


async def test_a_failure_is_stored_with_its_details(store: Store):
    source = await stored(store)
    hold = Hold(NOW + HOUR, NOW, "slow down")
    outcome = a_failure(source, GONE)
    after = replace(
        outcome.source,
        enabled=False,
        disabled_reason="Auto-disabled after 1 consecutive 410 errors",
        permanent_failures=1,
        permanent_kind="410",
        hold=hold,
    )

    await store.record(replace(outcome, source=after))

    assert await store.sources.get(source.id) == replace(after, generation=1)
    (poll,) = await store.polls.newest(source.id, limit=10)
    assert poll.outcome is OutcomeKind.FAILED
    assert (poll.failure_type, poll.failure_kind) == (FailureType.PERMANENT, "410")
    assert (poll.status, poll.error) == (410, "HTTP 410 Gone")


async def test_s9_a_poll_clears_the_request(store: Store):
    source = await stored(store)
    await store.sources.request([source.id], NOW)

    await store.record(a_success(await store.sources.get(source.id)))

    assert (await store.sources.get(source.id)).requested_at is None


async def test_p10_a_request_made_during_a_poll_is_completed_by_it(store: Store):
    source = await stored(store)
    await store.sources.request([source.id], NOW)

    result = await store.record(a_success(source))

    assert result.recorded
    assert (await store.sources.get(source.id)).requested_at is None


class BrokenSession:
    """A session that fails at its n-th write."""

    def __init__(self, session: Session, steps: int) -> None:
        self._session = session
        self._left = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def execute(self, sql: str, params: Any = None) -> int:
        self._step()
        return self._session.execute(sql, params or {})

    def execute_many(self, sql: str, rows: Any) -> None:
        self._step()
        self._session.execute_many(sql, rows)

    def insert_rows(self, table: str, rows: Any, conflict: str = "") -> None:
        self._step()
        self._session.insert_rows(table, rows, conflict)

    def update_rows(self, table: str, rows: Any, also: str = "") -> None:
        self._step()
        self._session.update_rows(table, rows, also)

    def _step(self) -> None:
        if self._left == 0:
            raise RuntimeError("broken")
        self._left -= 1


async def test_k1_a_poll_that_fails_at_any_step_leaves_nothing(store: Store):
    source = await stored(store)
    outcome = a_rich_success(source)
    before = await everything(store)

    async def recorded(steps: int) -> bool:
        try:
            await store.database.write(
                lambda s: record(cast(Session, BrokenSession(s, steps)), [outcome])
            )
        except RuntimeError:
            return False
        return True

    steps = 0
    while not await recorded(steps):
        assert await everything(store) == before, f"step {steps}"
        steps += 1
    assert steps >= 6
    assert await bodies(store, source) == ["one", "two"]


@pytest.mark.parametrize(
    "broken",
    [
        lambda outcome: replace(outcome, source=replace(outcome.source, last_error="\ud800")),
        lambda outcome: replace(outcome, posts=(replace(outcome.posts[0], title=None),)),
        lambda outcome: replace(outcome, duration_ms=2**70),
        lambda outcome: replace(outcome, skipped={"odd": object()}),
    ],
    ids=["surrogate", "no title", "huge number", "not JSON"],
)
async def test_k5_a_bad_result_affects_no_other(store: Store, broken: Any):
    sources = [await stored(store) for _ in range(5)]
    outcomes = [a_success(source, [a_post_of(source)]) for source in sources]
    outcomes[2] = broken(outcomes[2])

    results = await asyncio.gather(*map(store.record, outcomes), return_exceptions=True)

    assert isinstance(results[2], Exception)
    assert results[:2] + results[3:] == outcomes[:2] + outcomes[3:]
    assert [len(await bodies(store, source)) for source in sources] == [1, 1, 0, 1, 1]
    assert await store.sources.get(sources[2].id) == sources[2]
    assert await store.polls.newest(sources[2].id, limit=1) == []


async def test_k5_a_result_stored_before_the_database_failed_counts_as_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    sources = [await stored(store) for _ in range(3)]
    outcomes = [a_success(source, [a_post_of(source)]) for source in sources]
    outcomes[1] = replace(outcomes[1], duration_ms=2**70)
    write, calls = store.database.write, list[Any]()

    async def away_at_the_fourth(work: Any) -> Any:
        calls.append(work)  # all three together, then one by one
        if len(calls) == 4:
            raise DatabaseUnavailable("gone for a moment")
        return await write(work)

    monkeypatch.setattr(store.database, "write", away_at_the_fourth)
    results = await asyncio.gather(*map(store.record, outcomes), return_exceptions=True)

    assert results[0] == outcomes[0]
    assert isinstance(results[1], Exception)
    assert results[2] == outcomes[2]


async def test_k5_a_database_error_is_reported_in_one_line(store: Store):
    source = await stored(store)
    post = replace(a_post_of(source), title=None)  # type: ignore[arg-type]

    with pytest.raises(StoreError) as caught:
        await store.record(a_success(source, [post]))

    assert "\n" not in str(caught.value)


async def test_posts_are_unique_per_source(store: Store):
    one, other = await stored(store), await stored(store)
    first = a_post_of(one, title="First")
    one = await with_posts(store, one, first)
    await with_posts(store, one, a_post_of(one, title="Again", created_at=NOW + DAY))
    await with_posts(store, other, a_post_of(other))

    assert await newest_posts(store, source_id=one.id, limit=10) == [first]
    assert await store.posts.count(other.id) == 1
    assert await store.posts.count() == 2


async def test_m6_any_text_survives_a_round_trip(store: Store):
    source = await stored(store, label=ODD_TEXT)
    long = (ODD_TEXT * 20_000)[:1_048_576]
    post = a_post_of(source, long, title=ODD_TEXT, author=ODD_TEXT, url=f"https://x.org/{ODD_TEXT}")
    outcome = a_success(source, [post])
    after = replace(
        outcome.source,
        last_seen_id=ODD_TEXT,
        validators=Validators(ODD_TEXT),
        seen_keys=(ODD_TEXT,),
    )

    await store.record(replace(outcome, source=after))

    assert await newest_posts(store, source_id=source.id, limit=1) == [post]
    assert await store.sources.get(source.id) == replace(after, generation=1)


async def test_m8_a_huge_feed_is_stored_in_one_poll(store: Store):
    source = await stored(store)
    posts = [a_post_of(source, f"entry {n}") for n in range(20_000)]

    await store.record(a_success(source, posts))

    assert await store.posts.count(source.id) == 20_000


async def test_r8_late_keys_are_stored_renewed_and_deleted(store: Store):
    source = await stored(store)
    first = a_success(source, late_keys=LateKeys(remember=("old", "kept")))
    await store.record(first)

    later = NOW + 31 * DAY
    source = await store.sources.get(source.id)
    second = a_success(source, late_keys=LateKeys(remember=("kept", "new")))
    await store.record(replace(second, source=replace(second.source, last_polled=later)))
    assert await rows(store, "SELECT key FROM late_keys ORDER BY key") == [("kept",), ("new",)]

    source = await store.sources.get(source.id)
    await store.record(a_success(source, late_keys=LateKeys(forget_all=True)))
    assert await rows(store, "SELECT key FROM late_keys") == []


async def test_p9_a_hold_without_a_lane_belongs_to_the_source(store: Store):
    source = await stored(store)
    hold = Hold(NOW + HOUR, NOW, "429")
    outcome = a_failure(source, hold=hold)

    await store.record(replace(outcome, source=replace(outcome.source, hold=hold)))

    assert (await store.sources.get(source.id)).hold == hold
    assert await store.hosts.all() == []


async def test_many_concurrent_polls_are_all_stored(store: Store):
    sources = [a_polled_source() for _ in range(700)]
    await store.sources.add_many(sources)

    results = await asyncio.gather(
        *(store.record(a_success(s, [a_post_of(s, "a"), a_post_of(s, "b")])) for s in sources)
    )

    assert all(result.recorded for result in results)
    assert await store.posts.count() == 1400
    assert await rows(store, "SELECT count(*) FROM polls") == [(700,)]
