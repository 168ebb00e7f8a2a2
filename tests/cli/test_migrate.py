"""migrate --from … --to …: copy everything into another database."""

import re
import sqlite3
from contextlib import closing

import pytest

from headwater.store import open_database
from headwater.store.database_copy import KEYS
from tests.cli.command_runner import on_terminal

SOURCE = "sqlite:///data/headwater.db"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def target(request):
    if request.param == "sqlite":
        return "sqlite:///elsewhere/new.db"
    return request.getfixturevalue("postgres_url")()


def changed(cli, sql):
    with closing(sqlite3.connect(cli.folder / "elsewhere" / "new.db")) as connection:
        connection.execute(sql)
        connection.commit()


def test_everything_is_copied(cli, source, target):
    cli("tokens", "add", "mine", "--admin")
    before = [cli.json(what, "--json") for what in ("list", "posts", "tokens")]

    said = cli("migrate", "--from", SOURCE, "--to", target)

    assert said.code == 0
    assert [row[0] for row in said.rows] == list(KEYS)
    assert {row[5] for row in said.rows} == {"same"}
    assert all(row[1] == row[2] and row[3] == row[4] for row in said.rows)
    assert ["posts", "5", "5"] in [row[:3] for row in said.rows]
    assert re.search(r"^Copied \d+ rows; both sides have the same \d+ rows\.$", said.err, re.M)
    assert "Then set app.database-url to" in said.err
    assert "master key" not in said.err
    there = [
        cli.json("--database-url", target, what, "--json") for what in ("list", "posts", "tokens")
    ]
    assert there == before
    again = cli("migrate", "--from", SOURCE, "--to", target)
    assert again.code == 0
    assert again.out == said.out
    assert again.err.startswith("Nothing was left to copy; ")
    assert again.err.endswith("there is nothing to do.\n")


def test_json_output_reports_the_same(cli, source):
    reported = cli.json("migrate", "--from", SOURCE, "--to", "sqlite:///new.db", "--json")
    assert reported["same"] is True
    assert reported["resumed"] is False
    assert reported["masterKeyFile"] is None
    assert [table["table"] for table in reported["tables"]] == list(KEYS)
    (posts,) = [table for table in reported["tables"] if table["table"] == "posts"]
    assert posts["source"] == posts["target"]
    assert posts["source"]["rows"] == 5
    assert reported["copied"] == sum(table["source"]["rows"] for table in reported["tables"])


def test_u5_the_location_of_the_master_key_is_reported(cli, target):
    cli("keys", "set", "x", given="secret\n")
    said = cli("migrate", "--from", SOURCE, "--to", target)
    new = "elsewhere/new.db.key" if target.startswith("sqlite") else "data/headwater.key"
    assert f"Move the master key too, from data/headwater.db.key to {new} " in said.err
    (cli.folder / "data" / "headwater.db.key").rename(cli.folder / new)
    reported = cli.json("--database-url", target, "doctor", "--json")
    assert [check["verdict"] for check in reported if check["check"] == "master key"] == ["ok"]
    assert "master key" not in cli("migrate", "--from", SOURCE, "--to", target).err


def test_a_difference_is_an_error_that_names_the_table(cli, source):
    options = ("migrate", "--from", SOURCE, "--to", "sqlite:///elsewhere/new.db")
    assert cli(*options).code == 0
    changed(cli, "UPDATE posts SET body = body || '!' WHERE id = (SELECT min(id) FROM posts)")

    said = cli(*options)

    assert said.code == 1
    assert [row[0] for row in said.rows if row[5] == "differs"] == ["posts"]
    assert said.err == (
        "headwater: not the same any more: posts; the move was complete, one side has changed "
        "since\n"
    )


def test_wrong_usage_is_reported(cli, source):
    to = ("--to", "sqlite:///new.db")
    assert "needs both" in cli.fails("migrate", *to, code=2)
    assert "needs both" in cli.fails("migrate", "--from", SOURCE, code=2)
    reported = cli.fails("migrate", "--from", "mysql://anna:geheim@db/x", *to, code=2)
    assert "--from: 'mysql://db/x' is neither sqlite:///… nor postgresql://…" in reported
    assert "there is no database" in cli.fails("migrate", "--from", "sqlite:///no.db", *to, code=2)
    assert not (cli.folder / "no.db").exists()
    assert not (cli.folder / "new.db").exists()
    assert "same database" in cli.fails("migrate", "--from", SOURCE, "--to", SOURCE, code=2)


def test_s10_a_database_that_is_polled_is_not_copied(cli, source):
    poller = open_database(SOURCE)
    assert poller.take_poll_lock()
    reported = cli.fails("migrate", "--from", SOURCE, "--to", "sqlite:///new.db", code=2)
    poller.release()
    assert "another headwater process polls the source" in reported


def test_an_unfinished_copy_is_not_polled(cli, source):
    cli("migrate", "--from", SOURCE, "--to", "sqlite:///elsewhere/new.db")
    changed(cli, "UPDATE facts SET value = replace(value, 'true', 'false')")
    reported = cli.fails("--database-url", "sqlite:///elsewhere/new.db", "poll", "--all", code=1)
    assert "this database is an unfinished copy of sqlite:///" in reported


@pytest.mark.system
def test_a_terminal_shows_the_progress_of_a_copy(cli, source):
    shown = on_terminal(cli.folder, "migrate", "--from", SOURCE, "--to", "sqlite:///new.db")
    assert shown.code == 0
    assert "Copying" in shown.out
    assert "Comparing" in shown.out
    assert "Source rows" in shown.out
