"""The effects of a successful poll."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.model import (
    Answer,
    OutcomeKind,
    SkipReason,
    SourceType,
    Validators,
)
from headwater.rules.admission import Known, new_by_date
from headwater.rules.outcome import succeeded
from tests.factories import NOW, a_source, a_subject, an_entry
from tests.rules.poll_outcomes import (
    CLEAR,
    FAILING,
    FRESH,
    LATER,
    POLICY,
    STALE,
    succeed,
    unchanged,
)


def test_f2_success_clears_all_failure_fields():
    outcome = succeed(a_source(**FAILING), an_entry(), now=LATER)
    for name, value in CLEAR.items():
        assert getattr(outcome.source, name) == value, name
    assert outcome.source.last_success_at == LATER
    assert outcome.recovered
    assert outcome.failure is None


def test_s4_a_manual_poll_of_a_disabled_source_does_not_enable_it():
    reason = "Auto-disabled after 5 consecutive 404 errors"
    source = a_source(**FAILING, enabled=False, disabled_reason=reason, requested_at=NOW)
    outcome = succeed(source, an_entry())
    assert len(outcome.posts) == 1
    assert not outcome.source.enabled
    assert outcome.source.disabled_reason == reason
    assert outcome.source.consecutive_failures == 0


def test_p8_the_validators_of_a_complete_answer_are_stored():
    after = succeed(a_source(validators=STALE, body_hash="old"), an_entry()).source
    assert after.validators == FRESH
    assert after.body_hash == "new"
    assert after.last_seen_id == "2026-02-17T12:00:00.000Z"
    assert after.first_poll_done


def test_p8_an_answer_without_validators_clears_the_old_ones():
    after = succeed(a_source(validators=STALE), an_entry(), validators=Validators()).source
    assert after.validators == Validators()


def test_p8_not_modified_is_a_success_that_keeps_the_seen_state():
    source = a_source(
        **FAILING,
        validators=STALE,
        body_hash="old",
        last_seen_id="2026-02-16T08:00:00.000Z",
        seen_keys=("a",),
        first_poll_done=True,
    )
    outcome = unchanged(source, LATER)
    assert outcome.kind is OutcomeKind.UNCHANGED
    assert outcome.status == 304
    assert outcome.posts == ()
    assert outcome.source == replace(
        source, **CLEAR, last_polled=LATER, last_success_at=LATER, hold=None
    )


@pytest.mark.parametrize("first", ["304", "an empty feed", "an ordinary feed"])
def test_p7_any_success_completes_the_first_poll(first):
    outcomes = {
        "304": unchanged(a_source()),
        "an empty feed": succeed(a_source()),
        "an ordinary feed": succeed(a_source(), an_entry()),
    }
    assert outcomes[first].source.first_poll_done


def test_p7_a_synthetic_last_polled_does_not_end_the_first_poll():
    old = an_entry(published_at=a_source().created_at - timedelta(hours=1))
    source = a_source(last_polled=NOW - timedelta(minutes=13))
    outcome = succeed(source, old)
    assert outcome.posts == ()
    assert outcome.skipped == {SkipReason.BEFORE_CREATION: 1}


def test_p7_after_a_304_history_is_no_longer_skipped():
    source = unchanged(a_source()).source
    old = an_entry(published_at=source.created_at - timedelta(hours=1))
    assert len(succeed(source, old, now=LATER).posts) == 1


def test_an_outcome_without_new_posts_is_unchanged():
    assert succeed(a_source(), an_entry()).kind is OutcomeKind.STORED
    assert succeed(a_source()).kind is OutcomeKind.UNCHANGED
    outcome = succeed(a_source(), an_entry(published_at=NOW - timedelta(days=30)))
    assert outcome.kind is OutcomeKind.UNCHANGED
    assert outcome.skipped == {SkipReason.TOO_OLD: 1}


def test_r1_a_truncated_document_stores_its_entries_and_keeps_the_seen_state():
    source = a_source(
        validators=STALE,
        body_hash="old",
        last_seen_id="2026-02-16T08:00:00.000Z",
        seen_keys=("a",),
    )
    outcome = succeed(source, an_entry(), complete=False)
    assert len(outcome.posts) == 1
    after = outcome.source
    assert after.validators == STALE
    assert after.body_hash == "old"
    assert after.last_seen_id == "2026-02-16T08:00:00.000Z"
    assert after.seen_keys == ("a",)
    assert not after.first_poll_done
    assert after.last_polled == after.last_success_at == NOW


def test_r1_the_rest_of_a_truncated_document_is_stored_by_the_next_poll():
    newest, oldest = an_entry("newest"), an_entry("oldest", published_at=NOW - timedelta(hours=5))
    cut = succeed(a_source(), newest, complete=False)
    whole = succeed(cut.source, newest, oldest, now=LATER)
    assert "The oldest body." in [post.body for post in whole.posts]


def test_r1_after_a_truncated_first_poll_history_is_still_skipped():
    old = an_entry(published_at=a_source().created_at - timedelta(hours=1))
    cut = succeed(a_source(), an_entry(), complete=False)
    assert succeed(cut.source, old, now=LATER).skipped == {SkipReason.BEFORE_CREATION: 1}


def test_r1_a_truncated_document_stores_no_late_keys():
    source = a_source(late_entry_hours=48)
    assert succeed(source, an_entry(), complete=False).late_keys is None
    assert not succeed(source, an_entry(), complete=False).source.late_keys_kept


def test_r8_the_keys_of_a_complete_document_are_stored_and_the_source_is_marked():
    outcome = succeed(a_source(late_entry_hours=48), an_entry("a"), an_entry("b"))
    assert outcome.late_keys is not None
    assert len(outcome.late_keys.remember) == 2
    assert outcome.source.late_keys_kept


def test_r8_disabling_late_entries_deletes_the_keys():
    outcome = succeed(a_source(late_entry_hours=0, late_keys_kept=True), an_entry())
    assert outcome.late_keys is not None
    assert outcome.late_keys.forget_all
    assert not outcome.source.late_keys_kept


def test_x2_an_x_source_stores_the_newest_id_of_its_answer():
    source = a_source(type=SourceType.TWITTER, url="@name", last_seen_id="7:100")
    outcome = succeed(source, an_entry(), last_seen_id="7:200")
    assert outcome.source.last_seen_id == "7:200"
    assert len(outcome.posts) == 1


def test_d5_the_outcome_carries_the_deduplication_setting_of_the_podcast():
    sifted = new_by_date(a_source(), [], NOW, POLICY)
    for wish in (True, False):
        outcome = succeeded(
            a_subject(dedupe_across_sources=wish),
            Answer(status=200),
            sifted,
            Known(),
            started_at=NOW,
            now=NOW,
            policy=POLICY,
        )
        assert outcome.dedupe_in_podcast is wish


def test_t5_a_source_keeps_the_name_that_its_feed_gives_itself():
    after = succeed(a_source(), an_entry(), title="River News").source
    assert after.title == "River News"
    assert succeed(after, an_entry()).source.title == "River News"
    assert succeed(after, an_entry(), title="Lake News").source.title == "Lake News"
