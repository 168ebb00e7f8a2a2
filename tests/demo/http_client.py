"""A clock moved by the test and a small HTTP client, for tests of the simulated web."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from headwater.demo.demo_web import DemoHost, DemoWeb

NOW = datetime(2026, 2, 16, 8, tzinfo=UTC)


class HandClock:
    """A clock that the test moves; sleeping takes no time but moves the clock."""

    doubt_seconds: float = 0.0

    def __init__(self):
        self.passed = 0.0

    def now(self):
        return NOW + timedelta(seconds=self.passed)

    def monotonic(self):
        return 1000 + self.passed

    async def sleep(self, seconds):
        self.passed += seconds


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


async def get(url, *, method="GET", **headers):
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        return await ask(reader, writer, parts, method, headers)
    finally:
        writer.close()
        await writer.wait_closed()


async def ask(reader, writer, parts, method="GET", headers=None):
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    length = 0 if method == "HEAD" else int(fields.get("content-length", "0"))
    return Answer(int(head[0].split()[1]), fields, await reader.readexactly(length))


def a_web(site, *, clock=None):
    return DemoWeb([DemoHost("a.demo", "a host", site)], clock=clock or HandClock())
