"""Tokens: case, accents, marks, scripts without spaces, limits."""

import sys
import time
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.query.tokens import MAX_TOKEN, SEPARATOR, normalised, phrase_of, tokens_of


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("… — !?", []),
        ("Hello, World", ["hello", "world"]),
        ("Müller MÜLLER mu\u0308ller", ["muller", "muller", "muller"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("Ångström Łódź", ["angstrom", "łodz"]),
        ("ΟΔΟΣ οδός", ["οδοσ", "οδοσ"]),
        ("ёлка й", ["елка", "и"]),
        ("don't e-mail C++", ["don", "t", "e", "mail", "c"]),
        ("“don’t” — e…mail•C\u00a0‘x’–1", ["don", "t", "e", "mail", "c", "x", "1"]),
        ("’Café’…東京", ["cafe", "東京", "京"]),
        ("snake_case", ["snake", "case"]),
        ("ﬁne ﬃ ①", ["fine", "ffi", "1"]),
        ("Bun\u00addes\u00adtag", ["bundestag"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مُحَمَّد", ["محمد"]),
        ("東京都庁", ["東京", "京都", "都庁", "庁"]),
        ("東", ["東"]),
        ("ガガ ｶﾞｶﾞ", ["ガガ", "ガ", "ガガ", "ガ"]),
        ("GPT東京5", ["gpt", "東京", "京", "5"]),
        ("서울에서", ["서울", "울에", "에서", "서"]),
        ("人工智能、AI。", ["人工", "工智", "智能", "能", "ai"]),
        ("a" * (MAX_TOKEN + 1), ["a" * MAX_TOKEN, "a"]),
    ],
)
def test_b1_tokens_have_no_case_and_no_accents(text, tokens):
    assert tokens_of(text) == tokens


def test_a_limit_cuts_the_tokens():
    assert tokens_of("a b c d", limit=2) == ["a", "b"]
    assert tokens_of("東京都庁", limit=2) == ["東京", "京都"]


@pytest.mark.parametrize(
    ("text", "tokens", "is_prefix"),
    [
        ("Hello World", ("hello", "world"), False),
        ("東京", ("東京",), False),
        ("東京都", ("東京", "京都"), False),
        ("都", ("都",), True),
        ("東京 都", ("東京", "京", "都"), True),
        ("東京 tower", ("東京", "京", "tower"), False),
        ("AI 東京", ("ai", "東京"), False),
        ("…", (), False),
    ],
)
def test_b1_a_phrase_may_end_within_a_run_without_spaces(text, tokens, is_prefix):
    assert phrase_of(text) == (tokens, is_prefix)


def occurs(phrase: str, text: str) -> bool:
    tokens, is_prefix = phrase_of(phrase)
    sought = " " + " ".join(tokens) + ("" if is_prefix else " ")
    return sought in " " + " ".join(tokens_of(text)) + " "


@given(st.text("東京都庁大阪のはガ", min_size=1, max_size=30), st.data())
def test_b1_every_part_of_a_chinese_or_japanese_text_is_found(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert occurs(text[start:end], text)


@given(st.text("東京都大", min_size=1, max_size=6), st.text("東京都大", max_size=12))
def test_b1_only_parts_of_a_chinese_or_japanese_text_are_found(part, text):
    assert occurs(part, text) == (part in text)


@given(st.text())
def test_tokens_are_what_an_index_can_store(text):
    for token in tokens_of(text):
        assert 0 < len(token) <= MAX_TOKEN
        assert token != SEPARATOR
        # a tokenizer that splits at ASCII characters other than letters and digits keeps it
        assert all(c.isalnum() or ord(c) > 127 for c in token)
        assert not any(c.isspace() for c in token)


def test_normalising_twice_changes_nothing():
    for code in range(sys.maxunicode + 1):
        once = normalised(chr(code))
        assert normalised(once) == once, hex(code)
        if category(chr(code)) in {"Lu", "Lt"}:
            assert normalised(chr(code).lower()) == once, hex(code)


def test_b1_a_text_of_marks_takes_linear_time():
    # each mark would be sorted into all those before it
    text = "a" + "\u0f71\u0f72" * 500_000
    before = time.process_time()
    assert tokens_of(text)
    assert time.process_time() - before < 5
