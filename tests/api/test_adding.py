"""Adding a source by what was pasted: recognition, detection, checks and duplicates (J1-J3)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headwater.demo.demo_web import Reply, Request
from headwater.engine.events import EventKind
from tests.api.conftest import DEFAULT, Answer, Served, serving, settings_in
from tests.api.scripted_hosts import feed, watch
from tests.system.conftest import web_of

SOURCES = f"{DEFAULT}/sources"
HTML = "text/html; charset=utf-8"
TEXT = b"The water of the river rises slowly in spring. " * 40
PAGE = b"<html><head><title>River</title></head><body><article><p>%s</p></article></body></html>"
FORM = b'<form action="/login"><input name="user"><input type="password" name="p"></form>'
FEED_LINK = b'<link rel="alternate" type="application/rss+xml" href="/feed.xml">'


def page(text: bytes = TEXT) -> Reply:
    return Reply(200, PAGE % text, HTML)


async def add(served: Served, url: str, query: str = "", **more: Any) -> Answer:
    return await served.post(f"{SOURCES}{query}", {"url": url} | more)


async def count_of(served: Served, what: str) -> int:
    return len((await served.get(f"{DEFAULT}/{what}")).json["items"])


async def test_j2_the_visit_that_detects_a_feed_is_its_first_poll(served_by_each: Served):
    served = served_by_each
    seen: list[EventKind] = []
    served.service.events.listen(lambda event: seen.append(event.kind))
    async with web_of(host=lambda _: feed("one", "two")) as web:
        added = await add(served, web.url("host"), includeHistory=True)
        assert added.status == 201
        await served.service.tick()  # it is not due
        await asyncio.sleep(0)
        assert len(web.visits) == 1
    source = added.json
    assert (source["type"], source["health"], source["postCount"]) == ("rss", "ok", 2)
    assert source["lastPolled"] == source["lastSuccessAt"] is not None
    assert source["nextPollAt"] > source["lastPolled"]
    (poll,) = (await served.get(f"{SOURCES}/{source['id']}/polls")).json["items"]
    assert (poll["outcome"], poll["newPosts"], poll["status"]) == ("stored", 2, 200)
    assert await count_of(served, "posts") == 2
    assert [kind for kind in seen if kind is not EventKind.TICK] == [
        EventKind.POST_CREATED,
        EventKind.POLL_FINISHED,
    ]


async def test_j2_a_page_is_detected_and_its_feeds_are_reported(served: Served):
    answer = Reply(200, page().body.replace(b"<title>", FEED_LINK + b"<title>"), HTML)
    async with web_of(host=lambda _: answer) as web:
        added = await add(served, web.url("host", "/"))
        assert len(web.visits) == 1
    assert (added.status, added.json["type"], added.json["postCount"]) == (201, "website", 1)
    assert [one["url"] for one in added.json["feeds"]] == [web.url("host", "/feed.xml")]


async def test_j2_the_next_poll_continues_after_the_visit(served: Served):
    async with web_of(host=lambda _: feed("one", "two")) as web:
        source = (await add(served, web.url("host"), includeHistory=True)).json
        polled = (await served.post(f"{SOURCES}/{source['id']}/poll")).json
    assert (polled["outcome"], polled["newPosts"]) == ("unchanged", 0)


def login(request: Request) -> Reply:
    if request.path != "/users/sign_in":
        return Reply(302, headers={"Location": "/users/sign_in"})
    return Reply(200, PAGE % (TEXT + FORM), HTML)


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        (login, "asks for a login"),
        (lambda _: Reply(200, PAGE % (b"Members only. " + FORM), HTML), "asks for a login"),
        (lambda _: Reply(401), "401"),
        (lambda _: Reply(404), "404"),
        (lambda _: Reply(500), "500"),
        (lambda _: Reply(200, b"", HTML), "no text"),
        (lambda _: Reply(200, b"<html></html>", HTML), "no text"),
        (lambda _: Reply(200, b"x" * (11 << 20), HTML), "more than 10485760 bytes"),
        (lambda _: None, "closed"),
        (lambda _: Reply(200, PAGE.replace(b"<title>", FEED_LINK + b"<title>") % b"", HTML),
         "/feed.xml"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("query", ["", "?check=true"])
async def test_j2_what_cannot_be_read_is_422_with_the_reason(
    served: Served, site: Any, reason: str, query: str
):
    more = {"type": "website"} if query else {}
    async with web_of(host=site) as web:
        refused = await add(served, web.url("host"), query, **more)
    assert refused.status == 422
    assert reason in refused.json["detail"]
    assert refused.json["errors"][0]["field"] == "url"
    assert refused.json["failureKind"]
    assert await count_of(served, "sources") == 0


async def test_j2_a_page_with_text_and_a_login_form_is_accepted(served: Served):
    async with web_of(host=lambda _: Reply(200, PAGE % (TEXT + FORM), HTML)) as web:
        assert (await add(served, web.url("host"))).status == 201


async def test_j2_a_large_page_is_accepted_or_refused_in_bounded_time(served: Served):
    paragraphs = b"<p>" + b"words of a long page " * 100 + b"</p>"
    large = PAGE % (paragraphs * ((9 << 20) // len(paragraphs)))
    async with web_of(host=lambda _: Reply(200, large, HTML)) as web:
        answer = await add(served, web.url("host"))
    assert answer.status in (201, 422), answer.body


async def test_j2_a_source_with_a_type_is_not_visited_unless_it_is_checked(served: Served):
    async with web_of(host=lambda _: page()) as web:
        assert (await add(served, web.url("host"), type="rss")).status == 201
        assert web.visits == []
        refused = await add(served, web.url("host"), "?check=true", type="rss")
        assert (refused.status, refused.json["failureKind"]) == (422, "parse")
        checked = await add(served, web.url("host"), "?check=true", type="website")
        assert (checked.status, checked.json["postCount"]) == (201, 1)
        assert len(web.visits) == 2
    assert await count_of(served, "sources") == 2


async def test_j2_a_disabled_source_is_detected_and_stores_nothing(served: Served):
    async with web_of(host=lambda _: feed("one")) as web:
        added = (await add(served, web.url("host"), includeHistory=True, enabled=False)).json
    assert (added["type"], added["health"], added["lastPolled"]) == ("rss", "disabled", None)
    assert await count_of(served, "posts") == 0


async def test_d5_the_first_poll_skips_what_other_sources_of_the_podcast_have(
    served_by_each: Served,
):
    served = served_by_each
    await served.put(DEFAULT, {"name": "default", "dedupeAcrossSources": True})
    async with web_of(a=lambda _: feed("one"), b=lambda _: feed("one", "two")) as web:
        await add(served, web.url("a"), includeHistory=True)
        second = (await add(served, web.url("b"), includeHistory=True)).json
    (poll,) = (await served.get(f"{SOURCES}/{second['id']}/polls")).json["items"]
    assert (poll["newPosts"], poll["skipped"]["duplicate"]) == (1, 1)


async def test_h1_a_feed_of_many_entries_is_stored_with_its_source(served_by_each: Served):
    served = served_by_each
    names = [f"entry {number}" for number in range(2500)]
    async with web_of(host=lambda _: feed(*names)) as web:
        added = (await add(served, web.url("host"), includeHistory=True)).json
    assert added["postCount"] == 2500


@pytest.mark.parametrize(
    ("pasted", "rule", "type_", "url"),
    [
        (
            "github.com/example/weir",
            "GitHub",
            "rss",
            "https://github.com/example/weir/releases.atom",
        ),
        ("@ann@social.invalid", "Mastodon", "rss", "https://social.invalid/@ann.rss"),
        ("@ann", "X", "twitter", "@ann"),
    ],
)
async def test_j1_a_known_address_is_added_without_a_visit(
    served: Served, pasted: str, rule: str, type_: str, url: str
):
    added = (await add(served, pasted)).json
    assert (added["recognisedAs"], added["type"], added["url"]) == (rule, type_, url)
    assert added["health"] == "new"


async def test_j1_a_lookup_takes_one_visit_and_finds_the_feed(served: Served):
    def profile(request: Request) -> Reply:
        link = f"{request.base_url}/@ann.rss"
        return Reply(200, f'<link rel="alternate" href="{link}">'.encode(), HTML)

    async with web_of(host=profile) as web:
        added = (await add(served, web.url("host", "/@ann"))).json
        assert [visit.path for visit in web.visits] == ["/@ann"]
    assert (added["recognisedAs"], added["url"]) == ("Mastodon", web.url("host", "/@ann.rss"))


async def test_j1_a_lookup_without_a_feed_detects_the_page_with_the_same_visit(served: Served):
    async with web_of(host=lambda _: page()) as web:
        added = (await add(served, web.url("host", "/@ann"))).json
        assert len(web.visits) == 1
    assert (added["recognisedAs"], added["type"], added["postCount"]) == (None, "website", 1)


async def test_j1_a_preview_names_the_rule(served: Served):
    def site(request: Request) -> Reply:
        if request.path == "/@ann.rss":
            return feed("one")
        return Reply(200, f"{request.base_url}/@ann.rss".encode(), HTML)

    async with web_of(host=site) as web:
        found = (await served.post(f"{SOURCES}/preview", {"url": web.url("host", "/@ann")})).json
    assert (found["recognisedAs"], found["type"]) == ("Mastodon", "rss")
    assert found["url"] == web.url("host", "/@ann.rss")


async def test_j3_a_duplicate_is_reported_or_refused(served_by_each: Served):
    served = served_by_each
    url = "https://feeds.invalid/news"
    first = (await add(served, url, type="rss")).json
    second = await add(served, "HTTPS://Feeds.invalid:443/news", type="rss")
    assert first["duplicateOf"] is None
    again = await add(served, url, type="rss")
    assert (again.status, again.json["duplicateOf"]) == (201, first["id"])
    refused = await add(served, url, "?unique=true", type="rss")
    assert (refused.status, refused.json["duplicateOf"]) == (409, first["id"])
    assert second.status == 201
    assert (await add(served, f"{url}/2", "?unique=true", type="rss")).status == 201
    other = await served.post("/api/users/default/podcasts", {"name": "other"})
    path = f"{other.headers['Location']}/sources?unique=true"
    assert (await served.post(path, {"url": url, "type": "rss"})).status == 201


async def test_j3_a_duplicate_is_refused_without_a_visit(served: Served):
    async with web_of(host=lambda _: feed()) as web:
        await watch(served, web.url("host"))
        assert (await add(served, web.url("host"), "?unique=true")).status == 409
        assert web.visits == []


async def test_j3_of_concurrent_requests_for_a_unique_source_one_succeeds(served_by_each: Served):
    served = served_by_each
    wanted = [add(served, "https://a.invalid/", "?unique=true", type="rss") for _ in range(6)]
    answers = await asyncio.gather(*wanted)
    assert sorted(answer.status for answer in answers) == [201] + [409] * 5


async def test_u8_a_source_over_the_limit_is_refused_without_a_visit(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-sources-per-user": 1})
    async with serving(settings) as served, web_of(host=lambda _: feed()) as web:
        await watch(served, web.url("host", "/first"))
        assert (await add(served, web.url("host"))).status == 413
        assert web.visits == []


async def test_y8_a_user_causes_a_limited_number_of_visits(served: Served):
    token = await served.person("ann")
    path = "/api/users/ann/podcasts/ann/sources"
    async with web_of(host=lambda _: feed()) as web:
        bodies = [{"url": web.url("host", f"/{number}")} for number in range(11)]
        statuses = [(await served.post(path, body, token=token)).status for body in bodies]
    assert statuses == [201] * 10 + [429]
