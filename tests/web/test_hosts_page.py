"""Hosts on their pages: running lanes, holds, delays, and common failures."""

import asyncio
import re
from datetime import timedelta
from html import unescape
from pathlib import Path

from headwater.demo.demo_web import Reply
from headwater.model import Failure, FailureType, Hold
from tests.api.conftest import settings_in
from tests.api.scripted_hosts import GatedHost, feed, watch
from tests.api.stored_data import failed, polled, source_of
from tests.store.store_data import a_failure
from tests.system.conftest import web_of
from tests.web.conftest import Visited, visiting

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
ANN, BOB = "/api/users/ann/podcasts/ann", "/api/users/bob/podcasts/bob"


def words(html: str) -> str:
    """The text of a page, on one line."""
    text = re.sub(r"<(svg|script|style).*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def part(html: str, id_: str) -> str:
    """The text after an element id."""
    return words(html.partition(f'id="{id_}"')[2])


async def test_without_sources_the_page_explains_itself(pages_by_each: Visited):
    html = await pages_by_each.text("/hosts")
    assert "No sites yet" in html
    assert "/podcasts/default/add" in html


async def test_every_host_is_listed_with_its_delay_and_its_origin(tmp_path: Path):
    options = {
        "app.source.poll-delay-seconds": {"website": 2},
        "app.source.host-overrides": {"slow.example": {"poll-delay-seconds": 90}},
    }
    async for pages in visiting(settings_in(tmp_path, **options)):
        await watch(pages, "https://a.example/", type="website")
        await watch(pages, "https://b.example/feed", enabled=False)
        await watch(pages, "https://slow.example/feed")
        text = part(await pages.text("/hosts"), "hosts")
        assert "a.example 1 idle now 2 s poll-delay-seconds.website never" in text
        assert "b.example 1 1 disabled idle now none never" in text
        assert "slow.example 1 idle now 1 min 30 s host-overrides for slow.example" in text


async def test_lanes_show_running_and_waiting_polls(pages_by_each: Visited):
    pages, slow = pages_by_each, GatedHost()
    async with web_of(slow=slow) as web:
        first = await watch(pages, web.url("slow", "/first?token=secret"))
        second = await watch(pages, web.url("slow", "/second"))
        poll = asyncio.create_task(pages.post(f"{first}/poll"))
        await slow.asked.wait()
        await pages.post(f"{second}/poll?wait=false")
        html = await pages.text("/hosts")
        one = await pages.text(f"/hosts/{web.address('slow')}")
        slow.open.set()
        await poll
        await pages.service.lanes.emptied(pages.service.lanes.names())
        after = await pages.text("/hosts")
    id_ = first.rpartition("/")[2]
    for shown in (html, one):
        assert f'href="/podcasts/default/sources/{id_}"' in shown
        assert re.search(r"checking \S+/first\?token=\*\*\* 1 waiting", words(shown))  # U6
        assert shown.count('class="car running"') == 1
        assert shown.count('class="car"') == 1
    assert "1 check under way" in words(html)
    assert "Nothing is due" in after


async def test_p9_a_hold_is_shown_with_its_end_and_its_reason(pages: Visited):
    await watch(pages, "https://held.example/feed")
    now = pages.app.clock.now()
    hold = Hold(now + timedelta(minutes=5), now, f"HTTP 429 from {EVIL}")
    pages.service.gates.hold("held.example", hold)
    for path in ("/hosts", "/hosts/held.example"):
        html = await pages.text(path)
        assert re.search(
            r"paused by the site ends in 4 min 5\d s HTTP 429 from <script>alert", words(html)
        )
        assert "<script>alert" not in html
        assert re.search(r'<time datetime="[^"]+Z" data-words data-until>in 4 min', html)


async def test_sources_that_fail_together_are_reported_with_their_cause(pages_by_each: Visited):
    pages = pages_by_each
    busy = Failure(FailureType.TRANSIENT, "503", f"HTTP 503 {EVIL}", status=503)
    for number in range(4):
        source = await source_of(pages, host="a.example", url=f"https://a.example/{number}")
        if number < 3:
            current = await pages.app.store.sources.get(source.id)
            await pages.app.store.record(a_failure(current, busy))
    assert "3 of 4 failing: server error (503)" in words(await pages.text("/hosts"))
    html = await pages.text("/hosts/a.example")
    assert "3 of 4 failing: server error (503). If all of them fail" in words(html)
    assert "failed 1× HTTP 503 <script>alert(1)</script>" in words(html)
    assert "<script>alert" not in html
    await failed(pages, await source_of(pages, host="a.example", url="https://a.example/5"))
    assert "4 of 5 failing: mostly server error (503)" in words(await pages.text("/hosts"))


async def test_a_host_shows_its_sources_and_its_last_responses(pages: Visited):
    async with web_of(host=lambda r: feed() if r.path == "/good" else Reply(404)) as web:
        good = await watch(pages, web.url("host", "/good"), label=f"Good {EVIL}")
        bad = await watch(pages, web.url("host", "/bad"))
        for source in (good, bad):
            await pages.post(f"{source}/poll")
        html = await pages.text(f"/hosts/{web.address('host')}")
    sources, answers = (part(html, name) for name in ("sources", "answers"))
    assert re.search(r"\S+/bad failing never failed 1× .*404.* Good <script>alert.* fine ", sources)
    assert re.search(r"failed .*404.* ms .* new posts 200 .* ms 1 Good <script>alert", answers)
    assert "<script>alert" not in html
    assert 'href="/podcasts/default/sources?host=127.' in html


async def test_links_lead_to_the_sources_of_each_podcast_that_has_some(pages: Visited):
    await pages.post("/api/users/default/podcasts", {"name": "second"})
    second = await pages.podcast(name="second")
    for place in ("default", "second"):
        await watch(pages, "https://a.example/", place=f"/api/users/default/podcasts/{place}")
    html = await pages.text("/hosts/a.example")
    for id_, name in (("default", "default"), (second.id, "second")):
        assert f'href="/podcasts/{id_}/sources?host=a.example">1 source in {name}</a>' in html


async def test_hosts_are_paged(pages_by_each: Visited):
    for number in range(51):
        host = f"h{number:02}.example"
        await source_of(pages_by_each, host=host, url=f"https://{host}/")
    first = await pages_by_each.text("/hosts")
    assert "h49.example" in first
    assert "h50.example" not in first
    next_url = unescape(re.findall(r'href="(/hosts\?cursor=[^"]+)"', first)[0])
    second = await pages_by_each.text(next_url)
    assert "h50.example" in second
    assert "h49.example" not in second
    assert "Next page" not in second
    assert (await pages_by_each.get("/hosts?cursor=nonsense")).status == 422


async def test_a_host_is_found_by_its_name_or_by_a_url(pages: Visited):
    await watch(pages, "https://bücher.example/feed")
    for text in ("xn--bcher-kva.example", "B%C3%9CCHER.example", "https://b%C3%BCcher.example/x"):
        answer = await pages.get(f"/hosts?host={text}")
        assert answer.status == 303, text
        assert answer.headers["Location"] == "/hosts/xn--bcher-kva.example"
    html = await pages.text(f"/hosts?host={'<script>'}nobody")
    assert "No source is watched on “&lt;script&gt;nobody”" in html


async def test_u2_users_see_the_hosts_of_their_own_sources(pages_by_each: Visited):
    pages = pages_by_each
    ann, bob = await pages.person("ann"), await pages.person("bob")
    await watch(pages, "https://shared.example/a", place=ANN, token=ann)
    await watch(pages, "https://ann.example/", place=ANN, token=ann, label="hers alone")
    await watch(pages, "https://shared.example/b", place=BOB, token=bob)
    now = pages.app.clock.now()
    for host in ("ann.example", "shared.example"):
        pages.service.gates.hold(host, Hold(now + timedelta(minutes=5), now, "HTTP 429"))
    html = await pages.text("/hosts", token=bob)
    assert "ann.example" not in html
    assert "under way" not in html  # only an administrator sees the polls of others
    assert "shared.example" in part(html, "now")
    shared = await pages.text("/hosts/shared.example", token=bob)
    assert "shared.example/b" in shared
    assert "shared.example/a" not in shared
    for name in ("ann.example", "nobody.example"):
        assert "There is nothing here" in await pages.text(f"/hosts/{name}", status=404, token=bob)
        assert f"No source is watched on “{name}”" in await pages.text(
            f"/hosts?host={name}", token=bob
        )


async def test_u2_own_lanes_are_found_behind_those_of_others(pages: Visited):
    ann, bob = await pages.person("ann"), await pages.person("bob")
    others = [f"other-{n}.example" for n in range(60)]
    for host in others:
        await watch(pages, f"https://{host}/", place=ANN, token=ann)
    await watch(pages, "https://his.example/", place=BOB, token=bob)
    now = pages.app.clock.now()
    for host in (*others, "his.example"):
        pages.service.gates.hold(host, Hold(now + timedelta(minutes=5), now, "HTTP 429"))
    html = await pages.text("/hosts", token=bob)
    assert "his.example paused by the site" in part(html, "now").partition("All sites")[0]
    assert "other-" not in html


async def test_u2_a_poll_of_another_user_is_not_named(pages: Visited):
    ann, bob = await pages.person("ann"), await pages.person("bob")
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        hers = await watch(pages, web.url("slow", "/hers"), place=ANN, token=ann)
        await watch(pages, web.url("slow", "/his"), place=BOB, token=bob)
        poll = asyncio.create_task(pages.post(f"{hers}/poll", token=ann))
        await slow.asked.wait()
        html = await pages.text("/hosts", token=bob)
        slow.open.set()
        await poll
    assert "checking a source of another user" in words(html)
    assert "/hers" not in html


async def test_p1_the_x_lane_of_another_user_is_separate(pages: Visited):
    ann, bob = await pages.person("ann"), await pages.person("bob")
    for place, token in ((ANN, ann), (BOB, bob)):
        await watch(pages, "@jack", type="twitter", place=place, token=token)
    user, now = await pages.app.store.accounts.user("ann"), pages.app.clock.now()
    pages.service.gates.hold(f"x.com/{user.id}", Hold(now + timedelta(minutes=5), now, "slowly"))
    assert "slowly" in await pages.text("/hosts", token=ann)
    html = await pages.text("/hosts", token=bob)
    assert "slowly" not in html
    assert "Nothing is due" in html


async def test_odd_host_names_are_not_found(pages: Visited):
    await watch(pages, "https://a.example/")
    for name in ("-", "a%20b", "%00", "x" * 301, "[::1", "%3Cscript%3E"):
        answer = await pages.get(f"/hosts/{name}")
        assert answer.status == 404, name
        assert b"<script>" not in answer.body


async def test_viewing_changes_nothing(pages: Visited):
    source = await source_of(pages, host="a.example", url="https://a.example/")
    await polled(pages, source)
    before = await pages.app.store.sources.get(source.id)
    await pages.text("/hosts")
    await pages.text("/hosts/a.example")
    assert await pages.app.store.sources.get(source.id) == before
