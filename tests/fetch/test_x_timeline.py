"""X timelines: keys and requests (X1, X2)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bench.scores.x import REFUSALS, scored

from headwater.errors import FetchError, KeyMissing
from headwater.fetch.x.timeline import MAX_PAGES, XTimelines
from tests.fetch.scripted_x_api import (
    KEY,
    NOTHING_NEW,
    NOW,
    USER,
    Reply,
    Script,
    a_page,
    an_x_post,
    an_x_source,
    fetched,
)

# X1: keys


@pytest.mark.parametrize("key", [None, "", "  ", "with space", "line\nbreak", "schlüssel"])
async def test_x1_without_a_usable_key_nothing_is_sent_and_the_error_says_what_to_do(key):
    script = Script([])
    timelines = XTimelines(script, base_url="https://api.example")
    with pytest.raises(KeyMissing, match="headwater keys set x --user NAME` or PUT /api/"):
        await timelines.fetch(an_x_source(), key, start_time=None, now=NOW)
    assert script.urls == []


async def test_x1_the_owners_key_is_sent_with_every_request():
    _, script = await fetched(
        USER, a_page(an_x_post(1), next_token="t"), a_page(), last_seen_id=None
    )
    assert [sent["Authorization"] for sent in script.sent] == [f"Bearer {KEY}"] * 3


# X2: requests


async def test_x2_the_name_is_resolved_once_and_the_timeline_read_from_start_time():
    start = datetime(2026, 2, 9, 8, 0, 0, 999000, tzinfo=UTC)
    answer, script = await fetched(
        USER, a_page(an_x_post(11), an_x_post(10)), last_seen_id=None, start_time=start
    )
    assert script.urls[0] == "https://api.example/2/users/by/username/river"
    assert script.paths[1] == "/2/users/42/tweets"
    assert script.queries[1] == {
        "max_results": "100",
        "tweet.fields": "created_at,note_tweet,referenced_tweets,conversation_id,"
        "in_reply_to_user_id",
        "expansions": "referenced_tweets.id",
        "start_time": "2026-02-09T08:00:00Z",
    }
    assert answer.last_seen_id == "42:11"
    assert answer.status == 200
    assert answer.size > 100


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({"conversation_id": "9"}, "9"),
        ({"conversation_id": "5", "in_reply_to_user_id": "42"}, "5"),
        ({"conversation_id": "5", "in_reply_to_user_id": "43"}, None),
        ({"in_reply_to_user_id": "42"}, None),
        ({"conversation_id": 5}, None),
        ({"conversation_id": "5 OR 1"}, None),
        ({}, None),
    ],
)
async def test_e3_a_post_has_its_conversation_unless_it_answers_another_user(fields, stored):
    answer, _ = await fetched(a_page(an_x_post(9, **fields)))
    assert [entry.conversation_id for entry in answer.entries] == [stored]


async def test_x2_later_polls_request_by_id_only():
    answer, script = await fetched(NOTHING_NEW, last_seen_id="42:7", start_time=NOW)
    assert script.paths == ["/2/users/42/tweets"]
    assert script.queries[0]["since_id"] == "7"
    assert "start_time" not in script.queries[0]
    assert (answer.entries, answer.last_seen_id) == ((), "42:7")


async def test_x2_while_there_is_no_post_there_is_no_since_id():
    answer, script = await fetched(USER, NOTHING_NEW, last_seen_id=None)
    assert answer.last_seen_id == "42:"
    assert "start_time" not in script.queries[1]


@pytest.mark.parametrize(
    ("include_history", "start"), [(False, "2026-02-16T07:59:30Z"), (True, None)]
)
async def test_d3_an_empty_first_visit_does_not_admit_history_at_the_second(include_history, start):
    _, script = await fetched(NOTHING_NEW, last_seen_id="42:", include_history=include_history)
    assert script.queries[0].get("start_time") == start


@pytest.mark.parametrize(
    ("start", "sent"),
    [
        (NOW, "2026-02-16T07:59:30Z"),
        (NOW + timedelta(days=400), "2026-02-16T07:59:30Z"),
        (datetime(1970, 1, 1, tzinfo=UTC), "2010-11-06T00:00:01Z"),
    ],
)
async def test_x2_start_time_is_one_that_x_accepts(start, sent):
    _, script = await fetched(USER, NOTHING_NEW, last_seen_id=None, start_time=start)
    assert script.queries[1]["start_time"] == sent


async def test_x2_pages_follow_their_tokens_and_an_empty_one_is_not_the_end():
    answer, script = await fetched(
        a_page(an_x_post(30), next_token="two"),
        {"meta": {"result_count": 0, "next_token": "three"}},
        a_page(an_x_post(10)),
    )
    assert [query.get("pagination_token") for query in script.queries] == [None, "two", "three"]
    assert {query["since_id"] for query in script.queries} == {"7"}
    assert [entry.id for entry in answer.entries] == ["30", "10"]
    assert answer.last_seen_id == "42:30"


async def test_x2_at_most_ten_pages_are_fetched():
    pages = [a_page(an_x_post(100 - n), next_token=f"t{n}") for n in range(MAX_PAGES)]
    answer, script = await fetched(*pages)
    assert len(script.urls) == len(answer.entries) == 10


@pytest.mark.parametrize(
    "second", [Reply(b"", 500), Reply(b'{"data": [{"id"'), FetchError("broken"), {"data": 5}]
)
async def test_x2_a_failed_page_fails_the_poll(second):
    with pytest.raises(FetchError):
        await fetched(a_page(an_x_post(30), next_token="two"), second)


async def test_x2_entries_come_newest_first_each_once_in_the_order_of_their_ids():
    answer, _ = await fetched(
        a_page(an_x_post(99), an_x_post(100), an_x_post(9), next_token="t"),
        a_page(an_x_post(99), an_x_post(8)),
    )
    assert [entry.id for entry in answer.entries] == ["100", "99", "9", "8"]


@pytest.mark.parametrize("ids", [["9", "10"], ["10", "9"]])
async def test_x2_the_newest_id_is_the_greatest_number_and_never_decreases(ids):
    answer, _ = await fetched(a_page(*(an_x_post(int(id_)) for id_ in ids)), last_seen_id="42:8")
    assert answer.last_seen_id == "42:10"
    answer, _ = await fetched(a_page(*(an_x_post(int(id_)) for id_ in ids)), last_seen_id="42:99")
    assert answer.last_seen_id == "42:99"


@pytest.mark.parametrize("last_seen_id", ["2026-02-16T08:00:00.000Z", ":", "a:b", "42", "42:7:1"])
async def test_x2_an_invalid_last_seen_id_means_resolving_again(last_seen_id):
    answer, script = await fetched(USER, a_page(an_x_post(9)), last_seen_id=last_seen_id)
    assert script.paths[0] == "/2/users/by/username/river"
    assert answer.last_seen_id == "42:9"


# Samples of the API


@pytest.mark.corpus
async def test_x2_x3_x4_the_api_samples_give_the_expected_results(corpus: Path):
    result = await scored(corpus / "xapi")
    assert result.wrong == ()
    assert (result.posts_right, result.refusals_right) == (14, len(REFUSALS))
