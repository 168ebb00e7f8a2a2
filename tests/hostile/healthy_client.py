"""A healthy source and a client that calls the API once a second, in a separate process.

The process does nothing else, so that it measures the service: `python -m
tests.hostile.healthy_client PORT API_PORT` writes a line of JSON for every round, until its input
ends.
"""

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwater.engine.metrics import ThreadCpu
from tests.hostile.api_client import SOURCES, ApiClient
from tests.hostile.documents import item, rss
from tests.hostile.exchange import answer
from tests.hostile.rows import HEALTHY

QUIET_ROUNDS = 20  # rounds before the hostile hosts start: the baseline
_LARGE, _LARGE_EVERY = (
    1_500_000,
    5,
)  # sizes in bytes, and the visits at which the feed has this size
_NEVER_BY_ITSELF = 525_600  # minutes between polls: a year


@dataclass(frozen=True)
class TimedRequest:
    """A request to the service."""

    began: float  # on the monotonic clock
    seconds: float
    waited: float  # of these, seconds that the client itself waited for a processor


@dataclass(frozen=True)
class ClientRound:
    """One poll of the healthy source, then one read of the metrics."""

    slot: int  # the second at which it was scheduled; negative in the baseline
    poll: TimedRequest
    outcome: dict[str, Any]
    api: TimedRequest
    metrics: str


@contextlib.asynccontextmanager
async def healthy_client(port: int, api_port: int) -> AsyncIterator[list[ClientRound]]:
    """Rounds as they are measured; the baseline is complete when this starts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.healthy_client", str(port), str(api_port)],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines, rounds = process.stdout, list[ClientRound]()

    async def read(count: float) -> None:
        while len(rounds) < count and (line := await asyncio.to_thread(lines.readline)):
            reported = json.loads(line)
            reported |= {name: TimedRequest(**reported[name]) for name in ("poll", "api")}
            rounds.append(ClientRound(**reported))

    try:
        await read(QUIET_ROUNDS)
        process.stdin.write(b"\n")
        process.stdin.flush()
        reading = asyncio.create_task(read(float("inf")))
        yield rounds
        process.stdin.close()
        await reading
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


async def main(arguments: Sequence[str]) -> None:
    """Run the baseline rounds, wait for a line, then run one round a second."""
    port, api = int(arguments[0]), ApiClient(int(arguments[1]))
    server = await _healthy_host(port)
    wanted = {"url": f"http://{HEALTHY}:{port}/feed", "type": "rss", "includeHistory": True,
              "pollIntervalMinutes": _NEVER_BY_ITSELF}  # fmt: skip
    _, source = await api.post(SOURCES, wanted)
    with ThreadCpu() as turns:
        for slot in range(-QUIET_ROUNDS, 0):
            await _round(slot, api, source["id"], turns)
        await asyncio.to_thread(sys.stdin.readline)
        ending = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        began = time.monotonic()
        while not ending.done():
            slot = int(time.monotonic() - began)
            await _round(slot, api, source["id"], turns)
            next_at = began + max(slot + 1, int(time.monotonic() - began))
            await asyncio.wait([ending], timeout=max(0, next_at - time.monotonic()))
    server.close()


async def _healthy_host(port: int) -> asyncio.Server:
    """A feed that has one more entry at every visit, and is large at some."""
    visits = itertools.count(1)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                newest = next(visits) if b" /feed " in head else 1
                entries = range(newest, max(newest - 20, 0), -1)
                more = ("<!--", "x" * _LARGE, "-->") if newest % _LARGE_EVERY == 0 else ()
                items = (item(f"Entry {n}", f"Body {n}") for n in entries)
                writer.write(answer(rss(*items, *more)))
        writer.close()

    return await asyncio.start_server(converse, HEALTHY, port)


async def _round(slot: int, api: ApiClient, source: str, turns: ThreadCpu) -> None:
    began, waited = time.monotonic(), turns.so_far().waited
    _, outcome = await api.post(f"{SOURCES}/{source}/poll")
    poll = TimedRequest(began, time.monotonic() - began, turns.so_far().waited - waited)
    began, waited = time.monotonic(), turns.so_far().waited
    metrics = await api.text("/metrics")
    asked = TimedRequest(began, time.monotonic() - began, turns.so_far().waited - waited)
    print(json.dumps(asdict(ClientRound(slot, poll, outcome, asked, metrics))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
