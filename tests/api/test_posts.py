"""Posts and the history of polls over the API."""

from datetime import timedelta

import pytest

from headwater.model import SkipReason, SourceType
from headwater.store.expired_rows import old_polls
from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import articles_of, failed, polled, posts_of, refusal, source_of, walked
from tests.store.store_data import NOW, a_post_of, a_success


async def test_posts_of_a_source_come_newest_first_in_pages(served_by_each: Served):
    served = served_by_each
    source, other = await source_of(served), await source_of(served)
    posts = await posts_of(served, source, "a", "b", "c", "d", "e")
    await posts_of(served, other, "x")

    pages = await walked(served, f"{DEFAULT}/sources/{source.id}/posts?limit=2")
    assert [[post["body"] for post in page] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert pages[0][0] == {
        "id": posts[0].id,
        "seq": posts[0].seq,
        "sourceId": source.id,
        "title": posts[0].title,
        "body": "a",
        "markdown": None,
        "enclosures": [],
        "categories": [],
        "language": None,
        "imageUrl": None,
        "completeness": None,
        "textFrom": None,
        "fullTextError": None,
        "expiresAt": f"{posts[0].created_at + timedelta(days=7):%Y-%m-%dT%H:%M:%S}.000Z",
        "score": None,
        "annotations": None,
        "storyId": None,
        "alsoFrom": [],
        "filteredBy": None,
        "url": posts[0].url,
        "publishedAt": None,
        "author": "Ada",
        "contentHash": posts[0].content_hash,
        "createdAt": f"{posts[0].created_at:%Y-%m-%dT%H:%M:%S}.000Z",
    }


async def test_posts_of_a_podcast_are_those_of_all_its_sources(served_by_each: Served):
    served = served_by_each
    await served.person("ann")
    served.token = await served.admin()
    sources = [await source_of(served), await source_of(served)]
    mine = [post for source in sources for post in await posts_of(served, source, source.id)]
    await posts_of(served, await source_of(served, "ann"), "hers")

    (page,) = await walked(served, f"{DEFAULT}/posts")
    assert sorted(post["id"] for post in page) == sorted(post.id for post in mine)


async def test_new_posts_do_not_disturb_paging(served_by_each: Served):
    served = served_by_each
    source = await source_of(served)
    old = await posts_of(served, source, *"abcdef")
    path = f"{DEFAULT}/sources/{source.id}/posts?limit=2"
    seen = (await served.get(path)).json
    ids = [post["id"] for post in seen["items"]]
    number = 0
    while seen["nextCursor"] is not None:
        number += 1
        await posts_of(served, source, f"new {number}")
        seen = (await served.get(f"{path}&cursor={seen['nextCursor']}")).json
        ids += [post["id"] for post in seen["items"]]
    assert number == 2
    assert ids == [post.id for post in old]


async def test_the_history_of_polls_comes_newest_first_in_pages(served_by_each: Served):
    served = served_by_each
    source, other = await source_of(served), await source_of(served)
    await polled(served, source, skipped={SkipReason.TOO_OLD: 3})
    await polled(served, other)
    await failed(served, source)
    moved = "https://example.org/new"
    started = NOW + timedelta(hours=1)
    await polled(served, source, redirected_to=moved, started_at=started, status=304)

    path = f"{DEFAULT}/sources/{source.id}/polls?limit=1"
    last, failure, first = [page[0] for page in await walked(served, path)]
    assert (last["status"], last["redirectedTo"]) == (304, moved)
    assert (failure["outcome"], failure["failureType"]) == ("failed", "transient")
    assert failure["error"] == "timed out after 10 s"
    assert first == {
        "startedAt": "2026-02-17T11:59:59.000Z",
        "outcome": "unchanged",
        "status": 200,
        "durationMs": 412,
        "bytes": 4711,
        "newPosts": 0,
        "skipped": {
            "alreadySeen": 0,
            "duplicate": 0,
            "tooOld": 3,
            "beforeCreation": 0,
            "empty": 0,
        },
        "failureType": None,
        "failureKind": None,
        "error": None,
        "redirectedTo": None,
    }


async def test_c4_polls_are_counted_by_day_newest_first_in_pages(served_by_each: Served):
    served = served_by_each
    source = await source_of(served)
    start = NOW.replace(hour=10, minute=0, second=0, microsecond=0)
    for days in (3, 2, 1):
        await polled(served, source, started_at=start - timedelta(days=days), duration_ms=20)
    await failed(served, source, started_at=start - timedelta(days=1) + timedelta(hours=2))
    path = f"{DEFAULT}/sources/{source.id}/poll-days?limit=2"

    before = await walked(served, path)
    await served.app.store.clean(old_polls(1), NOW, 1000)
    assert await walked(served, path) == before
    assert [[day["day"] for day in page] for page in before] == [
        [f"{start - timedelta(days=days):%Y-%m-%d}" for days in page] for page in ((1, 2), (3,))
    ]
    newest = before[0][0]
    assert (newest["stored"], newest["unchanged"], newest["failed"]) == (0, 1, 1)
    assert sum(newest["failures"].values()) == 1
    assert newest["firstAt"] == f"{start - timedelta(days=1):%Y-%m-%dT%H:%M:%S}.000Z"


async def test_lists_of_a_source_without_anything_are_empty(served: Served):
    source = await source_of(served)
    for what in ("posts", "polls", "poll-days"):
        answer = await served.get(f"{DEFAULT}/sources/{source.id}/{what}")
        assert answer.json == {"items": [], "nextCursor": None}


@pytest.mark.parametrize("what", ["posts", "polls", "poll-days"])
async def test_u2_a_foreign_source_is_not_found(served_by_each: Served, what: str):
    served = served_by_each
    ann, bob = await served.person("ann"), await served.person("bob")
    source = await source_of(served, "bob")
    own = f"/api/users/ann/podcasts/ann/sources/{{}}/{what}"

    unknown = await served.get(own.format("nobody"), token=ann)
    foreign = await served.get(own.format(source.id), token=ann)
    assert refusal(unknown) == (404, "there is no source nobody")
    assert refusal(foreign) == (404, f"there is no source {source.id}")
    theirs = f"/api/users/bob/podcasts/bob/sources/{source.id}/{what}"
    assert (await served.get(theirs, token=ann)).status == 404
    assert (await served.get(theirs, token=bob)).status == 200
    assert (await served.get("/api/users/bob/podcasts/bob/posts", token=ann)).status == 404


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "cursor=x", "cursor=WzFd"])
async def test_wrong_paging_is_refused_with_its_name(served: Served, query: str):
    answer = await served.get(f"{DEFAULT}/posts?{query}")
    assert refusal(answer)[0] == 422
    assert answer.json["errors"][0]["field"] == query.partition("=")[0]


async def test_w5_a_post_of_a_page_is_compared_with_the_version_before(served_by_each: Served):
    served = served_by_each
    page, other = [await source_of(served, type=SourceType.WEBSITE) for _ in range(2)]
    (first,) = await posts_of(served, page, "Mill open", page_text="Mill\nopen")
    await posts_of(served, other, "Something else")
    text = "Mill\nclosed\nBy order."
    (second,) = await posts_of(served, page, "Mill closed By order.", page_text=text)

    assert (await served.get(f"{DEFAULT}/posts/{second.id}/diff")).json == {
        "from": first.id,
        "parts": [
            {"op": "same", "text": "Mill\n"},
            {"op": "removed", "text": "open"},
            {"op": "added", "text": "closed\nBy order."},
        ],
    }
    assert (await served.get(f"{DEFAULT}/posts/{first.id}/diff")).json == {
        "from": None,
        "parts": [{"op": "added", "text": "Mill\nopen"}],
    }


async def test_w5_a_version_stored_without_lines_is_compared_by_sentences(served: Served):
    page = await source_of(served, type=SourceType.WEBSITE)
    await posts_of(served, page, "Prices Gold is up. Silver too.")
    text = "Prices\nGold is up. Tin too."
    (second,) = await posts_of(served, page, "Prices Gold is up. Tin too.", page_text=text)
    assert (await served.get(f"{DEFAULT}/posts/{second.id}/diff")).json["parts"] == [
        {"op": "same", "text": "Prices Gold is up. "},
        {"op": "removed", "text": "Silver too."},
        {"op": "added", "text": "Tin too."},
    ]


async def test_w5_posts_of_feeds_have_no_versions(served: Served):
    feed = await source_of(served)
    newer, _ = await posts_of(served, feed, "Newer.", "Older.")
    assert (await served.get(f"{DEFAULT}/posts/{newer.id}/diff")).json == {
        "from": None,
        "parts": [{"op": "added", "text": "Newer."}],
    }
    assert refusal(await served.get(f"{DEFAULT}/posts/nothing/diff"))[0] == 404


async def test_b3_lists_of_posts_and_articles_are_limited_to_a_source_and_dates(
    served_by_each: Served,
):
    served = served_by_each
    source, other = await source_of(served), await source_of(served)
    now = served.app.clock.now().replace(hour=12, minute=0, second=0, microsecond=0)
    days = [now - timedelta(days=n + 1) for n in range(4)]
    for n, day in enumerate(days):
        post = a_post_of(source, f"day {n}", created_at=day, published_at=None)
        outcome = a_success(await served.app.store.sources.get(source.id), [post])
        assert (await served.app.store.record(outcome)).recorded
    await posts_of(served, other, "of another source")
    await articles_of(served)

    async def bodies(query: str) -> list[str]:
        listed = []
        for kind in ("posts", "articles"):
            pages = await walked(served, f"{DEFAULT}/{kind}?limit=2&{query}")
            listed.append([item["body"] for page in pages for item in page])
        assert listed[0] == listed[1]
        return listed[0]

    at = [f"{day:%Y-%m-%dT%H:%M:%S}Z" for day in days]
    assert await bodies(f"source={source.id}") == ["day 0", "day 1", "day 2", "day 3"]
    assert await bodies(f"source={source.id}&since={at[1]}") == ["day 0", "day 1"]
    assert await bodies(f"source={source.id}&until={at[1]}") == ["day 2", "day 3"]
    assert await bodies(f"since={at[2]}&until={at[0]}") == ["day 1", "day 2"]
    assert await bodies(f"until={days[2]:%Y-%m-%d}") == ["day 3"]
    assert await bodies("since=9999-01-01&until=1969-01-01") == []


@pytest.mark.parametrize("query", ["since=yesterday", "until=2026-02-30", "since=2026-01-01T08:00"])
async def test_b3_an_invalid_date_is_refused(served: Served, query: str):
    answer = await served.get(f"{DEFAULT}/posts?{query}")
    assert answer.status == 422
    assert "must be a date or a time with its offset" in answer.json["detail"]


async def test_b3_a_source_that_does_not_exist_is_not_found(served: Served):
    answer = await served.get(f"{DEFAULT}/articles?source=nowhere")
    assert refusal(answer) == (404, "there is no source nowhere")
