"""JSON Feed documents, including malformed ones (R1, M4)."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NotAFeed
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.feed.feed_entries import Feed
from headwater.model import Entry

URL = "https://example.org/feed.json"
VERSION = '"version": "https://jsonfeed.org/version/1.1"'


def feed(text: str) -> Feed:
    return parse_feed(text.encode(), content_type="application/feed+json", url=URL)


def entries(items: str) -> tuple[Entry, ...]:
    return feed(f'{{{VERSION}, "items": [{items}]}}').entries


@pytest.mark.parametrize(
    ("item", "body"),
    [
        ('{"content_html": "<p>a</p><p>b</p>", "content_text": "c"}', "a b"),
        ('{"content_text": "1 < 2 &amp; <b>"}', "1 < 2 &amp; <b>"),
        ('{"content_html": "", "summary": "s"}', "s"),
        ('{"title": "only"}', "only"),
        ('{"url": "/only"}', "https://example.org/only"),
        ('{"content_text": "lone \\ud800 \\u0000"}', "lone \ufffd"),
    ],
)
def test_r4_the_body_of_an_item(item, body):
    assert entries(item)[0].body == body


@pytest.mark.parametrize(
    ("item", "author"),
    [
        ('{"authors": [{"name": " "}, {"name": "Ann"}], "author": {"name": "Bob"}}', "Ann"),
        ('{"author": {"name": "Bob"}}', "Bob"),
        ('{"authors": "Ann", "author": {"name": " "}}', "Ann"),
        ('{"authors": {"name": "Ann"}}', "Ann"),
        ('{"authors": ["Ann", "Bob"]}', "Ann"),
        ('{"authors": ["?", {"name": "Ann"}]}', "Ann"),
        ('{"author": "Ann"}', "Ann"),
        ('{"authors": [1, null, " ", {"name": 3}], "author": [[]]}', None),
    ],
)
def test_r6_the_author_of_an_item(item, author):
    assert entries(item)[0].author == author


@pytest.mark.parametrize("authors", ['[{"name": "Ann"}]', '{"name": "Ann"}', '"Ann"'])
def test_r6_items_inherit_the_author_of_their_feed(authors):
    items = '[{"title": "a"}, {"title": "b", "authors": ["Bob"]}]'
    document = f'{{{VERSION}, "items": {items}, "authors": {authors}}}'
    assert [entry.author for entry in feed(document).entries] == ["Ann", "Bob"]


def test_m4_values_of_wrong_types_are_skipped_and_the_others_kept():
    read = entries(
        '1, null, "x", [], {"id": 7, "title": ["t"], "url": 1.5}, {"id": "b", "title": "B"}'
    )
    assert [(entry.id, entry.title) for entry in read] == [("7", ""), ("b", "B")]


@pytest.mark.parametrize(
    "odd",
    [
        '{"id": ' + "9" * 100_000 + "}",
        '{"id": NaN, "x": -Infinity}',
        '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"x": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}",
        '{"id": 1, "id": 2}',
        '{"x": "\x01"}',
        '{"x" 1}',
    ],
)
def test_m4_a_malformed_item_does_not_affect_its_neighbours(odd):
    read = entries(f'{{"id": "a", "title": "A"}}, {odd}, {{"id": "c", "title": "C"}}')
    assert {"A", "C"} <= {entry.title for entry in read}


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "[" * 100_000, '{"items": 3}', "{", "[]"])
def test_m4_a_malformed_document_is_no_feed(text):
    with pytest.raises(NotAFeed):
        feed(text)


GOOD = f'{{{VERSION}, "items": [{{"id": "a", "title": "A"}}, {{"id": "b", "title": "B"}}]}}'


@pytest.mark.parametrize("end", range(len(VERSION) + 2, len(GOOD)))
def test_r1_a_truncated_document_keeps_its_complete_items(end):
    read = feed(GOOD[:end])
    assert [entry.title for entry in read.entries] == [
        title for title in "AB" if f'"{title}"}}' in GOOD[:end]
    ]
    assert not read.complete or GOOD[:end].endswith("]")  # all items are there


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_r1_json_in_other_encodings(codec):
    assert len(parse_feed(GOOD.encode(codec), url=URL).entries) == 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("1771228800", datetime(2026, 2, 16, 8, tzinfo=UTC)),
        ("1771228800000", datetime(2026, 2, 16, 8, tzinfo=UTC)),
        ("12", None),
        ("1e400", None),
        ("9" * 5000, None),
        ("true", None),
    ],
)
def test_r2_a_date_may_be_a_number_of_seconds(value, date):
    (entry,) = entries(f'{{"id": "a", "date_published": {value}}}')
    assert entry.published_at == date


KEYS = ("id", "title", "url", "content_html", "content_text", "authors", "author", "date_published")


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, VALUES)), max_size=4))
def test_m4_any_value_in_any_position_is_accepted(items):
    text = json.dumps({"version": "https://jsonfeed.org/version/1", "items": items})
    assert len(feed(text).entries) == len(items)
