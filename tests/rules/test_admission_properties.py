"""Properties that hold for every feed."""

import uuid
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model import Entry, Post
from headwater.rules.admission import (
    Known,
    admit,
    content_hash,
    entry_date,
    hash_prefix,
    last_seen,
    new_by_date,
    seen_until,
    timed_id,
    timestamp,
)
from tests.factories import CREATED_AT, NOW, a_policy, a_source, a_subject, an_entry
from tests.rules.poll_outcomes import known_from, succeed

POLICY = a_policy()
MINUTE = timedelta(minutes=1)

days = st.integers(-12, 3).map(lambda n: NOW.replace(hour=0) + timedelta(days=n))
instants = st.datetimes(datetime(2026, 2, 5), datetime(2026, 2, 19), timezones=st.just(UTC))
far = st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)])
dates = st.none() | days | instants | far
few = st.sampled_from(["", "a", "b", "c"])


@st.composite
def feed_entries(draw):
    """An entry of a feed that repeats ids, links and bodies, and lacks some."""
    name, body = draw(few), draw(few)
    entry = {
        "id": draw(st.none() | few.map(lambda n: n or None)),
        "title": f"Title {name}",
        "url": draw(st.none() | few.map(lambda n: f"https://example.org/{n}")),
        "body": body,
        "published_at": draw(dates),
    }
    if body and draw(st.booleans()):
        entry |= {"body": f"Title {name} {body}", "plain_body": body}
    return an_entry(name, **entry)


@st.composite
def sources(draw):
    """A source in any state, always created before NOW."""
    return a_source(
        created_at=draw(instants.filter(lambda moment: moment <= NOW) | st.just(CREATED_AT)),
        first_poll_done=draw(st.booleans()),
        include_history=draw(st.booleans()),
        late_entry_hours=draw(st.sampled_from([None, 0, 24, 10_000])),
        late_keys_kept=draw(st.booleans()),
        last_seen_id=draw(st.none() | (days | instants).map(timestamp)),
        seen_keys=draw(st.just(()) | st.just(("k",))),
    )


feeds = st.lists(feed_entries(), max_size=8)


@given(sources(), feeds, st.sets(few), st.none() | st.integers(1, 30))
def test_every_entry_becomes_a_post_or_is_skipped_for_one_reason(source, feed, stored, days):
    known = Known(hash_prefixes=frozenset(hash_prefix(content_hash(body)) for body in stored))
    sifted = new_by_date(source, feed, NOW, POLICY)
    subject = a_subject(source, max_article_age_days=days)
    admission = admit(subject, sifted, known, NOW, POLICY)
    assert len(admission.posts) + sum(admission.skipped.values()) == len(feed)
    assert all(count > 0 for count in admission.skipped.values())


@given(sources(), feeds, st.sets(few))
def test_d1_no_two_posts_share_a_hash_and_none_was_known(source, feed, stored):
    known = Known(hash_prefixes=frozenset(hash_prefix(content_hash(body)) for body in stored))
    outcome = succeed(source, *feed, known=known)
    hashes = [post.content_hash for post in outcome.posts]
    assert len(set(hashes)) == len(hashes)
    assert not {hash_prefix(digest) for digest in hashes} & known.hash_prefixes
    assert all(post.content_hash == content_hash(post.body) for post in outcome.posts)
    assert all(post.body for post in outcome.posts)


@given(sources(), feeds)
def test_d1_every_deciding_hash_is_looked_up_beforehand(source, feed):
    sifted = new_by_date(source, feed, NOW, POLICY)
    outcome = succeed(source, *feed)
    assert {post.content_hash for post in outcome.posts} <= set(sifted.hashes)


@given(sources(), feeds, st.integers(0, 10_000), st.booleans())
def test_a_second_poll_of_the_same_feed_stores_nothing(source, feed, minutes, whole):
    first = succeed(source, *feed, complete=whole)
    keys = first.late_keys.remember if first.late_keys is not None else ()
    known = known_from(first.posts, keys)
    second = succeed(first.source, *feed, now=NOW + minutes * MINUTE, known=known)
    if whole:
        assert second.posts == ()
    assert not {p.content_hash for p in first.posts} & {p.content_hash for p in second.posts}


@given(sources(), feeds, feeds, st.integers(-20_000, 20_000))
def test_r3_last_seen_is_never_in_the_future_and_only_a_wrong_clock_moves_it_back(
    source, feed, next_feed, minutes
):
    first = succeed(source, *feed).source
    now = NOW + minutes * MINUTE
    second = succeed(first, *next_feed, now=now).source
    before, after = seen_until(first), seen_until(second)
    if after is not None and after != before:
        assert after <= now
    if before is not None and before <= now:
        assert after is not None
        assert after >= before


@given(sources(), feeds)
def test_r2_the_keys_beside_last_seen_are_those_of_its_entries(source, feed):
    seen_id, keys = last_seen(source, feed, NOW)
    newest = seen_until(a_source(last_seen_id=seen_id))
    at_newest = [entry for entry in feed if newest is not None and entry_date(entry) == newest]
    assert len(keys) <= len(source.seen_keys) + len(at_newest)
    remembered = a_source(last_seen_id=seen_id, seen_keys=keys)
    if newest is not None and newest <= NOW:
        assert new_by_date(remembered, at_newest, NOW, POLICY).candidates == ()


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 29), max_size=4), min_size=1, max_size=8), st.booleans())
def test_no_entry_of_a_growing_feed_is_lost_or_stored_twice(polls, date_only):
    """Each poll is 30 minutes after the last and finds the entries published in between."""
    source = succeed(a_source(created_at=NOW), now=NOW).source
    feed, stored = list[Entry](), list[Post]()
    for number, minutes in enumerate(polls):
        began = NOW + number * 30 * MINUTE
        for minute in minutes:
            date = began + (minute + 1) * MINUTE
            date = date.replace(hour=0, minute=0) if date_only else date
            feed.append(an_entry(f"entry-{len(feed)}", published_at=date))
        outcome = succeed(
            source, *reversed(feed), now=began + 30 * MINUTE, known=known_from(stored)
        )
        source, stored = outcome.source, [*stored, *outcome.posts]
    assert sorted(post.title for post in stored) == sorted(entry.title for entry in feed)


@given(st.lists(st.integers(0, 2**42), min_size=2, max_size=20), st.text())
def test_ids_are_uuids_that_sort_by_time(millis, part):
    moments = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=n) for n in millis]
    made = [(moment, timed_id(moment, part, str(n))) for n, moment in enumerate(moments)]
    assert all(str(uuid.UUID(id_)) == id_ for _, id_ in made)
    assert all(uuid.UUID(id_).variant == uuid.RFC_4122 for _, id_ in made)
    by_id = [moment for moment, id_ in sorted(made, key=lambda pair: pair[1])]
    assert by_id == sorted(moments)


def test_ids_distinguish_times_that_floating_point_would_round():
    start = datetime(2039, 2, 17, tzinfo=UTC)
    moments = [start + timedelta(milliseconds=n) for n in range(3000)]
    ids = [timed_id(moment, "same") for moment in moments]
    assert ids == sorted(set(ids))


def test_ids_are_derived_from_their_parts():
    assert timed_id(NOW, "a", "b") == timed_id(NOW, "a", "b")
    assert timed_id(NOW, "a", "b") != timed_id(NOW, "a", "c")


@given(st.datetimes(timezones=st.just(UTC)))
def test_r3_every_date_survives_a_round_trip_as_last_seen(moment):
    kept = seen_until(a_source(last_seen_id=timestamp(moment)))
    assert kept == moment.replace(microsecond=moment.microsecond // 1000 * 1000)
