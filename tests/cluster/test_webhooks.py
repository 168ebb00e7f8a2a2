"""One worker delivers messages at a time, also while another one takes over (V2, K8)."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from headwater.app import App, open_app
from headwater.operations.webhooks import WebhookSettings, add_webhook, send_test
from headwater.settings import load_settings
from headwater.store.shards import Shards
from tests.cluster.failure_scenarios import LEASE_SECONDS
from tests.cluster.worker_processes import WorkerProcesses, contact_of, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]
MASTER_KEY = "1b" * 32
MESSAGES = 300
SLOW_SECONDS = 0.3  # of a response, until the second worker delivers
FAULTS = [None, signal.SIGKILL, signal.SIGSTOP]  # None: the worker is drained


@dataclass
class Receiver:
    """An endpoint that records which worker sent what, and how many requests were open at once."""

    port: int = 0
    accepted: Counter[str] = field(default_factory=Counter)  # by id of the message
    by: Counter[str] = field(default_factory=Counter)  # by contact address of the worker
    open_now: int = 0
    most_open: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            agent = request.headers["User-Agent"]
            self.by[agent.partition("+")[2].rstrip(")")] += 1
            if not self.by[contact_of(1)]:
                await asyncio.sleep(SLOW_SECONDS)
            self.accepted[request.headers["webhook-id"]] += 1
            return web.Response(status=204)
        finally:
            self.open_now -= 1


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    application = web.Application()
    application.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


async def with_backlog(app: App, port: int) -> set[str]:
    """Add an endpoint with messages, and return their ids."""
    given = WebhookSettings(f"http://127.0.0.1:{port}/hook")
    now = app.clock.now()
    hook = (await add_webhook(app.store, app.vault, None, given, now, allowed=True)).webhook
    return {(await send_test(app.store, hook, now)).id for _ in range(MESSAGES)}


@pytest.mark.parametrize("fault", FAULTS, ids=["drained", "killed", "suspended"])
async def test_v2_k8_another_worker_takes_over_and_never_sends_at_the_same_time(
    url: str, tmp_path: Path, fault: signal.Signals | None
):
    processes = WorkerProcesses(url, tmp_path, lease_seconds=LEASE_SECONDS)
    options = {"app.database-url": url, "app.encryption.master-key": MASTER_KEY}
    settings = load_settings(options=options, environ={})
    async with receiving() as receiver, open_app(settings) as app:
        ids = await with_backlog(app, receiver.port)
        try:
            first = processes.start(APP__ENCRYPTION__MASTER_KEY=MASTER_KEY)
            await until(lambda: len(receiver.accepted) > 5, "nothing was delivered")
            processes.start(APP__ENCRYPTION__MASTER_KEY=MASTER_KEY)
            if fault is None:
                shards = Shards(app.store.database)
                (id_,) = [one.id for one in await shards.workers() if one.pid == first.pid]
                await shards.drain(id_, True)
            else:
                first.send_signal(fault)
            await until(lambda: receiver.by[contact_of(1)] > 5, "nobody took over")
            if fault is signal.SIGSTOP:
                first.send_signal(signal.SIGCONT)
            await until(lambda: ids <= receiver.accepted.keys(), "some were not delivered")
        finally:
            processes.stop_all()
    assert receiver.most_open == 1
    repeated = sum(receiver.accepted.values()) - len(ids)
    assert repeated <= (0 if fault is None else 20)  # those whose results were not stored yet
