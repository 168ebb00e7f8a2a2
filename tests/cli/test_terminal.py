"""Output on a terminal, and the demo."""

import re

import pytest

from tests.cli.command_runner import ESCAPE, on_terminal, process
from tests.cli.conftest import CONFIG

pytestmark = pytest.mark.system


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "headwater.yaml").write_text(CONFIG)
    return tmp_path


def test_on_a_terminal_tables_are_drawn_and_coloured(folder, web):
    url = web.url("feed.demo")
    wanted = ("--type", "rss", "--label", "[b]N[/b]", "--include-history")
    assert process(folder, "add", url, *wanted).code == 0
    polled = on_terminal(folder, "poll", "--all")
    assert polled.code == 0
    assert "1 poll: 1 stored; 5 new posts" in polled.out
    listed = on_terminal(folder, "list")
    assert ESCAPE in listed.out
    assert "──" in listed.out
    assert "[b]N[/b]" in listed.out  # a label is text, never markup
    assert "1 source: 1 ok" in listed.out


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_a_list_fits_the_terminal_and_keeps_the_important_columns(folder, columns):
    url = "https://" + "very-long-name." * 5 + "example/feed.xml"
    for number in range(2):
        assert process(folder, "add", f"{url}{number}", "--type", "rss").code == 0
    listed = on_terminal(folder, "list", "--limit", "1", columns=columns)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", listed.out)
    assert max(len(line) for line in shown.splitlines()) <= columns
    assert re.search(r"\b[0-9a-f]{8}\b", shown)
    assert url[:16] in shown
    assert "within 30 min" in shown
    assert "1 of 2 sources" in shown
    assert ("Interval" in shown) == (columns >= 80)
    assert "No source matches." in on_terminal(folder, "list", "--host", "nope").out


@pytest.mark.parametrize("columns", [60, 80, 150])
def test_a_list_says_why_sources_fail_on_every_terminal(folder, web, columns):
    url = web.url("missing.demo")
    assert process(folder, "add", url, "--type", "rss").code == 0
    assert on_terminal(folder, "poll", "--all").code == 1
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(folder, "list", columns=columns).out)
    assert re.search(r"^[0-9a-f]{8}  HTTP 404", shown, re.MULTILINE), shown


def test_an_empty_list_names_the_database(folder):
    assert process(folder, "migrate").code == 0
    shown = on_terminal(folder, "list", columns=200).out
    assert "No sources in sqlite:///" in shown
    assert f"{folder}" in shown.replace("\r\n", "").replace("\n", "")


def test_help_on_a_terminal_is_drawn(folder):
    shown = on_terminal(folder, "list", "--help")
    assert shown.code == 0
    assert "╭" in shown.out
    assert "Example: headwater list" in shown.out


def test_the_demo_in_a_pipe_prints_log_lines_and_a_summary(folder):
    scratch = folder / "scratch"
    scratch.mkdir()
    said = process(folder, "demo", "--seconds", "8", TMPDIR=str(scratch))
    assert (said.code, said.err) == (0, "")
    assert ESCAPE not in said.out
    assert "[Polling] stored" in said.out
    assert "Auto-disabled after 1 consecutive 410 errors" in said.out
    assert "kind=429" in said.out
    assert list(scratch.iterdir()) == []
    assert not (folder / "data").exists()


def test_the_demo_on_a_terminal_draws_a_live_display(folder):
    shown = on_terminal(folder, "demo", "--seconds", "8")
    assert shown.code == 0
    for word in ("birds.demo", "on hold", "backoff", "disabled", "Summary"):
        assert word in shown.out
