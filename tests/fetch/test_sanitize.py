"""Text from outside is made storable (M6)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.text.sanitize import storable_line, storable_text

ANY_TEXT = st.text(
    alphabet=st.one_of(
        st.characters(codec=None, exclude_categories=()),
        st.sampled_from("\x00\x07\t\n\r\x0b\x0c\x1f\x7f\x85\u2028\ud800\udfff\u00a0 a"),
    )
)


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        ("plain", "plain"),
        ("nul\x00 bell\x07 escape\x1b[31m", "nul bell escape[31m"),
        ("del\x7f c1\x9b", "del c1"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("win\r\nold\rmac", "win\nold\nmac"),
        ("page\x0cnext\x85line\u2028sep", "page\nnext\nline\nsep"),
        ("lone \ud83d surrogate", "lone \ufffd surrogate"),
        ("naïve 日本 \U0001f600", "naïve 日本 \U0001f600"),
    ],
)
def test_m6_bodies_keep_tab_and_line_feed_only(raw, stored):
    assert storable_text(raw) == stored


@pytest.mark.parametrize(
    ("raw", "limit", "stored"),
    [
        ("  two\n words\t", None, "two words"),
        ("nul\x00 here", None, "nul here"),
        ("abc def", 4, "abc"),
        ("abcdef", 4, "abcd"),
        ("abcd", 4, "abcd"),
        ("", 4, ""),
    ],
)
def test_m6_titles_authors_and_errors_are_one_line(raw, limit, stored):
    assert storable_line(raw, limit) == stored


@given(ANY_TEXT)
def test_m6_any_input_becomes_valid_utf8_without_controls(raw):
    for stored in (storable_text(raw), storable_line(raw)):
        stored.encode("utf-8")
        assert all(unicodedata.category(c) != "Cc" or c in "\t\n" for c in stored)
    assert len(storable_line(raw).splitlines()) <= 1
    assert storable_text(storable_text(raw)) == storable_text(raw)
