"""A podcast's articles for feed readers, over the API."""

import json
from typing import Any

import feedparser
import pytest

from headwater.fetch import read_feed
from headwater.formats.article_feeds import ATOM, JSON_FEED
from tests.api.conftest import DEFAULT, Answer, Served
from tests.api.stored_data import articles_of, posts_of, refusal, source_of

TYPES = {"feed.atom": ATOM, "feed.json": JSON_FEED}
BOTH = pytest.mark.parametrize("name", list(TYPES))


def entries(name: str, answer: Answer) -> list[Any]:
    assert answer.status == 200
    assert answer.headers["Content-Type"] == TYPES[name]
    return read_feed(answer.body, content_type=TYPES[name], url="http://127.0.0.1/")


@BOTH
async def test_readers_get_the_newest_articles(served_by_each: Served, name: str):
    served = served_by_each
    source = await source_of(served)
    posts = await posts_of(served, source, "a & b", "<b>c</b>", "d", author="Ann <3")
    ids = await articles_of(served)

    found = entries(name, await served.get(f"{DEFAULT}/{name}"))
    assert [entry.id for entry in found] == [f"urn:uuid:{article_id}" for article_id in ids]
    assert [entry.body for entry in found] == ["a & b", "<b>c</b>", "d"]
    assert [(e.title, e.url, e.author) for e in found] == [
        (p.title, p.url, p.author) for p in posts
    ]

    shorter = entries(name, await served.get(f"{DEFAULT}/{name}?limit=2"))
    assert shorter == found[:2]
    await served.post(f"{DEFAULT}/articles/processed", {"ids": ids})
    assert entries(name, await served.get(f"{DEFAULT}/{name}")) == found


async def test_a_feed_names_its_own_url_and_its_podcast(served: Served):
    made = await served.post("/api/users/default/podcasts", {"name": "Fish & <Chips>"})
    podcast = made.json["id"]
    own = f"/api/users/default/podcasts/{podcast}"
    by_name = "/api/users/default/podcasts/Fish%20&%20%3CChips%3E"

    seen = feedparser.parse((await served.get(f"{by_name}/feed.atom?limit=2")).body)
    assert not seen.bozo
    assert (seen.version, seen.feed.title) == ("atom10", "Fish & <Chips>")
    assert seen.feed.id == f"urn:uuid:{podcast}"
    assert [(link.rel, link.href) for link in seen.feed.links] == [
        ("self", f"{served.url}{own}/feed.atom?limit=2")
    ]
    assert json.loads((await served.get(f"{by_name}/feed.json")).body) == {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Fish & <Chips>",
        "feed_url": f"{served.url}{own}/feed.json",
        "items": [],
    }


@BOTH
async def test_a_reader_with_the_newest_articles_gets_304(served_by_each: Served, name: str):
    served = served_by_each
    path = f"{DEFAULT}/{name}"
    source = await source_of(served)
    empty = await served.get(path)
    assert entries(name, empty) == []
    await posts_of(served, source, "a")
    await articles_of(served)
    first = await served.get(path)
    tag = first.headers["ETag"]
    assert tag.startswith('"')
    assert tag != empty.headers["ETag"]
    assert first.headers["Cache-Control"] == "private, no-cache"

    for condition in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        same = await served.get(path, headers={"If-None-Match": condition})
        assert (same.status, same.body) == (304, b""), condition
        assert (same.headers["ETag"], same.headers["Cache-Control"]) == (tag, "private, no-cache")
    for condition in ('"other"', tag.strip('"'), "", empty.headers["ETag"]):
        new = await served.get(path, headers={"If-None-Match": condition})
        assert (new.status, new.body) == (200, first.body), condition

    await posts_of(served, source, "b")
    await articles_of(served)
    changed = await served.get(path, headers={"If-None-Match": tag})
    assert len(entries(name, changed)) == 2


@BOTH
async def test_u2_feeds_of_others_are_not_found(served: Served, name: str):
    ann = await served.person("ann")
    await served.person("bob")
    assert (await served.get(f"/api/users/ann/podcasts/ann/{name}", token=ann)).status == 200
    foreign = await served.get(f"/api/users/bob/podcasts/bob/{name}", token=ann)
    unknown = await served.get(f"/api/users/eve/podcasts/bob/{name}", token=ann)
    assert refusal(foreign) == (404, "there is no user 'bob'")
    assert refusal(unknown) == (404, "there is no user 'eve'")
    assert (await served.get(f"/api/users/ann/podcasts/ann/{name}")).status == 401


@BOTH
async def test_the_length_of_a_feed_has_a_limit(served: Served, name: str):
    for limit in ("0", "501", "many"):
        answer = await served.get(f"{DEFAULT}/{name}?limit={limit}")
        assert refusal(answer)[0] == 422
