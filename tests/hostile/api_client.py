"""Minimal client of the service's REST API, over loopback."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

SOURCES = "/api/users/default/podcasts/default/sources"


@dataclass(frozen=True)
class ApiClient:
    """Calls one server; every request uses a new connection."""

    port: int
    host: str = "127.0.0.1"

    async def get(self, path: str) -> Any:
        """The JSON at a path."""
        return json.loads((await self.request("GET", path))[1])

    async def text(self, path: str) -> str:
        """The text at a path."""
        return (await self.request("GET", path))[1].decode()

    async def post(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of a request that changes state."""
        sent = b"" if body is None else json.dumps(body).encode()
        status, answer = await self.request("POST", path, sent)
        return status, json.loads(answer)

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 26)
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"\r\n" + body)
        try:
            answer = await reader.read()
        finally:
            writer.close()
        opening, _, rest = answer.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in opening.lower():
            rest = _unchunked(rest)
        return int(opening.split()[1]), rest


def _unchunked(body: bytes) -> bytes:
    pieces: list[bytes] = []
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return b"".join(pieces)
        pieces.append(body[:length])
        body = body[length + 2 :]
