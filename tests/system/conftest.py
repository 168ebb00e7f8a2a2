"""A real `headwater serve` with a scripted web on loopback hosts."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from headwater.app import open_app
from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoWeb, Reply, Request
from headwater.model import SourceType
from headwater.operations.sources import add_source
from headwater.settings import load_settings
from tests.scripted_host import ScriptedHost

DEADLINE = 60.0


def rss(host: str, *entries: tuple[str, str, datetime | None]) -> bytes:
    """A feed of (name, body, date) entries."""
    items = "".join(
        f"<item><title>{name}</title><link>http://{host}/{name}</link><guid>{host}/{name}</guid>"
        f"<description>{body}</description>"
        + (f"<pubDate>{format_datetime(date)}</pubDate>" if date else "")
        + "</item>"
        for name, body, date in entries
    )
    return f'<rss version="2.0"><channel><title>{host}</title>{items}</channel></rss>'.encode()


def rss_of_links(bodies: Mapping[str, str]) -> bytes:
    """A feed of undated entries: their bodies by link."""
    items = "".join(
        f"<item><title>Title {number}</title><link>{link}</link><description>{body}</description>"
        "</item>"
        for number, (link, body) in enumerate(bodies.items())
    )
    return f'<rss version="2.0"><channel><title>Links</title>{items}</channel></rss>'.encode()


@dataclass
class Headwater:
    """The program as users see it: its command line, its process, its database."""

    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    database_url: str | None = None
    process: "subprocess.Popen[bytes] | None" = None
    port: int = 0

    def __post_init__(self) -> None:
        self.configure()

    def configure(self, **options: Any) -> None:
        """Write the configuration file."""
        self.options |= options
        self.port = self.port or _free_port()
        app = {
            "database-url": self.database_url or f"sqlite:///{self.folder / 'test.db'}",
            "server": {"port": self.port},
            "shutdown-seconds": self.options.get("shutdown_seconds", 5),
            "source": {"tick-seconds": 1, **self.options.get("source", {})},
            "fetch": {"allow-private-networks": True, **self.options.get("fetch", {})},
            **self.options.get("app", {}),
        }
        (self.folder / "headwater.yaml").write_text(json.dumps({"app": app}))

    async def cli(self, *arguments: str, code: int = 0, complaint: bool = False) -> str:
        """Run a command and return its output, or its error message."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headwater", *arguments, cwd=self.folder, env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert process.returncode == code, (arguments, process.returncode, out, err)
        assert b"Traceback" not in err, err
        return (err if complaint or code == 2 else out).decode()

    async def json(self, *arguments: str, code: int = 0) -> Any:
        """Run a command with `--json`."""
        return json.loads(await self.cli(*arguments, "--json", code=code))

    async def add(self, url: str, **settings: Any) -> str:
        """Add a source as the command line does, in this process, and return its id."""
        settings.setdefault("poll_interval_minutes", 100_000)  # due when a test says so
        wanted = {"type": SourceType.RSS, "url": url} | settings
        async with open_app(load_settings(environ={}, cwd=self.folder)) as app:
            now, most = app.clock.now(), app.settings.limits.max_sources_per_user
            return (await add_source(app.store, "default", wanted, now, most=most, allowed=True)).id

    async def start(self) -> None:
        """Start `serve` and wait until it responds."""
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headwater", "serve"],
                cwd=self.folder, env=_environment(), stdout=log, stderr=log,
            )  # fmt: skip
        await until(self._is_up)

    async def stop(self, how: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        assert self.process is not None
        self.process.send_signal(how)
        code = await asyncio.to_thread(self.process.wait, DEADLINE)
        self.process = None
        return code

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Query the database directly."""
        with contextlib.closing(sqlite3.connect(self.folder / "test.db", timeout=30)) as connection:
            return connection.execute(sql, values).fetchall()

    def change(self, sql: str, *values: object) -> None:
        """Simulate elapsed time by moving times in the database."""
        with contextlib.closing(sqlite3.connect(self.folder / "test.db", timeout=30)) as connection:
            connection.execute(sql, values)
            connection.commit()

    def make_due(self) -> None:
        """Make every source due."""
        self.change("UPDATE sources SET last_polled = 1")

    async def health(self) -> tuple[int, Any]:
        return await get(self.port, "/api/health")

    async def _is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        try:
            return (await self.health())[0] == 200
        except OSError:
            return False


async def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, Any]:
    """Send a GET: status and JSON."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def until(condition: Callable[[], Any], seconds: float = DEADLINE) -> None:
    """Wait until a condition is true; fail after the timeout."""
    deadline = time.monotonic() + seconds
    while True:
        outcome = condition()
        if await outcome if asyncio.iscoroutine(outcome) else outcome:
            return
        assert time.monotonic() < deadline, "this did not happen in time"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def web_of(**scripts: Callable[[Request], Any]) -> AsyncIterator[DemoWeb]:
    """Scripted hosts, by name."""
    hosts = [ScriptedHost(script, name=name) for name, script in scripts.items()]
    async with DemoWeb(hosts, clock=SystemClock()) as web:
        yield web


def feed_site(*, etag: bool = False, entries: int = 1) -> Callable[[Request], Reply]:
    """A host whose every path is a feed with different entries, dated now."""

    def site(request: Request) -> Reply:
        if etag and request.headers.get("if-none-match") == '"v1"':
            return Reply(304)
        now = datetime.now(UTC) + timedelta(hours=1)
        items = [
            (f"{request.path[1:]}-{n}", f"Body {n} of {request.path}", now) for n in range(entries)
        ]
        headers = {"ETag": '"v1"'} if etag else {}
        return Reply(200, rss("demo.invalid", *items), "application/rss+xml", headers)

    return site


@pytest.fixture
def headwater(tmp_path: Path) -> Iterator[Headwater]:
    """A Headwater in a temporary folder; processes that still run at the end are killed."""
    program = Headwater(tmp_path)
    yield program
    if program.process is not None:
        program.process.kill()
        program.process.wait()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("APP__")}
    return kept | {"PYTHONWARNINGS": "default", "NO_COLOR": "1", "COLUMNS": "200"}


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
