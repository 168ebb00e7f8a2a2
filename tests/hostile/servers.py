"""The servers that a run of the matrix has beside the service."""

import asyncio
import contextlib
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.hostile.documents import item, rss
from tests.hostile.exchange import answer
from tests.hostile.rows import HEALTHY


@contextlib.asynccontextmanager
async def healthy_host(port: int) -> AsyncIterator[None]:
    """A feed that has one more entry at every visit."""
    visits = itertools.count(1)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            while await reader.readuntil(b"\r\n\r\n"):
                newest = next(visits)
                entries = range(newest, max(newest - 20, 0), -1)
                writer.write(answer(rss(*(item(f"Entry {n}", f"Body {n}") for n in entries))))
        writer.close()

    server = await asyncio.start_server(converse, HEALTHY, port)
    try:
        yield
    finally:
        server.close()


@contextlib.asynccontextmanager
async def hostile_web(folder: Path) -> AsyncIterator[int]:
    """The hostile web as a process of its own; answers its port.

    Whom to trust there is written to `ca.pem` in the folder.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.web", str(folder)],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await asyncio.to_thread(process.stdout.readline))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
