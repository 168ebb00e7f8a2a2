"""A source on its page: health, explanation of the next poll, and recent polls."""

import asyncio
import re
from datetime import timedelta
from functools import partial
from html import unescape

from headwater.demo.demo_web import Reply
from headwater.model import Failure, FailureType, Hold
from tests.api.scripted_hosts import GatedHost, feed, watch
from tests.api.stored_data import failed, polled, posts_of, source_of
from tests.store.store_data import a_failure
from tests.system.conftest import until, web_of
from tests.web.conftest import Visited

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def page_of(source: str) -> str:
    """The page of a source of the default podcast, given its id or its path in the API."""
    return f"/podcasts/default/sources/{source.rpartition('/')[2]}"


def words(html: str) -> str:
    """The text of a page, on one line."""
    text = re.sub(r"<(svg|script|style).*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


async def test_a_healthy_source_is_shown_as_such(pages_by_each: Visited):
    async with web_of(host=lambda _: feed("Floods", "Fish")) as web:
        source = await watch(pages_by_each, web.url("host"), label="River news")
        await pages_by_each.post(f"{source}/poll")
        text = words(await pages_by_each.text(page_of(source)))
        url = web.url("host")
    assert "Everything is fine." in text
    assert "2 new posts · HTTP 200" in text
    assert "Floods" in text
    assert "Fish" in text
    assert url in text
    assert "Interval: every 30 min" in text
    assert re.search(r"Next check: in 29 min", text)


async def test_a_new_source_explains_what_will_happen(pages: Visited):
    source = await watch(pages, "https://feeds.example.org/news.xml")
    text = words(await pages.text(page_of(source)))
    assert "no check has succeeded yet" in text
    assert "There was no check yet" in text
    assert "Nothing is stored yet" in text
    assert "decided within a minute" in text


async def test_an_overdue_source_says_what_it_waits_for(pages: Visited):
    gated = GatedHost()
    async with web_of(host=gated) as web:
        long_ago = pages.app.clock.now() - timedelta(hours=1)
        source = await source_of(
            pages, url=web.url("host", "/late"), last_polled=long_ago, last_success_at=long_ago
        )
        text = words(await pages.text(page_of(source.id)))
        assert "overdue: its check starts within a minute" in text
        assert "other checks of its site" not in text
        other = await watch(pages, web.url("host", "/other"))
        poll = asyncio.create_task(pages.post(f"{other}/poll"))
        await gated.asked.wait()
        text = words(await pages.text(page_of(source.id)))
        assert "overdue: waits for other checks of its site" in text
        gated.open.set()
        await poll


async def test_a_failing_source_shows_the_failure_and_the_next_step(pages: Visited):
    async with web_of(host=lambda _: Reply(503)) as web:
        source = await watch(pages, web.url("host"))
        for _ in range(2):
            await pages.post(f"{source}/poll")
        html = await pages.text(page_of(source))
    text = words(html)
    assert "The last 2 checks failed." in text
    assert "The server has an error (503). Its first failure was" in text
    assert "never gives up over this" in text
    assert "failed 2 times in a row: 30 min doubled each time is 2 h, at most 1 d" in text
    assert re.search(r'<li class="current" aria-current="step">.*?<b>2 h</b>', html, re.DOTALL)
    assert 'class="backoff"' in html


async def test_f3_an_automatically_disabled_source_shows_the_reason_and_what_to_do(pages: Visited):
    async with web_of(gone=lambda _: Reply(404)) as web:
        source = await watch(pages, web.url("gone"), maxFailures=2)
        await pages.post(f"{source}/poll")
        text = words(await pages.text(page_of(source)))
        assert "After 2 such failures in a row it disables the source; so far there was 1" in text
        await pages.post(f"{source}/poll")
        text = words(await pages.text(page_of(source)))
    assert "Disabled by Headwater, because it kept failing." in text
    assert "There is nothing at this address (404); this happened 2 times in a row." in text
    assert "Auto-disabled after 2 consecutive 404 errors" in text
    assert "put the new address into the settings below" in text
    assert "Enable again" in text
    assert "No check is planned while the source is disabled." in text


async def test_hints_of_settings_show_no_markup(pages: Visited):
    source = await watch(pages, "https://feeds.example.org/news.xml")
    html = await pages.text(page_of(source))
    assert "Only for the type website." in words(html)
    assert "`" not in html


async def test_a_source_disabled_by_hand_shows_no_failure(pages: Visited):
    source = await watch(pages, "https://feeds.example.org/news.xml", enabled=False)
    text = words(await pages.text(page_of(source)))
    assert "Disabled by a user." in text
    assert "Auto-disabled" not in text
    assert "disabled by a user; Enable starts it again" in text


async def test_p9_a_hold_known_only_to_the_service_is_in_the_chart(pages: Visited):
    async with web_of(host=lambda _: feed()) as web:
        source = await watch(pages, web.url("host"), pollIntervalMinutes=1)
        await pages.post(f"{source}/poll")
        now = pages.app.clock.now()
        hold = Hold(now + timedelta(hours=2), now, "HTTP 429 from the host")
        pages.service.gates.hold("127.80.0.1", hold)
        html = await pages.text(page_of(source))
    assert "Pause that the site asked for: HTTP 429 from the host" in words(html)
    assert re.search(r'<rect class="hold"', html)
    assert "1 h 5" in words(html)  # of the two hours, one minute is its interval


async def test_the_position_in_the_lane_is_drawn(pages: Visited):
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        paths = [await watch(pages, web.url("slow", f"/{n}")) for n in range(3)]
        polls = [asyncio.create_task(pages.post(f"{paths[0]}/poll"))]
        await slow.asked.wait()
        for path in paths[1:]:
            polls.append(asyncio.create_task(pages.post(f"{path}/poll")))
            await until(partial(_waits, pages, len(polls) - 1))
        first, last = [words(await pages.text(page_of(path))) for path in (paths[0], paths[2])]
        slow.open.set()
        await asyncio.gather(*polls)
    assert "this source, checked right now" in first
    assert "another one, checked right now waits this source" in last
    assert "Queue: 1 source waits before it" in last


async def test_every_poll_has_a_mark_and_the_last_ones_a_row(pages: Visited):
    source = await source_of(pages)
    for number in range(70):
        await (failed if number % 7 == 0 else polled)(pages, source)
    html = await pages.text(page_of(source.id))
    assert len(re.findall(r'<label class="poll-mark (?:unchanged|failed)"', html)) == 60
    assert len(re.findall(r'<td class="nowrap when"><time', html)) == 15
    assert len(re.findall(r"timed out after 10 s</td>|timed out after 10 s\n", html)) == 2
    assert "Typically 412 ms" in words(html)
    assert f'href="{page_of(source.id)}/days"' in html
    days = words(await pages.text(f"{page_of(source.id)}/days"))
    assert "2026-02-17 70 0 10 timeout (10)" in days


async def test_u4_foreign_text_is_escaped(pages: Visited):
    source = await source_of(pages, label=EVIL, url="javascript:alert(1)//")
    await posts_of(pages, source, "one", title=EVIL, url="javascript:alert(3)", author=EVIL)
    current = await pages.app.store.sources.get(source.id)
    failure = Failure(FailureType.TRANSIENT, "500", f"HTTP 500 {EVIL}", status=500)
    await pages.app.store.record(a_failure(current, failure, redirected_to=f"http://x/{EVIL}"))
    html = await pages.text(page_of(source.id))
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert 'href="javascript' not in html
    assert " style=" not in html
    assert html.count(EVIL.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")) == 0
    assert f"HTTP 500 {EVIL}" in unescape(html)


async def test_u6_the_url_is_complete_for_its_owner_and_masked_in_headings(pages: Visited):
    source = await watch(pages, "https://me:word@feeds.example.org/?token=abc")
    html = await pages.text(page_of(source))
    assert "<h1>feeds.example.org/?token=***</h1>" in html
    assert "https://me:word@feeds.example.org/?token=abc" in html


async def test_external_links_send_no_referrer(pages: Visited):
    source = await source_of(pages)
    await posts_of(pages, source, "one")
    html = await pages.text(page_of(source.id))
    links = re.findall(r'<a [^>]*href="https?://[^>]*>', html)
    assert len(links) == 2
    assert all('rel="noopener noreferrer nofollow"' in link for link in links)


async def test_viewing_changes_nothing(pages: Visited):
    source = await source_of(pages)
    before = await pages.app.store.sources.get(source.id)
    await pages.text(page_of(source.id))
    assert await pages.app.store.sources.get(source.id) == before


async def test_g2_while_paused_no_poll_is_planned(pages: Visited):
    async with web_of(host=lambda _: feed()) as web:
        source = await watch(pages, web.url("host"))
        await pages.post(f"{source}/poll")
        await pages.put("/api/scheduler", {"paused": True})
        text = words(await pages.text(page_of(source)))
    assert "No check is planned while checking is paused." in text
    assert "Nothing while checking is paused: only manual checks run." in text
    for promise in ("It is checked at its interval", "queue", "keeps trying"):
        assert promise not in text.partition("Queue of")[0]


async def test_u2_users_cannot_view_sources_of_others(pages: Visited):
    ann, bob = await pages.person("ann"), await pages.person("bob")
    source = await source_of(pages, "ann")
    his = (await pages.podcast("bob", "bob")).id
    own = f"/podcasts/{source.podcast_id}/sources/{source.id}"
    await pages.text(own, token=ann)
    for path in (own, f"/podcasts/{his}/sources/{source.id}"):
        assert "There is nothing here" in await pages.text(path, token=bob, status=404)


async def test_u2_an_anonymous_visitor_is_sent_to_the_login(pages: Visited):
    await pages.admin()
    answer = await pages.get(page_of("whatever"))
    assert answer.status == 303
    assert answer.headers["Location"].startswith("/login?next=")


async def test_a_missing_source_is_not_found(pages: Visited):
    for id_ in ("nobody", "%00", "%F0%9F%92%A9", "x" * 3000):
        await pages.text(f"/podcasts/default/sources/{id_}", status=404)


async def _waits(pages: Visited, count: int) -> bool:
    return pages.service.lanes.waiting() == count


async def test_y6_in_a_storm_the_page_blames_the_site_and_advises_to_wait(pages: Visited):
    now = pages.app.clock.now()
    source = await source_of(
        pages, host="host.example", first_poll_done=True, last_polled=now, consecutive_failures=2,
        last_failure_type=FailureType.PERMANENT, last_error="HTTP 404 Not Found",
    )  # fmt: skip
    alone = words(await pages.text(page_of(source.id)))
    assert "it disables the source" in alone
    await pages.app.store.storms.begin("host.example", "404", now)
    text = words(await pages.text(page_of(source.id)))
    assert "that is a problem of the site, not of this source" in text
    assert "Wait. If it lasts for days" in text
    assert "it disables the source" not in text
