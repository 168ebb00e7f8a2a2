"""Lanes, delays, and when a host is free."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import Hold, HostState, SourceType
from headwater.rules.policy import HostOverride
from headwater.rules.politeness import (
    delay_origin,
    delay_seconds,
    hold_seconds,
    host_free_at,
    host_of,
    host_of_lane,
    lane_of,
    poll_delay,
    wait_seconds,
)
from tests.factories import NOW, a_policy, a_source

SECOND = timedelta(seconds=1)
moments = st.timedeltas(timedelta(days=-4000), timedelta(days=4000)).map(lambda span: NOW + span)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/feed", "example.org"),
        ("http://example.org/other", "example.org"),
        ("HTTPS://EXAMPLE.ORG/feed", "example.org"),
        ("https://Example.Org./feed", "example.org"),
        ("https://example.org:8443/feed", "example.org"),
        ("https://user:pass@example.org/feed", "example.org"),
        ("  https://example.org/feed  ", "example.org"),
        ("https://sub.example.org/feed", "sub.example.org"),
        ("https://münchen.example/", "xn--mnchen-3ya.example"),
        ("https://MÜNCHEN.example/", "xn--mnchen-3ya.example"),
        ("https://xn--mnchen-3ya.example/", "xn--mnchen-3ya.example"),
        ("http://127.0.0.1:8000/feed", "127.0.0.1"),
        ("http://2130706433/feed", "127.0.0.1"),
        ("http://0x7f.0.0.1/feed", "127.0.0.1"),
        ("http://[2001:DB8:0:0::1]:80/feed", "2001:db8::1"),
    ],
)
def test_p1_the_lane_is_the_normalised_host_without_its_port(url, host):
    source = a_source(url=url)
    assert host_of(source) == host
    assert lane_of(source, "ada") == host


@pytest.mark.parametrize(
    "url",
    [
        "name",
        "@name",
        "https://x.com/name",
        "https://twitter.com/name",
        "https://www.twitter.com/name",
        "https://mobile.twitter.com/name",
        "HTTPS://X.COM/name",
    ],
)
def test_p1_x_is_one_host_in_every_spelling_with_a_lane_per_owner(url):
    source = a_source(type=SourceType.TWITTER, url=url)
    assert host_of(source) == "x.com"
    assert lane_of(source, "ada") == lane_of(a_source(type=SourceType.TWITTER), "ada")
    assert lane_of(source, "ada") != lane_of(source, "bob")


def test_p1_a_lane_has_its_host():
    x = lane_of(a_source(type=SourceType.TWITTER, url="@name"), "ada")
    assert x is not None
    assert host_of_lane(x) == "x.com"
    assert host_of_lane("example.org") == "example.org"


def test_p1_a_feed_at_x_shares_no_lane_with_any_owner():
    feed = lane_of(a_source(url="https://x.com/feed.xml"), "ada")
    assert feed == "x.com"
    assert feed != lane_of(a_source(type=SourceType.TWITTER, url="@name"), "ada")


@pytest.mark.parametrize(
    "url", ["", "no url at all", "feeds.example.org/rss", "mailto:a@example.org", "https:///x"]
)
def test_p4_a_url_without_a_host_is_in_the_null_lane(url):
    source = a_source(url=url)
    assert host_of(source) is None
    assert lane_of(source, "ada") is None


def test_p4_the_null_lane_is_polled_without_delay():
    policy = a_policy(type_delay_seconds={SourceType.RSS: 9})
    for own in (None, 30):
        source = a_source(url="no url at all", poll_delay_seconds=own)
        assert poll_delay(source, policy) == timedelta(0)


SEED_POLICY = a_policy(
    type_delay_seconds={SourceType.RSS: 0, SourceType.WEBSITE: 2, SourceType.TWITTER: 0},
    host_overrides={
        "nitter.net": HostOverride(poll_delay_seconds=3),
        "*.substack.com": HostOverride(poll_delay_seconds=1),
        "quick.substack.com": HostOverride(poll_delay_seconds=0),
        "*.deep.substack.com": HostOverride(poll_delay_seconds=7),
        "x.com": HostOverride(poll_delay_seconds=4),
    },
)


@pytest.mark.parametrize(
    ("type_", "url", "own", "seconds"),
    [
        (SourceType.RSS, "https://nitter.net/user1/rss", None, 3),
        (SourceType.RSS, "https://NITTER.net.:443/user2/rss", None, 3),
        (SourceType.RSS, "https://nitter.net/user1/rss", 10, 10),
        (SourceType.RSS, "https://nitter.net/user1/rss", 0, 0),
        (SourceType.RSS, "https://sub.nitter.net/rss", None, 0),
        (SourceType.WEBSITE, "https://nitter.net/user1", None, 3),
        (SourceType.WEBSITE, "https://example.org/", None, 2),
        (SourceType.WEBSITE, "https://example.org/", 0, 0),
        (SourceType.RSS, "https://example.org/rss", None, 0),
        (SourceType.WEBSITE, "https://a.substack.com/", None, 1),
        (SourceType.WEBSITE, "https://b.a.substack.com/", None, 1),
        (SourceType.WEBSITE, "https://quick.substack.com/", None, 0),
        (SourceType.WEBSITE, "https://a.deep.substack.com/", None, 7),
        (SourceType.WEBSITE, "https://deep.substack.com/", None, 1),
        (SourceType.WEBSITE, "https://substack.com/", None, 2),
        (SourceType.WEBSITE, "https://notsubstack.com/", None, 2),
        (SourceType.TWITTER, "@name", None, 4),
        (SourceType.TWITTER, "@name", 86_400, 86_400),
    ],
)
def test_p2_the_first_delay_that_is_set_counts_even_if_zero(type_, url, own, seconds):
    source = a_source(type=type_, url=url, poll_delay_seconds=own)
    assert poll_delay(source, SEED_POLICY) == seconds * SECOND


def test_p2_without_any_setting_there_is_no_delay():
    for type_ in SourceType:
        assert poll_delay(a_source(type=type_), a_policy()) == timedelta(0)


def test_p2_the_origin_of_a_delay_is_reported():
    nitter = "https://nitter.net/user/rss"
    assert "pollDelaySeconds" in delay_origin(
        a_source(url=nitter, poll_delay_seconds=0), SEED_POLICY
    )
    assert "nitter.net" in delay_origin(a_source(url=nitter), SEED_POLICY)
    website = a_source(url="https://example.org/", type=SourceType.WEBSITE)
    assert "website" in delay_origin(website, SEED_POLICY)
    assert delay_origin(website, a_policy()) == "the default"
    assert "null lane" in delay_origin(a_source(url="", poll_delay_seconds=9), SEED_POLICY)


def test_p3_a_host_visited_by_a_redirect_uses_its_own_delay():
    source = a_source(type=SourceType.WEBSITE, poll_delay_seconds=60)
    assert delay_seconds(None, source.type, "nitter.net", SEED_POLICY) == 3
    assert delay_seconds(None, source.type, "elsewhere.example", SEED_POLICY) == 2


@pytest.mark.parametrize(
    ("until", "set_at", "seconds"),
    [
        (None, None, 0),
        (NOW - SECOND, NOW - 60 * SECOND, 0),
        (NOW, NOW - 60 * SECOND, 0),
        (NOW + 40 * SECOND, NOW - 20 * SECOND, 40),
        (NOW + 60 * SECOND, NOW, 60),
        (NOW + 60 * SECOND, None, 60),
        # the clock was set back by a year: never longer than the original wait
        (NOW + timedelta(days=365) + 60 * SECOND, NOW + timedelta(days=365), 60),
    ],
)
def test_o4_a_wait_never_exceeds_its_original_length(until, set_at, seconds):
    assert wait_seconds(until, set_at, NOW) == seconds


@given(moments, st.floats(0, 10**7), moments)
def test_o4_a_clock_that_jumps_neither_extends_nor_reverses_a_wait(set_at, length, now):
    until = set_at + timedelta(seconds=length)
    wait = wait_seconds(until, set_at, now)
    assert 0 <= wait <= (until - set_at).total_seconds()
    if now >= set_at:
        assert wait == max((until - now).total_seconds(), 0)


def test_p9_a_hold_lasts_until_its_end():
    hold = Hold(until=NOW + 600 * SECOND, set_at=NOW, reason="HTTP 429")
    assert hold_seconds(None, NOW) == 0
    assert hold_seconds(hold, NOW) == 600
    assert hold_seconds(hold, NOW + 599 * SECOND) == 1
    assert hold_seconds(hold, NOW + 600 * SECOND) == 0
    assert hold_seconds(hold, NOW + timedelta(days=1)) == 0


@pytest.mark.parametrize(
    ("next_allowed", "held", "free_after"),
    [(None, None, 0), (3, None, 3), (None, 600, 600), (3, 600, 600), (900, 600, 900), (-5, -5, 0)],
)
def test_p3_a_lane_is_free_when_both_its_delay_and_its_hold_are_over(
    next_allowed, held, free_after
):
    set_at = NOW - timedelta(hours=1)
    state = HostState(
        lane="example.org",
        next_allowed_at=None if next_allowed is None else NOW + next_allowed * SECOND,
        next_allowed_set_at=None if next_allowed is None else set_at,
        hold=None if held is None else Hold(NOW + held * SECOND, set_at, "HTTP 503"),
    )
    assert host_free_at(state, NOW) == NOW + free_after * SECOND
