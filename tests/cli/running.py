"""Calls the command line, in this process or as one of its own, and runs a web for it."""

import asyncio
import io
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
from headwater.demo import DemoHost, DemoWeb, Reply, ScriptedHost, pages
from headwater.demo.hosts import ChangingPage, Fixed, GrowingFeed, Paths, Redirect, Slow, Stuck

ESCAPE = "\x1b"
HEADWATER = (sys.executable, "-m", "headwater")


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def rows(self):
        """Tab-separated lines below the heading."""
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
        return Said(code, said.out, said.err)

    def json(self, *args, code=0):
        said = self(*args)
        assert (said.code, said.err) == (code, "")
        return json.loads(said.out)

    def fails(self, *args, code, given=""):
        """The one line that a call ends with, on standard error."""
        said = self(*args, given=given)
        lines = said.err.splitlines()
        assert said.code == code, said
        assert len(lines) == 1, said.err
        assert lines[0].startswith("headwater: ")
        assert ESCAPE not in said.err
        return lines[0].removeprefix("headwater: ")


class Web:
    """A simulated web that answers from a thread of its own."""

    def __init__(self, web):
        self._web = web
        self.url = web.url
        self.visits_to = web.visits_to


class Standing(SystemClock):
    """A clock that stands, so that no feed has something new within a test."""

    def __init__(self):
        super().__init__()
        self._now = super().now()

    def now(self):
        return self._now


def hosts():
    held = {"Retry-After": "120"}
    page = ChangingPage("page", every_seconds=86_400)
    home = Fixed(200, pages.home_page("Home", "/feed.xml", pages.RSS_TYPE), pages.HTML_TYPE)
    return [
        DemoHost("feed.demo", "a feed", GrowingFeed("feed", every_seconds=3600, entries=5)),
        DemoHost("page.demo", "a page", Paths({"/today": page, "/": home})),
        DemoHost("moved.demo", "moved", Redirect("feed.demo")),
        DemoHost("missing.demo", "missing", Fixed(404)),
        ScriptedHost(lambda _: Reply(status=429, headers=held), name="limited.demo"),
        ScriptedHost(lambda _: None, name="broken.demo"),
        DemoHost("slow.demo", "slow", Slow(GrowingFeed("slow", every_seconds=3600), seconds=1)),
        DemoHost("stuck.demo", "stuck", Stuck()),
    ]


@contextmanager
def running_web():
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    web = DemoWeb(hosts(), clock=Standing())

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
    """Run the command line as a process of its own, piped."""
    done = subprocess.run(
        [*HEADWATER, *args],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def on_terminal(folder, *args, columns=100):
    """Run the command line on a terminal and answer what that showed."""
    ours, theirs = pty.openpty()
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
    return Said(running.wait(30), shown.decode(), "")
