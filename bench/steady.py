"""Steady state: the whole poll path against a bare loop over the same HTTP client, one core.

python -m bench.steady [HOSTS] [ROUNDS]
"""

import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import aiohttp
import uvloop

from bench import web
from headwater import logs
from headwater.app import App, limits_from, open_app
from headwater.cli.serving import collect_garbage_rarely
from headwater.engine.service import Service
from headwater.fetch.http import Client
from headwater.model import Source, SourceType, Validators
from headwater.settings import Settings, load_settings

PORT = 18480
SLOTS = 256
NOWHERE = Path(os.devnull).open("w")  # noqa: SIM115 - for the life of the process
Run = Callable[[], Awaitable[int]]


async def measure(hosts: int, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Polls or requests per second of each way, rounds interleaved."""
    settings = load_settings(
        options={
            "app.database-url": f"sqlite:///{folder / 'bench.db'}",
            "app.fetch.allow-private-networks": True,
            "app.fetch.max-connections": SLOTS,
        },
        environ={},
    )
    urls = [f"http://{web.address(index)}:{PORT}/feed.xml" for index in range(hosts)]
    rates: dict[str, list[float]] = {
        "aiohttp alone": [],
        "our client": [],
        "whole path": [],
        "and its log": [],
    }
    async with open_app(settings) as app, app.service() as service:
        await fill(app, urls)
        ways: dict[str, Run] = {
            "aiohttp alone": lambda: bare_loop(urls),
            "our client": lambda: client_loop(settings, app, urls),
            "whole path": lambda: whole_path(service),
            "and its log": lambda: whole_path(service),
        }
        for _ in range(rounds):
            for name, run in ways.items():
                await make_due(app)
                # `serve` logs a line per poll unless told otherwise; here it goes nowhere
                logs.configure(
                    "text", "info" if name == "and its log" else "warning", stream=NOWHERE
                )
                rates[name].append(await rate(run))
        await check(app, hosts)
    return rates


async def rate(run: Run) -> float:
    """How many per second."""
    gc.collect()
    started = time.perf_counter()
    count = await run()
    return count / (time.perf_counter() - started)


async def fill(app: App, urls: list[str]) -> None:
    """One source per host that was polled before, so that requests are conditional."""
    now = app.clock.now()
    long_ago = now - timedelta(days=1)
    await app.store.sources.add_many(
        [
            Source(
                id=f"source-{index}",
                podcast_id="default",
                type=SourceType.RSS,
                url=url,
                created_at=long_ago,
                host=web.address(index),
                last_polled=long_ago,
                first_poll_done=True,
                last_success_at=long_ago,
                validators=Validators(etag='"1"'),
            )
            for index, url in enumerate(urls)
        ]
    )


async def make_due(app: App) -> None:
    """Let every source's interval be over."""
    await app.store.database.write(
        lambda session: session.execute("UPDATE sources SET last_polled = last_polled - 86400000")
    )


async def whole_path(service: Service) -> int:
    """Tick, and wait until all lanes are empty and all polls recorded."""
    taken = await service.tick()
    await service.lanes.wait_until_idle()
    return taken


async def bare_loop(urls: list[str]) -> int:
    """The same requests over aiohttp with nothing around them."""
    headers = {"If-None-Match": '"1"', "User-Agent": "bench"}
    connector = aiohttp.TCPConnector(limit=0, use_dns_cache=False)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def get(url: str) -> None:
            async with session.get(url, allow_redirects=False) as answer:
                await answer.read()
                assert answer.status == 304

        return await in_slots(urls, get)


async def client_loop(settings: Settings, app: App, urls: list[str]) -> int:
    """The same requests over our guarded client."""
    async with Client(limits_from(settings), app.clock) as client:

        async def get(url: str) -> None:
            answer = await client.get(url, headers={"If-None-Match": '"1"'})
            assert answer.status == 304

        return await in_slots(urls, get)


async def in_slots(urls: list[str], get: Callable[[str], Awaitable[None]]) -> int:
    """Run over all URLs, as many at once as the service would."""
    rest = iter(urls)

    async def worker() -> None:
        for url in rest:
            await get(url)

    await asyncio.gather(*(worker() for _ in range(SLOTS)))
    return len(urls)


async def check(app: App, hosts: int) -> None:
    """Every poll must have been stored as unchanged, none as failed."""
    counts = await app.store.sources.counts()
    assert counts == {"sources": hosts, "enabled": hosts, "failing": 0}, counts


def main() -> None:
    """Measure and print one table."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    os.sched_setaffinity(0, {0})
    collect_garbage_rarely()  # as `serve` does
    with tempfile.TemporaryDirectory() as folder, web.running(PORT, hosts):
        rates = uvloop.run(measure(hosts, rounds, Path(folder)))
    print(f"{hosts} hosts, one poll each, all 304; one core, {rounds} rounds interleaved")
    for name, values in rates.items():
        shares = [
            statistics.median(v / base for v, base in zip(values, rates[other], strict=True))
            for other in ("aiohttp alone", "our client")
        ]
        print(f"{name:14} {statistics.median(values):7.0f}/s   {shares[0]:5.0%} of aiohttp alone"
              f"   {shares[1]:5.0%} of our client")  # fmt: skip


if __name__ == "__main__":
    main()
