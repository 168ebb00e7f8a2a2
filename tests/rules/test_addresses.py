"""Which addresses may be visited, range by range (N3)."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.addresses import Allowed, host_refusal, refusal


def is_allowed(address: str, allowed: Allowed) -> bool:
    return refusal(address, allowed) is None


PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "168.63.129.15",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "2001:4860:4860::8888",
    "2001:200::1",
]
REFUSED = [
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("172.16.0.0/12", "private"),
    ("192.168.0.0/16", "private"),
    ("100.64.0.0/10", "carrier NAT"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("168.63.129.16/32", "metadata"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("198.18.0.0/15", "benchmark"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/5", "reserved"),
    ("255.255.255.255/32", "broadcast"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "NAT64"),
    ("100::/64", "discard"),
    ("2001::/32", "Teredo"),
    ("2001:2::/48", "benchmark"),
    ("2001:10::/28", "ORCHID"),
    ("2001:20::/28", "ORCHID"),
    ("2001:1::/32", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("2002::/16", "6to4"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique-local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
]
# the public addresses just outside a range
NEIGHBOURS = [
    "1.0.0.0",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "2001:db7:ffff::",
    "2001:db9::",
    "2003::",
    "3ffe:ffff::",
    "3fff:1000::",
]


@pytest.mark.parametrize("address", PUBLIC + NEIGHBOURS)
def test_n3_public_unicast_may_be_visited(address):
    assert refusal(address, allowed=False) is None


@pytest.mark.parametrize(("network", "name"), REFUSED)
def test_n3_a_range_is_refused_from_its_first_to_its_last_address(network, name):
    whole = ip_network(network)
    middle = whole[whole.num_addresses // 2]
    assert {refusal(str(a), allowed=False) for a in (whole[0], middle, whole[-1])} == {name}


def edges():
    """All first and last addresses of ranges, with those just outside."""
    for network, _ in [*REFUSED, ("240.0.0.0/4", ""), ("2001::/23", ""), ("2000::/3", "")]:
        whole = ip_network(network)
        for value in (int(whole[0]), int(whole[-1])):
            for near in (value - 1, value, value + 1):
                if 0 <= near < 2**whole.max_prefixlen:
                    yield type(whole[0])(near)


def is_in_the_table(ip):
    ranges = [network for network, _ in REFUSED] + ["240.0.0.0/4", "2001::/23"]
    if ip.version == 6 and ip not in ip_network("2000::/3"):
        return True
    return any(ip in ip_network(network) for network in ranges)


@pytest.mark.parametrize("ip", dict.fromkeys(edges()), ids=str)
def test_n3_outside_a_range_another_one_begins_or_the_address_is_public(ip):
    assert (refusal(str(ip), allowed=False) is not None) == is_in_the_table(ip)


@given(st.ip_addresses())
def test_n3_the_table_above_is_complete(ip):
    if getattr(ip, "ipv4_mapped", None) is None:
        assert (refusal(str(ip), allowed=False) is not None) == is_in_the_table(ip)


@pytest.mark.parametrize(
    "address",
    ["::ffff:0:7f00:1", "1::", "400::1", "4000::1", "5f00::1", "::127.0.0.1", "::8.8.8.8"],
)
def test_n3_ipv6_outside_of_global_unicast_is_refused(address):
    assert refusal(address, allowed=False) is not None


@pytest.mark.parametrize("address", ["", "localhost", "127.1", "0x7f.0.0.1", "1.2.3.4.5", "[::1]"])
def test_n4_an_invalid_address_is_refused(address):
    assert refusal(address, allowed=False) == "not an address"


@pytest.mark.parametrize("address", ["fe80::1%eth0", "::1%lo", "ff02::1%2"])
def test_n3_a_zone_does_not_hide_the_range(address):
    assert not is_allowed(address, allowed=False)


def inside_ipv6(inner):
    value = int(inner)
    return {
        "mapped": IPv6Address(0xFFFF << 32 | value),
        "compatible": IPv6Address(value),
        "NAT64": IPv6Address((0x64FF9B << 96) | value),
        "6to4": IPv6Address((0x2002 << 112) | value << 80 | 1),
        "Teredo server": IPv6Address((0x20010000 << 96) | value << 64 | (~0x08080808 & 0xFFFFFFFF)),
        "Teredo client": IPv6Address((0x20010000 << 96) | 0x08080808 << 64 | (~value & 0xFFFFFFFF)),
    }


@given(st.ip_addresses(v=4))
def test_n3_a_mapped_address_is_checked_as_its_ipv4_address(inner):
    mapped = inside_ipv6(inner)["mapped"]
    assert refusal(str(mapped), allowed=False) == refusal(str(inner), allowed=False)


@given(st.sampled_from(["127.0.0.1", "10.1.2.3", "169.254.169.254", "224.0.0.1"]))
def test_n3_ipv4_inside_ipv6_stays_refused_where_the_outer_range_is_allowed(inner):
    everything_outside = (ip_network("::/0"),)
    for outer in inside_ipv6(IPv4Address(inner)).values():
        assert not is_allowed(str(outer), everything_outside), outer


@pytest.mark.parametrize("network", [network for network, _ in REFUSED if ":" not in network])
def test_n3_every_ipv4_range_stays_refused_in_every_ipv6_mapping(network):
    for inner in {ip_network(network)[0], ip_network(network)[-1]}:
        for kind, outer in inside_ipv6(inner).items():
            if int(outer) > 1:  # :: and ::1 are themselves
                assert not is_allowed(str(outer), (ip_network("::/0"),)), kind


def test_n3_public_ipv4_in_an_ipv6_mapping_is_refused_for_the_mapping():
    for kind, outer in inside_ipv6(IPv4Address("93.184.216.34")).items():
        assert is_allowed(str(outer), (ip_network("::/0"),)), kind
        assert is_allowed(str(outer), allowed=False) == (kind == "mapped"), kind


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("::FFFF:10.0.0.1", "private"),
        ("::ffff:0a00:0001", "private"),
        ("0:0:0:0:0:ffff:10.0.0.1", "private"),
        ("0000:0000:0000:0000:0000:ffff:a9fe:a9fe", "link-local"),
        ("FE80:0000:0000:0000:0000:0000:0000:0001", "link-local"),
        ("fd00::0.0.0.1", "unique-local"),
        ("0:0:0:0:0:0:0:1", "loopback"),
        ("0::0", "unspecified"),
        ("64:FF9B::10.0.0.1", "NAT64"),
    ],
)
def test_n4_every_spelling_of_an_ipv6_address_is_checked_the_same(spelling, name):
    assert refusal(spelling, allowed=False) == name


def test_n3_ipv6_loopback_can_be_allowed_alone():
    assert is_allowed("::1", (ip_network("::1/128"),))


def test_n3_ipv4_inside_ipv6_is_visited_where_both_are_allowed():
    nat64 = (ip_network("64:ff9b::/96"),)
    assert is_allowed("64:ff9b::808:808", nat64)
    assert not is_allowed("64:ff9b::a01:203", nat64)
    assert is_allowed("64:ff9b::a01:203", (*nat64, ip_network("10.0.0.0/8")))


def test_n3_a_list_allows_its_networks_only():
    home = (ip_network("192.168.1.0/24"), ip_network("fd00::/8"))
    assert is_allowed("192.168.1.7", home)
    assert is_allowed("::ffff:192.168.1.7", home)
    assert is_allowed("fd12::1", home)
    assert is_allowed("8.8.8.8", home)
    assert not is_allowed("192.168.2.7", home)
    assert not is_allowed("127.0.0.1", home)
    assert not is_allowed("169.254.169.254", home)


@given(st.ip_addresses())
def test_n3_allowing_private_networks_allows_every_address(ip):
    assert is_allowed(str(ip), allowed=True)


@given(st.ip_addresses())
def test_n3_an_empty_list_allows_the_default(ip):
    assert refusal(str(ip), allowed=()) == refusal(str(ip), allowed=False)


@pytest.mark.parametrize(
    ("host", "allowed", "reason"),
    [
        ("127.0.0.1", False, "loopback"),
        ("10.1.2.3", False, "private"),
        ("169.254.169.254", False, "link-local"),
        ("::1", False, "loopback"),
        ("::ffff:a01:203", False, "private"),
        ("localhost", False, "loopback"),
        ("app.localhost", False, "loopback"),
        ("10.1.2.3", (ip_network("10.1.0.0/16"),), None),
        ("10.2.2.3", (ip_network("10.1.0.0/16"),), "private"),
        ("localhost", (ip_network("127.0.0.0/8"),), None),
        ("localhost", True, None),
        ("93.184.216.34", False, None),
        ("example.org", False, None),
        ("intranet", False, None),  # only DNS can tell
        ("notlocalhost", False, None),
        ("localhost.example", False, None),
    ],
)
def test_j2_hosts_that_can_never_be_visited_are_known_without_dns(
    host: str, allowed: Allowed, reason: str | None
):
    assert host_refusal(host, allowed) == reason
