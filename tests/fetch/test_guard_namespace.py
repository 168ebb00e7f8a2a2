"""End-to-end test of the address guard in an isolated network namespace (N3-N5, H5).

Every address responds there, so a hole in the guard would be a connection. The same visits with
private networks allowed prove that it would be noticed.
"""

import json
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.fetch.routed_namespace import (
    INSIDE_ADDRESS,
    NAMES,
    PUBLIC_ADDRESS,
    SILENT_NAMES,
    SOURCES,
    SPELLINGS,
    command,
)
from tests.rules.test_addresses import NEIGHBOURS, PUBLIC, REFUSED
from tests.system.network_namespace import namespace_command

REPOSITORY = Path(__file__).parents[2]
SIX_ADDRESS = "2606:4700:4700::1111"
PUBLIC_NAMES = {"public.example", "six.example"}
# no stream can be opened there, with or without the guard
_UNCONNECTABLE = [
    ip_network(n) for n in ("224.0.0.0/4", "255.255.255.255", "127.255.255.255", "ff00::/8")
]
_SCOPED = ip_network("fe80::/10")  # invalid without a zone

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of all visits."""
    way = namespace_command()
    if way is None or not is_possible(way):
        pytest.skip("inside addresses are connected to only in a namespace, not allowed here")
    ran = subprocess.run(
        command(tmp_path_factory.mktemp("world"), way),
        cwd=REPOSITORY, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-5000:]
    return json.loads(ran.stdout)


def is_possible(way: tuple[str, ...]) -> bool:
    """Whether a namespace can have its own routes and name servers here."""
    return (
        shutil.which("ip") is not None and subprocess.run([*way, "--mount", "true"]).returncode == 0
    )


def first_and_last() -> list[str]:
    ranges = [ip_network(network) for network, _ in REFUSED]
    return list(dict.fromkeys(str(whole[end]) for whole in ranges for end in (0, -1)))


@pytest.mark.parametrize("address", first_and_last())
def test_n3_no_connection_is_opened_to_a_refused_range(report: Any, address: str) -> None:
    visits = report["ranges"]["refused"][address]
    assert visits["guarded"] == {"came": "AddressRefused", "reached": []}
    ip = ip_address(address)
    if any(ip in network for network in (*_UNCONNECTABLE, _SCOPED)):
        assert visits["open"]["reached"] == []
    else:  # only the guard prevents these connections
        assert visits["open"]["came"] == "200"
        assert len(visits["open"]["reached"]) == 1


@pytest.mark.parametrize("address", PUBLIC + NEIGHBOURS)
def test_n3_public_addresses_next_to_a_range_are_reached(report: Any, address: str) -> None:
    assert report["ranges"]["public"][address] == {"came": "200", "reached": [address]}


@pytest.mark.parametrize("host", SPELLINGS)
def test_n4_no_spelling_of_a_private_address_gets_past_the_guard(report: Any, host: str) -> None:
    visits = report["spellings"][host]
    assert visits["asked"] == {"came": "AddressRefused", "reached": []}


@pytest.mark.parametrize("host", SPELLINGS)
def test_n5_no_spelling_in_a_location_gets_past_the_guard(report: Any, host: str) -> None:
    visits = report["spellings"][host]
    assert visits["redirected"] == {"came": "AddressRefused", "reached": [PUBLIC_ADDRESS]}
    assert visits["open"] == {"came": "200", "reached": [PUBLIC_ADDRESS, INSIDE_ADDRESS]}


@pytest.mark.parametrize("name", [str(name) for name in NAMES if name not in PUBLIC_NAMES])
def test_n4_a_name_with_any_private_address_is_refused(report: Any, name: str) -> None:
    visits = report["names"][name]
    assert visits["guarded"] == {"came": "AddressRefused", "reached": []}
    assert visits["redirected"] == {"came": "AddressRefused", "reached": [SIX_ADDRESS]}
    assert visits["open"]["came"] == "200"


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES))
def test_n4_a_public_name_is_visited(report: Any, name: str) -> None:
    assert report["names"][name]["guarded"]["came"] == "200"
    assert report["names"][name]["redirected"]["came"] == "200"


def test_n5_every_hop_of_a_chain_is_checked(report: Any) -> None:
    visits = report["names"]["chain"]
    assert visits["guarded"]["came"] == "AddressRefused"
    assert visits["guarded"]["reached"] == [PUBLIC_ADDRESS, SIX_ADDRESS]
    assert visits["open"]["reached"] == [PUBLIC_ADDRESS, SIX_ADDRESS, INSIDE_ADDRESS]


def test_n4_a_name_that_changes_between_lookups_is_checked_each_time(report: Any) -> None:
    *visits, redirected = report["changing"]
    public = {"came": "200", "reached": [PUBLIC_ADDRESS]}
    assert visits == [public, {"came": "AddressRefused", "reached": []}] * 3
    assert redirected == {"came": "AddressRefused", "reached": [PUBLIC_ADDRESS]}


def test_h5_unanswered_names_time_out_and_delay_no_others(report: Any) -> None:
    silence = report["silence"]
    assert silence["good"] == ["200"] * 20
    assert silence["waiting"] == len(SILENT_NAMES)  # other visits continued
    assert set(silence["came"]) == {"NameUnresolved"}
    assert silence["seconds"] < 30  # the limit is 5, and the machine may be slow


def test_n3_n4_the_whole_service_polls_and_previews_no_private_address(report: Any) -> None:
    found = report["guarded"]
    assert set(found["reached"]) == {PUBLIC_ADDRESS}
    good, inside, mixed, *literals, redirected, silent = (found["outcomes"][url] for url in SOURCES)
    assert good["error"] is None
    for refused in (inside, mixed, redirected):  # what a name resolves to is not disclosed
        assert "is on a private network" in refused["error"]
        assert "10.0.0.1" not in refused["error"] and "169.254" not in refused["error"]
        assert refused["failureType"] == "transient"
    for refused in literals:  # J2
        assert refused["outcome"] == "rejected"
        assert "is not a public address" in refused["error"]
    assert "address=10.0.0.1" in found["log"]
    assert "could not be looked up" in silent["error"]
    assert found["previews"] == [422] * 4
    assert "Traceback" not in found["log"]


def test_n3_the_whole_service_visits_private_addresses_where_allowed(report: Any) -> None:
    found = report["open"]
    assert {PUBLIC_ADDRESS, INSIDE_ADDRESS, "169.254.169.254"} <= set(found["polled"])
    assert all(found["outcomes"][url]["error"] is None for url in SOURCES[:-1])
    assert found["previews"] == [200] * 4
