"""A small web server for machines without nginx and for delayed responses.

    python -m bench.feed_server '{"folder": ..., "port": ..., "hosts": ..., "tls": null}'

For each line on standard input it prints the counts of responses so far, by status.
"""

import asyncio
import json
import os
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import uvloop

from bench import feeds

SLOW_SECONDS = 8.0
_IDLE_SECONDS = 1.0  # shorter than any pause between two polls of a source
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_COUNT_SECONDS = 5.0
_counts: Counter[str] = Counter()


class FeedProtocol(asyncio.Protocol):
    """Responds as soon as a request is complete; feeds of the kind `slow` later."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._buffer = b""
        self._idle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        if self._idle is not None:
            self._idle.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._buffer.endswith(b"\r\n\r\n"):
            return
        request, self._buffer = self._buffer, b""
        kind = request.split(b"/", 2)[1]
        loop = asyncio.get_running_loop()
        if kind == b"slow":
            loop.call_later(SLOW_SECONDS, self._respond, request)
        else:
            self._respond(request)
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(SLOW_SECONDS + _IDLE_SECONDS, self._transport.close)

    def _respond(self, request: bytes) -> None:
        if not self._transport.is_closing():
            head, body = response_to(request, self._root)
            _counts[head[9:12].decode()] += 1
            self._transport.write(head + body)
            if b"connection: close" in request.lower():
                self._transport.close()


def response_to(request: bytes, root: Path) -> tuple[bytes, bytes]:
    """Head and body, as a file server would send them."""
    path = request.split(b" ", 2)[1].decode().partition("?")[0]
    kind = "text/html" if path.endswith(".html") else "application/rss+xml"
    file = root / path.lstrip("/").replace("slow/", "still/")
    status = file.stat()
    etag = f'"{int(status.st_mtime):x}-{status.st_size:x}"'
    if path.startswith("/bytes/"):
        validator = ""
    else:
        validator = f"ETag: {etag}\r\n"
        if etag.encode() in request:
            return f"HTTP/1.1 304 Not Modified\r\n{validator}\r\n".encode(), b""
    body = file.read_bytes()
    head = (
        f"HTTP/1.1 200 OK\r\n{validator}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode(), body


async def serve(config: dict[str, Any]) -> None:
    """Listen on all hosts until the input ends."""
    loop = asyncio.get_running_loop()
    folder = Path(config["folder"])
    for number in range(config["hosts"]):
        address = feeds.address(number)
        context = None if config["tls"] is None else _context(folder, address, config["tls"])
        await loop.create_server(
            lambda: FeedProtocol(folder / "web"), address, config["port"], backlog=256, ssl=context
        )
    print("ready", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(_counts), flush=True)


def _context(folder: Path, address: str, version: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = _VERSIONS[version]
    context.load_cert_chain(folder / "tls" / f"{address}.pem", folder / "tls" / "key.pem")
    return context


class OwnServer:
    """This server as used by the benchmarks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._before: Counter[str] = Counter()

    def responses(self, at_least: int) -> Counter[str]:
        """The responses since the last call, once there are as many as expected."""
        deadline = time.monotonic() + _COUNT_SECONDS
        while True:
            found = Counter(self._counts()) - self._before
            if found.total() >= at_least or time.monotonic() > deadline:
                self._before += found
                return found
            time.sleep(0.05)

    def _counts(self) -> dict[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        counts: dict[str, int] = json.loads(self._process.stdout.readline())
        return counts


@contextmanager
def running(
    folder: Path, port: int, hosts: int, core: int, tls: str | None = None
) -> Iterator[OwnServer]:
    """Serve `folder/web` on all hosts from a separate process."""
    config = {"folder": str(folder), "port": port, "hosts": hosts, "tls": tls}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.feed_server", json.dumps(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n", "our web did not start"
            yield OwnServer(process)
        finally:
            process.kill()


if __name__ == "__main__":
    uvloop.run(serve(json.loads(sys.argv[1])))
