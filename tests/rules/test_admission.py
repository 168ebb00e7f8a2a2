"""Which entries become posts, and why the others do not (R5, R7, D1-D3)."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.model import SkipReason
from headwater.rules.admission import (
    Known,
    admit,
    content_hash,
    hash_prefix,
    new_by_date,
    timestamp,
)
from tests.factories import CREATED_AT, FEED_URL, NOW, a_policy, a_source, a_subject, an_entry
from tests.rules.poll_outcomes import LATER, known_from, skips, succeed, unchanged

POLICY = a_policy()
MILLISECOND = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
Y2099 = datetime(2099, 1, 1, tzinfo=UTC)


def test_d1_the_hash_is_sha_256_of_the_body_in_utf_8():
    assert content_hash("") == hashlib.sha256(b"").hexdigest()
    assert content_hash("naïve 🙂") == hashlib.sha256("naïve 🙂".encode()).hexdigest()
    (post,) = succeed(a_source(), an_entry(body="Breaking news link")).posts
    assert post.content_hash == hashlib.sha256(b"Breaking news link").hexdigest()


def test_d1_a_stored_body_is_skipped_also_by_its_short_hash():
    entry = an_entry(published_at=None)
    digest = content_hash(entry.body)
    assert len(hash_prefix(digest)) == 32  # 16 bytes
    known = Known(hash_prefixes=frozenset({hash_prefix(digest)}))
    assert skips(a_source(), entry, known=known) == {SkipReason.DUPLICATE: 1}


def test_d1_the_same_body_twice_in_one_feed_is_one_post():
    twins = [an_entry("a", body="Same."), an_entry("b", body="Same.")]
    outcome = succeed(a_source(), *twins)
    assert [post.title for post in outcome.posts] == ["The a title"]
    assert outcome.skipped == {SkipReason.DUPLICATE: 1}


def test_e3_a_post_keeps_the_conversation_of_its_entry():
    (post,) = succeed(a_source(), an_entry(conversation_id="7")).posts
    assert post.conversation_id == "7"


def test_p8_an_edited_entry_with_a_later_date_is_a_new_post():
    first = succeed(a_source(), an_entry(published_at=NOW))
    edited = an_entry(published_at=LATER, body="Corrected.")
    assert len(succeed(first.source, edited, now=LATER, known=known_from(first.posts)).posts) == 1


@pytest.mark.parametrize(
    ("age", "own_days", "reason"),
    [
        (7 * DAY, None, None),
        (7 * DAY + MILLISECOND, None, SkipReason.TOO_OLD),
        (3 * DAY, 2, SkipReason.TOO_OLD),
        (2 * DAY, 2, None),
        (30 * DAY, 30, None),
        (31 * DAY, 30, SkipReason.TOO_OLD),
    ],
)
def test_d2_posts_older_than_the_limit_of_podcast_or_configuration_are_skipped(
    age, own_days, reason
):
    source = a_source(first_poll_done=True)
    entry = an_entry(published_at=NOW - age)
    expected = {} if reason is None else {reason: 1}
    assert skips(source, entry, max_article_age_days=own_days) == expected


def test_d2_undated_posts_are_never_too_old():
    assert skips(a_source(), an_entry(published_at=None), max_article_age_days=1) == {}


@pytest.mark.parametrize(
    ("date", "first_poll_done", "include_history", "reason"),
    [
        (CREATED_AT - MILLISECOND, False, False, SkipReason.BEFORE_CREATION),
        (CREATED_AT - MILLISECOND, True, False, None),
        (CREATED_AT - MILLISECOND, False, True, None),
        (CREATED_AT, False, False, None),
        (CREATED_AT + MILLISECOND, False, False, None),
        (Y2099, False, False, None),
        (None, False, False, None),
    ],
)
def test_d3_only_a_first_poll_skips_entries_older_than_the_source(
    date, first_poll_done, include_history, reason
):
    source = a_source(first_poll_done=first_poll_done, include_history=include_history)
    assert skips(source, an_entry(published_at=date)) == ({} if reason is None else {reason: 1})


SEED_CREATED_AT = datetime(2026, 2, 17, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize("last_polled", [None, datetime(2026, 2, 17, 9, 41, tzinfo=UTC)])
@pytest.mark.parametrize(
    ("published", "stored"),
    [
        (datetime(2026, 2, 15, 8, 0, tzinfo=UTC), False),
        (datetime(2026, 2, 17, 12, 0, tzinfo=UTC), True),
        (None, True),
    ],
)
def test_d3_the_examples_of_the_specification_hold_with_and_without_jitter(
    last_polled, published, stored
):
    source = a_source(created_at=SEED_CREATED_AT, last_polled=last_polled)
    assert len(succeed(source, an_entry(published_at=published), now=LATER).posts) == stored


def test_d3_a_later_poll_applies_the_age_limit_only():
    source = a_source(created_at=SEED_CREATED_AT, last_polled=NOW, first_poll_done=True)
    entry = an_entry(published_at=datetime(2026, 2, 16, 8, 0, tzinfo=UTC))
    assert len(succeed(source, entry, now=LATER).posts) == 1


def test_d3_an_empty_first_poll_counts_as_the_first_poll():
    for first in (succeed(a_source()), unchanged(a_source())):
        old = an_entry(published_at=CREATED_AT - HOUR)
        assert len(succeed(first.source, old, now=LATER).posts) == 1


def test_r5_an_entry_without_any_text_is_skipped_as_empty():
    assert skips(a_source(), an_entry(body="")) == {SkipReason.EMPTY: 1}


def test_an_entry_counts_under_the_first_matching_reason():
    ancient: dict[str, Any] = {"published_at": NOW - 30 * DAY}
    known = Known(hash_prefixes=frozenset({hash_prefix(content_hash("Old."))}))
    seen, first = a_source(last_seen_id=timestamp(NOW)), a_source()
    assert skips(seen, an_entry(body="Old.", **ancient), known=known) == {
        SkipReason.ALREADY_SEEN: 1
    }
    assert skips(first, an_entry(body="Old.", **ancient), known=known) == {SkipReason.DUPLICATE: 1}
    assert skips(first, an_entry(body="", **ancient)) == {SkipReason.TOO_OLD: 1}
    early = an_entry(body="", published_at=CREATED_AT - HOUR)
    assert skips(first, early) == {SkipReason.BEFORE_CREATION: 1}


# bodies that entries share (R5): the parser has put the title in front


def titled(name, **changes):
    entry = an_entry(name, **changes)
    return an_entry(name, **changes | {"body": f"{entry.title} Comments", "plain_body": "Comments"})


def test_r5_entries_that_share_a_body_but_not_their_link_are_different_posts():
    outcome = succeed(a_source(), titled("a"), titled("b"))
    bodies = {post.body for post in outcome.posts}
    assert bodies == {"The a title Comments", "The b title Comments"}


def test_r5_such_an_entry_is_a_duplicate_if_its_hash_was_stored():
    first = succeed(a_source(), titled("a", published_at=None))
    known = known_from(first.posts)
    again = titled("a", published_at=None, url="https://example.org/moved")
    assert succeed(first.source, again, known=known).skipped == {SkipReason.DUPLICATE: 1}


def test_r5_such_an_entry_is_a_duplicate_if_its_plain_hash_was_stored_with_its_link():
    alone = an_entry("a", published_at=None, body="Comments")
    first = succeed(a_source(), alone)
    a, b = titled("a", published_at=None), titled("b", published_at=None)
    second = succeed(first.source, a, b, known=known_from(first.posts))
    assert [post.url for post in second.posts] == ["https://example.org/b"]
    assert second.skipped == {SkipReason.DUPLICATE: 1}


def test_r5_the_plain_hash_at_another_link_is_another_post():
    first = succeed(a_source(), an_entry("a", body="Comments"))
    b = titled("b", published_at=None)
    assert len(succeed(first.source, b, known=known_from(first.posts)).posts) == 1


def test_r5_an_undated_entry_that_becomes_unique_again_is_the_same_post():
    first = succeed(a_source(), titled("a", published_at=None), titled("b", published_at=None))
    alone = an_entry("b", published_at=None, body="Comments")
    second = succeed(first.source, alone, known=known_from(first.posts))
    assert second.skipped == {SkipReason.DUPLICATE: 1}


# The posts themselves (R7)


def test_r7_every_new_entry_is_a_separate_post_also_on_nitter():
    source = a_source(url="https://nitter.net/name/rss")
    entries = [an_entry(str(n), author="@name") for n in range(5)]
    posts = succeed(source, *entries).posts
    assert {post.title for post in posts} == {entry.title for entry in entries}
    assert len({post.id for post in posts}) == 5


def test_r7_a_post_is_its_entry_with_a_hash_and_a_time():
    entry = an_entry(published_at=NOW - HOUR + timedelta(microseconds=1234))
    (post,) = succeed(a_source(), entry).posts
    assert (post.title, post.body, post.url, post.author) == (
        entry.title,
        entry.body,
        entry.url,
        entry.author,
    )
    assert post.source_id == a_source().id
    assert post.created_at == NOW
    assert post.published_at == NOW - HOUR + MILLISECOND  # as it is stored


def test_r5_a_post_without_a_link_points_to_its_source():
    (post,) = succeed(a_source(), an_entry(url=None)).posts
    assert post.url == FEED_URL


def test_the_verdict_on_every_candidate_is_reported_in_order():
    entries = [an_entry("a"), an_entry("b", body=""), an_entry("c", published_at=NOW - 9 * DAY)]
    sifted = new_by_date(a_source(), entries, NOW, POLICY)
    admission = admit(a_subject(), sifted, Known(), NOW, POLICY)
    assert admission.reasons == (None, SkipReason.EMPTY, SkipReason.TOO_OLD)
