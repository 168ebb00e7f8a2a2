"""No private address is connected to: by address, by name, by any spelling (N3, N4)."""

import socket
from ipaddress import ip_network

import pytest

from headwater import logs
from headwater.errors import AddressRefused, ConnectFailed
from headwater.fetch.net import connector
from headwater.fetch.net.connector import Refused, guarded_socket
from headwater.fetch.net.dns import SystemResolver
from tests.fetch.loopback_servers import answer, name_server, serving, visitor

ODD_SPELLINGS = [
    "127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "127.1",
    "127.0.0.1.",
    "１２７.０.０.１",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "localhost",
    "LOCALHOST.",
    "app.localhost",
    "user@127.0.0.1",
    "example.org@127.0.0.1",
]


@pytest.mark.parametrize("host", ODD_SPELLINGS)
async def test_n4_every_spelling_of_loopback_is_refused(host):
    async with serving() as server, visitor(allow_private_networks=False) as client:
        with pytest.raises(AddressRefused, match=r"\(loopback\)|localhost is on a private network"):
            await client.get(f"http://{host}:{server.port}/feed")
        assert server.connections == 0


async def test_n4_u2_a_name_with_a_private_address_is_refused_without_a_connection(lines):
    logs.configure(stream=lines)
    async with (
        name_server({"inside.test": ["127.0.0.1"]}) as dns,
        SystemResolver(nameservers=[dns.address]) as names,
        serving() as server,
        visitor(names=names, allow_private_networks=False) as client,
    ):
        with pytest.raises(AddressRefused) as refused:
            await client.get(f"http://inside.test:{server.port}/feed")
        assert server.connections == 0
    # users must not learn what a name inside resolves to; the log has it
    text = "inside.test is on a private network; app.fetch.allow-private-networks can allow it"
    assert str(refused.value) == text
    assert "host=inside.test address=127.0.0.1 reason=loopback" in lines.getvalue()


@pytest.mark.parametrize("answers", [["127.5.0.1", "127.6.0.1"], ["127.6.0.1", "127.5.0.1"]])
async def test_n4_one_refused_address_refuses_the_whole_lookup(answers):
    async with (
        name_server({"mixed.test": answers}) as dns,
        SystemResolver(nameservers=[dns.address]) as names,
        serving(host="127.5.0.1") as good,
        visitor(names=names, allow_private_networks=(ip_network("127.5.0.0/16"),)) as client,
    ):
        with pytest.raises(AddressRefused):
            await client.get(f"http://mixed.test:{good.port}/feed")
        assert good.connections == 0


async def test_n4_a_name_with_allowed_addresses_only_is_visited():
    async with (
        name_server({"good.test": ["127.5.0.1"]}) as dns,
        SystemResolver(nameservers=[dns.address]) as names,
        serving(answer("200 OK", b"hello"), host="127.5.0.1") as good,
        visitor(names=names, allow_private_networks=(ip_network("127.5.0.0/16"),)) as client,
    ):
        response = await client.get(f"http://good.test:{good.port}/feed")
        assert response.body == b"hello"
        assert good.sent("Host") == f"good.test:{good.port}"


async def test_n4_a_second_dns_response_that_differs_is_checked_again():
    replies = [["127.5.0.1"], ["127.6.0.1"]]

    class Rebinding:
        async def addresses(self, host):
            return replies.pop(0)

    limits = {"allow_private_networks": (ip_network("127.5.0.0/16"),)}
    async with (
        serving(answer("200 OK", b"", "Connection: close"), host="127.5.0.1") as good,
        visitor(names=Rebinding(), **limits) as client,
    ):
        url = f"http://rebind.test:{good.port}/feed"
        await client.get(url)
        with pytest.raises(AddressRefused):
            await client.get(url)
        assert good.connections == 1


def test_n4_the_guard_at_the_socket_creates_no_socket_for_a_refused_address():
    def info(address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 80)

    guarded = guarded_socket(allowed=False)
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "224.0.0.1"):
        with pytest.raises(Refused):
            guarded(info(address))
    guarded(info("8.8.8.8")).close()  # created, but not connected
    guarded_socket(allowed=True)(info("127.0.0.1")).close()


async def test_n7_a_list_of_a_thousand_addresses_is_not_tried_completely(monkeypatch):
    asked = []

    class ManyAddresses:
        async def addresses(self, host):
            return [f"127.5.{number // 250}.{number % 250 + 1}" for number in range(1000)]

    async with serving() as server:
        port = server.port

    def counting(allowed):
        make_socket = guarded_socket(allowed)

        def counted(info):
            asked.append(info)
            return make_socket(info)

        return counted

    monkeypatch.setattr(connector, "guarded_socket", counting)
    async with visitor(names=ManyAddresses()) as client:
        with pytest.raises(ConnectFailed):
            await client.get(f"http://crowd.test:{port}/")
    assert len({info[4][0] for info in asked}) <= 8
