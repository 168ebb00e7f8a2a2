"""What the doctor finds."""

import tomllib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.app import open_app, open_store
from headwater.clock import SystemClock
from headwater.operations import doctor
from headwater.operations.checks import Verdict
from headwater.operations.sources import SourceSettings, new_source
from headwater.operations.survey import has_keys, survey
from headwater.settings import load_settings

NOW = SystemClock().now()


@pytest.fixture
def settings(tmp_path):
    options = {"app.database-url": f"sqlite:///{tmp_path / 'test.db'}"}
    return load_settings(options=options, environ={}, cwd=tmp_path)


@pytest.fixture
async def store(settings):
    async with open_app(settings) as app:
        yield app.store


def test_q1_floor_versions_are_those_of_the_package():
    file = Path(__file__).parents[2] / "pyproject.toml"
    wanted = tomllib.loads(file.read_text())["project"]["dependencies"]
    floors = dict(line.split(";")[0].strip().split(">=") for line in wanted)
    for name, (_, least) in doctor.LEAST_VERSIONS.items():
        assert floors[name] == least


def test_q1_what_is_installed_here_is_new_enough():
    assert {check.verdict for check in doctor.surroundings()} == {Verdict.OK}


def test_q1_an_old_or_missing_library_is_wrong(monkeypatch):
    old = {"lxml": ("XML", "99.1"), "no-such-library": ("nothing", "1")}
    monkeypatch.setattr(doctor, "LEAST_VERSIONS", old)
    *_, lxml, absent = doctor.surroundings()
    assert lxml.verdict is absent.verdict is Verdict.WRONG
    assert "older than 99.1" in lxml.detail
    assert "not installed" in absent.detail


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("nameserver 192.0.2.53\nnameserver 2001:db8::53\n", Verdict.OK),
        ("# nameserver 192.0.2.53\nnameserver\n", Verdict.NOTE),
        ("", Verdict.NOTE),
    ],
)
async def test_names_says_whether_a_name_server_is_configured(tmp_path, text, verdict):
    file = tmp_path / "resolv.conf"
    file.write_text(text)
    assert (await doctor.names(file)).verdict is verdict


async def test_names_does_without_the_file(tmp_path):
    assert (await doctor.names(tmp_path / "nothing")).verdict is Verdict.NOTE


async def test_a_new_database_is_well(store):
    checks = await doctor.database(store)
    assert {check.verdict for check in checks} == {Verdict.OK, Verdict.NOTE}
    assert [check.name for check in checks if check.verdict is Verdict.NOTE] == ["polling"]
    assert await doctor.is_current(store)


async def test_s10_doctor_sees_who_polls(settings, store):
    async with open_store(settings, clock=SystemClock()) as other:
        assert other.database.claim()
        *_, polling = await doctor.database(store)
        assert (polling.name, polling.verdict) == ("polling", Verdict.OK)


async def test_k7_an_empty_file_waits_for_migration(settings, tmp_path):
    async with open_store(settings, clock=SystemClock()) as store:
        checks = {check.name: check for check in await doctor.database(store)}
        assert checks["schema"].verdict is Verdict.NOTE
        assert checks["schema"].advice == "headwater migrate"
        assert not await doctor.is_current(store)


async def test_rows_without_an_owner_are_found(store):
    def orphans():
        return ["polls: row without owner", "posts: row without owner"]

    store.database.faults = orphans
    checks = {check.name: check for check in await doctor.database(store)}
    assert checks["integrity"].verdict is Verdict.OK
    assert checks["foreign keys"].verdict is Verdict.WRONG
    assert checks["foreign keys"].detail == "polls: row without owner and 1 more"


async def add(store, **state):
    wanted = SourceSettings(url="https://example.org/feed?token=abc")
    source = replace(new_source("default", wanted, NOW), **state)
    await store.sources.add_many([source])


@pytest.mark.parametrize(
    ("state", "name", "told"),
    [
        ({"last_polled": NOW + timedelta(hours=1)}, "clock", "1 source polled later"),
        ({"created_at": NOW + timedelta(days=1)}, "clock", "1 source added later"),
        ({"created_at": NOW - timedelta(days=2)}, "sources", "never polled"),
        (
            {"failing_since": NOW - timedelta(days=8), "consecutive_failures": 9},
            "sources",
            "failing for more than 7 days: https://example.org/feed?token=***",
        ),
        ({"enabled": False, "disabled_reason": "Auto-disabled"}, "sources", "disabled after"),
    ],
)
async def test_the_survey_finds_what_nobody_notices(store, state, name, told):
    await add(store, **state)
    found = [check for check in await survey(store, NOW) if check.verdict is Verdict.NOTE]
    assert [check.name for check in found] == [name]
    assert told in found[0].detail


async def test_the_survey_of_healthy_sources_is_well(store):
    await add(store, last_polled=NOW, last_success_at=NOW, first_poll_done=True)
    assert {check.verdict for check in await survey(store, NOW)} == {Verdict.OK}
    assert not await has_keys(store)


def test_the_master_key_is_checked(settings, tmp_path):
    file = tmp_path / "test.db.key"
    assert doctor.master_key(settings, file, keys_stored=False).verdict is Verdict.OK
    assert doctor.master_key(settings, file, keys_stored=True).verdict is Verdict.WRONG
    file.write_text("ab" * 32)
    file.chmod(0o640)
    assert doctor.master_key(settings, file, keys_stored=True).advice == f"chmod 600 {file}"
    file.chmod(0o600)
    assert doctor.master_key(settings, file, keys_stored=True).verdict is Verdict.OK


def test_a_database_that_is_a_folder_is_wrong(settings, tmp_path):
    (tmp_path / "test.db").mkdir()
    check = doctor.database_file(settings)
    assert check is not None
    assert check.verdict is Verdict.WRONG
