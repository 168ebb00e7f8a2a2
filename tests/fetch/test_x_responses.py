"""Responses of the X API become entries (X3), even malformed ones (M4)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BrokenBody, FetchError, TooExpensive
from tests.fetch.scripted_x_api import Reply, a_page, an_x_post, fetched, refused

# X3: posts


async def only_entry(post: dict[str, Any], **more: Any):
    answer, _ = await fetched(a_page(post, **more))
    (entry,) = answer.entries
    return entry


async def test_x3_a_post_becomes_a_complete_entry():
    entry = await only_entry(an_x_post(5, "One &amp; two &lt;3\n\nLine &quot;two&quot;"))
    assert entry.body == 'One & two <3\n\nLine "two"'
    assert entry.title == 'One & two <3 Line "two"'
    assert entry.url == "https://x.com/river/status/5"
    assert entry.author == "@river"
    assert entry.published_at == datetime(2026, 2, 16, 7, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("&amp;lt;", "&lt;"),
        ("a&copy=1", "a&copy=1"),
        ("&amp;amp;", "&amp;"),
        ("it&#39;s", "it's"),
        ("a\r\nb\x00\x1b[0m", "a\nb[0m"),
        ("\ud83d alone", "\ufffd alone"),
    ],
)
async def test_x3_entities_are_decoded_once_and_the_text_is_storable(text, body):
    assert (await only_entry(an_x_post(5, text))).body == body


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 100 + "..."),
        ("a\n" * 60, ("a " * 50) + "..."),
        ("&amp;" * 100, "&" * 100),
        ("🌊" * 101, "🌊" * 100 + "..."),
    ],
)
async def test_x3_a_title_is_the_first_100_characters_on_one_line(text, title):
    assert (await only_entry(an_x_post(5, text))).title == title


async def test_x3_a_long_post_has_its_whole_text():
    post = an_x_post(5, "cut…", note_tweet={"text": "cut? not &amp; at all"})
    assert (await only_entry(post)).body == "cut? not & at all"


@pytest.mark.parametrize(
    ("included", "body"),
    [
        ([an_x_post(4, "the whole text")], "the whole text"),
        ([an_x_post(4, "cut…", note_tweet={"text": "the whole long text"})], "the whole long text"),
        ([an_x_post(3, "another")], "RT @delta: the wh…"),
        (None, "RT @delta: the wh…"),
        ([{"id": "4"}, None, 7], "RT @delta: the wh…"),
    ],
)
async def test_x3_a_repost_has_the_text_of_its_original(included, body):
    references = [{"type": "replied_to", "id": "1"}, {"type": "retweeted", "id": "4"}]
    post = an_x_post(5, "RT @delta: the wh…", referenced_tweets=references)
    entry = await only_entry(post, includes={"tweets": included})
    assert entry.body == body
    assert entry.url == "https://x.com/river/status/5"


async def test_x3_a_quoted_post_stays_out():
    post = an_x_post(5, "my words", referenced_tweets=[{"type": "quoted", "id": "4"}])
    entry = await only_entry(post, includes={"tweets": [an_x_post(4, "theirs")]})
    assert entry.body == "my words"


@pytest.mark.parametrize(
    "date", [None, 5, "", "yesterday", "9999-12-31T23:59:59-12:00", "2026-13-01"]
)
async def test_m7_an_impossible_date_is_no_date(date):
    assert (await only_entry(an_x_post(5, created_at=date))).published_at is None


# M4: malformed JSON


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"data": [{"id": "9", "text": "cut o',
        b"[" * 40_000,
        b'{"a":' * 40_000,
        b"9" * 10_000,
        b"[]",
        b"null",
        b"{}",
        b'{"data": {"id": "9"}}',
        b'{"data": "text"}',
        b'{"meta": []}',
        b'{"data": [], "meta": {"next_token": 5}}',
        b'{"data": [], "meta": {"next_token": "a b"}}',
        b"\xff\xfe\x00",
    ],
)
async def test_m4_a_malformed_document_is_transient(body):
    assert isinstance(await refused(Reply(body)), BrokenBody)


@pytest.mark.parametrize("data", [None, [], {}, {"id": 42}, {"id": ""}, {"id": "4/2"}, {"id": "٣"}])
async def test_m4_a_user_without_an_id_is_transient(data):
    assert isinstance(await refused({"data": data}, last_seen_id=None), BrokenBody)


async def test_m4_malformed_posts_are_skipped_and_the_others_kept():
    odd: list[Any] = [
        None,
        5,
        [],
        {},
        {"id": 11, "text": "a number"},
        {"id": "1/2", "text": "a path"},
        {"id": "13"},
        {"id": "14", "text": ["list"]},
        {"id": "15", "text": {}, "note_tweet": 5, "referenced_tweets": {"type": "retweeted"}},
        {"id": "9" * 30, "text": "too long an id"},
    ]
    good = an_x_post(12, "good", referenced_tweets=[None, 5, {"type": "retweeted", "id": []}])
    answer, _ = await fetched(a_page(*odd, good, includes=[]))
    assert [entry.body for entry in answer.entries] == ["good"]
    assert answer.last_seen_id == "42:15"


async def test_m4_a_byte_order_mark_duplicate_keys_and_nan_are_accepted():
    body = '\ufeff{"x": NaN, "data": 1, "data": [{"id": "9", "text": "ok"}]}'.encode()
    answer, _ = await fetched(Reply(body))
    assert [entry.body for entry in answer.entries] == ["ok"]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "meta", "errors", "id", "text", "includes", "tweets", "type"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
async def test_m4_no_json_raises_anything_but_fetch_error(value):
    for last_seen_id in (None, "42:7"):
        try:
            await fetched(*[value] * 12, last_seen_id=last_seen_id)
        except FetchError:
            continue


async def test_h2_a_large_response_is_parsed_outside_the_event_loop():
    answer, _ = await fetched(a_page(*(an_x_post(n, "x, y " * 3000) for n in range(1, 101))))
    assert len(answer.entries) == 100


@pytest.mark.parametrize("item", [b"{}", b"[]", b'{"id":"1","text":"x"}', b"1"])
async def test_h2_too_many_tiny_values_are_refused_unparsed(item):
    body = b'{"data":[' + b",".join([item] * 600_000) + b"]}"
    assert isinstance(await refused(Reply(body)), TooExpensive)


async def test_h1_posts_that_all_repeat_one_long_text_are_refused():
    original = {"id": "1", "text": "a &amp; b " * 100_000}
    repeated = [{"type": "retweeted", "id": "1"}]
    posts = [an_x_post(n, "RT", referenced_tweets=repeated) for n in range(2, 102)]
    page = a_page(*posts, includes={"tweets": [original]})
    assert isinstance(await refused(page), TooExpensive)
