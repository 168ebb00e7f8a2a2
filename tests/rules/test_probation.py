"""Auto-disabled sources are tried again 1, 3, 7, 14 and 28 days later (Y9)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.model import Answer, Failure, FailureType, HostState, Source
from headwater.rules.admission import Known, NewByDate
from headwater.rules.explanation import explain
from headwater.rules.outcome import edited, failed, succeeded
from headwater.rules.schedule import due_at, is_due, probation_at
from tests.factories import a_policy, a_source, a_subject

DISABLED_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
ON = a_policy(probation=True)


def given_up(polled_after: timedelta = timedelta(), **changes: Any) -> Source:
    """A source that failures disabled, and that was last polled some time later."""
    return a_source(
        **{
            "enabled": False,
            "disabled_reason": "Auto-disabled after 5 consecutive 404 errors",
            "disabled_at": DISABLED_AT,
            "last_polled": DISABLED_AT + polled_after,
            "consecutive_failures": 5,
            "permanent_failures": 5,
            "first_poll_done": True,
        }
        | changes
    )


@pytest.mark.parametrize(
    ("polled_after", "next_after"),
    [
        (timedelta(), 1 * DAY),
        (DAY - HOUR, 1 * DAY),  # a manual poll is no attempt
        (DAY, 3 * DAY),
        (DAY + HOUR, 3 * DAY),
        (3 * DAY, 7 * DAY),
        (7 * DAY, 14 * DAY),
        (13 * DAY, 14 * DAY),
        (14 * DAY, 28 * DAY),
        (28 * DAY, None),
        (90 * DAY, None),
    ],
)
def test_y9_attempts_follow_from_when_a_source_was_disabled(
    polled_after: timedelta, next_after: timedelta | None
):
    source = given_up(polled_after)
    wanted = None if next_after is None else DISABLED_AT + next_after
    assert probation_at(source) == wanted
    assert due_at(source, ON) == wanted
    assert due_at(source, a_policy()) is None  # off by default
    if wanted is not None:
        assert is_due(source, wanted, ON)
        assert not is_due(source, wanted - timedelta(milliseconds=1), ON)


@pytest.mark.parametrize(
    "changes",
    [
        {"enabled": True, "disabled_at": None, "disabled_reason": None},
        {"disabled_at": None, "disabled_reason": None},  # disabled by a user
    ],
)
def test_y9_other_sources_have_no_attempts(changes: dict[str, Any]):
    assert probation_at(given_up(**changes)) is None


def outcome_of(source: Source, now: datetime, **policy: object) -> Source:
    answer, nothing = Answer(304, unchanged=True), NewByDate((), 0)
    outcome = succeeded(
        a_subject(source),
        answer,
        nothing,
        Known(),
        started_at=now,
        now=now,
        policy=a_policy(**policy),
    )
    return outcome.source


def test_y9_a_success_on_probation_enables_the_source():
    after = outcome_of(given_up(), DISABLED_AT + DAY, probation=True)
    assert after.enabled
    assert (after.disabled_reason, after.disabled_at) == (None, None)
    assert (after.consecutive_failures, after.permanent_failures) == (0, 0)


@pytest.mark.parametrize(
    ("source", "policy"),
    [
        (given_up(requested_at=DISABLED_AT + DAY), {"probation": True}),  # a manual poll (S4)
        (given_up(requested_at=DISABLED_AT + DAY), {}),
        (given_up(disabled_at=None, disabled_reason=None, requested_at=DISABLED_AT), {}),
    ],
)
def test_y9_s4_a_manual_poll_alone_does_not_enable(source: Source, policy: dict[str, object]):
    assert not outcome_of(source, DISABLED_AT + DAY, **policy).enabled


def test_y9_f3_the_time_of_disabling_is_kept_through_failures_and_cleared_by_users():
    not_found = Failure(FailureType.PERMANENT, "404", "HTTP 404")

    def fails(source: Source, now: datetime) -> Source:
        subject = a_subject(source)
        return failed(subject, not_found, started_at=now, now=now, policy=ON).source

    source = a_source(max_failures=1)
    source = fails(source, DISABLED_AT)
    assert (source.enabled, source.disabled_at) == (False, DISABLED_AT)
    source = fails(source, DISABLED_AT + DAY)
    assert (source.disabled_at, probation_at(source)) == (DISABLED_AT, DISABLED_AT + 3 * DAY)
    for changes in ({"enabled": True}, {"url": "https://example.org/other"}):
        after = a_source(**vars(source) | changes)
        assert edited(source, after, DISABLED_AT).disabled_at is None


def test_y9_explain_shows_the_next_attempt():
    source, state = given_up(), HostState("example.org")
    found = explain(source, state, DISABLED_AT + HOUR, ON)
    assert found.next_poll_at == DISABLED_AT + DAY
    steps = {step.what: step.at for step in found.steps}
    assert steps["probation"] == DISABLED_AT + DAY
    off = explain(source, state, DISABLED_AT + HOUR, a_policy())
    assert off.next_poll_at is None
    assert "probation" not in {step.what for step in off.steps}
