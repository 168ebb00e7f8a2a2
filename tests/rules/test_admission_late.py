"""Feeds that publish late (R8)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.model import LateKeys, SkipReason
from tests.factories import NOW, a_policy, a_source, an_entry
from tests.rules.poll_outcomes import known_from, succeed

HOUR = timedelta(hours=1)
SECOND_POLL = NOW + HOUR
THIRD_POLL = NOW + 2 * HOUR


def planet(**changes):
    """A source after a poll with one entry dated NOW, with two days of late entries enabled."""
    return succeed(a_source(late_entry_hours=48, **changes), an_entry("newest"))


def keys_of(outcome):
    """The keys that the store would remember from a poll."""
    assert outcome.late_keys is not None
    return outcome.late_keys.remember


def late(name, age, **changes):
    return an_entry(name, published_at=NOW - age, **changes)


@pytest.mark.parametrize(
    ("age", "stored"), [(HOUR, 1), (48 * HOUR, 1), (48 * HOUR + timedelta(milliseconds=1), 0)]
)
def test_r8_an_entry_dated_slightly_before_last_seen_is_new_if_its_key_is(age, stored):
    first = planet()
    known = known_from(first.posts, keys_of(first))
    second = succeed(first.source, late("late", age), now=SECOND_POLL, known=known)
    assert len(second.posts) == stored


def test_r8_a_known_key_is_not_new_whatever_its_body():
    first = planet()
    known = known_from(first.posts, keys_of(first))
    edited = an_entry("newest", body="Corrected.", published_at=NOW - HOUR)
    second = succeed(first.source, edited, now=SECOND_POLL, known=known)
    assert second.posts == ()
    assert second.skipped == {SkipReason.ALREADY_SEEN: 1}


def test_r8_a_late_entry_is_stored_once():
    first = planet()
    known = known_from(first.posts, keys_of(first))
    second = succeed(first.source, late("late", HOUR), now=SECOND_POLL, known=known)
    keys = (*keys_of(first), *keys_of(second))
    known = known_from((*first.posts, *second.posts), keys)
    third = succeed(second.source, late("late", HOUR), now=THIRD_POLL, known=known)
    assert third.skipped == {SkipReason.ALREADY_SEEN: 1}


def test_r8_enabling_it_first_stores_keys_and_no_posts():
    before = succeed(a_source(), an_entry("newest"))
    assert before.late_keys is None
    source = replace(before.source, late_entry_hours=48)
    entries = late("one", HOUR), late("two", 2 * HOUR)
    switched = succeed(source, *entries, now=SECOND_POLL)
    assert switched.posts == ()
    assert switched.skipped == {SkipReason.ALREADY_SEEN: 2}
    assert len(keys_of(switched)) == 2
    known = known_from(before.posts, keys_of(switched))
    third = succeed(switched.source, *entries, late("three", 3 * HOUR), now=THIRD_POLL, known=known)
    assert [post.title for post in third.posts] == ["The three title"]


def test_r8_it_is_off_by_default():
    first = succeed(a_source(), an_entry("newest"))
    second = succeed(first.source, late("late", HOUR), now=SECOND_POLL)
    assert second.skipped == {SkipReason.ALREADY_SEEN: 1}
    assert second.late_keys is None


@pytest.mark.parametrize(
    ("own", "configured", "remembered"), [(None, 48, True), (0, 48, False), (48, 0, True)]
)
def test_r8_the_hours_of_the_source_override_the_configuration_even_if_zero(
    own, configured, remembered
):
    policy = a_policy(late_entry_hours=configured)
    outcome = succeed(a_source(late_entry_hours=own), an_entry(), policy=policy)
    assert (outcome.late_keys is not None) is remembered
    assert outcome.source.late_keys_kept is remembered


def test_r8_the_age_limit_applies_to_late_entries():
    first = succeed(a_source(late_entry_hours=1000), an_entry("newest"))
    known = known_from(first.posts, keys_of(first))
    second = succeed(first.source, late("late", 200 * HOUR), now=SECOND_POLL, known=known)
    assert second.skipped == {SkipReason.TOO_OLD: 1}


def test_r8_a_late_entry_with_a_known_body_is_a_duplicate():
    first = planet()
    known = known_from(first.posts, keys_of(first))
    copy = late("copy", HOUR, body="The newest body.")
    second = succeed(first.source, copy, now=SECOND_POLL, known=known)
    assert second.skipped == {SkipReason.DUPLICATE: 1}


def test_r8_late_entries_do_not_move_last_seen_back():
    first = planet()
    known = known_from(first.posts, keys_of(first))
    second = succeed(first.source, late("late", HOUR), now=SECOND_POLL, known=known)
    assert second.source.last_seen_id == first.source.last_seen_id


def test_r8_disabled_and_enabled_again_it_starts_anew():
    first = planet()
    off = succeed(replace(first.source, late_entry_hours=0), an_entry("newest"), now=SECOND_POLL)
    assert off.late_keys == LateKeys(forget_all=True)
    on = succeed(
        replace(off.source, late_entry_hours=48),
        late("late", HOUR),
        now=THIRD_POLL,
        known=known_from(first.posts),
    )
    assert on.posts == ()
    assert on.source.late_keys_kept
