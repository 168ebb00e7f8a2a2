"""The servers that a run of the matrix has beside the service."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path


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
