"""The servers that run beside the service."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path


@contextlib.asynccontextmanager
async def hostile_web(folder: Path) -> AsyncIterator[int]:
    """The hostile web as a separate process; yields its port.

    The trusted authority is written to `ca.pem` in the folder.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.hostile_web", str(folder)],
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
