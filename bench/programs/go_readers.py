"""Miniflux and yarr, where their binaries are installed: refreshed through their own interfaces.

Needs only Python, like `other_programs`. The CPU of their processes counts, and that of PostgreSQL.
"""

import asyncio
import base64
import json
import os
import subprocess
import sys
import urllib.request
from abc import abstractmethod
from typing import Any
from xml.sax.saxutils import quoteattr

from bench import feeds
from bench.polled_site import free_port
from bench.programs.driver import Counts, MeasuredProgram, serve

_LOOK_SECONDS = 0.1
_START_SECONDS = 30
_STOP_SECONDS = 30
_USER, _PASSWORD = "bench", "bench-password"


class InstalledReader:
    """A feed reader as a process, with an HTTP interface on loopback."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._base = f"http://127.0.0.1:{free_port()}"

    @abstractmethod
    def command(self) -> tuple[list[str], dict[str, str]]:
        """The command that starts it, and its environment."""

    async def open(self) -> None:
        command, environ = self.command()
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, env={**os.environ, **environ}, stdout=quiet, stderr=quiet
        )
        async with asyncio.timeout(_START_SECONDS):
            while not await asyncio.to_thread(self._is_up):
                await asyncio.sleep(_LOOK_SECONDS)

    async def prepare(self) -> None: ...

    async def close(self) -> None:
        self._process.terminate()
        await asyncio.to_thread(self._process.wait, _STOP_SECONDS)

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            sys.exit(f"{self._process.args!r} ended with {self._process.returncode}")
        try:
            urllib.request.urlopen(self._base).close()
        except OSError:
            return False
        return True

    def _urls(self) -> list[str]:
        kind, port, scheme = (self._config[name] for name in ("kind", "port", "scheme"))
        return [feeds.url(n, kind, port, scheme) for n in range(self._config["feeds"])]

    async def _call(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
        basic = base64.b64encode(f"{_USER}:{_PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/json", **headers}
        request = urllib.request.Request(
            self._base + path, data=body, headers=headers, method=method
        )

        def send() -> Any:
            with urllib.request.urlopen(request) as answer:
                text = answer.read()
            return json.loads(text) if text.startswith((b"{", b"[")) else None

        return await asyncio.to_thread(send)


class Miniflux(InstalledReader):
    """Miniflux 2 on PostgreSQL: all feeds refreshed by `PUT /v1/feeds/refresh`."""

    def command(self) -> tuple[list[str], dict[str, str]]:
        environ = {
            "DATABASE_URL": self._config["database"],
            "LISTEN_ADDR": self._base.removeprefix("http://"),
            "RUN_MIGRATIONS": "1",
            "CREATE_ADMIN": "1",
            "ADMIN_USERNAME": _USER,
            "ADMIN_PASSWORD": _PASSWORD,
            "DISABLE_SCHEDULER_SERVICE": "1",
            "FETCHER_ALLOW_PRIVATE_NETWORKS": "1",  # of newer versions
            "WORKER_POOL_SIZE": "16",
        }
        return [self._config["binary"]], environ

    async def open(self) -> None:
        await super().open()
        lines = "".join(f'<outline type="rss" xmlUrl={quoteattr(url)}/>' for url in self._urls())
        opml = f'<opml version="2.0"><body>{lines}</body></opml>'.encode()
        await self._call("POST", "/v1/import", opml)

    async def run(self) -> int:
        before = {feed["id"]: feed["checked_at"] for feed in await self._feeds()}
        await self._call("PUT", "/v1/feeds/refresh")
        while any(feed["checked_at"] == before[feed["id"]] for feed in await self._feeds()):
            await asyncio.sleep(_LOOK_SECONDS)
        return len(before)

    async def _feeds(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call("GET", "/v1/feeds")
        return found

    async def counts(self) -> Counts:
        found = await self._feeds()
        entries = await self._call("GET", "/v1/entries?limit=1")
        failing = sum(feed["parsing_error_count"] > 0 for feed in found)
        return {"sources": len(found), "failing": failing, "posts": entries["total"]}


class Yarr(InstalledReader):
    """yarr on SQLite: all feeds refreshed by `POST /api/feeds/refresh`."""

    def command(self) -> tuple[list[str], dict[str, str]]:
        address, file = self._base.removeprefix("http://"), self._config["database"]
        return [self._config["binary"], "-addr", address, "-db", file], {}

    async def open(self) -> None:
        await super().open()
        for url in self._urls():  # adding a feed fetches it
            body = json.dumps({"url": url}).encode()
            await self._call("POST", "/api/feeds", body)

    async def run(self) -> int:
        await self._call("POST", "/api/feeds/refresh")
        while (await self._call("GET", "/api/status"))["running"]:
            await asyncio.sleep(_LOOK_SECONDS)
        return int(self._config["feeds"])

    async def counts(self) -> Counts:
        """Without its posts: when it was measured before, it lost some."""
        return {"sources": len(await self._call("GET", "/api/feeds"))}


def _made(config: dict[str, Any]) -> MeasuredProgram:
    return Miniflux(config) if config["program"] == "miniflux" else Yarr(config)


if __name__ == "__main__":
    serve(_made)
    sys.exit(0)
