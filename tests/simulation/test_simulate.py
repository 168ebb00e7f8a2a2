"""The simulate command: stored, listed and generated sources, as text and as JSON."""

import json
import sqlite3

import pytest

from headwater.cli import main
from headwater.engine.hosts.gates import Gates
from tests.cli.command_runner import Cli

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


def test_generated_sources_need_neither_database_nor_network(cli, tmp_path):
    report = cli.json("simulate", "--sources", 30, "--days", 1, "--interval", 60, "--json")
    assert (report["sources"], report["violation"]) == (30, None)
    assert 30 * 22 <= report["polls"] <= 30 * 24
    # some sources share requests (Y7), some read pages (T4)
    assert 30 * 18 <= sum(report["requestsPerMinute"]) <= 30 * 28
    assert len(report["requestsPerMinute"]) == 1440
    assert report["latenessSeconds"]["p50"] <= 60
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_gives_the_same_report(cli):
    command = ("simulate", "--sources", 20, "--days", 1, "--interval", 60, "--faults", "--json")
    one, again, other = cli.json(*command), cli.json(*command), cli.json(*command, "--seed", 2)
    assert one == again
    assert other["digest"] != one["digest"]


def test_a_list_whose_host_cannot_keep_up(cli, tmp_path):
    config = "app: {source: {host-overrides: {nitter.net: {poll-delay-seconds: 3}}}}"
    (tmp_path / "headwater.yaml").write_text(config)
    opml(tmp_path, [f"https://nitter.net/{n}/rss" for n in range(40)])
    said = cli("simulate", "--opml", "list.opml", "--interval", 5, "--days", 0.2)
    assert said.code == 0
    assert said.err.startswith("1 line of list.opml cannot be polled:\n  ftp://")
    assert said.err.endswith(": ftp: URLs are not supported; use http:// or https://\n")
    assert "\t40\t3 s\t" in said.out
    assert "\tyes\t3 min\n" in said.out
    said = cli("simulate", "--opml", "list.opml", "--interval", 1, "--days", 0.2)
    assert "\tno\t3 min\n" in said.out
    assert "1 host cannot keep up." in said.out


def test_stored_sources_with_their_settings(cli):
    for number in range(3):
        assert cli("add", f"https://example.org/{number}", "--type", "rss").code == 0
    report = cli.json("simulate", "--days", 0.5, "--json")
    assert report["sources"] == 3
    assert [lane["host"] for lane in report["lanes"]] == ["example.org"]
    assert report["polls"] >= 3 * 22
    shown = cli.json("list", "--json")
    assert {source["lastPolled"] for source in shown} == {None}


def test_a_seed_gives_the_same_report_whatever_was_polled_in_between(cli, tmp_path):
    for number in range(6):
        url = f"https://host{number % 2}.example/{number}"
        assert cli("add", url, "--type", "rss", "--delay", 5).code == 0
    command = ("simulate", "--days", 1, "--faults", "--json")
    one = cli.json(*command)
    with sqlite3.connect(next(tmp_path.rglob("*.db"))) as database:
        database.execute("UPDATE sources SET last_polled = 1790000000000 + 60000 * rowid")
        database.execute("UPDATE sources SET consecutive_failures = 3, first_poll_done = 1")
    assert cli.json(*command) == one


def test_a_run_can_be_repeated_from_its_seed(cli, tmp_path):
    opml(tmp_path, [f"https://host{n % 4}.example/{n}" for n in range(12)])
    for origin in (("--sources", 20), ("--opml", "list.opml")):
        command = ("simulate", *origin, "--interval", 60, "--days", 0.3, "--faults", "--json")
        rounds = _documents(cli(*command, "--rounds", 3).out)
        assert [one["seed"] for one in rounds] == [1, 2, 3]
        assert _documents(cli(*command, "--seed", 3).out) == rounds[2:]


def _documents(text):
    decoder, found = json.JSONDecoder(), []
    while text.strip():
        one, end = decoder.raw_decode(text.lstrip())
        found.append(one)
        text = text.lstrip()[end:]
    return found


def test_only_one_podcast_or_one_user(cli):
    assert cli("podcasts", "add", "morning").code == 0
    assert cli("add", "https://one.example/feed", "--type", "rss").code == 0
    assert cli("add", "https://two.example/feed", "--type", "rss", "--podcast", "morning").code == 0
    command = ("simulate", "--days", 0.1, "--json")
    assert cli.json(*command)["sources"] == 2
    assert cli.json(*command, "--user", "default")["sources"] == 2
    alone = cli.json(*command, "--podcast", "morning")
    assert [lane["host"] for lane in alone["lanes"]] == ["two.example"]
    assert "there is no podcast 'nosuch'" in cli.fails(*command, "--podcast", "nosuch", code=2)
    assert "there is no user 'nosuch'" in cli.fails(*command, "--user", "nosuch", code=2)
    said = cli.fails(*command, "--podcast", "morning", "--sources", 3, code=2)
    assert "--podcast selects stored sources" in said


def test_without_any_sources_the_error_lists_the_options(cli):
    assert "there is no database" in cli.fails("simulate", code=2)
    cli("migrate")
    assert "use --opml FILE or --sources N" in cli.fails("simulate", code=2)


def test_generated_and_listed_exclude_each_other(cli):
    assert "give one of them" in cli.fails("simulate", "--sources", 3, "--opml", "x", code=2)


def test_a_broken_rule_exits_1_with_its_trace(cli, monkeypatch):
    monkeypatch.setattr(Gates, "mark_visited", lambda *_: None)
    command = ("simulate", "--sources", 40, "--interval", 10, "--days", 1)
    said = cli(*command)
    assert said.code == 1
    assert "Rule P3 at day 0" in said.out
    assert "asked for source" in said.out
    assert "--seed 1" in said.out
    assert json.loads(cli(*command, "--json").out)["violation"]["rule"] == "P3"


def test_time_asleep_is_reported_and_delays_nothing(cli):
    command = ("simulate", "--sources", 20, "--interval", 60, "--days", 2, "--faults", "--seed")
    report = next(r for s in range(1, 9) if (r := cli.json(*command, s, "--json"))["asleepSeconds"])
    assert report["asleepSeconds"] >= 30
    assert report["latenessSeconds"]["p90"] <= 60
    said = cli(*command, report["seed"]).out
    assert "time asleep, stopped, offline or on hold left out" in said
    assert "on top of these days, stopped for" in said


def test_a_host_that_falls_behind_is_reported_even_if_it_fits_on_average(cli):
    assert cli("add", "https://a.example/1", "--type", "rss", "--interval", 5).code == 0
    assert "All hosts keep up." in cli("simulate", "--days", 1).out
    rare = ("--type", "rss", "--interval", 720, "--delay", 1200)
    assert cli("add", "https://a.example/2", *rare).code == 0
    assert "1 host fell behind: a source waited" in cli("simulate", "--days", 1).out
    lane = cli.json("simulate", "--days", 1, "--json")["lanes"][0]
    assert (lane["fits"], lane["fellBehind"]) == (True, True)
    assert 1100 < lane["worstLatenessSeconds"] < 1300


def test_progress_is_shown_only_on_a_terminal(cli, monkeypatch):
    command = ("simulate", "--sources", 5, "--interval", 60, "--days", 0.2)
    assert cli(*command).err == ""
    terminal = _Terminal()
    monkeypatch.setattr("headwater.cli.simulate.sys.stderr", terminal)
    assert cli(*command).code == 0
    assert "Simulating" in terminal.written
    terminal.written = ""
    assert cli(*command, "--json").code == 0
    assert terminal.written == ""


class _Terminal:
    """Pretends to be a terminal and keeps what is written."""

    encoding = "utf-8"

    def __init__(self):
        self.written = ""

    def write(self, text):
        self.written += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return True


def test_rounds_run_one_seed_after_another(cli):
    command = ("simulate", "--sources", 5, "--interval", 60, "--days", 0.2, "--rounds", 3)
    assert [line.split()[2] for line in cli(*command).out.splitlines() if "run\t" in line] == [
        "1,", "2,", "3,",
    ]  # fmt: skip


def test_help_names_the_example(capsys):
    assert main(["simulate", "--help"]) == 0
    assert "Example: headwater simulate --opml subscriptions.opml" in capsys.readouterr().out
