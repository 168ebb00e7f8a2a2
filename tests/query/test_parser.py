"""The parser: precedence, fields, limits, and the position of every error."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import QueryError
from headwater.query.parser import (
    FIELDS,
    MAX_DEPTH,
    MAX_QUERY,
    MAX_TERMS,
    parse_filter,
    parse_query,
)
from headwater.query.syntax import (
    AllOf,
    AnyOf,
    Exclusion,
    LanguageTerm,
    PostState,
    Query,
    StateTerm,
    TextField,
    TextTerm,
    TimeTerm,
    TypeTerm,
)
from headwater.query.tokens import phrase_of
from headwater.source_settings import SourceType


def words(text: str, field: TextField | None = None) -> TextTerm:
    tokens, is_prefix = phrase_of(text)
    return TextTerm(text, tokens, is_prefix, field=field)


A, B, C = words("a"), words("b"), words("c")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a", A),
        ("  a\t", A),
        ("a b c", AllOf((A, B, C))),
        ("a OR b", AnyOf((A, B))),
        ("a OR b c", AnyOf((A, AllOf((B, C))))),
        ("a b OR c", AnyOf((AllOf((A, B)), C))),
        ("(a OR b) c", AllOf((AnyOf((A, B)), C))),
        ("((a))", A),
        ("-a", Exclusion(A)),
        ("-a -b", AllOf((Exclusion(A), Exclusion(B)))),
        ("-(a OR b)", Exclusion(AnyOf((A, B)))),
        ("-(-a)", Exclusion(Exclusion(A))),
        ("a or b", AllOf((A, words("or"), B))),
        ('"a b" c', AllOf((words("a b"), C))),
        ("“a  b”", words("a b")),
        ('"OR"', words("OR")),
        ('a"b"(c)', AllOf((A, B, C))),
        ("e-mail", words("e-mail")),
        ("10:30", words("10:30")),
        ("head*", TextTerm("head", ("head",), is_prefix=True, has_star=True)),
        ("semi-final*", TextTerm("semi-final", ("semi", "final"), is_prefix=True, has_star=True)),
        ("東京*", TextTerm("東京", ("東京",), is_prefix=True, has_star=True)),
        ("title:a", words("a", TextField.TITLE)),
        ("TITLE:a", words("a", TextField.TITLE)),
        ('author:"a b"', words("a b", TextField.AUTHOR)),
        ("-url:example.org/a", Exclusion(words("example.org/a", TextField.URL))),
        ("category:a", words("a", TextField.CATEGORY)),
        ("source:a", words("a", TextField.SOURCE)),
        ("type:rss", TypeTerm(SourceType.RSS)),
        ("lang:pt_BR", LanguageTerm("pt-br")),
        ("after:2026", TimeTerm(datetime(2026, 1, 1, tzinfo=UTC), is_after=True)),
        ("before:2026-11", TimeTerm(datetime(2026, 11, 1, tzinfo=UTC), is_after=False)),
        ("after:2026-11-30", TimeTerm(datetime(2026, 11, 30, tzinfo=UTC), is_after=True)),
        (
            "after:2026-11-30T18:05Z",
            TimeTerm(datetime(2026, 11, 30, 18, 5, tzinfo=UTC), is_after=True),
        ),
        ("is:filtered", StateTerm(PostState.FILTERED)),
        ("is:Excerpt", StateTerm(PostState.EXCERPT)),
    ],
)
def test_b1_valid_queries(text, query):
    assert parse_query(text) == query


INVALID = [
    # every operator alone
    ("", 0, "a word"),
    ("   ", 3, "a word"),
    ("\n", 1, "a word"),
    ("OR", 0, "both sides of OR"),
    ("AND", 0, "without AND"),
    ("NOT", 0, "- excludes"),
    ("-", 1, "directly after -"),
    ("--", 1, "directly after -"),
    ("(", 1, "a word"),
    (")", 0, "a word"),
    ("()", 1, "a word"),
    ('"', 0, "ends this phrase"),
    ('""', 0, "a word"),
    ("“”", 0, "a word"),
    ("*", 0, "4 letters before *"),
    (":", 0, "letters or digits"),
    # operators without what belongs to them
    ("a OR", 4, "a word"),
    ("OR a", 0, "both sides of OR"),
    ("a OR OR b", 5, "both sides of OR"),
    ("a OR )", 5, "a word"),
    ("a AND b", 2, "without AND"),
    ("a NOT b", 2, "- excludes"),
    ("a - b", 3, "directly after -"),
    ("--a", 1, "directly after -"),
    ("-)", 1, "directly after -"),
    ("-OR", 1, "both sides of OR"),
    ("-\u00a0a", 1, "directly after -"),
    ("(a", 0, ") for this ("),
    ("b (a", 2, ") for this ("),
    ("((a)", 0, ") for this ("),
    ("a)", 1, "without a ("),
    ("(a))", 3, "without a ("),
    ("-(a", 1, ") for this ("),
    ("(a OR )", 6, "a word"),
    ('"a', 0, "ends this phrase"),
    ('a "b', 2, "ends this phrase"),
    ('a b"', 3, "ends this phrase"),
    ("…", 0, "letters or digits"),
    ('a "…"', 2, "letters or digits"),
    ("a & b", 2, "letters or digits"),
    # prefixes
    ("abc*", 0, "4 letters before *"),
    ("a b*", 2, "4 letters before *"),
    ("ab*cd", 3, "the end of the word"),
    ("abcd**", 5, "the end of the word"),
    ("*abcd", 0, "4 letters before *"),
    ("title:abc*", 6, "4 letters before *"),
    # fields
    ("title:", 6, "a word or a phrase after title:"),
    ("title: a", 6, "a word or a phrase after title:"),
    ("title:(a)", 6, "a word or a phrase after title:"),
    ('title:"', 6, "ends this phrase"),
    ("foo:bar", 0, "one of the fields title, author"),
    ("https://example.org/", 0, "quote text that has a colon"),
    ("a subject:b", 2, "one of the fields"),
    ("type:", 5, "rss or website or twitter"),
    ("type:feed", 5, "rss or website or twitter"),
    ('type:"rss"', 5, "rss or website or twitter"),
    ("is:", 3, "filtered or excerpt"),
    ("is:new", 3, "filtered or excerpt"),
    ("lang:", 5, "a language such as"),
    ("lang:e", 5, "a language such as"),
    ("lang:en-", 5, "a language such as"),
    ("after:", 6, "a date such as"),
    ("after:yesterday", 6, "a date such as"),
    ("after:2026-13", 6, "a date such as"),
    ("before:2026-02-30", 7, "a date such as"),
    ("before:0000", 7, "a date such as"),
    ("after:２０２６", 6, "a date such as"),
    ("after:2026-11-30T25:00", 6, "a date such as"),
    # limits and characters
    ("a\x00b", 1, "control characters"),
    ("\x1b[31ma", 0, "control characters"),
    ("a \x85", 2, "control characters"),
    ("a\ud800", 1, "control characters"),
    ("a" * 10_000, MAX_QUERY, "at most 1,000 characters"),
    ("(" * MAX_QUERY, MAX_DEPTH, "at most 20 parentheses"),
    ("-(" * (MAX_QUERY // 2), 2 * MAX_DEPTH + 1, "at most 20 parentheses"),
    ("a " * (MAX_TERMS + 1), 2 * MAX_TERMS, "at most 100 words"),
]


@pytest.mark.parametrize(("text", "position", "expected"), INVALID, ids=range(len(INVALID)))
def test_b1_invalid_queries_name_the_position_and_what_was_expected(text, position, expected):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert (caught.value.position, expected in caught.value.expected) == (position, True), caught
    assert str(caught.value).startswith(f"at character {position + 1}: expected ")


def test_b1_a_filter_does_not_depend_on_filters_or_on_processing():
    assert parse_filter("a is:excerpt") == parse_query("a is:excerpt")
    for state in ("filtered", "processed", "unprocessed"):
        with pytest.raises(QueryError, match="excerpt or full after is:") as caught:
            parse_filter(f'"is:{state}" is:{state}')
        assert caught.value.position == len(f'"is:{state}" is:')


PIECES = st.sampled_from(
    [*'()"-*: \t“é東', " OR ", "abcd", "AND", "-(", '"a b"', *(f"{name}:" for name in FIELDS)]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join)))
def test_b1_the_parser_raises_nothing_but_query_errors(text):
    try:
        query = parse_query(text)
    except QueryError as error:
        assert 0 <= error.position <= len(text)
        return
    assert parse_query(str(query)) == query


ALPHABET = "abcdéüß東京Щ_-.*:()'&9"
TEXTS = st.text(ALPHABET + " ", min_size=1, max_size=12).map(lambda text: " ".join(text.split()))
TEXT_TERMS = st.builds(
    words,
    st.one_of(TEXTS, st.sampled_from(["AND", "OR", "NOT", "is:full"])).filter(
        lambda text: phrase_of(text)[0]
    ),
    st.one_of(st.none(), st.sampled_from(TextField)),
)
PREFIXES = st.sampled_from(["abcd*", "title:head*", "東京*", "url:example.org/news*"])
TIMES = st.datetimes(min_value=datetime(1, 1, 1)).map(
    lambda at: at.replace(second=0, microsecond=0, tzinfo=UTC)
)
TERMS = st.one_of(
    TEXT_TERMS,
    PREFIXES.map(parse_query),
    st.builds(TypeTerm, st.sampled_from(SourceType)),
    st.sampled_from(["en", "pt-br", "zh-hant-tw"]).map(LanguageTerm),
    st.builds(TimeTerm, TIMES, is_after=st.booleans()),
    st.builds(StateTerm, st.sampled_from(PostState)),
)


def larger(parts: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(parts.map(Exclusion), several.map(AllOf), several.map(AnyOf))


@given(st.recursive(TERMS, larger, max_leaves=8))
def test_b1_a_printed_query_has_the_same_syntax_tree(query):
    assert parse_query(str(query)) == query
