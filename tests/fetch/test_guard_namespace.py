"""The address guard from end to end, in a world of our own that nothing leaves (N3-N5, H5).

Every address answers there, so a hole in the guard would be a connection. That it would be seen
is shown by the same visits with private networks allowed.
"""

import json
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.fetch.guard_world import (
    INSIDE_ADDRESS,
    NAMES,
    PUBLIC_ADDRESS,
    SILENT_NAMES,
    SOURCES,
    SPELLINGS,
    command,
)
from tests.fetch.test_address import NEIGHBOURS, PUBLIC, REFUSED
from tests.system.cut_off import way_in

REPOSITORY = Path(__file__).parents[2]
SIX_ADDRESS = "2606:4700:4700::1111"
PUBLIC_NAMES = {"public.example", "six.example"}
# to where no stream can be opened, guard or not
_UNCONNECTABLE = [
    ip_network(n) for n in ("224.0.0.0/4", "255.255.255.255", "127.255.255.255", "ff00::/8")
]
_SCOPED = ip_network("fe80::/10")  # says nothing without the interface it is on

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What came of all the visits."""
    way = way_in()
    if way is None or not is_possible(way):
        pytest.skip("inside addresses are connected to only in a namespace, not allowed here")
    ran = subprocess.run(
        command(tmp_path_factory.mktemp("world"), way),
        cwd=REPOSITORY, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-5000:]
    return json.loads(ran.stdout)


def is_possible(way: tuple[str, ...]) -> bool:
    """Whether such a world can have routes and name servers of its own."""
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
    else:  # the guard is all that keeps us from there
        assert visits["open"]["came"] == "200"
        assert len(visits["open"]["reached"]) == 1


@pytest.mark.parametrize("address", PUBLIC + NEIGHBOURS)
def test_n3_public_addresses_up_to_the_edge_of_a_range_are_reached(
    report: Any, address: str
) -> None:
    assert report["ranges"]["public"][address] == {"came": "200", "reached": [address]}


@pytest.mark.parametrize("host", SPELLINGS)
def test_n4_no_spelling_of_an_inside_address_gets_past_the_guard(report: Any, host: str) -> None:
    visits = report["spellings"][host]
    assert visits["asked"] == {"came": "AddressRefused", "reached": []}


@pytest.mark.parametrize("host", SPELLINGS)
def test_n5_no_spelling_in_a_location_gets_past_the_guard(report: Any, host: str) -> None:
    visits = report["spellings"][host]
    assert visits["redirected"] == {"came": "AddressRefused", "reached": [PUBLIC_ADDRESS]}
    assert visits["open"] == {"came": "200", "reached": [PUBLIC_ADDRESS, INSIDE_ADDRESS]}


@pytest.mark.parametrize("name", [str(name) for name in NAMES if name not in PUBLIC_NAMES])
def test_n4_a_name_that_leads_inside_with_any_of_its_addresses_is_refused(
    report: Any, name: str
) -> None:
    visits = report["names"][name]
    assert visits["guarded"] == {"came": "AddressRefused", "reached": []}
    assert visits["redirected"] == {"came": "AddressRefused", "reached": [SIX_ADDRESS]}
    assert visits["open"]["came"] == "200"


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES))
def test_n4_a_public_name_is_visited(report: Any, name: str) -> None:
    assert report["names"][name]["guarded"]["came"] == "200"
    assert report["names"][name]["redirected"]["came"] == "200"


def test_n5_every_hop_of_a_chain_is_judged(report: Any) -> None:
    visits = report["names"]["chain"]
    assert visits["guarded"]["came"] == "AddressRefused"
    assert visits["guarded"]["reached"] == [PUBLIC_ADDRESS, SIX_ADDRESS]
    assert visits["open"]["reached"] == [PUBLIC_ADDRESS, SIX_ADDRESS, INSIDE_ADDRESS]


def test_n4_a_name_that_changes_between_look_ups_is_judged_at_each(report: Any) -> None:
    *visits, redirected = report["changing"]
    public = {"came": "200", "reached": [PUBLIC_ADDRESS]}
    assert visits == [public, {"came": "AddressRefused", "reached": []}] * 3
    assert redirected == {"came": "AddressRefused", "reached": [PUBLIC_ADDRESS]}


def test_h5_names_that_nobody_answers_for_end_in_time_and_hold_up_nobody(report: Any) -> None:
    silence = report["silence"]
    assert silence["good"] == ["200"] * 20
    assert silence["waiting"] == len(SILENT_NAMES)  # others went on meanwhile
    assert set(silence["came"]) == {"NameUnresolved"}
    assert silence["seconds"] < 30  # the limit is 5, and the machine may be slow


def test_n3_n4_the_whole_service_polls_and_previews_nobody_inside(report: Any) -> None:
    found = report["guarded"]
    assert set(found["reached"]) == {PUBLIC_ADDRESS}
    good, *refused, silent = (found["outcomes"][url] for url in SOURCES)
    assert good["error"] is None
    assert all("is not a public address" in outcome["error"] for outcome in refused)
    assert {outcome["failureType"] for outcome in refused} == {"transient"}
    assert "could not be looked up" in silent["error"]
    assert found["previews"] == [422] * 4
    assert "Traceback" not in found["log"]


def test_n3_the_whole_service_goes_inside_where_it_is_allowed_to(report: Any) -> None:
    found = report["open"]
    assert {PUBLIC_ADDRESS, INSIDE_ADDRESS, "169.254.169.254"} <= set(found["polled"])
    assert all(found["outcomes"][url]["error"] is None for url in SOURCES[:-1])
    assert found["previews"] == [200] * 4
