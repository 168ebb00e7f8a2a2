"""Ignored lines of a page (W4)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.ignored_lines import IgnoredLines, identity_text


@pytest.mark.parametrize(
    ("pattern", "line", "is_ignored"),
    [
        ("Updated * ago", "updated 3 min ago", True),
        ("Updated * ago", "Updated  ago", True),
        ("Updated * ago", "Updated 3 min ago by Ann", False),
        ("Updated * ago", "It was Updated 3 min ago", False),
        ("# visitors", "1234 visitors", True),
        ("# visitors", "visitors", False),
        ("# visitors", "12,345 visitors", False),
        ("#,# visitors", "12,345 visitors", True),
        ("* visitors", "12,345 visitors", True),
        ("*#:#*", "It is 12:30 o'clock", True),
        ("20#", "2026", True),
        ("20#", "2126", False),
        ("#6", "2026", True),
        ("#", "20 26", False),
        ("a*b*c", "abbc", True),
        ("a*b*c", "acb", False),
        ("*a", "ba", True),
        ("a*", "a", True),
        ("  Live   now ", "Live now", True),
        ("STRASSE", "straße", True),
        ("(a|b)+.", "(a|b)+.", True),
        ("price: # €", "Price: 35 €", True),
    ],
)
def test_w4_a_line_is_matched_as_a_whole(pattern, line, is_ignored):
    assert IgnoredLines([pattern]).match(line) is is_ignored


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_w4_asterisks_match_as_the_plain_expression_does(pattern, line):
    wanted = re.fullmatch(pattern.replace("*", ".*"), line) is not None
    assert IgnoredLines([pattern]).match(line) is wanted


def test_w4_m5_no_pattern_and_line_take_long():
    lines = ["1" * 999, "a" * 999, "1a" * 499, "1 " * 499, "11" * 450 + "x", "9" * 10_000_000]
    patterns = ["*a" * 100, "#1" * 50 + "x", "*#" * 100, "*#a#a*b", "1#1 #1#", "*1#1x"]
    ignored = IgnoredLines([pattern[:300] for pattern in patterns] * 3)
    for _ in range(50):
        for line in lines:
            ignored.match(line)


def test_w4_the_identity_of_a_page_has_no_ignored_lines():
    page = "Prices\nUpdated 3 min ago\nBread 2 €"
    assert identity_text(page, ()) == "Prices Updated 3 min ago Bread 2 €"
    assert identity_text(page, ["no such line"]) == identity_text(page, ())
    assert identity_text(page, ["Updated * ago"]) == "Prices Bread 2 €"
    assert identity_text("12:00", ["#:#"]) == ""
