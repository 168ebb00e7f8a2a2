"""Failure storms: which failures are the host's fault, and what they change (Y6)."""

from dataclasses import replace
from typing import Any

import pytest

from headwater.model import Failure, FailureType, Source
from headwater.rules.failure_storms import (
    CountedFailure,
    as_fault_of_host,
    may_be_in_storm,
    most_others,
    without_counted,
)
from headwater.rules.outcome import failed
from tests.factories import NOW, a_policy, a_source, a_subject

GONE = Failure(FailureType.PERMANENT, "404", "HTTP 404", status=404)


@pytest.mark.parametrize(("failing", "others"), [(3, 2), (6, 4), (30, 20), (31, 20), (4, 2)])
def test_y6_six_of_ten_polled_sources_must_fail_in_the_same_way(failing: int, others: int):
    assert most_others(failing) == others
    assert failing >= 0.6 * (failing + others)
    assert failing < 0.6 * (failing + others + 1)


def test_y6_a_storm_explains_permanent_failures_of_sources_that_succeeded_before():
    source = a_source(first_poll_done=True)
    assert may_be_in_storm(source, GONE)
    assert not may_be_in_storm(a_source(), GONE)
    assert not may_be_in_storm(source, replace(GONE, local=True))
    assert not may_be_in_storm(source, replace(GONE, type=FailureType.TRANSIENT))


def test_y6_a_failure_of_a_storm_backs_off_but_does_not_change_the_permanent_count():
    subject = a_subject(first_poll_done=True, permanent_failures=4, permanent_kind="404")
    times: dict[str, Any] = {"started_at": NOW, "now": NOW, "policy": a_policy(max_failures=5)}
    after = failed(subject, as_fault_of_host(GONE), **times).source
    assert (after.enabled, after.permanent_failures, after.permanent_kind) == (True, 4, "404")
    assert (after.consecutive_failures, after.last_error) == (1, "HTTP 404")
    assert failed(subject, GONE, **times).source.enabled is False  # as before (F3)


def run_of(source: Source, *kinds: str) -> list[CountedFailure]:
    """A source that fails with these kinds, one after another."""
    run: list[CountedFailure] = []
    for kind in kinds:
        subject = replace(a_subject(), source=run[-1].after if run else source)
        failure = replace(GONE, kind=kind)
        outcome = failed(subject, failure, started_at=NOW, now=NOW, policy=a_policy())
        run.append(CountedFailure(0.0, kind, outcome.before, outcome.source))
    return run


@pytest.mark.parametrize(
    ("before", "kinds", "left", "left_kind"),
    [
        ((0, None), ["404"], 0, None),
        ((0, None), ["404"] * 4, 0, None),
        ((0, None), ["404"] * 5, 0, None),  # the last one disabled it
        ((3, "404"), ["404", "404"], 3, "404"),
        ((1, "410"), ["404", "404", "404"], 1, "410"),
        ((0, None), ["404", "410", "404"], 1, "410"),
        ((2, "403"), ["404", "410", "404"], 3, "permanent"),
    ],
)
def test_y6_all_failures_that_were_counted_before_the_storm_was_detected_are_taken_back(
    before: tuple[int, str | None], kinds: list[str], left: int, left_kind: str | None
):
    count, kind = before
    source = a_source(first_poll_done=True, permanent_failures=count, permanent_kind=kind)
    run = run_of(source, *kinds)
    after = run[-1].after
    assert after.permanent_failures == count + len(kinds)
    restored = without_counted(after, run=run, kind="404")
    assert (restored.permanent_failures, restored.permanent_kind) == (left, left_kind)
    assert (restored.enabled, restored.disabled_reason) == (True, None)
    assert restored.consecutive_failures == len(kinds)
    assert after.enabled is (after.permanent_failures < 5)


def test_y6_a_source_that_changed_for_another_reason_is_left_alone():
    run = run_of(a_source(first_poll_done=True, max_failures=1), "404")
    disabled = run[-1].after
    assert not disabled.enabled
    by_user = replace(disabled, disabled_reason=None)
    assert without_counted(by_user, run=run, kind="404") == by_user
    moved = replace(disabled, url="https://example.org/other")
    assert without_counted(moved, run=run, kind="404") == moved


def test_y6_a_disable_by_other_failures_stays():
    run = run_of(a_source(first_poll_done=True, max_failures=1), "410", "404")
    restored = without_counted(run[-1].after, run=run, kind="404")
    assert (restored.enabled, restored.permanent_failures) == (False, 1)


def test_y6_a_failure_that_an_outage_took_back_does_not_continue_a_run():
    lost = run_of(a_source(first_poll_done=True), "DNS")
    restored = replace(lost[-1].after, permanent_failures=0, permanent_kind=None)
    assert not run_of(restored, "404")[0].continues(lost)
    assert run_of(lost[-1].after, "404")[0].continues(lost)
    assert not lost[0].continues(())
