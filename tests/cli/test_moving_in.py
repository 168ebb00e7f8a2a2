"""The commands of docs/moving-in.md work on a table of sources of another program (V3)."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_runner import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "moving-in.md"
ROWS = [
    ("https://example.org/feed?key=abc", "feed", "Example", "News", 3600, 1, "2026-02-16"),
    ("https://page.example/", "page", None, None, 45, 1, None),
    ("@someone", "x", "Some \"one\": 水 😀", "X", 900, 0, "1234"),
    ("https://example.org/feed?key=abc", "feed", "Twice", None, 60, 1, None),
]  # fmt: skip


def blocks(language: str, section: str) -> list[str]:
    """The code of a section, without the indentation of its list."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def run(folder: Path, script: str) -> str:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment(PATH=path), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def table(tmp_path):
    """A file with a table of sources."""
    with sqlite3.connect(tmp_path / "old.db") as old:
        old.execute(
            "CREATE TABLE sources (id INTEGER PRIMARY KEY, url TEXT, type TEXT, name TEXT, "
            "category TEXT, interval_seconds INTEGER, active INTEGER, last_seen TEXT)"
        )
        columns = "url, type, name, category, interval_seconds, active, last_seen"
        old.executemany(f"INSERT INTO sources ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", ROWS)
    old.close()
    return tmp_path


def test_v3_a_table_of_sources_moves_in_as_documented(cli, table):
    (script,) = blocks("python", "From a table of sources")
    (table / "move.py").write_text(script, encoding="utf-8")
    read, apply = blocks("sh", "From a table of sources")
    run(table, read)
    shown = run(table, apply)
    assert shown.count("added\tsource") == 2 * 3  # of the dry run, and of the application
    found = cli.json("list", "--json")
    names = ("type", "url", "label", "folder", "pollIntervalMinutes", "enabled", "includeHistory")
    assert sorted(tuple(source[name] for name in names) for source in found) == [
        ("rss", "https://example.org/feed?key=abc", "Example", "News", 60, True, False),
        ("twitter", "@someone", 'Some "one": 水 😀', "X", 15, False, False),
        ("website", "https://page.example/", None, None, 1, True, True),
    ]
    assert cli("apply", "sources.yaml").err == "Nothing to change.\n"
    assert cli("apply", "podcasts.yaml", "--prune").err == "Nothing to change.\n"


def test_v3_a_list_of_pages_moves_in_as_documented(cli):
    (cli.folder / "url-list.txt").write_text("https://a.example/ tag\n\nhttps://b.example/\n")
    (script,) = blocks("sh", "From changedetection.io")
    run(cli.folder, script)
    found = {source["url"]: source["type"] for source in cli.json("list", "--json")}
    assert found == {"https://a.example/": "website", "https://b.example/": "website"}


def test_v3_the_file_of_the_page_can_be_applied(cli):
    (file,) = blocks("yaml", "The file")
    assert cli("apply", "-", given=file).err == "Applied: 4 added\n"
