"""Full text over the API: advice of a preview, pending pages, and why a page is not used (T4)."""

from typing import Any

import pytest

from headwater.demo.demo_web import Reply, Request
from tests.api.conftest import DEFAULT, Served
from tests.api.prometheus_text import read
from tests.api.scripted_hosts import RSS, GatedHost, running, watch
from tests.system.conftest import rss_of_links, until, web_of

TEASER = "The council approved the harbour bridge on Tuesday, said the mayor"
STORY = "Opponents had asked for a tunnel, which is three times as expensive. " * 8
BLOCK = "Sorry, you have been blocked. This site is protected by a security service. " * 8


def page(text: str) -> Reply:
    html = f"<html><title>News</title><body><article><p>{text}</p></article></body></html>"
    return Reply(200, html.encode(), "text/html; charset=utf-8")


def feed(entries: int = 5, text: str = TEASER, host: str = "news") -> Any:
    """A host with a feed whose entries have their pages at another host."""

    def site(request: Request) -> Reply:
        links = {request.locate(host, f"/{n}"): f"{text} {n}." for n in range(entries)}
        return Reply(200, rss_of_links(links), RSS)

    return site


async def advice(served: Served, news: Any, source: Any = None) -> tuple[Any, int]:
    """The advice of a preview, and how many pages were visited."""
    async with web_of(feed=source or feed(), news=news) as web:
        answer = await served.post(f"{DEFAULT}/sources/preview", {"url": web.url("feed")})
        assert answer.status == 200, answer.json
        assert len(web.visits_to("feed")) == 1
        return answer.json["fullTextAdvice"], len(web.visits_to("news"))


async def test_t4_a_preview_compares_three_entries_with_their_pages(served_by_each: Served):
    def news(request: Request) -> Reply:
        return page(f"{TEASER} {request.path[1:]}. {STORY}")

    found, visits = await advice(served_by_each, news)
    assert (found["worthwhile"], len(found["compared"]), visits) == (True, 3, 3)
    assert found["reason"].startswith("the pages have 6")
    one = found["compared"][0]
    assert one["pageLength"] > 5 * one["feedLength"]
    assert one["error"] is None
    for what in ("sources", "posts"):
        assert (await served_by_each.get(f"{DEFAULT}/{what}")).json["items"] == []


@pytest.mark.parametrize(
    ("news", "reason"),
    [
        (lambda _: page(BLOCK), "0 of 3 pages have more text; the page is about something else"),
        (lambda _: Reply(403), "0 of 3 pages have more text; a page could not be read: HTTP 403"),
        (lambda _: page(f"{TEASER}."), "0 of 3 pages have more text; the page has no more text"),
    ],
)
async def test_t4_a_preview_says_why_full_text_is_not_worthwhile(
    served: Served, news: Any, reason: str
):
    found, visits = await advice(served, news)
    assert (found["worthwhile"], visits) == (False, 3)
    assert found["reason"].startswith(reason)


async def test_t4_p9_a_preview_does_not_visit_a_host_that_asked_for_a_pause(served: Served):
    def news(_: Request) -> Reply:
        return Reply(429, headers={"Retry-After": "600"})

    found, visits = await advice(served, news)
    assert (found["worthwhile"], visits) == (False, 1)


async def test_t4_pages_of_a_feed_with_the_whole_text_are_not_visited(served: Served):
    content = "<p>" + STORY + "</p>"

    def whole(request: Request) -> Reply:
        link = request.locate("news", "/1")
        item = f"<item><title>One</title><link>{link}</link><c:encoded><![CDATA[{content}]]>"
        space = 'xmlns:c="http://purl.org/rss/1.0/modules/content/"'
        body = f'<rss version="2.0" {space}><channel>{item}</c:encoded></item></channel></rss>'
        return Reply(200, body.encode(), RSS)

    found, visits = await advice(served, lambda _: page(STORY), whole)
    assert (found, visits) == (
        {
            "worthwhile": False,
            "reason": "the feed has the whole text of its entries",
            "compared": [],
        },
        0,
    )


async def test_t4_pages_have_no_advice(served: Served):
    async with web_of(news=lambda _: page(STORY)) as web:
        answer = await served.post(f"{DEFAULT}/sources/preview", {"url": web.url("news", "/")})
    assert answer.json["fullTextAdvice"] is None


async def test_t4_pending_pages_are_visible_until_they_are_read(served_by_each: Served):
    served, news = served_by_each, GatedHost()
    async with web_of(feed=feed(2), news=news) as web, running(served):
        source = await watch(served, web.url("feed"), fullText="on")
        await served.post(f"{source}/poll")
        await served.service.tick()
        await news.asked.wait()
        hosts = {host["host"]: host for host in (await served.get("/api/hosts")).json["items"]}
        host = hosts[web.address("news")]
        assert (host["sources"], host["pagesPending"], host["laneLength"]) == (0, 2, 2)
        assert host["inFlight"]["sourceId"] == source.rpartition("/")[2]
        assert host["inFlight"]["url"] in (web.url("news", "/0"), web.url("news", "/1"))
        card = (await served.get(f"/api/hosts/{host['host']}")).json
        assert (card["pagesPending"], card["lastAnswers"]) == (2, [])
        steps = (await served.get(f"{source}/explain")).json["steps"]
        detail = next(step["detail"] for step in steps if step["what"] == "full text")
        assert detail.endswith("2 are pending")
        metrics = read((await served.get("/metrics")).body.decode())
        assert metrics["headwater_pages_pending"][""] == 2
        news.open.set()
        await until(lambda: served.service.metrics.page_visits["rejected"] == 2)
        posts = (await served.get(f"{source}/posts")).json["items"]
        metrics = read((await served.get("/metrics")).body.decode())
    assert metrics["headwater_page_visits_total"]["result=rejected"] == 2
    assert [post["textFrom"] for post in posts] == ["feed", "feed"]
    assert all("the page has no more text" in post["fullTextError"] for post in posts)


async def test_u2_pending_pages_of_others_are_not_visible(served: Served):
    ann, bob = await served.person("ann"), await served.person("bob")
    async with web_of(feed=feed(2), news=lambda _: page(STORY)) as web:
        place = "/api/users/ann/podcasts/ann"
        source = await watch(served, web.url("feed"), place=place, token=ann, fullText="on")
        await served.post(f"{source}/poll", token=ann)
        host = web.address("news")
        assert (await served.get(f"/api/hosts/{host}", token=ann)).json["pagesPending"] == 2
        assert (await served.get(f"/api/hosts/{host}", token=bob)).status == 404
        assert (await served.get("/api/hosts", token=bob)).json["items"] == []
