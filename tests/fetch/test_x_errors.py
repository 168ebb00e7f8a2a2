"""Errors of the X API reach the failure rules, with their hold (X4, P9)."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from headwater.errors import BadStatus, FetchError
from tests.fetch.scripted_x_api import (
    KEY,
    NOTHING_NEW,
    NOW,
    Reply,
    a_page,
    an_x_post,
    fetched,
    problem,
    refused,
)

# X4: refusals


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 500, 502, 304])
async def test_x4_every_status_reaches_the_failure_rules(status):
    error = await refused(Reply(b'{"title": "T", "detail": "D e\\n t"}', status))
    assert isinstance(error, BadStatus)
    assert (error.status, error.hold_seconds, error.host) == (status, None, None)
    assert "D e t" in str(error)


async def test_x4_a_rejected_key_reports_what_to_do():
    assert "headwater keys set x" in str(await refused(Reply(b"", 401)))


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (problem("resource-not-found"), 404),
        ({"errors": [{"type": "https://api.twitter.com/2/problems/resource-not-found"}]}, 404),
        (problem("not-authorized-for-resource"), 403),
        (problem("resource-not-found") | {"data": []}, 404),
        ({"errors": [5, {"title": "odd"}, *problem("resource-not-found")["errors"]]}, 404),
    ],
)
async def test_x4_errors_without_data_are_classified(document, status):
    for last_seen_id in (None, "42:7"):
        error = await refused(document, last_seen_id=last_seen_id)
        assert isinstance(error, BadStatus)
        assert error.status == status


async def test_x4_other_errors_without_data_are_transient_and_quote_x():
    error = await refused(problem("something-else"))
    assert type(error) is FetchError
    assert "said so" in str(error)


async def test_x4_errors_beside_data_are_no_failure():
    answer, _ = await fetched(a_page(an_x_post(9), **problem("resource-not-found")))
    assert len(answer.entries) == 1


async def test_x4_a_missing_post_is_no_error_of_its_account():
    gone = problem("resource-not-found", resource_type="tweet")
    answer, _ = await fetched({**NOTHING_NEW, **gone})
    assert answer.entries == ()


def at(moment: datetime) -> str:
    return str(int(moment.timestamp()))


@pytest.mark.parametrize(
    ("headers", "hold_seconds"),
    [
        ({"x-rate-limit-reset": at(NOW + timedelta(minutes=9))}, 540),
        ({"x-rate-limit-reset": at(NOW - timedelta(minutes=9))}, None),
        ({"x-rate-limit-reset": at(NOW)}, None),
        ({"x-rate-limit-reset": "soon"}, None),
        ({"x-rate-limit-reset": "-5"}, None),
        ({"x-rate-limit-reset": "1e99"}, None),
        ({"x-rate-limit-reset": "9" * 400}, None),
        ({"x-rate-limit-reset": "٣" * 10}, None),
        ({"x-rate-limit-reset": ""}, None),
        ({}, None),
        ({"retry-after": "77"}, 77),
        ({"x-rate-limit-reset": "soon", "retry-after": "77"}, 77),
        (
            {
                "x-rate-limit-reset": at(NOW + timedelta(minutes=9)),
                "x-app-limit-24hour-reset": at(NOW + timedelta(hours=9)),
                "x-app-limit-24hour-remaining": "0",
                "x-user-limit-24hour-reset": at(NOW + timedelta(hours=20)),
                "x-user-limit-24hour-remaining": "3",
            },
            9 * 3600,
        ),
    ],
)
async def test_p9_a_rate_limit_holds_until_its_reset(headers, hold_seconds):
    error = await refused(Reply(b"", 429, headers))
    assert isinstance(error, BadStatus)
    assert (error.status, error.hold_seconds) == (429, hold_seconds)


async def test_n13_a_huge_reset_is_clamped():
    error = await refused(Reply(b"", 429, {"x-rate-limit-reset": "9" * 12}))
    assert isinstance(error, BadStatus)
    assert error.hold_seconds is not None
    timedelta(seconds=error.hold_seconds)


@pytest.mark.parametrize(("retry_after", "hold_seconds"), [("30", 30), (None, None), ("x", None)])
async def test_p9_503_holds_only_with_retry_after(retry_after, hold_seconds):
    headers = {"x-rate-limit-reset": at(NOW + timedelta(hours=1))}
    headers |= {"retry-after": retry_after} if retry_after else {}
    error = await refused(Reply(b"", 503, headers))
    assert isinstance(error, BadStatus)
    assert error.hold_seconds == hold_seconds


@pytest.mark.parametrize("status", [200, 403, 429])
async def test_x4_a_usage_cap_is_transient_with_a_hold_longer_than_the_reset(status):
    headers = {"x-rate-limit-reset": at(NOW + timedelta(minutes=9))}
    body = problem("usage-capped") if status == 200 else problem("usage-capped")["errors"][0]
    error = await refused(Reply(json.dumps(body).encode(), status, headers))
    assert isinstance(error, BadStatus)
    assert (error.status, error.hold_seconds) == (429, 86400)


async def test_x4_no_credits_is_transient_with_a_hold():
    error = await refused(Reply(b'{"title": "CreditsDepleted"}', 402))
    assert isinstance(error, BadStatus)
    assert (error.status, error.hold_seconds) == (402, 3600)


@pytest.mark.parametrize(
    "echo",
    [
        lambda key: {"detail": f"bad token: Bearer {key}"},
        lambda key: {"title": key},
        lambda key: {"errors": [{"message": key}]},
        lambda key: {"detail": "x" * 190 + key},
    ],
)
async def test_u6_a_response_that_echoes_the_key_is_not_quoted(echo: Callable[[str], Any]):
    error = await refused(Reply(json.dumps(echo(KEY)).encode(), 401))
    assert "secret" not in str(error)
    assert KEY[:8] not in str(error)
