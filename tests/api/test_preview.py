"""Previews of a URL, subject to the host access of the running service."""

import asyncio
import itertools
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.app import open_app
from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoHost, DemoWeb, Reply, Request
from headwater.demo.x_api import XApi
from headwater.model import Hold
from tests.api.conftest import DEFAULT, Answer, Served, serving, settings_in
from tests.api.scripted_hosts import GatedHost, feed, running, watch
from tests.system.conftest import until, web_of

PREVIEW = f"{DEFAULT}/sources/preview"
PAGE = b"""<html><head><title>A page</title>
<link rel="alternate" type="application/rss+xml" title="All of it" href="/feed.xml">
<link rel="alternate" type="application/json" href="/api"></head>
<body><article><p>%s</p></article></body></html>"""


def page(text: bytes = b"Words and more words. " * 30) -> Reply:
    return Reply(200, PAGE % text, "text/html")


async def previewed(served: Served, url: str, **more: Any) -> Answer:
    return await served.post(PREVIEW, {"url": url} | more)


async def test_a_feed_is_recognised_and_nothing_of_it_is_stored(served_by_each: Served):
    served = served_by_each
    async with web_of(host=lambda _: feed("one", "two")) as web:
        url = web.url("host")
        answer = await previewed(served, url)
    assert answer.status == 200
    found = answer.json
    assert [entry["title"] for entry in found.pop("entries")] == ["one", "two"]
    assert found == {
        "type": "rss",
        "url": url,
        "recognisedAs": None,
        "status": 200,
        "redirectedTo": None,
        "complete": True,
        "wouldStore": 2,
        "skipped": dict.fromkeys(
            ("alreadySeen", "duplicate", "tooOld", "beforeCreation", "empty"), 0
        ),
        "entryCount": 2,
        "feeds": [],
        "blocks": [],
        "error": None,
        "fullTextAdvice": found["fullTextAdvice"],
    }
    assert not found["fullTextAdvice"]["worthwhile"]
    for what in ("sources", "posts"):
        assert (await served.get(f"{DEFAULT}/{what}")).json["items"] == []


async def test_n15_the_feeds_named_by_a_page_are_reported_and_not_fetched(served: Served):
    async with web_of(host=lambda _: page()) as web:
        answer = await previewed(served, web.url("host", "/"))
        assert len(web.visits) == 1
    assert answer.json["type"] == "website"
    assert answer.json["wouldStore"] == 1
    assert answer.json["feeds"] == [
        {"url": web.url("host"), "title": "All of it", "type": "application/rss+xml"}
    ]


async def test_w3_a_page_without_text_still_reports_its_feeds(served: Served):
    async with web_of(host=lambda _: page(b""), bare=lambda _: Reply(200, b"<html>")) as web:
        answer = await previewed(served, web.url("host", "/"))
        refused = await previewed(served, web.url("bare", "/"))
    assert answer.status == 200
    assert len(answer.json["feeds"]) == 1
    assert answer.json["entries"] == []
    assert "no text" in answer.json["error"]
    assert refused.status == 422


async def test_h2_a_huge_feed_is_counted_completely_and_shown_in_part(served: Served):
    body = "word " * 1000
    items = "".join(f"<item><title>{n}</title><link>/{n}</link><description>{body}{n}</description>"
                    "</item>" for n in range(600))  # fmt: skip
    document = f'<rss version="2.0"><channel>{items}</channel></rss>'.encode()
    async with web_of(host=lambda _: Reply(200, document, "application/rss+xml")) as web:
        found = (await previewed(served, web.url("host"))).json
    assert (found["entryCount"], found["wouldStore"], len(found["entries"])) == (600, 600, 100)
    assert {len(entry["body"]) for entry in found["entries"]} == {2000}


@pytest.mark.parametrize(
    ("reply", "body", "reported"),
    [
        (Reply(404), {}, "404"),
        (Reply(500), {}, "500"),
        (None, {}, ""),
        (page(), {"type": "rss"}, "HTML page, not a feed"),
        (Reply(302, headers={"Location": "file:///etc/passwd"}), {}, "redirects"),
        (Reply(302, headers={"Location": "http://nowhere.invalid/"}), {}, "nowhere.invalid"),
    ],
)
async def test_a_visit_that_fails_is_no_api_error(
    served: Served, reply: Reply | None, body: dict[str, str], reported: str
):
    async with web_of(host=lambda _: reply) as web:
        answer = await previewed(served, web.url("host"), **body)
    assert answer.status == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert reported in answer.json["detail"]
    assert answer.json["errors"] == [{"field": "url", "message": answer.json["detail"]}]
    assert answer.json["failureType"] in ("transient", "permanent")


async def test_n3_a_private_address_is_refused_and_not_visited(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": False})
    async with serving(settings) as served, web_of(host=lambda _: feed()) as web:
        answer = await previewed(served, web.url("host"))
        assert web.visits == []
    assert answer.status == 422
    assert answer.json["failureKind"] == "address"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": "ftp://a.org/"}, "url"),
        ({"url": "no url"}, "url"),
        ({"url": "http://a.org/", "type": "podcast"}, "type"),
        ({"url": "http://a.org/", "colour": "red"}, "colour"),
        ({"url": "http://a.org/", "label": "x"}, "label"),
        ({"url": "not a name!", "type": "twitter"}, "url"),
    ],
)
async def test_invalid_input_is_named(served: Served, body: dict[str, str], field: str):
    answer = await served.post(PREVIEW, body)
    assert answer.status == 422
    assert answer.json["errors"][0]["field"] == field


async def test_preview_is_not_taken_for_the_id_of_a_source(served: Served):
    assert (await served.get(PREVIEW)).status == 404
    assert (await served.delete(PREVIEW)).status == 404


async def test_p3_previews_and_polls_of_a_host_run_one_after_another(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.source.poll-delay-seconds": {"rss": 0.5}})
    async with serving(settings) as served, web_of(host=_slowly) as web:
        source = await watch(served, web.url("host", "/source"))
        work = [previewed(served, web.url("host", f"/{n}")) for n in range(3)]
        answers = await asyncio.gather(served.post(f"{source}/poll"), *work)
        visits = sorted(web.visits, key=lambda visit: visit.started)
    assert [answer.status for answer in answers] == [200] * 4
    gaps = [b.started - (a.ended or 0) for a, b in itertools.pairwise(visits)]
    assert len(gaps) == 3
    assert min(gaps) >= 0.5, gaps


async def test_p9_a_host_on_hold_is_not_visited(served: Served):
    async with web_of(host=lambda _: feed()) as web:
        now = served.app.clock.now()
        hold = Hold(now + timedelta(hours=1), now, "HTTP 429 from there")
        served.service.gates.hold(web.address("host"), hold)
        answer = await previewed(served, web.url("host"))
        assert web.visits == []
    assert answer.status == 422
    assert answer.json["detail"].startswith("on hold until ")


async def test_p9_a_retry_after_received_by_a_preview_is_respected(served_by_each: Served):
    served = served_by_each
    limited = Reply(429, headers={"Retry-After": "600"})
    async with web_of(limited=lambda _: limited) as web:
        source = await watch(served, web.url("limited", "/source"))
        answer = await previewed(served, web.url("limited"))
        polled = await served.post(f"{source}/poll")
        assert len(web.visits) == 1
        stored = await served.app.store.hosts.get(web.address("limited"))
    assert answer.status == 422
    assert polled.json["error"].startswith("on hold until ")
    assert stored.hold is not None


async def test_u8_more_concurrent_previews_than_allowed_are_refused(served: Served):
    slow, other = GatedHost(), await served.person("ann")
    admin = await served.admin()
    async with web_of(slow=slow, host=lambda _: feed()) as web:
        body = {"url": web.url("slow")}
        work = [asyncio.create_task(served.post(PREVIEW, body, token=admin)) for _ in range(4)]
        await slow.asked.wait()
        gate = served.service.gates.gate(web.address("slow"))
        await until(lambda: len(gate.released) == 3)  # the others wait for the host
        refused = await served.post(PREVIEW, {"url": web.url("host")}, token=admin)
        hers = "/api/users/ann/podcasts/ann/sources/preview"
        allowed = await served.post(hers, {"url": web.url("host")}, token=other)
        slow.open.set()
        done = await asyncio.gather(*work)
        again = await served.post(PREVIEW, {"url": web.url("host")}, token=admin)
    assert refused.status == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert "max-previews-per-user" in refused.json["detail"]
    assert (allowed.status, again.status) == (200, 200)
    assert [answer.status for answer in done] == [200] * 4


async def test_s8_a_stopping_service_sends_no_requests(served: Served):
    async with web_of(host=lambda _: feed()) as web:
        served.service.lanes.close()
        assert (await previewed(served, web.url("host"))).status == 503
        assert web.visits == []


async def test_x1_an_x_timeline_is_previewed_with_its_owners_key(tmp_path: Path):
    hosts = [DemoHost("x.demo", "X", XApi(["jack"], every_seconds=3600))]
    async with DemoWeb(hosts, clock=SystemClock()) as web:
        settings = settings_in(tmp_path, **{"app.x.base-url": web.url("x.demo", "")})
        async with serving(settings) as served:
            refused = await previewed(served, "@jack")
            assert web.visits == []
            await served.put("/api/users/default/api-keys/x", {"apiKey": "AAAA-mine"})
            answer = await previewed(served, "@jack", includeHistory=True)
        sent = {visit.headers["authorization"] for visit in web.visits}
    assert refused.status == 422
    assert "key" in refused.json["detail"]
    assert answer.status == 200
    assert answer.json["type"] == "twitter"
    assert answer.json["entryCount"] > 0
    assert sent == {"Bearer AAAA-mine"}


async def test_p3_the_service_respects_previews_of_the_command_line_beside_it(tmp_path: Path):
    delay = 6  # it checks once a second
    settings = settings_in(tmp_path, **{"app.source.poll-delay-seconds": {"rss": delay}})
    async with serving(settings) as served, web_of(host=lambda _: feed()) as web:
        source = await watch(served, web.url("host", "/source"))
        async with running(served), open_app(settings) as beside, beside.visitor() as previewer:
            podcast = await beside.store.accounts.podcast("default", "default")
            await beside.previews.preview(previewer, {"url": web.url("host")}, podcast)
            known = served.service.gates.seconds_until_open
            while known(web.address("host")) <= 0:
                await asyncio.sleep(0.05)
            polled = await served.post(f"{source}/poll")
        first, second = web.visits
    assert polled.json["outcome"] == "stored"
    assert first.ended is not None
    assert second.started - first.ended >= delay


async def test_the_age_limit_of_the_podcast_applies(served: Served):
    store = served.app.store
    podcast = await store.accounts.podcast("default", "default")
    await store.accounts.save_podcast(replace(podcast, max_article_age_days=1))
    old = "<pubDate>Mon, 02 Jan 2006 15:04:05 GMT</pubDate><description>Old</description>"
    document = f"<rss version='2.0'><channel><item>{old}</item></channel></rss>".encode()
    async with web_of(host=lambda _: Reply(200, document, "application/rss+xml")) as web:
        answer = await previewed(served, web.url("host"), includeHistory=True)
    assert answer.json["skipped"]["tooOld"] == 1
    assert answer.json["entries"][0]["reason"] == "tooOld"


async def _slowly(request: Request) -> Reply:
    await asyncio.sleep(0.1)
    return feed(request.path[1:])
