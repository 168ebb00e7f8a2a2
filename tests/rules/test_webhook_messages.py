"""Messages of webhooks: content, size, signature and retries (V2)."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from headwater.api.schemas.outputs import PostOut
from headwater.errors import UsageError
from headwater.model import Enclosure
from headwater.rules.webhook_messages import (
    MAX_PAYLOAD_BYTES,
    WebhookEvent,
    happenings,
    known_events,
    message_id,
    payload,
    post_data,
    secret_bytes,
    secret_text,
    signed_headers,
)
from headwater.rules.webhook_retries import RETRY_AFTER, retry_at
from tests.factories import NOW, a_post, a_source, an_entry
from tests.rules.poll_outcomes import POLICY, succeed

AGE = timedelta(days=7)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_v2_a_signature_is_that_of_the_published_example():
    at = datetime.fromtimestamp(1614265330, UTC)
    body = '{"test": 2432232314}'
    headers = signed_headers(secret_bytes(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_v2_a_message_has_the_fields_of_the_post_except_its_texts():
    post = a_post("a", enclosures=(Enclosure("https://example.org/a.mp3", "audio/mpeg", 7),))
    served = PostOut.of(post, AGE).plain()
    data = json.loads(payload("post.created", NOW, post_data(post, AGE)))["data"]
    assert {"body", "markdown"} <= set(served)
    assert data == {n: value for n, value in served.items() if n not in ("body", "markdown")}
    assert data["expiresAt"] is not None


def test_e5_a_message_says_when_the_post_of_a_poll_expires():
    outcome = succeed(a_source(), an_entry())
    (post,) = outcome.posts
    (reported,) = happenings(outcome)
    expected = post.created_at + timedelta(days=POLICY.max_article_age_days)
    assert reported.data["expiresAt"] == expected


@pytest.mark.parametrize("letter", ["a", "\u6c34", "\U0001f30a", '"', "\x01"])
@pytest.mark.parametrize("name", ["title", "url", "author", "language", "image_url"])
def test_v2_a_message_has_at_most_20_480_bytes(letter: str, name: str):
    texts: dict[str, Any] = {name: letter * 30_000}
    long = replace(a_post("a"), **texts, categories=(letter * 30_000,) * 32)
    text = payload("post.created", NOW, post_data(long, AGE))
    assert len(text.encode()) <= MAX_PAYLOAD_BYTES
    data = json.loads(text)["data"]
    assert data["truncated"]
    assert data["id"] == long.id


def test_v2_everything_too_long_at_once_still_fits():
    letter = "\x01" * 30_000
    texts: dict[str, Any] = dict.fromkeys(
        ("title", "url", "author", "language", "image_url"), letter
    )
    long = replace(a_post("a"), **texts)
    assert len(payload("post.created", NOW, post_data(long, AGE)).encode()) <= MAX_PAYLOAD_BYTES


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a secret is whsec_ and Base64"),
        ("whsec_not base64", "a secret is whsec_ and Base64"),
        (secret_text(bytes(23)), "a secret has 24 to 64 bytes, this one has 23"),
        (secret_text(bytes(65)), "a secret has 24 to 64 bytes, this one has 65"),
    ],
)
def test_v2_a_bad_secret_is_a_clear_error(secret: str, message: str):
    with pytest.raises(UsageError, match=message) as error:
        secret_bytes(secret)
    assert error.value.field == "secret"


def test_v2_retries_follow_the_schedule_with_jitter():
    for attempts, seconds in enumerate(
        (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400), 1
    ):
        delays = {retry_at(attempts, NOW, Random(seed)) for seed in range(20)}
        assert len(delays) == 20  # jitter
        for again in delays:
            assert again is not None
            assert timedelta(seconds=seconds) <= again - NOW <= timedelta(seconds=seconds * 1.1)
    assert retry_at(len(RETRY_AFTER) + 1, NOW, Random(1)) is None


def test_v2_ids_are_constant_and_unique():
    one = message_id("w", "post.created", "p")
    assert one == message_id("w", "post.created", "p")
    others = {message_id("v", "post.created", "p"), message_id("w", "post.created", "q")}
    assert len({one, *others}) == 3


def test_v2_unknown_events_are_refused():
    assert known_events(["post.created", "post.created"]) == (WebhookEvent.POST_CREATED,)
    with pytest.raises(UsageError, match=r"there is no event 'post.removed'; there are: post"):
        known_events(["post.removed"])
    with pytest.raises(UsageError, match="at least one"):
        known_events([])
