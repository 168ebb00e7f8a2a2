"""The command: from one's own sources, a list or none, in words and in JSON."""

import json

import pytest

from headwater.cli import main
from headwater.engine.gates import Gates
from tests.cli.running import Cli

LIST = """<opml version="2.0"><body>
{lines}
<outline type="rss" xmlUrl="ftp://example.org/feed"/>
</body></opml>"""


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path, monkeypatch, capsys)


def opml(folder, urls):
    lines = "\n".join(f'<outline type="rss" xmlUrl="{url}"/>' for url in urls)
    (folder / "list.opml").write_text(LIST.format(lines=lines))


def test_invented_sources_need_neither_database_nor_network(cli, tmp_path):
    report = cli.json("simulate", "--sources", 30, "--days", 1, "--interval", 60, "--json")
    assert (report["sources"], report["violation"]) == (30, None)
    assert 30 * 22 <= report["polls"] <= 30 * 24
    assert sum(report["requestsPerMinute"]) == report["polls"]
    assert len(report["requestsPerMinute"]) == 1440
    assert report["latenessSeconds"]["p50"] <= 60
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_tells_the_same(cli):
    story = ("simulate", "--sources", 20, "--days", 1, "--interval", 60, "--faults", "--json")
    one, again, other = cli.json(*story), cli.json(*story), cli.json(*story, "--seed", 2)
    assert one == again
    assert other["digest"] != one["digest"]


def test_a_list_whose_host_cannot_keep_up(cli, tmp_path):
    config = "app: {source: {host-overrides: {nitter.net: {poll-delay-seconds: 3}}}}"
    (tmp_path / "headwater.yaml").write_text(config)
    opml(tmp_path, [f"https://nitter.net/{n}/rss" for n in range(40)])
    said = cli("simulate", "--opml", "list.opml", "--interval", 5, "--days", 0.2)
    assert said.code == 0
    assert said.err == "1 line of list.opml cannot be polled\n"
    assert "\t40\t3 s\t" in said.out
    assert "\tyes\t3 min\n" in said.out
    said = cli("simulate", "--opml", "list.opml", "--interval", 1, "--days", 0.2)
    assert "\tno\t3 min\n" in said.out
    assert "1 host cannot keep up." in said.out


def test_ones_own_sources_as_they_are_configured(cli):
    for number in range(3):
        assert cli("add", f"https://example.org/{number}", "--type", "rss").code == 0
    report = cli.json("simulate", "--days", 0.5, "--json")
    assert report["sources"] == 3
    assert [lane["host"] for lane in report["lanes"]] == ["example.org"]
    assert report["polls"] >= 3 * 22
    shown = cli.json("list", "--json")
    assert {source["lastPolled"] for source in shown} == {None}


def test_without_any_sources_it_says_what_to_do(cli):
    assert "--opml FILE or --sources N brings some" in cli.fails("simulate", code=2)


def test_invented_and_listed_exclude_each_other(cli):
    assert "give one of them" in cli.fails("simulate", "--sources", 3, "--opml", "x", code=2)


def test_a_broken_rule_ends_with_one_and_its_story(cli, monkeypatch):
    monkeypatch.setattr(Gates, "mark_visited", lambda *_: None)
    story = ("simulate", "--sources", 40, "--interval", 10, "--days", 1)
    said = cli(*story)
    assert said.code == 1
    assert "Rule P3 at day 0" in said.out
    assert "asked for source" in said.out
    assert "--seed 1" in said.out
    assert json.loads(cli(*story, "--json").out)["violation"]["rule"] == "P3"


def test_rounds_play_one_seed_after_another(cli):
    story = ("simulate", "--sources", 5, "--interval", 60, "--days", 0.2, "--rounds", 3)
    assert [line.split()[2] for line in cli(*story).out.splitlines() if "story\t" in line] == [
        "1,", "2,", "3,",
    ]  # fmt: skip


def test_help_names_the_example(capsys):
    assert main(["simulate", "--help"]) == 0
    assert "Example: headwater simulate --opml subscriptions.opml" in capsys.readouterr().out
