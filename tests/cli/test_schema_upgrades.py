"""Only `serve`, `worker` and `migrate` upgrade a schema; few commands create a database (K7)."""

import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_runner import HEADWATER, Cli, Web, environment

# every command that opens the database, apart from those that may upgrade it
CREATING: dict[str, tuple[str, ...]] = {
    "add": ("add", "https://example.org/feed", "--type", "rss"),
    "import": ("import", "-"),
    "keys set": ("keys", "set", "x"),
    "preview": ("preview", "https://example.org/feed"),
    "podcasts add": ("podcasts", "add", "evening"),
    "restore": ("restore", "a-backup.db", "--yes"),
    "tokens add": ("tokens", "add", "laptop", "--admin"),
    "users add": ("users", "add", "anna"),
}
OTHERS: dict[str, tuple[str, ...]] = {
    " ".join(words): words
    for words in (
        ("aggregate",),
        ("articles",),
        ("audit",),
        ("backup", "new.db"),
        ("disable", "x"),
        ("edit", "x", "--label", "y"),
        ("enable", "x"),
        ("explain", "x"),
        ("export",),
        ("keys",),
        ("keys", "rotate"),
        ("list",),
        ("podcasts",),
        ("poll", "--due"),
        ("posts",),
        ("remove", "x", "--yes"),
        ("show", "x"),
        ("tokens",),
        ("users",),
        ("vacuum",),
    )
}


def database_of(cli: Cli) -> Path:
    return cli.folder / "data" / "headwater.db"


def versions(cli: Cli) -> list[int]:
    connection = sqlite3.connect(database_of(cli))
    try:
        rows = connection.execute("SELECT version FROM schema_version ORDER BY version").fetchall()
    finally:
        connection.close()
    return [version for (version,) in rows]


def change_version(file: Path, sql: str) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(sql)
    connection.close()


def test_k7_preview_and_dry_runs_create_no_database(cli: Cli, web: Web):
    (cli.folder / "podcasts.yaml").write_text("podcasts:\n  - name: default\n")
    before = sorted(cli.folder.rglob("*"))
    assert cli("preview", web.url("feed.demo", "/feed.xml")).code == 0
    assert cli("apply", "podcasts.yaml", "--dry-run").code == 0
    assert sorted(cli.folder.rglob("*")) == before


@pytest.mark.parametrize("name", OTHERS)
def test_k7_a_command_without_a_database_says_where_it_looked_and_creates_nothing(cli: Cli, name):
    before = sorted(cli.folder.rglob("*"))
    line = cli.fails(*OTHERS[name], code=2)
    assert line.startswith(f"there is no database {database_of(cli)} (app.database-url, default)")
    assert sorted(cli.folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["add", "podcasts add", "tokens add", "users add"])
def test_commands_that_store_something_may_be_the_first_one(cli: Cli, name):
    assert cli(*CREATING[name]).code == 0
    assert cli("list").code == 0


def test_k7_a_database_without_tables_is_not_changed_by_a_command(cli: Cli):
    database_of(cli).parent.mkdir()
    database_of(cli).touch()
    assert "has no tables yet: `headwater migrate`" in cli.fails("list", code=1)
    assert cli("migrate").code == 0
    assert cli("list").code == 0


@pytest.mark.parametrize("name", OTHERS | CREATING)
def test_k7_an_older_schema_is_not_upgraded_by_a_command(cli: Cli, name):
    cli("migrate")
    change_version(
        database_of(cli),
        "DELETE FROM schema_version WHERE version = (SELECT max(version) FROM schema_version)",
    )
    before = versions(cli)
    (cli.folder / "a-backup.db").touch()
    line = cli.fails(*(OTHERS | CREATING)[name], code=1, given="0123456789abcdef\n")
    newest = before[-1] + 1
    assert line.startswith(f"the database has schema {before[-1]}, this program needs {newest}")
    assert "then run `headwater migrate`" in line
    assert versions(cli) == before


def test_k7_doctor_reports_an_older_schema_and_exits_1(cli: Cli):
    cli("migrate")
    change_version(database_of(cli), "DELETE FROM schema_version WHERE version > 9")
    checks = {check["check"]: check for check in cli.json("doctor", "--json", code=1)}
    assert checks["schema"]["verdict"] == "wrong"
    assert checks["schema"]["detail"].startswith("version 9, this program needs ")
    assert "headwater migrate" in checks["schema"]["advice"]
    assert versions(cli)[-1] == 9


@pytest.mark.parametrize("name", OTHERS | CREATING)
def test_k7_a_newer_schema_is_refused_by_every_command(cli: Cli, name):
    cli("migrate")
    change_version(database_of(cli), "INSERT INTO schema_version VALUES (9999)")
    (cli.folder / "a-backup.db").touch()
    line = cli.fails(*(OTHERS | CREATING)[name], code=1, given="0123456789abcdef\n")
    assert line.startswith("the database has schema 9999, this program knows ")
    assert line.endswith("upgrade headwater")


@pytest.mark.system
def test_k7_a_service_whose_database_is_upgraded_stops_with_an_error(cli: Cli):
    service = subprocess.Popen(
        [*HEADWATER, "serve"],
        cwd=cli.folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert service.stderr is not None
    try:
        assert any("serving" in line for line in service.stderr)
        change_version(database_of(cli), "INSERT INTO schema_version VALUES (9999)")
        _, err = service.communicate(timeout=120)
    finally:
        service.kill()
        service.wait()
    assert service.returncode == 1
    assert err.count("[Store] the database has schema 9999") == 1
    assert err.splitlines()[-1].startswith("headwater: the database has schema 9999")
