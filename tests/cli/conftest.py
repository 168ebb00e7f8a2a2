"""A command line in a folder of its own, and a small web for it to poll."""

import logging
import os
from pathlib import Path

import pytest

from headwater import logs
from tests.cli.running import Cli, Web, running_web

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
    """The command line, called in this process; log settings come back afterwards."""
    for name in [name for name in os.environ if name.startswith(("APP__", "HEADWATER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headwater.yaml").write_text(CONFIG)
    root = logging.getLogger()
    before = (root.handlers[:], root.level, dict(vars(logs._output)))
    yield Cli(tmp_path, monkeypatch, capsys)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    vars(logs._output).update(before[2])
    logging.captureWarnings(False)


@pytest.fixture
def source(cli: Cli, web: Web):
    """A source that has entries, added with its history and polled once; answers its id."""
    url = web.url("feed.demo", "/feed.xml")
    added = cli.json("add", url, "--label", "News", "--include-history", "--json")
    assert cli("poll", "--all").code == 0
    return added["id"]
