"""The settings of a policy for a host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.policy import HoldScope, HostOverride, Policy

POLICY = Policy(
    host_overrides={
        "nitter.net": HostOverride(poll_delay_seconds=3),
        "free.example.org": HostOverride(poll_delay_seconds=0),
        "quiet.deep.example.org": HostOverride(hold_scope=HoldScope.SOURCE),
        "*.example.org": HostOverride(poll_delay_seconds=1, hold_scope=HoldScope.SOURCE),
        "*.deep.example.org": HostOverride(poll_delay_seconds=2.5),
        "plain.example.org": HostOverride(hold_scope=HoldScope.HOST),
        "*.org": HostOverride(poll_delay_seconds=9),
        "127.0.0.1": HostOverride(poll_delay_seconds=4),
        "::1": HostOverride(poll_delay_seconds=5),
    }
)


@pytest.mark.parametrize(
    ("host", "seconds"),
    [
        (None, None),
        ("", None),
        ("nitter.net", 3),
        ("other.net", None),
        ("sub.nitter.net", None),
        ("free.example.org", 0),
        ("a.example.org", 1),
        ("b.a.example.org", 1),
        ("example.org", 9),
        ("deep.example.org", 1),
        ("a.deep.example.org", 2.5),
        ("quiet.deep.example.org", 2.5),
        ("plain.example.org", 1),
        ("anexample.org", 9),
        ("org", None),
        ("127.0.0.1", 4),
        ("127.0.0.2", None),
        ("::1", 5),
    ],
)
def test_p2_the_exact_host_wins_then_the_longest_wildcard(host, seconds):
    assert POLICY.host_delay_seconds(host) == seconds


@pytest.mark.parametrize(
    ("host", "scope"),
    [
        (None, HoldScope.HOST),
        ("nitter.net", HoldScope.HOST),
        ("a.example.org", HoldScope.SOURCE),
        ("example.org", HoldScope.HOST),
        ("quiet.deep.example.org", HoldScope.SOURCE),
        ("a.deep.example.org", HoldScope.SOURCE),
        ("plain.example.org", HoldScope.HOST),
    ],
)
def test_p9_the_hold_scope_is_found_in_the_same_order_and_defaults_to_host(host, scope):
    assert POLICY.hold_scope(host) is scope


_labels = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5)


@given(
    _labels,
    st.dictionaries(
        st.tuples(st.booleans(), _labels.map(".".join)), st.integers(0, 9), max_size=12
    ),
)
def test_p2_the_lookup_agrees_with_trying_every_key(labels, table):
    host = ".".join(labels)
    overrides = {
        f"*.{name}" if wild else name: HostOverride(poll_delay_seconds=seconds)
        for (wild, name), seconds in table.items()
    }
    fitting = [key for key in overrides if key.startswith("*.") and host.endswith(key[1:])]
    best = host if host in overrides else max(fitting, key=len, default=None)
    expected = None if best is None else overrides[best].poll_delay_seconds
    assert Policy(host_overrides=overrides).host_delay_seconds(host) == expected


def test_g1_the_defaults_are_those_of_the_specification():
    policy = Policy()
    assert (policy.max_article_age_days, policy.max_failures, policy.max_backoff_hours) == (
        7,
        5,
        24,
    )
    assert policy.late_entry_hours == 0
    assert policy.processed_retention_days is None
    assert policy.poll_history_days == 14
    assert policy.daily_history_days == 400
    assert policy.type_delay_seconds == {}
    assert policy.aggregate_hosts == ("nitter.net",)
