"""Redirects: checked, limited, with host access, and without leaking secrets (N2-N6, P3)."""

import asyncio
from base64 import b64encode
from ipaddress import ip_network

import pytest

from headwater.errors import (
    AddressRefused,
    BadRedirect,
    BrokenBody,
    HostBusy,
    LeaseLost,
    OnHold,
    TimedOut,
)
from tests.fetch.loopback_servers import VisitRecorder, answer, redirect, serving, visit, visitor


@pytest.mark.parametrize(
    "status",
    [
        "301 Moved Permanently",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ],
)
async def test_n5_every_redirect_is_followed_with_a_get(status):
    async with serving(redirect("/new?a=b#part", status), answer("200 OK", b"here")) as server:
        async with visitor() as client:
            response = await client.get(server.url("/old"))
        assert server.paths == ["/old", "/new?a=b"]
        assert all(request.startswith(b"GET ") for request in server.requests)
        assert response.redirected_to == server.url("/new?a=b")
    assert response.body == b"here"
    assert response.url.target == "/new?a=b"


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("sibling", "/dir/sibling"),
        ("../up", "/up"),
        ("?page=2", "/dir/feed?page=2"),
        ("/with space", "/with%20space"),
        ("/\udcc3\udcbc", "/%C3%BC"),
        ("/\udcff", "/%FF"),
        ("  /padded  ", "/padded"),
    ],
)
async def test_n5_locations_are_resolved_as_received(location, path):
    async with serving(redirect(location), answer()) as server, visitor() as client:
        await client.get(server.url("/dir/feed"))
        assert server.paths == ["/dir/feed", path]


async def test_n5_as_many_redirects_as_allowed_are_followed():
    hops = [redirect(f"/{number}") for number in range(5)]
    response = await visit(*hops, answer("200 OK", b"there"), max_redirects=5)
    assert response.body == b"there"
    with pytest.raises(BadRedirect, match="after 4 redirects"):
        await visit(*hops, answer("200 OK", b"there"), max_redirects=4)


async def test_n5_no_redirect_is_followed_if_none_is_allowed():
    with pytest.raises(BadRedirect):
        await visit(redirect("/new"), max_redirects=0)


@pytest.mark.parametrize("locations", [["/feed"], ["/b", "/feed"], ["/b", "/c", "/b"]])
async def test_n5_a_redirect_loop_is_detected(locations):
    with pytest.raises(BadRedirect, match="circle"):
        await visit(*(redirect(location) for location in locations), max_redirects=20)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Location:"],
        ["Location:   "],
        ["Location: /a", "Location: /b"],
        ["Location: http://"],
        ["Location: http://host:99999/"],
        ["Location: http://[::zzz]/"],
        ["Location: http://exa mple.org/"],
        ["Location: http://a\\b/"],
        ["Location: " + "/x" * 5000],
        ["Location: ftp://127.0.0.1/feed"],
        ["Location: file:///etc/passwd"],
        ["Location: javascript:alert(1)"],
        ["Location: data:text/plain,hello"],
        ["Location: gopher://127.0.0.1:6379/_x"],
    ],
)
async def test_n5_an_invalid_redirect_fails_in_one_line(headers):
    with pytest.raises(BadRedirect) as caught:
        await visit(answer("302 Found", b"", *headers))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.6.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1"])
async def test_n4_a_redirect_to_a_refused_address_opens_no_connection(host):
    async with (
        serving(host="127.0.0.1") as inside,
        serving(redirect(f"http://{host}:{inside.port}/"), host="127.5.0.1") as outside,
        visitor(allow_private_networks=(ip_network("127.5.0.0/16"),)) as client,
    ):
        with pytest.raises(AddressRefused):
            await client.get(outside.url())
        assert (outside.connections, inside.connections) == (1, 0)


async def test_n6_credentials_of_a_url_are_sent_to_its_origin_only():
    async with serving(host="127.0.0.2") as other:
        hops = [redirect("/next"), redirect(other.url())]
        async with serving(*hops) as server, visitor() as client:
            url = server.url().replace("http://", "http://me:s%C3%A9cret@")
            response = await client.get(url)
            basic = "Basic " + b64encode("me:sécret".encode()).decode()
            assert [server.sent("Authorization", n) for n in (0, 1)] == [basic, basic]
            assert other.sent("Authorization") is None
            assert "secret" not in response.redirected_to
            assert b"@" not in server.requests[0]


async def test_n6_another_port_is_another_origin():
    async with serving() as other, serving(redirect(other.url())) as server, visitor() as client:
        await client.get(server.url().replace("http://", "http://me:secret@"))
        assert server.sent("Authorization") is not None
        assert other.sent("Authorization") is None


async def test_n6_secrets_of_the_caller_stay_and_validators_are_forwarded():
    given = {"authorization": "Bearer x", "Cookie": "a=b", "If-None-Match": '"v"', "Accept": "a/b"}
    async with serving(host="127.0.0.2") as other:
        async with serving(redirect(other.url())) as server, visitor() as client:
            await client.get(server.url(), headers=given)
            assert server.sent("Authorization") == "Bearer x"
        assert other.sent("Authorization") is None
        assert other.sent("Cookie") is None
        assert other.sent("If-None-Match") == '"v"'
        assert other.sent("Accept") == "a/b"


async def test_n6_the_callers_authorization_overrides_the_urls():
    async with serving() as server, visitor() as client:
        url = server.url().replace("http://", "http://me:secret@")
        await client.get(url, headers={"Authorization": "Bearer x"})
        assert server.sent("Authorization") == "Bearer x"


async def test_p3_a_redirect_to_another_host_waits_for_access():
    recorder = VisitRecorder()
    async with (
        serving(answer("200 OK", b"there"), host="127.0.0.2") as other,
        serving(redirect(other.url())) as server,
        visitor() as client,
    ):
        response = await client.get(server.url(), visit=recorder)
    assert response.body == b"there"
    assert recorder.visits == ["enter 127.0.0.2", "leave 127.0.0.2"]


async def test_p3_redirects_on_the_first_host_need_no_access():
    recorder = VisitRecorder(busy={"127.0.0.1"})
    async with serving(redirect("/a"), redirect("/b"), answer()) as server, visitor() as client:
        await client.get(server.url(), visit=recorder)
    assert recorder.visits == []


async def test_p3_hops_on_one_other_host_are_one_visit_and_visits_do_not_overlap():
    recorder = VisitRecorder()
    async with (
        serving(answer("200 OK", b"end"), host="127.0.0.3") as third,
        serving(redirect("/again"), redirect(third.url()), host="127.0.0.2") as second,
        serving(redirect(second.url())) as first,
        visitor() as client,
    ):
        await client.get(first.url(), visit=recorder)
    assert recorder.visits == [
        "enter 127.0.0.2",
        "leave 127.0.0.2",
        "enter 127.0.0.3",
        "leave 127.0.0.3",
    ]


async def test_p3_a_hop_back_to_the_first_host_waits_for_access_too():
    recorder = VisitRecorder()
    async with (
        serving(host="127.0.0.2") as second,
        serving(redirect(second.url()), answer("200 OK", b"home")) as first,
        visitor() as client,
    ):
        second.answers = [redirect(first.url("/home"))]
        response = await client.get(first.url(), visit=recorder)
    assert response.body == b"home"
    assert recorder.visits == [
        "enter 127.0.0.2",
        "leave 127.0.0.2",
        "enter 127.0.0.1",
        "leave 127.0.0.1",
    ]


async def test_p3_access_is_released_when_the_visit_fails():
    recorder = VisitRecorder()
    async with (
        serving(answer("206 Partial Content", b"x"), host="127.0.0.2") as other,
        serving(redirect(other.url())) as server,
        visitor() as client,
    ):
        with pytest.raises(BrokenBody):
            await client.get(server.url(), visit=recorder)
    assert recorder.visits == ["enter 127.0.0.2", "leave 127.0.0.2"]


async def test_p3_a_host_without_access_in_time_is_busy():
    recorder = VisitRecorder(busy={"127.0.0.2"})
    async with (
        serving(host="127.0.0.2") as other,
        serving(redirect(other.url())) as server,
        visitor(host_wait_seconds=0.05) as client,
    ):
        with pytest.raises(HostBusy, match=r"127\.0\.0\.2"):
            await client.get(server.url(), visit=recorder)
        assert other.connections == 0


@pytest.mark.parametrize("looks", range(8))
async def test_k8_every_request_checks_its_lock_before_connecting_and_before_sending(looks):
    """A worker suspended while connecting may have lost the host to another worker."""
    recorder = VisitRecorder()
    recorder.checks_left = looks
    async with (
        serving(redirect("/more"), answer(), host="127.0.0.2") as other,
        serving(redirect("/b"), redirect(other.url())) as server,
    ):
        async with visitor() as client:
            with pytest.raises(LeaseLost):
                await client.get(server.url(), visit=recorder)
        async with asyncio.timeout(60):  # servers count a connection a moment later
            while (server.connections, other.connections) != (looks > 0, looks > 4):
                await asyncio.sleep(0)
            await server.settled()
            await other.settled()
        assert len(server.requests) + len(other.requests) == looks // 2


async def test_p9_a_host_on_hold_is_not_requested():
    recorder = VisitRecorder(held={"127.0.0.2"})
    async with serving(host="127.0.0.2") as other:
        async with serving(redirect(other.url())) as server, visitor() as client:
            with pytest.raises(OnHold):
                await client.get(server.url(), visit=recorder)
        assert other.connections == 0


async def test_n7_waiting_for_access_does_not_count_towards_the_total_time():
    recorder = VisitRecorder(wait_seconds=3.5)
    async with (
        serving(answer("200 OK", b"there"), host="127.0.0.2") as other,
        serving(redirect(other.url())) as server,
        visitor(total_timeout_seconds=3) as client,
    ):
        response = await client.get(server.url(), visit=recorder)
    assert response.body == b"there"


async def test_n7_all_hops_together_have_one_total_time():
    async def slow(reader, writer):
        await asyncio.sleep(0.3)
        writer.write(redirect(f"/{len(server.requests)}"))
        await writer.drain()

    async with serving(slow) as server, visitor(total_timeout_seconds=0.5) as client:
        with pytest.raises(TimedOut, match=r"more than 0\.5 s"):
            await client.get(server.url())
        assert len(server.requests) in (1, 2)  # each hop alone is within the limit
