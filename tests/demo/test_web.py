"""The simulated web serves real connections on loopback as its hosts are configured."""

import asyncio
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
import uvloop

from headwater.clock import SystemClock
from headwater.demo.demo_hosts import demo_hosts
from headwater.demo.demo_web import DemoHost, DemoWeb, Reply
from headwater.demo.host_behaviours import (
    GrowingFeed,
    RateLimited,
    changing_page,
    fixed,
    flapping,
    ill_formed,
    many_feeds,
    paths,
    redirect,
    slow,
    stuck,
)
from headwater.errors import HeadwaterError, NotAFeed
from headwater.fetch.feed.feed_document import parse_feed
from headwater.model import SourceType
from headwater.rules.urls import parse_url
from tests.demo.http_client import NOW, HandClock, a_web, ask, get
from tests.scripted_host import ScriptedHost


async def test_every_host_of_the_demo_has_a_separate_address_on_one_port():
    async with DemoWeb(demo_hosts(), clock=HandClock()) as web:
        addresses = [web.address(host.name) for host in web.hosts]
        answers = [await get(web.url("gone.demo")), await get(web.url("missing.demo"))]
    assert addresses[0] == "127.80.0.1"
    assert len(set(addresses)) == len(addresses) >= 12
    assert web.url("steady.demo", "/x") == f"http://127.80.0.1:{web.port}/x"
    assert [answer.status for answer in answers] == [410, 404]


def test_every_source_of_the_demo_can_be_created():
    web = DemoWeb(demo_hosts(), clock=HandClock(), port=8000)
    for host in web.hosts:
        assert host.sources
        for source in host.sources:
            url = web.source_url(host, source)
            if source.type is SourceType.TWITTER:
                assert url.startswith("@")
            else:
                assert parse_url(url).host == web.address(host.name)


async def test_every_working_feed_of_the_demo_can_be_parsed():
    read: dict[str, object] = {}
    async with DemoWeb(demo_hosts(), clock=HandClock()) as web:
        for host in web.hosts:
            if host.name == "stuck.demo":
                continue
            for source in host.sources:
                if source.type is SourceType.RSS:
                    url = web.source_url(host, source)
                    await _read_into(read, url, host.name, source.path)
    assert read["steady.demo/feed.xml"] == 20
    assert read["atom.demo/atom.xml"] == 20
    assert read["json.demo/feed.json"] == 20
    assert read["slow.demo/feed.xml"] == 20
    assert read["birds.demo/heron/rss"] == 10
    assert read["huge.demo/feed.xml"] == 4000
    assert read["broken.demo/feed.xml"] in range(15, 21)
    assert read["broken.demo/nothing.xml"] == "no feed"
    assert read["moved.demo/feed.xml"] == 302


async def _read_into(read, url, host, path):
    try:
        answer = await get(url)
    except asyncio.IncompleteReadError:  # flapping.demo may close the connection
        return
    if answer.status != 200:
        read[f"{host}{path}"] = answer.status
        return
    try:
        feed = parse_feed(answer.body, content_type=answer.headers["content-type"], url=url)
    except NotAFeed:
        read[f"{host}{path}"] = "no feed"
    else:
        read[f"{host}{path}"] = len(feed.entries)


@pytest.mark.parametrize("kind", ["rss", "atom", "json"])
async def test_a_feed_gains_an_entry_at_its_interval(kind):
    clock = HandClock()
    async with a_web(
        GrowingFeed("news", every_seconds=30, entries=5, kind=kind), clock=clock
    ) as web:
        url = web.url("a.demo")
        before = parse_feed((await get(url)).body, url=url).entries
        clock.passed += 30
        after = parse_feed((await get(url)).body, url=url).entries
        again = parse_feed((await get(url)).body, url=url).entries
    assert len(before) == len(after) == 5
    assert after == again
    assert list(after[1:]) == list(before[:-1])
    dates = [before[0].published_at, after[0].published_at]
    assert dates == [NOW, NOW + timedelta(seconds=30)]
    assert all(entry.author for entry in after)
    assert all(str(entry.url).startswith(web.url("a.demo", "/")) for entry in after)


async def test_no_two_entries_have_the_same_body():
    bodies = set()
    async with a_web(many_feeds(["heron", "osprey"], entries=300)) as web:
        for user in ("heron", "osprey"):
            url = web.url("a.demo", f"/{user}/rss")
            bodies |= {entry.body for entry in parse_feed((await get(url)).body, url=url).entries}
        assert (await get(web.url("a.demo", "/stranger/rss"))).status == 404
    assert len(bodies) == 600


async def test_p8_validators_give_304_until_the_feed_grows():
    clock = HandClock()
    async with a_web(GrowingFeed("news", every_seconds=30), clock=clock) as web:
        url = web.url("a.demo")
        first = await get(url)
        etag, modified = first.headers["etag"], first.headers["last-modified"]
        by_tag = await get(url, If_None_Match=etag)
        by_date = await get(url, If_Modified_Since=modified.replace("gmt", "GMT"))
        by_junk = await get(url, If_Modified_Since="whenever")
        clock.passed += 30
        later = await get(url, If_None_Match=etag)
    assert (by_tag.status, by_tag.body, by_date.status, by_junk.status) == (304, b"", 304, 200)
    assert later.status == 200
    assert later.headers["etag"] != etag


async def test_a_page_gets_a_new_article_at_its_interval():
    clock = HandClock()
    async with a_web(changing_page("gazette", every_seconds=45), clock=clock) as web:
        pages = [(await get(web.url("a.demo", "/"))).body.decode() for _ in range(2)]
        clock.passed += 45
        pages.append((await get(web.url("a.demo", "/"))).body.decode())
    assert pages[0] == pages[1] != pages[2]
    assert pages[0].count("<article>") == 1


async def test_a_slow_host_sleeps_before_it_responds_and_the_visit_records_it():
    clock = HandClock()
    async with a_web(slow(fixed(200), seconds=8), clock=clock) as web:
        await get(web.url("a.demo"), User_Agent="tester")
    (visit,) = web.visits_to("a.demo")
    assert visit.ended - visit.started == 8
    assert (visit.address, visit.path, visit.status) == ("127.80.0.1", "/feed.xml", 200)
    assert visit.headers["user-agent"] == "tester"


def has_ended(visit):
    return visit.ended is not None


async def test_a_stuck_host_never_responds_and_notices_when_the_client_disconnects():
    async with a_web(stuck) as web:
        _, writer = await asyncio.open_connection(web.address("a.demo"), web.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while not web.visits:
            await asyncio.sleep(0)
        assert not has_ended(web.visits[0])
        writer.close()
        await writer.wait_closed()
        while not has_ended(web.visits[0]):
            await asyncio.sleep(0.001)
    assert web.visits[0].status is None


async def test_closing_cuts_the_connections_of_waiting_clients():
    async with a_web(stuck) as web:
        reader, writer = await asyncio.open_connection(web.address("a.demo"), web.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while not web.visits:
            await asyncio.sleep(0)
    assert web.visits[0].ended is not None
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    with pytest.raises(OSError):
        await asyncio.open_connection(web.address("a.demo"), web.port)


async def test_p9_a_rate_limited_host_sends_retry_after_until_its_window_ends():
    clock = HandClock()
    site = RateLimited(fixed(200), requests=2, window_seconds=60)
    async with a_web(site, clock=clock) as web:
        url = web.url("a.demo")
        answers = [await get(url) for _ in range(2)]
        clock.passed += 19.5
        answers.append(await get(url))
        clock.passed += 40.5
        answers.append(await get(url))
    assert [answer.status for answer in answers] == [200, 200, 429, 200]
    assert answers[2].headers["retry-after"] == "41"


async def test_a_flapping_host_fails_every_other_request():
    outcomes = []
    async with a_web(flapping(fixed(200))) as web:
        for _ in range(6):
            try:
                outcomes.append((await get(web.url("a.demo"))).status)
            except (asyncio.IncompleteReadError, ConnectionError):
                outcomes.append("hung up")
    assert outcomes == [500, 200, "hung up", 200, 500, 200]
    assert [visit.status for visit in web.visits] == [500, 200, None, 200, 500, 200]


async def test_a_redirect_leads_to_another_host_of_the_web():
    hosts = [
        DemoHost("old.demo", "moved", redirect("new.demo", "/there", status=301)),
        DemoHost("new.demo", "is there", fixed(200, b"hello")),
    ]
    async with DemoWeb(hosts, clock=HandClock()) as web:
        answer = await get(web.url("old.demo"))
        assert answer.status == 301
        assert answer.headers["location"] == web.url("new.demo", "/there")
        assert (await get(answer.headers["location"])).body == b"hello"


async def test_r1_an_ill_formed_feed_is_parsed_as_incomplete():
    feed = GrowingFeed("broken", every_seconds=30, entries=10)
    async with a_web(ill_formed(feed)) as web:
        url = web.url("a.demo")
        body = (await get(url)).body
    assert b" & " in body
    assert b"</rss>" not in body
    assert not parse_feed(body, url=url).complete


async def test_unknown_paths_are_404():
    async with a_web(paths({"/a b": fixed(200, b"yes")})) as web:
        assert (await get(web.url("a.demo", "/a%20b?x=1"))).body == b"yes"
        assert (await get(web.url("a.demo", "/c"))).status == 404
    assert web.visits[0].query == {"x": "1"}


async def test_a_scripted_host_responds_as_its_function_says():
    async def later(request):
        return Reply(body=b"later")

    def fail(request):
        raise ZeroDivisionError("as scripted")

    hosts = [
        ScriptedHost(lambda request: Reply(status=418, body=request.path.encode()), name="a"),
        ScriptedHost(later, name="b"),
        ScriptedHost(fail, name="c"),
    ]
    async with DemoWeb(hosts, clock=HandClock()) as web:
        answers = [await get(web.url(name)) for name in "abc"]
    assert [(answer.status, answer.body) for answer in answers] == [
        (418, b"/feed.xml"),
        (200, b"later"),
        (500, b"ZeroDivisionError: as scripted"),
    ]


async def test_a_connection_is_kept_alive():
    async with a_web(fixed(200, b"hello")) as web:
        parts = urlsplit(web.url("a.demo"))
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        first = await ask(reader, writer, parts)
        head = await ask(reader, writer, parts, method="HEAD")
        last = await ask(reader, writer, parts, headers={"Connection": "close"})
        assert await reader.read() == b""
        writer.close()
    assert (first.body, head.body, last.body) == (b"hello", b"", b"hello")
    assert head.headers["content-length"] == "5"
    assert len(web.visits) == 3


async def test_an_invalid_request_is_cut_off():
    async with a_web(fixed(200)) as web:
        reader, writer = await asyncio.open_connection(web.address("a.demo"), web.port)
        writer.write(b"nonsense\r\n\r\n")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
    assert web.visits == []


async def test_an_occupied_port_is_a_one_line_error():
    async with a_web(fixed(200)) as web:
        taken = DemoWeb(web.hosts, clock=HandClock(), port=web.port)
        with pytest.raises(HeadwaterError, match=f"cannot listen on port {web.port}"):
            async with taken:
                pass
    async with taken:
        assert (await get(taken.url("a.demo"))).status == 200


def test_two_hosts_of_one_name_are_refused():
    host = DemoHost("a.demo", "a host", fixed(200))
    with pytest.raises(ValueError, match="same name"):
        DemoWeb([host, host], clock=HandClock())


def test_it_serves_many_hosts_concurrently_under_uvloop():
    hosts = [DemoHost(f"h{n}", "one of many", GrowingFeed(f"h{n}", entries=2)) for n in range(300)]

    async def scenario():
        async with DemoWeb(hosts, clock=SystemClock()) as web:
            answers = await asyncio.gather(*(get(web.url(host.name)) for host in hosts))
        return web, answers

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        web, answers = runner.run(scenario())
    assert {answer.status for answer in answers} == {200}
    assert web.address("h299") == "127.80.1.50"
    assert {visit.address for visit in web.visits} == {web.address(h.name) for h in hosts}
