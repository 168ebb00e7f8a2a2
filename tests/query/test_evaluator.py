"""The evaluator: what each kind of term matches, and the laws of its operators."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.content import Completeness
from headwater.query.evaluator import Searchable, SearchableSource, matches
from headwater.query.parser import parse_query
from headwater.source_settings import SourceType

SOURCE = SearchableSource(
    id="src-4711",
    label="Süddeutsche",
    title="SZ.de – Nachrichten",
    url="https://www.sueddeutsche.de/rss/topthemen",
    type=SourceType.RSS,
)
POST = Searchable(
    source=SOURCE,
    title="Café au lait: the Bank’s new rules",
    text="The central bank raised rates.\n\nÄrger über Zölle in 東京都, dann Ruhe.",
    url="https://example.org/2026/11/bank-rules?page=2",
    at=datetime(2026, 11, 18, 12, tzinfo=UTC),
    author="Jürgen Müller",
    categories=("Economy", "Central Banks", "Inflation"),
    language="en-US",
    completeness=Completeness.EXCERPT,
)


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("bank", True),
        ("BANK", True),
        ("cafe", True),
        ("CAFÉ", True),
        ("arger", True),
        ("ban", False),
        ("banks", True),  # a category
        ("central rates cafe muller", True),  # each in another field
        ("bank money", False),
        ('"central bank"', True),
        ('"central bank raised"', True),
        ('"bank central"', False),
        ('"rules the"', False),  # the title and the text are apart
        ('"economy central"', False),  # and so are categories
        ("e-mail", False),
        ("bank-raised", True),
        ("-bank", False),
        ("-money", True),
        ("-money -fish", True),
        ("money OR bank", True),
        ("money OR fish bank", False),
        ("bank OR money fish", True),
        ("(money OR bank) rates", True),
        ("-(money OR fish)", True),
        ("-(money bank)", True),
        ("centr*", True),
        ("entral*", False),
        ('"centr"', False),
        ("東京", True),
        ("京都", True),
        ("都", True),
        ("京", True),
        ("東都", False),
        ("title:rules", True),
        ("title:rates", False),
        ("title:centr*", False),
        ('title:"new rules"', True),
        ("author:muller", True),
        ("author:bank", False),
        ("url:example.org", True),
        ("url:bank-rules", True),
        ("url:https://example.org/2026/11", True),
        ("url:org.example", False),
        ("example", False),  # only `url:` searches the address
        ('category:"central banks"', True),
        ("category:infla*", True),
        ("category:rates", False),
        ("source:sueddeutsche", True),
        ("source:suddeutsche", True),
        ("source:nachrichten", True),
        ("source:src-4711", True),
        ("source:www.sueddeutsche.de/rss", True),
        ("source:bank", False),
        ("suddeutsche", False),  # only `source:` searches the names of the source
        ("type:rss", True),
        ("type:twitter", False),
        ("lang:en", True),
        ("lang:EN-us", True),
        ("lang:en-gb", False),
        ("after:2026-11-18", True),
        ("after:2026-11-18T12:00", True),
        ("after:2026-11-18T12:01", False),
        ("before:2026-11-18T12:00", False),
        ("before:2026-11-19", True),
        ("after:2026 before:2027", True),
        ("is:excerpt", True),
        ("is:full", False),
        ("is:filtered", False),
        ("is:unprocessed", True),
        ("is:processed", False),
    ],
)
def test_b1_what_queries_match(text, is_match):
    assert matches(parse_query(text), POST) is is_match


def test_b1_states_of_a_post():
    filtered = replace(POST, is_filtered=True, is_processed=True, completeness=Completeness.FULL)
    assert matches(parse_query("is:filtered is:processed is:full"), filtered)
    assert not matches(parse_query("is:excerpt OR is:unprocessed"), filtered)


def test_b1_a_post_without_author_language_and_completeness():
    plain = replace(POST, author=None, language=None, completeness=None, categories=())
    assert not matches(parse_query("lang:en OR author:muller OR is:full OR is:excerpt"), plain)
    assert matches(parse_query("-lang:en -is:excerpt"), plain)


VOCABULARY = ["bank", "rates", "money", "fish", "Ärger", "東京", "大阪"]
TERMS = st.sampled_from([*VOCABULARY, "centr*", '"bank rates"', "title:bank", "is:full", "lang:en"])
POSTS = st.builds(
    lambda title, text, author: replace(
        POST, title=" ".join(title), text=" ".join(text), author=author
    ),
    st.lists(st.sampled_from(VOCABULARY), max_size=3),
    st.lists(st.sampled_from(VOCABULARY), max_size=8),
    st.one_of(st.none(), st.sampled_from(VOCABULARY)),
)


@given(TERMS, TERMS, TERMS, POSTS)
def test_b1_operators_follow_the_laws_of_logic(a, b, c, post):
    def holds(text: str) -> bool:
        return matches(parse_query(text), post)

    assert holds(f"{a} {b}") == (holds(a) and holds(b)) == holds(f"{b} {a}")
    assert holds(f"{a} OR {b}") == (holds(a) or holds(b)) == holds(f"{b} OR {a}")
    assert holds(f"-{a}") != holds(a)
    assert holds(f"-({a} OR {b})") == holds(f"-{a} -{b}")
    assert holds(f"-({a} {b})") == holds(f"-{a} OR -{b}")
    assert holds(f"{a} OR {b} {c}") == holds(f"{a} OR ({b} {c})")
    assert holds(f"({a} OR {b}) {c}") == holds(f"{a} {c} OR {b} {c}")
    assert holds(f"-(-{a})") == holds(a)


@given(st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=4), POSTS)
def test_b1_a_phrase_implies_its_words(words, post):
    if matches(parse_query(f'"{" ".join(words)}"'), post):
        assert matches(parse_query(" ".join(words)), post)
