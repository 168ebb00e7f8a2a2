"""The effects of a user's edit of a source."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headwater.model import FailureType, Hold, Source, SourceType, Validators
from headwater.rules.outcome import edited
from headwater.rules.schedule import is_due
from headwater.watch_settings import WatchSettings
from tests.factories import NOW, a_policy, a_source, an_entry
from tests.rules.poll_outcomes import CLEAR, FAILING, LATER, STALE, succeed

SEEN: dict[str, Any] = {
    "last_seen_id": "2026-02-16T08:00:00.000Z",
    "seen_keys": ("a",),
    "validators": STALE,
    "body_hash": "old",
    "first_poll_done": True,
    "last_polled": NOW,
    "last_success_at": NOW,
    "generation": 7,
}
UNSEEN: dict[str, Any] = {
    "last_seen_id": None,
    "seen_keys": (),
    "validators": Validators(),
    "body_hash": None,
}
REASON = "Auto-disabled after 5 consecutive 404 errors"


def edit(before: Source, **changes) -> Source:
    return edited(before, replace(before, **changes), LATER)


def test_f5_enabling_clears_the_failures_and_requests_a_poll():
    before = a_source(**FAILING, **SEEN, enabled=False, disabled_reason=REASON)
    after = edit(before, enabled=True)
    assert after == replace(
        before,
        **{**CLEAR, "in_storm": True},  # it has not succeeded since that storm (Y6)
        enabled=True,
        disabled_reason=None,
        requested_at=LATER,
        generation=8,
    )
    assert is_due(after, LATER, a_policy())


def test_f5_enabling_a_source_disabled_by_a_user_does_the_same():
    after = edit(a_source(**FAILING, enabled=False), enabled=True)
    assert after.consecutive_failures == 0
    assert after.requested_at == LATER


def test_f5_after_enabling_the_failure_count_starts_at_zero():
    before = a_source(enabled=False, disabled_reason=REASON, permanent_failures=5)
    assert edit(before, enabled=True).permanent_failures == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "https://elsewhere.example/feed"},
        {"url": "https://feeds.example.org/other.xml"},
        {"type": SourceType.WEBSITE},
        {"type": SourceType.TWITTER, "url": "@name"},
    ],
)
def test_f5_changing_url_or_type_also_clears_the_seen_state_but_is_no_first_poll(changes):
    before = a_source(**FAILING, **SEEN, host="feeds.example.org")
    after = edit(before, **changes)
    for name, value in (CLEAR | UNSEEN).items():
        assert getattr(after, name) == value, name
    assert after.requested_at == LATER
    assert after.first_poll_done
    assert after.generation == 8
    assert after.last_polled == before.last_polled  # S7: only polls write it


def test_f5_a_moved_source_stores_history_that_a_first_poll_would_skip():
    before = succeed(a_source()).source
    after = edit(before, url="https://elsewhere.example/feed")
    old = an_entry(published_at=before.created_at - timedelta(hours=1))
    assert len(succeed(after, old, now=LATER).posts) == 1


def test_f5_a_source_that_moved_before_its_first_poll_still_has_a_first_poll():
    assert not edit(a_source(), url="https://elsewhere.example/feed").first_poll_done


def test_p1_a_moved_source_changes_lanes_and_loses_its_hold():
    hold = Hold(LATER + timedelta(hours=1), NOW, "HTTP 429")
    before = a_source(host="feeds.example.org", hold=hold)
    after = edit(before, url="https://Elsewhere.Example:8443/feed")
    assert after.host == "elsewhere.example"
    assert after.hold is None
    assert edit(before, type=SourceType.TWITTER, url="@name").host == "x.com"


def test_f5_enabling_include_history_clears_the_seen_state_and_requests_a_poll():
    before = a_source(**FAILING, **SEEN)
    after = edit(before, include_history=True)
    assert after == replace(
        before, **UNSEEN, include_history=True, requested_at=LATER, generation=8
    )


def test_f5_include_history_disabled_or_unchanged_has_no_other_effect():
    on = a_source(**SEEN, include_history=True)
    assert edit(on, include_history=False) == replace(on, include_history=False)
    assert edit(on, label="mine") == replace(on, label="mine")


@pytest.mark.parametrize(
    "changes",
    [
        {"label": "mine"},
        {"poll_interval_minutes": 5},
        {"poll_delay_seconds": 0},
        {"max_failures": 1},
        {"max_backoff_hours": 1},
        {"late_entry_hours": 48},
        {"aggregate": True},
    ],
)
def test_d4_other_settings_do_not_change_the_revision(changes):
    before = a_source(**FAILING, **SEEN)
    assert edit(before, **changes) == replace(before, **changes)


def test_f3_disabling_by_hand_leaves_no_reason_and_keeps_the_failure_details():
    before = a_source(**FAILING, **SEEN, requested_at=NOW)
    after = edit(before, enabled=False)
    assert after == replace(before, enabled=False, requested_at=None, generation=8)
    assert after.disabled_reason is None
    assert after.last_failure_type is FailureType.PERMANENT


def test_s4_moving_a_disabled_source_requests_no_poll():
    before = a_source(**FAILING, **SEEN, enabled=False, disabled_reason=REASON)
    after = edit(before, url="https://elsewhere.example/feed")
    assert not after.enabled
    assert not is_due(after, LATER + timedelta(days=9), a_policy())


def test_w4_another_watch_reads_the_same_page_again():
    before = a_source(**SEEN, type=SourceType.WEBSITE)
    after = edit(before, watch=WatchSettings(include=("main",)))
    assert after == replace(before, **UNSEEN, watch=after.watch, requested_at=LATER, generation=8)


def test_f5_a_source_moved_and_enabled_in_one_edit_is_requested_once():
    before = a_source(**FAILING, **SEEN, enabled=False, disabled_reason=REASON)
    after = edit(before, url="https://elsewhere.example/feed", enabled=True)
    assert after.requested_at == LATER
    assert after.generation == 8
    assert after.disabled_reason is None
