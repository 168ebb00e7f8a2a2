"""Users, podcasts and keys."""

from tests.cli import command_runner

SECRET = "AAAAkeyof40charactersthatnobodymaysee"


def test_users_are_added_and_removed(cli):
    cli("migrate")
    assert [user["id"] for user in cli.json("users", "--json")] == ["default"]
    assert cli("users", "add", "anna").code == 0
    assert [row[1] for row in cli("users").rows] == ["default", "anna"]
    assert "already" in cli.fails("users", "add", "anna", code=2)
    assert cli("users", "remove", "anna", given="n\n").code == 1
    assert cli("users", "remove", "anna", "--yes").code == 0
    assert len(cli.json("users", "list", "--json")) == 1


def test_a_user_without_podcasts_gets_a_hint_how_to_add_one(cli):
    cli("users", "add", "anna")
    line = cli.fails("--user", "anna", "list", code=2)
    assert "`headwater --user anna podcasts add NAME`" in line


def test_podcasts_are_added_edited_and_removed(cli):
    cli("users", "add", "anna")
    added = cli(
        "podcasts", "add", "daily", "--max-article-age-days", 3, "--dedupe", "--user", "anna"
    )
    assert added.code == 0
    (podcast,) = cli.json("podcasts", "--user", "anna", "--json")
    assert (podcast["name"], podcast["maxArticleAgeDays"]) == ("daily", 3)
    assert podcast["dedupeAcrossSources"] is True
    edit = ("podcasts", "edit", "daily", "--user", "anna")
    assert cli(*edit, "--rename", "weekly", "--no-dedupe").code == 0
    assert "nothing to change" in cli.fails("podcasts", "edit", "weekly", "--user", "anna", code=2)
    (podcast,) = cli.json("podcasts", "--user", "anna", "--json")
    assert (podcast["name"], podcast["dedupeAcrossSources"]) == ("weekly", False)
    clear = ("--clear", "max-article-age-days")
    edit = ("podcasts", "edit", "weekly", "--user", "anna")
    assert "contradict" in cli.fails(*edit, *clear, "--max-article-age-days", 2, code=2)
    assert cli(*edit, *clear).code == 0
    (podcast,) = cli.json("podcasts", "list", "--user", "anna", "--json")
    assert podcast["maxArticleAgeDays"] is None
    assert cli("podcasts", "remove", "weekly", "--user", "anna", "--yes").code == 0
    assert cli("podcasts", "--user", "anna").rows == []


def test_u6_a_key_is_read_from_standard_input_and_never_shown(cli):
    said = cli("keys", "set", "x", given=f"{SECRET}\n")
    assert said.code == 0
    assert cli.json("keys", "--json") == [{"provider": "x"}]
    shown = said.out + cli("keys", "list").out + cli("keys").out + cli("doctor").out
    assert SECRET not in shown
    files = [file for file in (cli.folder / "data").iterdir() if file.is_file()]
    assert files
    assert all(SECRET.encode() not in file.read_bytes() for file in files)
    assert cli("keys", "remove", "x").code == 0
    assert "no key for x" in cli.fails("keys", "remove", "x", code=2)


def test_u6_a_key_as_an_argument_is_refused(cli):
    line = cli.fails("keys", "set", "x", SECRET, code=2)
    assert "unexpected extra argument" in line


def test_an_empty_key_is_refused(cli):
    cli.fails("keys", "set", "x", code=2, given="\n")


def test_s9_sources_that_waited_for_the_key_are_requested(cli):
    cli("add", "@weirwatch")
    assert "1 source will be polled" in cli("keys", "set", "x", given=SECRET).out


def test_u5_reading_a_missing_key_creates_no_master_key(tmp_path):
    said = command_runner.process(tmp_path, "preview", "@jack")
    assert said.code == 1
    assert not list(tmp_path.rglob("*.key"))


def test_podcasts_and_sources_of_all_users_are_listed(cli):
    cli("users", "add", "anna")
    cli("podcasts", "add", "evening", "--user", "anna")
    cli("add", "http://127.0.0.1:9/a", "--type", "rss")
    cli("add", "http://127.0.0.1:9/b", "--type", "rss", "--user", "anna", "--podcast", "evening")
    rows = cli("podcasts", "--all-users").rows
    assert [(row[0], row[2]) for row in rows] == [("default", "default"), ("anna", "evening")]
    assert [row[1] for row in cli("podcasts").rows] == ["default"]
    listed = {row[0]: row[4] for row in cli("list", "--all-users").rows}
    assert listed == {"default": "http://127.0.0.1:9/a", "anna": "http://127.0.0.1:9/b"}
    assert len(cli("list", "--all-users", "--limit", "1").rows) == 1
    assert cli("list", "--all-users", "--search", "nothing").rows == []
    found = cli.json("list", "--all-users", "--json")
    assert {one["user"] for one in found} == {"default", "anna"}
