"""Watching parts of web pages, from the setting to the stored posts (W4-W7)."""

import json
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.demo.demo_web import Reply, Request
from headwater.store.expired_rows import old_posts
from headwater.watch_settings import WatchSettings
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.api.scripted_hosts import watch
from tests.system.conftest import web_of

TEXT = "The river rose during the night and the meadows were flooded by the morning. " * 3


class Page:
    """A page that a test changes between polls."""

    def __init__(self) -> None:
        self.clock, self.text, self.headline = "12:00", TEXT, "h1"

    def __call__(self, _: Request) -> Reply:
        html = (
            f"<html><title>River</title><body><nav>Home</nav><main><{self.headline}>River"
            f"</{self.headline}><p class='clock'>It is {self.clock}</p><p>{self.text}</p></main>"
        )
        return Reply(200, html.encode(), "text/html")


async def bodies(served: Served) -> list[str]:
    answer = await served.get(f"{DEFAULT}/posts")
    return [post["body"] for post in answer.json["items"]]


async def poll(served: Served, source: str) -> dict[str, Any]:
    outcome: dict[str, Any] = (await served.post(f"{source}/poll")).json
    return outcome


async def test_w4_a_page_that_differs_only_in_ignored_lines_is_unchanged(served_by_each: Served):
    served, page = served_by_each, Page()
    settings = {"include": ["main"], "ignore": ["it is #:#"]}
    async with web_of(host=page) as web:
        source = await watch(served, web.url("host", "/"), type="website", watch=settings)
        assert (await poll(served, source))["newPosts"] == 1
        page.clock = "12:01"
        assert (await poll(served, source))["outcome"] == "unchanged"
        page.text = "The water is falling."
        assert (await poll(served, source))["newPosts"] == 1
    assert await bodies(served) == [
        "River It is 12:01 The water is falling.",
        f"River It is 12:00 {TEXT.strip()}",
    ]


async def test_w4_other_selectors_apply_to_the_same_page_at_the_next_poll(served: Served):
    async with web_of(host=Page()) as web:
        source = await watch(served, web.url("host", "/"), type="website")
        await poll(served, source)
        edited = await served.patch(source, {"watch": {"include": ["h1"]}})
        assert edited.json["watch"] == {
            "include": ["h1"], "exclude": [], "ignore": [], "deliver": "page"
        }  # fmt: skip
        assert (await poll(served, source))["newPosts"] == 1
    assert (await bodies(served))[0] == "River"


async def test_w7_an_include_that_matches_nothing_is_transient_and_stores_nothing(served: Served):
    page = Page()
    async with web_of(host=page) as web:
        source = await watch(
            served, web.url("host", "/"), type="website", watch={"include": ["h1"]}
        )
        await poll(served, source)
        page.headline = "h2"
        outcome = await poll(served, source)
        shown = (await served.get(source)).json
        page.headline = "h1"
        recovered = await poll(served, source)
    assert (outcome["outcome"], outcome["failureType"]) == ("failed", "transient")
    assert outcome["failureKind"] == "selector"
    assert "matches the selectors h1" in outcome["error"]
    assert (shown["consecutiveFailures"], shown["postCount"]) == (1, 1)
    assert recovered["outcome"] == "unchanged"


async def test_w5_later_posts_have_only_what_is_new(served_by_each: Served):
    served, page = served_by_each, Page()
    settings = {"include": ["main"], "ignore": ["It is #:#"], "deliver": "additions"}
    texts = ("One. Two.", "One. Two. Three.", "One. Three.", "One. Three. Four.", "One. Two.")
    async with web_of(host=page) as web:
        source = await watch(served, web.url("host", "/"), type="website", watch=settings)
        polls = []
        for number, text in enumerate(texts):
            page.clock, page.text = f"12:0{number}", text
            polls.append(await poll(served, source))
    assert [one["newPosts"] for one in polls] == [1, 1, 0, 1, 0]
    assert [one["skipped"]["duplicate"] for one in polls] == [0, 0, 1, 0, 1]
    assert await bodies(served) == ["Four.", "Three.", "River It is 12:00 One. Two."]
    newest, *_ = (await served.get(f"{DEFAULT}/posts")).json["items"]
    assert newest["markdown"] == "Four."
    diff = (await served.get(f"{DEFAULT}/posts/{newest['id']}/diff")).json
    text = "".join(one["text"] for one in diff["parts"] if one["op"] != "removed")
    assert text == "River\nIt is 12:03\nOne. Three. Four."  # the diff has whole pages


async def test_w5_what_is_new_is_known_after_the_previous_post_was_cleaned_up(
    served_by_each: Served,
):
    served, page = served_by_each, Page()
    settings = {"include": ["main"], "exclude": [".clock"], "deliver": "additions"}
    async with web_of(host=page) as web:
        source = await watch(served, web.url("host", "/"), type="website", watch=settings)
        await poll(served, source)
        later = served.app.clock.now() + timedelta(days=30)
        assert await served.app.store.clean(old_posts(7), later, 100) == 1
        page.text = f"{TEXT}The water is falling."
        await poll(served, source)
    assert await bodies(served) == ["The water is falling."]


async def noisy_page(served: Served, page: Page, url: str) -> str:
    """A watched page whose clock has made three posts."""
    source = await watch(served, url, type="website", watch={"include": ["main"]})
    for minute in range(3):
        page.clock = f"12:0{minute}"
        assert (await poll(served, source))["newPosts"] == 1
    return source


async def test_w6_noise_is_suggested_to_be_ignored_and_accepting_ends_it(served_by_each: Served):
    served, page = served_by_each, Page()
    async with web_of(host=page) as web:
        source = await noisy_page(served, page, web.url("host", "/"))
        before = await served.get(source)
        (suggestion,) = before.json["suggestions"]
        assert suggestion["kind"] == "ignore"
        assert suggestion["ignore"] == ["It is #:#"]
        (listed,) = (await served.get(f"{DEFAULT}/sources")).json["items"]
        assert listed["suggestions"] == [suggestion]

        accept = f"{source}/suggestions/{suggestion['id']}/accept"
        accepted = await served.post(accept)
        assert accepted.status == 200
        assert accepted.json["watch"]["ignore"] == ["It is #:#"]
        assert accepted.json["watch"]["include"] == ["main"]
        assert accepted.json["suggestions"] == []
        assert accepted.headers["ETag"] != before.headers["ETag"]
        again = await served.post(accept)
        assert (again.status, again.json["watch"]) == (200, accepted.json["watch"])

        for minute in range(3, 9):  # nor is there one more post because of the setting itself
            page.clock = f"12:0{minute}"
            assert (await poll(served, source))["newPosts"] == 0
        page.text = "The water is falling."
        assert (await poll(served, source))["newPosts"] == 1
    entries = (await served.get("/api/audit")).json["items"]
    assert [one["action"] for one in entries].count("suggestion.accept") == 1


async def test_w6_a_suggestion_that_no_longer_applies_is_gone(served: Served):
    page = Page()
    async with web_of(host=page) as web:
        source = await noisy_page(served, page, web.url("host", "/"))
        (suggestion,) = (await served.get(source)).json["suggestions"]
        page.text = "The water is falling."
        await poll(served, source)
        assert (await served.get(source)).json["suggestions"] == []
    for path in (f"{suggestion['id']}/accept", "unknown/accept"):
        assert (await served.post(f"{source}/suggestions/{path}")).status == 404


@pytest.mark.parametrize(
    "change",
    [
        {"watch": {"ignore": ["It is *"]}},
        {"url": "http://127.9.9.9/other"},
        {"type": "rss", "watch": None},
    ],
)
async def test_w6_an_edit_of_the_page_removes_its_suggestion(
    served: Served, change: dict[str, Any]
):
    page = Page()
    async with web_of(host=page) as web:
        source = await noisy_page(served, page, web.url("host", "/"))
        assert len((await served.patch(source, {"label": "River"})).json["suggestions"]) == 1
        assert (await served.patch(source, change)).json["suggestions"] == []


async def test_w6_a_dismissed_suggestion_is_not_made_again(served_by_each: Served):
    served, page = served_by_each, Page()
    async with web_of(host=page) as web:
        source = await noisy_page(served, page, web.url("host", "/"))
        (suggestion,) = (await served.get(source)).json["suggestions"]
        dismissed = await served.delete(f"{source}/suggestions/{suggestion['id']}")
        assert dismissed.status == 204
        page.clock = "12:09"
        assert (await poll(served, source))["newPosts"] == 1
        assert (await served.get(source)).json["suggestions"] == []


async def test_w6_a_suggestion_for_which_the_settings_have_no_room_changes_nothing(
    served: Served,
):
    page = Page()
    async with web_of(host=page) as web:
        source = await noisy_page(served, page, web.url("host", "/"))
        (suggestion,) = (await served.get(source)).json["suggestions"]
        store, id_ = served.app.store, source.rpartition("/")[2]
        full = WatchSettings(ignore=tuple(f"line {n}" for n in range(20)))
        sql = "UPDATE sources SET watch = :watch WHERE id = :id"  # as another process would
        await store.database.execute(sql, {"watch": json.dumps(asdict(full)), "id": id_})
        answer = await served.post(f"{source}/suggestions/{suggestion['id']}/accept")
        assert answer.status == 422
        assert "at most 20 items" in answer.json["detail"]
        assert (await served.get(source)).json["suggestions"] == [suggestion]


async def test_w4_a_preview_lists_blocks_and_other_parts_need_no_second_visit(served: Served):
    preview = f"{DEFAULT}/sources/preview"
    async with web_of(host=Page()) as web:
        url = web.url("host", "/")
        first = (await served.post(preview, {"url": url})).json
        assert [(one["depth"], one["selector"]) for one in first["blocks"]] == [
            (0, "nav"), (0, "main"), (1, "h1"), (1, ".clock")
        ]  # fmt: skip
        assert {one["count"] for one in first["blocks"]} == {1}
        clock = first["blocks"][-1]
        assert clock["text"] == "It is 12:00"
        assert (clock["length"], clock["watchedLength"]) == (11, 11)
        for settings, text in (
            ({"include": ["main"], "exclude": [".clock"]}, f"River {TEXT.strip()}"),
            ({"include": [".clock"]}, "It is 12:00"),
            ({"include": ["*"]}, f"Home River It is 12:00 {TEXT.strip()}"),
            (None, f"River It is 12:00 {TEXT.strip()}"),
        ):
            found = (await served.post(preview, {"url": url, "watch": settings})).json
            assert found["entries"][0]["body"] == text
            (clock,) = (one for one in found["blocks"] if one["selector"] == ".clock")
            assert clock["watchedLength"] == (11 if "12:00" in text else 0)
        assert len(web.visits) == 1
        await served.post(preview, {"url": url})  # without parts: what is there now
        assert len(web.visits) == 2


async def test_w7_a_preview_of_parts_without_text_says_so_and_keeps_the_page(served: Served):
    preview = f"{DEFAULT}/sources/preview"
    async with web_of(host=Page()) as web:
        url = web.url("host", "/")
        for settings, error in (
            ({"include": [".gone"]}, "no element of"),
            ({"exclude": ["*"]}, "has no text: no part with text is chosen"),
        ):
            answer = await served.post(preview, {"url": url, "watch": settings})
            assert answer.status == 200
            assert error in answer.json["error"]
            assert answer.json["entries"] == []
            assert {one["watchedLength"] for one in answer.json["blocks"]} == {0}
        assert len(web.visits) == 1
        added = await served.post(
            f"{DEFAULT}/sources", {"url": url, "watch": {"include": [".gone"]}}
        )
        assert added.status == 422
        assert "matches the selectors .gone" in added.json["detail"]
        refused = await served.post(preview, {"url": url, "watch": {"include": ["p:hover"]}})
        assert refused.status == 422
        assert "'p:hover' is invalid" in refused.json["errors"][0]["message"]
    assert (await served.get(f"{DEFAULT}/sources")).json["items"] == []


async def test_h2_a_page_of_10_mb_is_previewed_and_watched_within_limits(tmp_path: Path):
    row = "<tr class='row'><td>Milk</td><td>1.20</td></tr>"
    html = f"<main><p class='clock'>It is 12:00</p><table>{row * 200_000}</table></main>"
    assert len(html) > 9_000_000
    preview, settings = f"{DEFAULT}/sources/preview", {"include": [".clock"]}
    slowly = settings_in(tmp_path, **{"app.fetch.parse-timeout-seconds": 300})  # a busy machine
    async with (
        web_of(host=lambda _: Reply(200, html.encode(), "text/html")) as web,
        serving(slowly) as served,
    ):
        url = web.url("host", "/")
        wanted = {"url": url, "type": "website", "watch": settings}
        found = (await served.post(preview, wanted)).json
        assert found["entries"][0]["body"] == "It is 12:00", found
        assert found["blocks"] == []  # too long to choose from
        source = await watch(served, url, type="website", watch=settings)
        assert (await poll(served, source))["newPosts"] == 1
        assert await bodies(served) == ["It is 12:00"]


@pytest.mark.parametrize("name", ["include", "exclude"])
async def test_w4_an_invalid_selector_is_refused_and_named(served: Served, name: str):
    settings = {name: ["main", "p:hover"]}
    body = {"type": "website", "url": "http://a.example/", "watch": settings}
    added = await served.post(f"{DEFAULT}/sources", body)
    source = await watch(served, "http://b.example/", type="website")
    edited = await served.patch(source, {"watch": settings})
    for answer in (added, edited):
        assert answer.status == 422
        (error,) = answer.json["errors"]
        assert error["field"] == "watch"
        assert f"{name}: the selector 'p:hover' is invalid" in error["message"]


async def test_w4_only_pages_have_parts_to_watch(served: Served):
    settings = {"include": ["main"]}
    feed = b"<rss><channel><title>T</title><item><title>One</title></item></channel></rss>"
    async with web_of(host=lambda _: Reply(200, feed, "application/rss+xml")) as web:
        url = web.url("host", "/feed")
        for body in ({"type": "rss", "url": url}, {"url": url}, {"url": "@example"}):
            added = await served.post(f"{DEFAULT}/sources", {**body, "watch": settings})
            assert added.status == 422, body
            (error,) = added.json["errors"]
            assert (error["field"], "type website" in error["message"]) == ("watch", True)
        assert (await served.get(f"{DEFAULT}/sources")).json["items"] == []
        source = await watch(served, url, type="rss")
        assert (await served.patch(source, {"watch": settings})).status == 422
        assert (await served.patch(source, {"watch": settings, "type": "website"})).status == 200
        assert (await served.patch(source, {"type": "rss"})).status == 422
        assert (await served.patch(source, {"label": "Prices"})).status == 200
        back = await served.patch(source, {"type": "rss", "watch": None})
        assert (back.status, back.json["watch"]) == (200, None)
