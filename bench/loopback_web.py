"""A fast loopback web for benchmarks: many hosts in a separate process.

    python -m bench.loopback_web PORT HOSTS CORE

Responds to every GET: 304 if the request is conditional, else a feed of twenty entries.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import cast

import uvloop

FEED_ENTRIES = 20


def address(index: int) -> str:
    """The loopback address of a host."""
    return f"127.90.{index >> 8 & 255}.{index & 255}"


def feed(host: str, entries: int = FEED_ENTRIES) -> bytes:
    """A feed whose entries are a page of HTML each."""
    body = "&lt;p&gt;The river &lt;b&gt;rose&lt;/b&gt; by {0} cm over night.&lt;/p&gt;" * 12
    items = "".join(
        f"<item><title>Level {n}</title><link>http://{host}/{n}</link><guid>{host}-{n}</guid>"
        f"<pubDate>Sun, 15 Nov 2026 {n % 24:02d}:00:00 GMT</pubDate>"
        f"<description>{host} {n} {body.format(n)}</description></item>"
        for n in range(entries)
    )
    return (
        f'<?xml version="1.0"?><rss version="2.0"><channel><title>{host}</title>'
        f"<link>http://{host}/</link>{items}</channel></rss>"
    ).encode()


class FeedProtocol(asyncio.Protocol):
    """Responds as soon as a request is complete."""

    NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.buffer.endswith(b"\r\n\r\n"):
            return
        conditional = b"if-none-match" in self.buffer.lower()
        host = self.transport.get_extra_info("sockname")[0]
        self.buffer = b""
        self.transport.write(self.NOT_MODIFIED if conditional else _whole(host))


def _whole(host: str) -> bytes:
    body = feed(host)
    head = (
        'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Type: application/rss+xml\r\n'
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def serve(port: int, hosts: int) -> None:
    """Listen on all hosts until killed."""
    loop = asyncio.get_running_loop()
    for index in range(hosts):
        await loop.create_server(FeedProtocol, address(index), port, backlog=64)
    print("ready", flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def running(port: int, hosts: int, core: int = 1) -> Iterator[None]:
    """A web in a separate process, pinned to a core."""
    command = [sys.executable, "-m", "bench.loopback_web", str(port), str(hosts), str(core)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[3]) % (os.cpu_count() or 1)})
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
