"""`serve` as a real process: API, signals, and a second one beside it."""

import http.client
import json
import re
import signal
import subprocess
import threading

import pytest

from tests.cli.conftest import CONFIG
from tests.cli.running import ESCAPE, HEADWATER, environment, process

pytestmark = pytest.mark.system


class Serving:
    """A running `headwater serve`, its log read as it comes."""

    def __init__(self, folder, *args):
        (folder / "headwater.yaml").write_text(CONFIG)
        self.folder = folder
        self.lines = []
        self._running = threading.Event()
        self.process = subprocess.Popen(
            [*HEADWATER, "serve", *args],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._running.wait(30), self.lines

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if " serving " in line:
                self._running.set()

    @property
    def port(self):
        return int(re.search(r"url=http://127\.0\.0\.1:(\d+)", "".join(self.lines))[1])

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        return answer.status, answer.headers, body

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(30)
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@pytest.fixture
def serving(tmp_path):
    started = []

    def serve(*args):
        started.append(Serving(tmp_path, *args))
        return started[-1]

    yield serve
    for one in started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def test_k4_serve_answers_and_ends_with_0_on_sigterm(serving):
    server = serving()
    status, headers, health = server.get("/api/health")
    assert (status, health["status"]) == (200, "ok")
    assert set(health) == {"status", "version", "schema"}
    assert headers["content-type"] == "application/json"
    assert server.get("/api/health", Host="evil.example")[0] == 403
    assert server.end() == 0
    assert "stopped" in server.lines[-1]
    assert ESCAPE not in "".join(server.lines)
    assert not any("GET /api" in line for line in server.lines)


def test_k4_sigint_ends_it_too(serving):
    assert serving().end(signal.SIGINT) == 0


def test_s10_a_second_serve_says_so_and_exits_2(serving, tmp_path):
    server = serving()
    said = process(tmp_path, "serve")
    assert said.code == 2
    assert said.err == "headwater: another headwater process polls this database already\n"
    taken = process(
        tmp_path, "serve", "--port", str(server.port), "--database-url", "sqlite:///other.db"
    )
    assert taken.code == 2
    assert len(taken.err.splitlines()) == 1
    assert "Address already in use" in taken.err
    assert server.end() == 0


def test_s10_poll_beside_serve_hands_over(serving, tmp_path, web):
    server = serving()
    assert process(tmp_path, "add", web.url("feed.demo"), "--include-history").code == 0
    said = process(tmp_path, "poll", "--all")
    assert (said.code, said.err) == (0, "")
    assert said.rows[0][0] == "stored"
    missing = ("add", web.url("missing.demo"), "--type", "rss", "--poll")
    assert process(tmp_path, *missing).code == 1
    assert server.end() == 0
    polled = [line for line in server.lines if "[Polling]" in line]
    assert any("stored" in line and web.url("feed.demo") in line for line in polled)


def test_the_port_can_be_given_and_restore_waits_for_the_end(serving, tmp_path):
    server = serving("--port", "0")
    assert process(tmp_path, "backup", "copy.db").code == 0
    said = process(tmp_path, "restore", "copy.db", "--yes")
    assert said.code == 2
    assert "stop it, then restore" in said.err
    assert server.end() == 0
    assert process(tmp_path, "restore", "copy.db", "--yes").code == 0
