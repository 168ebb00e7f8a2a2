"""`serve` as a real process: API, signals, and a second process."""

import fcntl
import http.client
import http.server
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import termios
import threading
from contextlib import closing

import pytest

from headwater.store.sqlite import SqliteDatabase
from tests.cli.command_runner import ESCAPE, HEADWATER, environment, process
from tests.cli.conftest import CONFIG

pytestmark = pytest.mark.system


class Serving:
    """A running `headwater serve` whose log is read continuously."""

    def __init__(self, folder, *args):
        (folder / "headwater.yaml").write_text(CONFIG)
        self.folder = folder
        self.lines: list[str] = []
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
        assert self._running.wait(60), self.lines

    def _read(self):
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if " serving " in line:
                self._running.set()

    @property
    def port(self):
        (number,) = re.findall(r"serving url=http://127\.0\.0\.1:(\d+)", "".join(self.lines))
        return int(number)

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        return answer.status, answer.headers, body

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
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


def test_k4_serve_responds_and_exits_0_on_sigterm(serving):
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


def test_k4_sighup_is_ignored_and_logged(serving):
    server = serving()
    server.process.send_signal(signal.SIGHUP)
    text = "SIGHUP is ignored; restart to apply a changed configuration"
    wait_for(lambda: any(text in line for line in server.lines))
    assert server.get("/api/health")[0] == 200
    assert server.end() == 0


def test_k4_serve_outlives_its_terminal(tmp_path):
    (tmp_path / "headwater.yaml").write_text(CONFIG)
    ours, theirs = pty.openpty()
    server = subprocess.Popen(
        [*HEADWATER, "serve"],
        cwd=tmp_path,
        env=environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY),
    )
    try:
        os.close(theirs)
        shown = b""
        while not (found := re.search(rb"http://127\.0\.0\.1:(\d+) ", shown)):
            shown += os.read(ours, 4096)
        os.close(ours)  # the kernel sends SIGHUP, and later writes fail
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", "/api/health")
        assert connection.getresponse().status == 200
        connection.close()
        server.terminate()
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait()


def test_s10_a_second_serve_reports_the_first_and_exits_2(serving, tmp_path):
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


def test_s10_poll_beside_serve_hands_over_its_requests(serving, tmp_path, web):
    server = serving()
    assert (
        process(tmp_path, "add", web.url("feed.demo"), "--type", "rss", "--include-history").code
        == 0
    )
    said = process(tmp_path, "poll", "--all")
    assert (said.code, said.err) == (0, "")
    assert said.rows[0][0] == "stored"
    missing = ("add", web.url("missing.demo"), "--type", "rss", "--poll")
    assert process(tmp_path, *missing).code == 1
    assert server.end() == 0
    polled = [line for line in server.lines if "[Polling]" in line]
    assert any("stored" in line and web.url("feed.demo") in line for line in polled)


def test_y3_only_messages_of_serve_link_to_its_loopback_address(serving, tmp_path):
    number = os.getpid()
    host = f"127.90.{number >> 8 & 255}.{number & 255}"  # where the default port is free
    serving("--host", host, "--port", "8420")
    config = CONFIG.replace("{port: 0}", f"{{host: {host}, port: 8420}}")
    (tmp_path / "headwater.yaml").write_text(config)  # the same for the command below
    topics: list[bytes] = []

    class Topic(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            topics.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

    with http.server.HTTPServer(("127.0.0.1", 0), Topic) as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{receiver.server_port}/topic"
        assert process(tmp_path, "notices", "add", "ntfy", url).code == 0
        with closing(http.client.HTTPConnection(host, 8420, timeout=60)) as connection:
            connection.request("POST", "/api/users/default/notices/test")
            assert connection.getresponse().status == 200
        assert process(tmp_path, "notices", "test").code == 0
        receiver.shutdown()
        thread.join()
    by_serve, by_command = topics
    assert f"http://{host}:8420/".encode() in by_serve
    assert b"http" not in by_command


def test_the_port_can_be_set_and_restore_works_beside_a_service(serving, tmp_path):
    serving("--port", "0")
    assert process(tmp_path, "backup", "copy.db").code == 0
    said = process(tmp_path, "restore", "copy.db", "--yes")
    assert said.code == 0
    assert "Restored" in said.out


def wait_for(condition):
    """Poll until a condition is true; the test's timeout ends an endless wait."""
    while not condition():
        threading.Event().wait(0.05)


def request(folder, url):
    """Add a source and request its poll without waiting for it."""
    assert process(folder, "add", url, "--type", "rss", "--include-history").code == 0
    assert process(folder, "poll", "--url", url, "--wait", "0.5").code == 1


def test_s8_a_running_poll_is_finished_and_stored(serving, tmp_path, web):
    server = serving()
    url = web.url("slow.demo")
    assert process(tmp_path, "add", url, "--type", "rss", "--include-history").code == 0
    asked = len(web.visits_to("slow.demo"))
    source = process(tmp_path, "disable", url).out.split()[1]
    assert process(tmp_path, "enable", source).code == 0
    wait_for(lambda: len(web.visits_to("slow.demo")) > asked)
    assert server.end() == 0
    assert json.loads(process(tmp_path, "show", source, "--json").out)["postCount"] > 0


def test_k4_a_second_signal_ends_the_process_at_once(serving, tmp_path, web):
    server = serving()
    asked = len(web.visits_to("stuck.demo"))
    request(tmp_path, web.url("stuck.demo"))
    wait_for(lambda: len(web.visits_to("stuck.demo")) > asked)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: any("stopping" in line for line in server.lines))
    assert server.end() == -signal.SIGTERM


def test_an_interrupted_poll_prints_no_traceback(tmp_path, web):
    (tmp_path / "headwater.yaml").write_text(CONFIG)
    url = web.url("stuck.demo")
    assert process(tmp_path, "add", url, "--type", "rss").code == 0
    asked = len(web.visits_to("stuck.demo"))
    poll = subprocess.Popen(
        [*HEADWATER, "poll", "--url", url],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(web.visits_to("stuck.demo")) > asked)
    poll.send_signal(signal.SIGINT)
    out, err = poll.communicate(timeout=60)
    reported = "stopping; a second Ctrl-C ends at once\n"
    assert (poll.returncode, out, err) == (130, "", reported)


def test_s10_a_poll_that_was_handed_over_returns_when_the_other_process_ends(tmp_path, web):
    (tmp_path / "headwater.yaml").write_text(CONFIG)
    url = web.url("feed.demo")
    assert process(tmp_path, "add", url, "--type", "rss", "--include-history").code == 0
    other = SqliteDatabase(tmp_path / "data" / "headwater.db")
    assert other.take_poll_lock()
    poll = subprocess.Popen(
        [*HEADWATER, "poll", "--url", url, "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def is_requested():
        with closing(sqlite3.connect(other.path)) as database:
            return database.execute("SELECT requested_at FROM sources").fetchone()[0] is not None

    wait_for(is_requested)
    other.release()
    out, err = poll.communicate(timeout=60)
    assert (poll.returncode, err) == (0, "")
    assert json.loads(out)[0]["outcome"] == "stored"
