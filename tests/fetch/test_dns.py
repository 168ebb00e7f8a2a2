"""Name resolution against a real name server on loopback (H5, O1)."""

import asyncio
import socket
from pathlib import Path

import pytest

from headwater.errors import NameNotFound, NameUnresolved
from headwater.fetch.net.dns import SystemResolver
from tests.fetch.loopback_servers import (
    AAAA,
    FORMERR,
    NOERROR,
    NOTIMP,
    NXDOMAIN,
    REFUSED,
    SERVFAIL,
    SILENT,
    A,
    name_server,
)


async def resolve(table, host, **limits):
    async with (
        name_server(table) as server,
        SystemResolver(nameservers=[server.address], **limits) as names,
    ):
        return list(await names.addresses(host)), server.asked


PATIENT = {"second_family_seconds": 5.0}  # the machine may be busy


async def test_h5_both_families_are_found_and_ipv4_comes_first():
    table = {"news.test": ["2001:4860::1", "8.8.8.8", "8.8.4.4"]}
    found, _ = await resolve(table, "news.test", **PATIENT)
    assert found == ["8.8.8.8", "8.8.4.4", "2001:4860::1"]


@pytest.mark.parametrize(
    "table",
    [
        {"gone.test": NXDOMAIN},
        {"gone.test": NOERROR},
        {("gone.test", A): NXDOMAIN, ("gone.test", AAAA): NOERROR},
    ],
    ids=["no such name", "no address", "both"],
)
async def test_o1_a_name_that_does_not_exist_or_has_no_address_is_not_found(table):
    with pytest.raises(NameNotFound, match=r"gone\.test does not exist"):
        await resolve(table, "gone.test")


@pytest.mark.parametrize("code", [SERVFAIL, REFUSED, NOTIMP, FORMERR])
async def test_o1_a_server_that_fails_leaves_the_name_unresolved(code):
    with pytest.raises(NameUnresolved, match=r"sick\.test could not be looked up"):
        await resolve({"sick.test": code}, "sick.test")


@pytest.mark.parametrize("other", [NXDOMAIN, NOERROR])
async def test_o1_a_missing_address_of_one_family_proves_nothing_while_the_other_fails(other):
    with pytest.raises(NameUnresolved):
        await resolve({("half.test", A): other, ("half.test", AAAA): SERVFAIL}, "half.test")


async def test_h5_one_family_is_enough_where_the_other_fails():
    table = {("half.test", A): ["9.9.9.9"], ("half.test", AAAA): SERVFAIL}
    found, _ = await resolve(table, "half.test")
    assert found == ["9.9.9.9"]


async def test_h5_one_family_is_enough_if_the_other_gets_no_response():
    table = {("half.test", A): ["9.9.9.9"], ("half.test", AAAA): SILENT}
    found, _ = await resolve(table, "half.test")
    assert found == ["9.9.9.9"]


async def test_h5_an_unresponsive_server_times_out():
    with pytest.raises(NameUnresolved, match=r"no answer in time|timeout"):
        await resolve({"slow.test": SILENT}, "slow.test", limit_seconds=0.2)


async def test_o1_a_server_that_is_not_there_leaves_the_name_unresolved():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    async with SystemResolver(nameservers=[f"127.0.0.1:{port}"], limit_seconds=2) as names:
        with pytest.raises(NameUnresolved):
            await names.addresses("any.test")


@pytest.mark.parametrize("host", ["nowhere.invalid", "a.b.invalid", "invalid"])
async def test_o2_names_under_invalid_are_never_looked_up(host):
    async with name_server({host: ["8.8.8.8"]}) as server:
        async with SystemResolver(nameservers=[server.address]) as names:
            with pytest.raises(NameNotFound):
                await names.addresses(host)
        assert server.asked == []


@pytest.mark.parametrize("host", ["localhost", "app.localhost"])
async def test_n3_localhost_is_loopback_whatever_a_server_returns(host):
    found, asked = await resolve({host: ["8.8.8.8"]}, host)
    assert found == ["127.0.0.1", "::1"]
    assert asked == []


async def test_n4_an_address_resolves_to_itself():
    found, asked = await resolve({}, "127.1.2.3")
    assert (found, asked) == (["127.1.2.3"], [])


@pytest.mark.parametrize("host", ["gone.test", "gone"])
async def test_n4_a_name_is_looked_up_without_search_domains(host):
    async with (
        name_server({}) as server,
        SystemResolver(nameservers=[server.address]) as names,
    ):
        with pytest.raises(NameNotFound):
            await names.addresses(host)
        assert {name for name, _ in server.asked} == {host}


async def test_h5_the_hosts_file_is_used():
    lines = Path("/etc/hosts").read_text().splitlines()
    known = [line.split() for line in lines if line.strip() and line[0] != "#"]
    named = [
        (words[0], name)
        for words in known
        for name in words[1:]
        if "localhost" not in name and "." in words[0]
    ]
    if not named:
        pytest.skip("no name of its own in /etc/hosts")
    address, name = named[0]
    found, _ = await resolve({name: SERVFAIL}, name)
    assert address in found


async def test_h5_dead_names_do_not_delay_others():
    table = {"live.test": ["9.9.9.9"]} | {f"dead{n}.test": SILENT for n in range(100)}
    async with (
        name_server(table) as server,
        SystemResolver(nameservers=[server.address], limit_seconds=30) as names,
    ):
        dead = [asyncio.create_task(names.addresses(f"dead{n}.test")) for n in range(100)]
        assert list(await names.addresses("live.test")) == ["9.9.9.9"]
        assert not any(task.done() for task in dead)
        for task in dead:
            task.cancel()
        await asyncio.gather(*dead, return_exceptions=True)


async def test_h5_closing_cancels_open_lookups():
    async with name_server({"slow.test": SILENT}) as server:
        async with SystemResolver(nameservers=[server.address], limit_seconds=30) as names:
            question = asyncio.create_task(names.addresses("slow.test"))
            while not server.asked:
                await asyncio.sleep(0)
        with pytest.raises(NameUnresolved):
            await question
    with pytest.raises(NameUnresolved, match="shutting down"):
        await names.addresses("slow.test")


@pytest.mark.parametrize(("ttl_seconds", "questions"), [(60, 2), (0, 6)])
async def test_h5_a_response_is_cached_for_its_ttl(ttl_seconds, questions):
    async with (
        name_server({"news.test": ["8.8.8.8", "2001:4860::1"]}, ttl_seconds) as server,
        SystemResolver(nameservers=[server.address], **PATIENT) as names,
    ):
        for _ in range(3):
            assert len(await names.addresses("news.test")) == 2
        assert len(server.asked) == questions


def test_h5_names_resolve_under_uvloop_too():
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found, _ = runner.run(resolve({"news.test": ["8.8.8.8"]}, "news.test"))
    assert found == ["8.8.8.8"]
