"""Adding a source by what was pasted: one visit, recognition, checks and duplicates (J1-J3)."""

import pytest

from tests.cli.command_runner import on_terminal, process


def test_j2_the_visit_that_detects_the_type_is_the_first_poll(cli, web):
    url, before = web.url("feed.demo", "/first"), len(web.visits_to("feed.demo"))
    added = cli.json("add", url, "--include-history", "--json")
    assert (added["type"], added["health"], added["postCount"]) == ("rss", "ok", 5)
    assert len(web.visits_to("feed.demo")) == before + 1
    assert cli("poll", "--due").rows == []  # it is not due


def test_j2_add_with_poll_sends_one_request(cli, web):
    url, before = web.url("feed.demo", "/second"), len(web.visits_to("feed.demo"))
    said = cli("add", url, "--include-history", "--poll")
    assert said.code == 0
    assert [line.split("\t")[3] for line in said.out.splitlines()[2:]] == ["5"]
    assert len(web.visits_to("feed.demo")) == before + 1


def test_j2_add_with_check_refuses_what_cannot_be_read(cli, web):
    line = cli.fails("add", web.url("page.demo", "/today"), "--type", "rss", "--check", code=1)
    assert "the visit failed" in line
    assert "not a feed" in line
    assert cli.json("list", "--json") == []
    checked = cli.json("add", web.url("feed.demo"), "--type", "rss", "--check", "--json")
    assert checked["health"] == "ok"


def test_j1_add_recognises_a_known_site(cli):
    said = cli("add", "github.com/example/weir")
    assert said.out.split()[2:] == ["rss", "https://github.com/example/weir/releases.atom"]
    assert said.err == "The address was recognised as GitHub.\n"
    assert cli.json("add", "@ann@social.invalid", "--json")["recognisedAs"] == "Mastodon"


def test_j1_a_scheme_may_be_left_out(cli, web):
    bare = web.url("feed.demo", "/bare").removeprefix("http://")
    line = cli.fails("add", bare, code=1)  # https, which this host does not have
    assert "the visit failed" in line
    assert cli.json("add", "example.org/feed", "--type", "rss", "--json")["url"] == (
        "https://example.org/feed"
    )


def test_j3_the_same_url_needs_confirmation(cli, tmp_path):
    first = cli.json("add", "https://example.org/feed", "--type", "rss", "--json")
    line = cli.fails("add", "https://example.org/feed", "--type", "rss", code=1)
    assert first["id"] in line
    assert "--again" in line
    again = cli.json("add", "https://example.org/feed", "--type", "rss", "--again", "--json")
    assert again["duplicateOf"] == first["id"]
    assert len(cli.json("list", "--json")) == 2
    said = process(tmp_path, "add", "https://example.org/feed", "--type", "rss")
    assert (said.code, said.out) == (1, "")


@pytest.mark.parametrize(("typed", "code", "sources"), [("y\n", 0, 2), ("n\n", 1, 1)])
def test_j3_on_a_terminal_the_command_asks(cli, tmp_path, typed, code, sources):
    command = ("add", "https://example.org/feed", "--type", "rss")
    assert cli(*command).code == 0
    said = on_terminal(tmp_path, *command, typed=typed)
    assert said.code == code
    assert "Add it again?" in said.out
    assert len(cli.json("list", "--json")) == sources
