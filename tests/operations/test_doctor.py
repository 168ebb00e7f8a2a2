"""The checks of the doctor."""

import tomllib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.app import open_app, open_store
from headwater.clock import SystemClock
from headwater.engine.cleanup import Cleanup
from headwater.errors import StoreError
from headwater.operations import doctor
from headwater.operations.doctor import has_keys, survey
from headwater.operations.readiness import CheckStatus
from headwater.operations.sources import new_source
from headwater.rules.policy import Policy
from headwater.settings import load_settings
from tests.store.store_data import StoreClock, a_success, stored

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


def test_q1_the_installed_versions_are_new_enough():
    assert {check.verdict for check in doctor.environment()} == {CheckStatus.OK}


def test_q1_an_old_or_missing_library_is_reported(monkeypatch):
    old = {"lxml": ("XML", "99.1"), "no-such-library": ("nothing", "1")}
    monkeypatch.setattr(doctor, "LEAST_VERSIONS", old)
    *_, lxml, absent = doctor.environment()
    assert lxml.verdict is absent.verdict is CheckStatus.WRONG
    assert "older than 99.1" in lxml.detail
    assert "not installed" in absent.detail


def test_w1_a_page_can_be_parsed():
    assert doctor.pages().verdict is CheckStatus.OK


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("nameserver 192.0.2.53\nnameserver 2001:db8::53\n", CheckStatus.OK),
        ("# nameserver 192.0.2.53\nnameserver\n", CheckStatus.NOTE),
        ("", CheckStatus.NOTE),
    ],
)
async def test_names_reports_whether_a_name_server_is_configured(tmp_path, text, verdict):
    file = tmp_path / "resolv.conf"
    file.write_text(text)
    assert (await doctor.names(file)).verdict is verdict


async def test_names_works_without_the_file(tmp_path):
    assert (await doctor.names(tmp_path / "nothing")).verdict is CheckStatus.NOTE


async def test_a_new_database_has_no_problem(store):
    checks = await doctor.database(store)
    assert {check.verdict for check in checks} == {CheckStatus.OK, CheckStatus.NOTE}
    assert [check.name for check in checks if check.verdict is CheckStatus.NOTE] == ["polling"]
    assert await doctor.is_current(store)


async def test_s10_doctor_reports_the_polling_process(settings, store):
    async with open_store(settings, clock=SystemClock()) as other:
        assert other.database.take_poll_lock()
        *_, polling = await doctor.database(store)
        assert (polling.name, polling.verdict) == ("polling", CheckStatus.OK)


async def test_k7_an_empty_file_waits_for_migration(settings, tmp_path):
    async with open_store(settings, clock=SystemClock()) as store:
        checks = {check.name: check for check in await doctor.database(store)}
        assert checks["schema"].verdict is CheckStatus.NOTE
        assert checks["schema"].advice == "headwater migrate"
        assert not await doctor.is_current(store)


async def test_rows_without_an_owner_are_found(store):
    def orphans():
        return ["polls: row without owner", "posts: row without owner"]

    store.database.integrity_errors = orphans
    checks = {check.name: check for check in await doctor.database(store)}
    assert checks["integrity"].verdict is CheckStatus.OK
    assert checks["foreign keys"].verdict is CheckStatus.WRONG
    assert checks["foreign keys"].detail == "polls: row without owner and 1 more"


@pytest.fixture
def url_without_rights(postgres_server):
    """An empty database, and a user that may connect and nothing else."""
    url = postgres_server.new_database()
    postgres_server.run("CREATE ROLE guest LOGIN")
    yield url.replace("postgres:@", "guest:@")
    postgres_server.drop(url)
    postgres_server.run("DROP ROLE guest")


@pytest.mark.postgres
@pytest.mark.parametrize("search_path", ['"$user", public', "nowhere"])
async def test_missing_rights_on_the_schema_are_reported(
    postgres_server, url_without_rights, search_path
):
    postgres_server.run(f"ALTER ROLE guest SET search_path = {search_path}")
    url = url_without_rights
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_store(settings, clock=SystemClock()) as store:
        with pytest.raises(StoreError, match="run `headwater doctor`"):
            await store.prepare()
        checks = {check.name: check for check in await doctor.database(store)}
    assert checks["database"].verdict is CheckStatus.OK
    assert checks["schema"].verdict is CheckStatus.WRONG
    assert "GRANT CREATE, USAGE ON SCHEMA public TO guest" in (checks["schema"].advice or "")


@pytest.mark.postgres
async def test_tables_of_another_user_are_reported(postgres_server, url_without_rights):
    owner = url_without_rights.replace("guest:@", "postgres:@")
    for url in (owner, url_without_rights):
        settings = load_settings(options={"app.database-url": url}, environ={})
        async with open_store(settings, clock=SystemClock()) as store:
            if url == owner:
                await store.prepare()
            (database, *_) = await doctor.database(store)
    assert database.verdict is CheckStatus.WRONG
    assert "permission denied for table" in database.detail
    assert "owns the tables" in (database.advice or "")


async def add(store, **state):
    wanted = {"url": "https://example.org/feed?token=abc"}
    source = replace(new_source("default", wanted, NOW), **state)
    await store.sources.add_many([source])


@pytest.mark.parametrize(
    ("state", "name", "reported"),
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
async def test_the_survey_finds_hidden_problems(store, state, name, reported):
    await add(store, **state)
    found = [check for check in await survey(store, NOW) if check.verdict is CheckStatus.NOTE]
    assert [check.name for check in found] == [name]
    assert reported in found[0].detail


@pytest.mark.parametrize(("days", "where"), [(30, "ahead of"), (-30, "behind")])
async def test_c3_o4_a_clock_far_from_the_newest_data_is_reported(store, days, where):
    source = await stored(store, last_success_at=NOW)
    await store.record(a_success(source, started_at=NOW))
    clock = StoreClock()
    clock.at = NOW + timedelta(days=days)

    async def notes():
        found = await survey(store, clock.now())
        return {check.name: check for check in found if check.verdict is CheckStatus.NOTE}

    (check,) = (await notes()).values()
    assert check.name == "clock"
    assert f"30 days {where} the newest stored data" in check.detail
    assert "cleanup waits for an hour after a start" in check.advice
    await Cleanup(store, clock, Policy()).check_start()
    assert "paused until" in (await notes())["cleanup"].detail


@pytest.mark.parametrize(("count", "reported"), [(1, "1"), (22, "22"), (1001, "1,000 or more")])
async def test_h4_the_survey_reports_unreadable_rows(store, count, reported):
    ids = [f"odd-{number:04}" for number in range(count)]
    odd = [
        replace(new_source("default", {"url": f"https://example.org/{id_}"}, NOW), id=id_)
        for id_ in ids
    ]
    await store.sources.add_many(odd)
    await store.database.execute("UPDATE sources SET last_failure_type = 'gopher'")
    await add(store, last_polled=NOW, last_success_at=NOW, first_poll_done=True)
    found = {check.name: check for check in await survey(store, NOW)}
    assert found["rows"].verdict is CheckStatus.NOTE
    assert found["rows"].detail.startswith(f"not readable and left out: {reported}: sources odd-")
    assert all(f"sources {id_}" in found["rows"].detail for id_ in ids[:20])
    assert found["rows"].detail.endswith(", …") is (count > 20)
    assert found["sources"].detail == "1, no other problems"


async def test_the_survey_of_healthy_sources_finds_nothing(store):
    await add(store, last_polled=NOW, last_success_at=NOW, first_poll_done=True)
    assert {check.verdict for check in await survey(store, NOW)} == {CheckStatus.OK}
    assert not await has_keys(store)


def test_the_master_key_is_checked(settings, tmp_path):
    file = tmp_path / "test.db.key"
    assert doctor.master_key(settings, file, keys_stored=False).verdict is CheckStatus.OK
    assert doctor.master_key(settings, file, keys_stored=True).verdict is CheckStatus.WRONG
    file.write_text("ab" * 32)
    file.chmod(0o640)
    assert doctor.master_key(settings, file, keys_stored=True).advice == f"chmod 600 {file}"
    file.chmod(0o600)
    assert doctor.master_key(settings, file, keys_stored=True).verdict is CheckStatus.OK


def test_a_database_that_is_a_folder_is_reported(settings, tmp_path):
    (tmp_path / "test.db").mkdir()
    check = doctor.database_file(settings)
    assert check is not None
    assert check.verdict is CheckStatus.WRONG
