"""The health of a source."""

import pytest

from headwater.model import Health
from headwater.rules.health import health_of
from tests.factories import NOW, a_source


@pytest.mark.parametrize(
    ("state", "health"),
    [
        ({}, Health.NEW),
        ({"last_polled": NOW}, Health.NEW),
        ({"last_success_at": NOW, "first_poll_done": True}, Health.OK),
        ({"consecutive_failures": 1}, Health.FAILING),
        ({"consecutive_failures": 1, "last_success_at": NOW}, Health.FAILING),
        ({"enabled": False}, Health.DISABLED),
        ({"enabled": False, "consecutive_failures": 5, "last_success_at": NOW}, Health.DISABLED),
    ],
)
def test_a_source_is_disabled_else_failing_else_new_else_ok(state, health):
    assert health_of(a_source(**state)) is health


def test_p7_the_jitter_of_first_contact_does_not_count_as_a_poll():
    assert health_of(a_source(last_polled=NOW)) is Health.NEW
