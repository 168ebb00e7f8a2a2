"""How a service is reached that runs now: its log says where, and its API answers."""

import asyncio
import contextlib
import json
import re
from pathlib import Path
from typing import Any

_SERVING = re.compile(r"serving url=http://127\.0\.0\.1:(\d+)")


class Door:
    """The API of whichever service wrote to a log last."""

    def __init__(self, log_file: Path) -> None:
        self._log_file = log_file
        self._length = 0  # of the log when the service began
        self.port = 0  # 0 until it has said where it serves

    @property
    def log(self) -> str:
        return self._log_file.read_text() if self._log_file.exists() else ""

    def expect_another(self) -> None:
        """A service is about to start."""
        self.port, self._length = 0, len(self.log)

    async def until_answers(self) -> None:
        while not self.port or (await self.call("GET", "/api/health"))[0] != 200:
            await asyncio.sleep(0.03)
            found = _SERVING.search(self.log[self._length :])
            self.port = int(found[1]) if found else 0

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request by hand; a service that dies meanwhile has answered nothing."""
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
    """A connection that stays open: where there are no descriptors there are no new ones."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> "KeptConnection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        await self.get("/api/health")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def get(self, path: str) -> tuple[int, Any]:
        """Ask, and read what was declared."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        return int(head.split()[1]), json.loads(await self._reader.readexactly(length))
