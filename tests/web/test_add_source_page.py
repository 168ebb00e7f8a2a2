"""Adding a source over real connections: preview, plain error messages, save, first poll."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoHost, DemoWeb, Reply, Request
from headwater.demo.x_api import XApi
from headwater.model import Hold, Source
from headwater.store.sources import SourceFilter
from tests.api.conftest import Answer, settings_in
from tests.api.scripted_hosts import RSS, GatedHost, feed
from tests.system.conftest import rss, web_of
from tests.web.conftest import Visited, visiting

ADD = "/podcasts/default/add"
SAVE = f"{ADD}/save"
SEARCH = f"{ADD}/search"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
PAGE = """<html><head><title>The Journal</title>%s</head>
<body><article><p>%s</p></article></body></html>"""
LINKS = """<link rel="alternate" type="application/rss+xml" title="All stories" href="/feed.xml">
<link rel="alternate" type="application/atom+xml" title="Comments" href="/comments.atom">"""
TEXT = "Words and more words. " * 30


def page(links: str = "", text: str = TEXT) -> Reply:
    return Reply(200, (PAGE % (links, text)).encode(), "text/html")


def aged(*hours: float) -> Reply:
    """A feed with an entry for each of these ages."""
    now = datetime.now(UTC)
    entries = [(f"{h:g} h old", f"Body of {h}", now - timedelta(hours=h)) for h in hours]
    return Reply(200, rss("River News", *entries), RSS)


def words(answer: Answer | str) -> str:
    """The text of a page, on one line."""
    html = answer if isinstance(answer, str) else answer.body.decode()
    text = re.sub(r"<(svg|script|style).*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def field(answer: Answer, name: str) -> str:
    """The value of a field in the form for a new source."""
    form = answer.body.decode().partition('/save"')[2]
    found = re.search(rf'name="{name}" (?:type="\w+" )?value="([^"]*)"', form)
    assert found is not None, name
    return unescape(found[1])


async def sources_of(pages: Visited, podcast: str = "default") -> list[Source]:
    found = await pages.app.store.sources.find(SourceFilter(podcast_id=podcast), limit=100)
    return list(found)


async def test_a_preview_shows_what_would_be_stored_and_why_not_the_rest(
    pages_by_each: Visited,
):
    pages = pages_by_each
    async with web_of(host=lambda _: aged(-1, 1, 2, 3, 24 * 30)) as web:
        url = web.url("host")
        answer = await pages.send(ADD, {"url": url})
    assert answer.status == 200
    text = words(answer)
    assert "River News" in text
    assert "1 of 5 entries would be stored now." in text
    assert "3 older entries skipped: published before you added it." in text
    assert "1 skipped: older than 7 days, this podcast's limit" in text
    assert "Include the 3 existing posts" in text
    assert "becomes a post" in text
    assert [field(answer, name) for name in ("url", "type", "label", "interval")] == [
        url, "rss", "River News", "30",
    ]  # fmt: skip
    assert await sources_of(pages) == []


async def test_a_page_offers_a_choice_of_its_feeds(pages: Visited):
    async with web_of(host=lambda _: page(LINKS)) as web:
        answer = await pages.send(ADD, {"url": web.url("host", "/")})
        assert len(web.visits) == 1  # they are listed, not fetched (N15)
        html = answer.body.decode()
        for path in ("/feed.xml", "/comments.atom"):
            assert f'<input type="hidden" name="url" value="{web.url("host", path)}">' in html
    text = words(answer)
    assert "2 feeds found on this page" in text
    assert "All stories RSS" in text
    assert "Comments Atom" in text
    assert field(answer, "type") == "website"
    assert "Include" not in text  # a page has no history


async def test_a_page_without_text_still_offers_its_feeds(pages: Visited):
    async with web_of(host=lambda _: page(LINKS, "")) as web:
        answer = await pages.send(ADD, {"url": web.url("host", "/")})
    assert answer.status == 200
    assert "2 feeds found" in words(answer)
    assert "The page itself cannot be watched" in words(answer)
    assert "Adding…" not in answer.body.decode()  # the button of the form


async def test_common_feed_locations_are_searched_on_request_only(pages: Visited):
    def site(request: Request) -> Reply:
        match request.path:
            case "/":
                return page()
            case "/atom.xml":
                return feed("found it")
            case "/rss.xml":
                return page()  # such sites respond with a page instead of 404
        return Reply(404)

    async with web_of(host=site) as web:
        first = await pages.send(ADD, {"url": web.url("host", "/")})
        assert "Look for feeds at common places" in words(first)
        assert [visit.path for visit in web.visits] == ["/"]
        found = await pages.send(SEARCH, {"url": web.url("host", "/")})
        assert [visit.path for visit in web.visits[1:]] == ["/feed", "/rss.xml", "/atom.xml"]
        assert field(found, "url") == web.url("host", "/atom.xml")
    assert "found it" in words(found)


async def test_an_unsuccessful_search_is_reported_after_four_visits(pages: Visited):
    def site(request: Request) -> Reply:
        return page() if request.path == "/" else Reply(404)

    async with web_of(host=site) as web:
        answer = await pages.send(SEARCH, {"url": web.url("host", "/")})
        assert len(web.visits) == 4
    assert answer.status == 200
    assert "No feed at the usual places" in words(answer)
    assert "Watch the page itself" in words(answer)


async def test_p9_a_search_ends_when_a_host_sends_retry_after(pages: Visited):
    limited = Reply(429, headers={"Retry-After": "600"})
    async with web_of(host=lambda _: limited) as web:
        answer = await pages.send(SEARCH, {"url": web.url("host", "/")})
        assert len(web.visits) == 1
    assert answer.status == 422
    assert "asked for no requests" in words(answer)


@pytest.mark.parametrize(
    ("reply", "reported"),
    [
        (Reply(404), "There is nothing at this address"),
        (Reply(410), "The site says that this address is gone for good"),
        (Reply(403), "The server denies Headwater access"),
        (Reply(500), "The server has an error"),
        (Reply(429), "The site asked for no requests for now"),
        (None, "The server does not respond"),
        (Reply(302, headers={"Location": "/feed.xml"}), "The address leads nowhere"),
        (Reply(302, headers={"Location": "http://no.invalid/"}), "This name does not exist"),
        (Reply(200, b"<html></html>", "text/html"), "This page has no text to read"),
    ],
)
async def test_invalid_input_gets_a_plain_message(
    pages: Visited, reply: Reply | None, reported: str
):
    async with web_of(host=lambda _: reply) as web:
        answer = await pages.send(ADD, {"url": web.url("host")})
        url = web.url("host")
    assert answer.status == 422
    assert reported in words(answer)
    assert f'value="{url}"' in answer.body.decode()  # to be corrected
    assert await sources_of(pages) == []


async def test_a_name_that_does_not_exist_and_a_missing_scheme(pages: Visited):
    answer = await pages.send(ADD, {"url": "nowhere.invalid"})
    assert answer.status == 422
    assert "This name does not exist" in words(answer)
    assert 'value="https://nowhere.invalid"' in answer.body.decode()


async def test_a_site_without_tls_can_be_tried_without(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.fetch.connect-timeout-seconds": 1})
    async for pages in visiting(settings):
        async with web_of(host=lambda _: feed()) as web:
            bare = web.url("host").removeprefix("http://")
            answer = await pages.send(ADD, {"url": bare})
            html = answer.body.decode()
            assert f'<input type="hidden" name="url" value="{web.url("host")}">' in html
        assert "Try without encryption" in words(answer)


async def test_n3_a_private_address_is_refused_and_not_visited(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": False})
    async for pages in visiting(settings):
        async with web_of(host=lambda _: feed()) as web:
            answer = await pages.send(ADD, {"url": web.url("host")})
            assert web.visits == []
        assert answer.status == 422
        assert "This address is not open to Headwater" in words(answer)
        assert "Add it anyway" not in words(answer)


async def test_p9_a_host_on_hold_is_not_visited_and_the_source_can_wait_for_it(pages: Visited):
    async with web_of(host=lambda _: feed()) as web:
        now = pages.app.clock.now()
        hold = Hold(now + timedelta(hours=1), now, "HTTP 429 from there")
        pages.service.gates.hold(web.address("host"), hold)
        answer = await pages.send(ADD, {"url": web.url("host")})
        assert "asked for no requests" in words(answer)
        assert "Add it anyway" in words(answer)
        saved = await pages.send(SAVE, {"url": web.url("host"), "type": "rss", "interval": "30"})
        assert saved.status == 303
        (source,) = await sources_of(pages)
        assert source.requested_at is not None  # polled as soon as the hold is over (S9)
        assert web.visits == []


async def test_x1_an_x_timeline_needs_a_key_and_the_page_links_to_it(tmp_path: Path):
    hosts = [DemoHost("x.demo", "X", XApi(["jack"], every_seconds=3600))]
    async with DemoWeb(hosts, clock=SystemClock()) as web:
        settings = settings_in(tmp_path, **{"app.x.base-url": web.url("x.demo", "")})
        async for pages in visiting(settings):
            refused = await pages.send(ADD, {"url": "@jack"})
            assert refused.status == 422
            assert "X needs a key of yours" in words(refused)
            assert '<a class="button primary" href="/accounts">' in refused.body.decode()
            assert "Add it anyway" in words(refused)
            assert web.visits == []

            await pages.put("/api/users/default/api-keys/x", {"apiKey": "AAAA-mine"})
            found = await pages.send(ADD, {"url": "@jack"})
            assert found.status == 200
            assert "X timeline" in words(found)
            assert field(found, "type") == "twitter"


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("", "paste the address"),
        ("jack", "written @jack"),
        ("ftp://a.org/", "ftp: URLs are not supported"),
        ("javascript:alert(1)", "javascript: URLs are not supported"),
        ("http://", "no host"),
        ("no address at all", "space"),
        ("a\x07b.org", "one line"),
    ],
)
async def test_an_invalid_address_is_reported_at_its_field(pages: Visited, url: str, reported: str):
    answer = await pages.send(ADD, {"url": url})
    assert answer.status == 422
    assert reported.lower() in words(answer).lower()
    assert 'aria-invalid="true"' in answer.body.decode()


async def test_u8_pages_and_api_share_the_limit_on_previews(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-previews-per-user": 1})
    async for pages in visiting(settings):
        slow = GatedHost()
        async with web_of(slow=slow, host=lambda _: feed()) as web:
            body = {"url": web.url("slow")}
            preview = "/api/users/default/podcasts/default/sources/preview"
            first = asyncio.create_task(pages.post(preview, body))
            await slow.asked.wait()
            refused = await pages.send(ADD, {"url": web.url("host")})
            slow.open.set()
            assert (await first).status == 200
        assert refused.status == 429
        assert "previews are under way already" in words(refused)


async def test_u4_text_from_a_feed_is_escaped(pages: Visited):
    evil = EVIL.replace("&", "&amp;amp;").replace("<", "&amp;lt;").replace('"', "&quot;")
    ahead = datetime.now(UTC) + timedelta(hours=1)
    document = rss("host.invalid", (evil, f"Body {evil}", ahead)).replace(
        b"<channel><title>host.invalid", f"<channel><title>{evil}".encode()
    )
    quoted = EVIL.replace('"', "&quot;")
    link = f'<link rel="alternate" type="application/rss+xml" title="{quoted}" href='
    links = f"{link}'javascript:x'>{link}'/f?<b>'>"
    hosts = {
        "feed": lambda _: Reply(200, document, RSS),
        "page": lambda _: page(links),
        "moved": lambda _: Reply(302, headers={"Location": "http://x.invalid/<script>alert(3)"}),
    }
    async with web_of(**hosts) as web:
        answers = [await pages.send(ADD, {"url": web.url(name)}) for name in hosts]
    for answer in answers:
        html = answer.body.decode()
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert 'value="javascript:' not in html
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert answers[0].body.decode().count("&lt;script&gt;alert(1)") >= 3  # title, entry, body
    assert field(answers[0], "label").startswith("<script>alert(1)")


async def test_u4_hostile_input_is_escaped(pages: Visited):
    for path in (ADD, SAVE, SEARCH):
        answer = await pages.send(path, {"url": EVIL, "label": EVIL, "interval": EVIL})
        assert answer.status == 422
        assert "<script>alert" not in answer.body.decode()


async def test_j2_an_address_that_leads_to_a_login_can_be_watched_nevertheless(pages: Visited):
    form = b'<p>Members only</p><form><input name="u"><input type="password"></form>'
    async with web_of(host=lambda _: Reply(200, form, "text/html")) as web:
        refused = await pages.send(ADD, {"url": web.url("host", "/")})
        assert refused.status == 422
        assert "This address leads to a login" in words(refused)
        assert "Watch the page nevertheless" in words(refused)
        shown = await pages.send(ADD, {"url": web.url("host", "/"), "type": "website"})
    assert shown.status == 200
    assert field(shown, "type") == "website"


async def test_j1_the_rule_of_a_known_site_is_shown(pages: Visited):
    def site(request: Request) -> Reply:
        is_feed = request.path.endswith(".rss")
        return aged(1) if is_feed else Reply(200, f"{request.base_url}/@ann.rss".encode())

    async with web_of(host=site) as web:
        found = await pages.send(ADD, {"url": web.url("host", "/@ann")})
    assert field(found, "url") == web.url("host", "/@ann.rss")
    assert "Mastodon" in words(found)
