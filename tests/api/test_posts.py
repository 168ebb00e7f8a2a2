"""Posts and the history of polls over the API."""

from datetime import timedelta

import pytest

from headwater.model import SkipReason
from tests.api.conftest import DEFAULT, Served
from tests.api.filling import failed, polled, posts_of, refusal, source_of, walked
from tests.store.pieces import NOW


async def test_posts_of_a_source_come_newest_first_in_pages(served_by_each: Served):
    served = served_by_each
    source, other = await source_of(served), await source_of(served)
    posts = await posts_of(served, source, "a", "b", "c", "d", "e")
    await posts_of(served, other, "x")

    pages = await walked(served, f"{DEFAULT}/sources/{source.id}/posts?limit=2")
    assert [[post["body"] for post in page] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert pages[0][0] == {
        "id": posts[0].id,
        "sourceId": source.id,
        "title": posts[0].title,
        "body": "a",
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


async def test_new_posts_disturb_no_one_who_is_paging(served_by_each: Served):
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


async def test_lists_of_a_source_without_anything_are_empty(served: Served):
    source = await source_of(served)
    for what in ("posts", "polls"):
        answer = await served.get(f"{DEFAULT}/sources/{source.id}/{what}")
        assert answer.json == {"items": [], "nextCursor": None}


@pytest.mark.parametrize("what", ["posts", "polls"])
async def test_u2_a_foreign_source_is_the_same_as_none(served_by_each: Served, what: str):
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
