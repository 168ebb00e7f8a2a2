"""Runs the command line, in this process or in a new one, and a web server for it."""

import asyncio
import io
import itertools
import json
import os
import pty
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.cli import main
from headwater.clock import SystemClock
from headwater.demo import documents
from headwater.demo.demo_web import DemoHost, DemoWeb, Reply
from headwater.demo.host_behaviours import (
    GrowingFeed,
    changing_page,
    fixed,
    paths,
    redirect,
    slow,
    stuck,
)
from tests.scripted_host import ScriptedHost

ESCAPE = "\x1b"
HEADWATER = (sys.executable, "-m", "headwater")


@dataclass
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def rows(self):
        """The tab-separated lines below the heading."""
        return [line.split("\t") for line in self.out.splitlines()[1:]]


class Cli:
    def __init__(self, folder, monkeypatch, capsys):
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *args, given=""):
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")
        self._monkeypatch.setattr(sys, "stdin", stdin)
        self._capsys.readouterr()
        code = main([str(arg) for arg in args])
        said = self._capsys.readouterr()
        return CommandResult(code, said.out, said.err)

    def json(self, *args, code=0):
        said = self(*args)
        assert (said.code, said.err) == (code, "")
        return json.loads(said.out)

    def fails(self, *args, code, given=""):
        """The single line on standard error that a failed call ends with."""
        said = self(*args, given=given)
        lines = said.err.splitlines()
        assert said.code == code, said
        assert len(lines) == 1, said.err
        assert lines[0].startswith("headwater: ")
        assert ESCAPE not in said.err
        return lines[0].removeprefix("headwater: ")


class Web:
    """A simulated web that serves from its own thread."""

    def __init__(self, web):
        self._web = web
        self.url = web.url
        self.visits_to = web.visits_to


class FrozenClock(SystemClock):
    """A clock that does not move, so that no feed gets new entries within a test."""

    def __init__(self):
        super().__init__()
        self._now = super().now()

    def now(self):
        return self._now


def counted_page():
    """A page that counts its visitors."""
    visits = itertools.count(1)

    def site(_):
        text = f"<p>The river rose again.</p><p>{next(visits)} visitors</p>"
        page = f"<html><title>Counted</title><body><article>{text}</article></body></html>"
        return Reply(body=page.encode(), content_type=documents.HTML_TYPE)

    return site


def hosts():
    held = {"Retry-After": "120"}
    page = changing_page("page", every_seconds=86_400)
    home = fixed(
        200, documents.home_page("Home", "/feed.xml", documents.RSS_TYPE), documents.HTML_TYPE
    )
    return [
        DemoHost("feed.demo", "a feed", GrowingFeed("feed", every_seconds=3600, entries=5)),
        DemoHost("page.demo", "a page", paths({"/today": page, "/": home})),
        DemoHost("moved.demo", "moved", redirect("feed.demo")),
        DemoHost("missing.demo", "missing", fixed(404)),
        ScriptedHost(lambda _: Reply(status=429, headers=held), name="limited.demo"),
        ScriptedHost(lambda _: None, name="broken.demo"),
        ScriptedHost(counted_page(), name="counter.demo"),
        DemoHost("slow.demo", "slow", slow(GrowingFeed("slow", every_seconds=3600), seconds=1)),
        DemoHost("stuck.demo", "stuck", stuck),
    ]


@contextmanager
def running_web():
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    web = DemoWeb(hosts(), clock=FrozenClock())

    async def serve():
        async with web:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield Web(web)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def environment(**more):
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("APP__", "HEADWATER_"))}
    return kept | {"COLUMNS": "100", **more}


def process(folder, *args, **more):
    """Run the command line as a separate process, piped."""
    return python(folder, "-m", "headwater", *args, **more)


def python(folder, *args, **more):
    """Run Python as a separate process, piped."""
    done = subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


def on_terminal(folder, *args, columns=100, typed=""):
    """Run the command line on a terminal and return what it displayed."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())  # read when the program asks for it
    env = environment(TERM="xterm-256color", COLUMNS=str(columns))
    running = subprocess.Popen(
        [*HEADWATER, *args], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65_536):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return CommandResult(running.wait(30), shown.decode(), "")
