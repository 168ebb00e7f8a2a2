"""A command line in a temporary folder, and a small web for it to poll."""

import os
from pathlib import Path

import pytest

from tests.cli.command_runner import Cli, Web, running_web

CONFIG = """
app:
  server: {port: 0}
  source: {tick-seconds: 1}
  fetch: {allow-private-networks: true, read-timeout-seconds: 3}
"""


@pytest.fixture(scope="session")
def web():
    with running_web() as web:
        yield web


@pytest.fixture
def cli(tmp_path: Path, monkeypatch, capsys):
    """The command line, called in this process."""
    for name in [name for name in os.environ if name.startswith(("APP__", "HEADWATER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headwater.yaml").write_text(CONFIG)
    return Cli(tmp_path, monkeypatch, capsys)


@pytest.fixture
def source(cli: Cli, web: Web):
    """A source with entries, added with its history; returns its id.

    The visit that finds out its type is its first poll.
    """
    url = web.url("feed.demo", "/feed.xml")
    added = cli.json("add", url, "--label", "News", "--include-history", "--json")
    return added["id"]
