"""Calls the API of the running service, at the port that its log names."""

import asyncio
import contextlib
import json
import re
from pathlib import Path
from typing import Any

_SERVING = re.compile(r"serving url=http://127\.0\.0\.1:(\d+)")


class ServiceClient:
    """The API of the service that wrote to a log last."""

    def __init__(self, log_file: Path) -> None:
        self._log_file = log_file
        self._length = 0  # of the log when the service started
        self.port = 0  # 0 until the log names the port

    @property
    def log(self) -> str:
        return self._log_file.read_text() if self._log_file.exists() else ""

    def expect_restart(self) -> None:
        """Prepare for the start of a service."""
        self.port, self._length = 0, len(self.log)

    async def until_ready(self) -> None:
        while not self.port or (await self.call("GET", "/api/health"))[0] != 200:
            await asyncio.sleep(0.03)
            found = _SERVING.search(self.log[self._length :])
            self.port = int(found[1]) if found else 0

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request; None if the service is killed during it."""
        payload = b"" if body is None else json.dumps(body).encode()
        with contextlib.suppress(OSError, ValueError, IndexError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(
                f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n".encode()
                + payload
            )
            with contextlib.closing(writer):
                answer = await reader.read()
            head, _, rest = answer.partition(b"\r\n\r\n")
            return int(head.split()[1]), json.loads(rest)
        return 0, None


class KeptConnection:
    """A connection that stays open: without free descriptors no new one can be opened."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> "KeptConnection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        await self.get("/api/health")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def get(self, path: str) -> tuple[int, Any]:
        """Send a request and read the declared length."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        return int(head.split()[1]), json.loads(await self._reader.readexactly(length))
