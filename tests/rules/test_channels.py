"""Channels: which addresses are possible, and when a channel is told (Y3)."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest

from headwater.errors import BadUrl, UsageError
from headwater.rules.channels import (
    DIGEST_HOUR,
    MAX_CHANNELS,
    ChannelChoice,
    ChannelKind,
    checked_choices,
    due_at,
    email_address,
)

TOPIC = "https://ntfy.sh/my-topic"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ann@example.org", "ann@example.org"),
        ("Ann.O'Neil+river@EXAMPLE.org", "Ann.O'Neil+river@example.org"),
        ("ann@flüsse.example", "ann@xn--flsse-lva.example"),
        ("root@localhost", "root@localhost"),
    ],
)
def test_y3_an_address_is_normalised(text: str, address: str):
    assert email_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "@example.org",
        "ann@",
        "ann@@example.org",
        "ann bee@example.org",
        "ann@example.org\r\nBcc: eve@example.org",
        "ann\r\n@example.org",
        "ann\x00@example.org",
        "Ann <ann@example.org>",
        "<ann@example.org>",
        "ann@example.org,eve@example.org",
        '"ann@home"@example.org',
        ".ann@example.org",
        "ann..bee@example.org",
        "ann@127.0.0.1",
        "ann@[127.0.0.1]",
        "ann@::1",
        "änn@example.org",
        "a" * 65 + "@example.org",
        "ann@" + ".".join(["a" * 60] * 5),
        "ann@exa\u2028mple.org",
        "ann@-example.org",
    ],
)
def test_y3_m6_anything_else_is_no_address(text: str):
    with pytest.raises(UsageError) as caught:
        email_address(text)
    assert caught.value.field == "address"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://ntfy.sh/topic",
        "http://127.0.0.1/topic",
        "http://localhost/topic",
        "http://[::1]/topic",
        "http://169.254.169.254/latest",
        "http://2130706433/topic",
        "https://ntfy.sh",
        "https://ntfy.sh/?topic=x",
        "ntfy.sh/topic",
        "https://ntfy.sh/a b",
        "https://ntfy.sh/a\r\nX: y",
    ],
)
def test_y3_n2_n3_j2_a_topic_that_can_never_be_visited_is_refused(url: str):
    with pytest.raises(BadUrl):
        checked_choices([ChannelChoice(ChannelKind.NTFY, url)], allowed=False)


def test_y3_n3_a_private_topic_is_possible_where_the_operator_allows_it():
    chosen = [ChannelChoice(ChannelKind.NTFY, "http://10.1.2.3/topic")]
    assert checked_choices(chosen, allowed=True) == chosen
    assert checked_choices(chosen, allowed=(ip_network("10.0.0.0/8"),)) == chosen


def test_y3_choices_are_few_different_and_not_of_apprise():
    topics = [ChannelChoice(ChannelKind.NTFY, f"{TOPIC}{n}") for n in range(MAX_CHANNELS + 1)]
    assert checked_choices(topics[:-1], allowed=False) == topics[:-1]
    upper = ChannelChoice(ChannelKind.EMAIL, "ann@EXAMPLE.org")
    lower = ChannelChoice(ChannelKind.EMAIL, "ann@example.org", is_digest=True)
    apprise = ChannelChoice(ChannelKind.APPRISE, "json://127.0.0.1")
    for wrong in (topics, [upper, lower], [apprise]):
        with pytest.raises(UsageError):
            checked_choices(wrong, allowed=False)


def test_y3_a_digest_without_an_hour_has_the_usual_one():
    chosen = [ChannelChoice(ChannelKind.NTFY, TOPIC, is_digest=True)]
    assert checked_choices(chosen, allowed=False)[0].hour == DIGEST_HOUR


@pytest.mark.parametrize(
    ("hour", "happened", "due"),
    [
        (None, "2026-02-16 08:00", "2026-02-16 08:00"),
        (8, "2026-02-16 07:59", "2026-02-16 08:00"),
        (8, "2026-02-16 08:00", "2026-02-17 08:00"),
        (8, "2026-02-16 23:30", "2026-02-17 08:00"),
        (0, "2026-02-28 12:00", "2026-03-01 00:00"),
        (23, "2026-12-31 23:01", "2027-01-01 23:00"),
    ],
)
def test_y3_a_digest_is_due_when_its_hour_begins(hour: int | None, happened: str, due: str):
    choice = ChannelChoice(ChannelKind.NTFY, TOPIC, hour is not None, hour)
    at = datetime.fromisoformat(happened).replace(tzinfo=UTC)
    assert due_at(choice, at) == datetime.fromisoformat(due).replace(tzinfo=UTC)
    assert timedelta() <= due_at(choice, at) - at <= timedelta(days=1)
