"""Webhooks while the receiver is down for a time and the service is killed again and again (V2).

    python -m bench.webhooks [POSTS] [KILLS]

Posts are stored in a SQLite database while `headwater serve` delivers their messages to an endpoint
on loopback. The service is killed at random moments; for a part of the time the endpoint responds
with 503. At the end the endpoint must have accepted every message, under the id that it had at
every attempt. It verifies every signature with the package of Standard Webhooks.
"""

import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random

from aiohttp import web
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from headwater.app import App, open_app
from headwater.model import Outcome, OutcomeKind, Post, Source, SourceType
from headwater.operations.webhooks import WebhookSettings, add_webhook
from headwater.rules.admission import content_hash
from headwater.settings import load_settings

HOST = "127.0.0.1"
POSTS_PER_POLL = 20
DOWN = (0.25, 0.6)  # of the kills, between which the endpoint is down
PATIENCE_SECONDS = 600.0


@dataclass
class Receiver:
    """The endpoint: which posts it accepted under which ids, and how often."""

    is_down: bool = False
    port: int = 0
    verifier: Verifier | None = None  # with the secret of the webhook
    forged: int = 0  # signatures that are not valid
    refused: int = 0
    accepted: Counter[str] = field(default_factory=Counter)  # by post
    ids: dict[str, set[str]] = field(default_factory=dict)  # of the messages, by post

    async def handle(self, request: web.Request) -> web.Response:
        """Accept a message, or refuse it."""
        body = await request.read()
        assert self.verifier is not None
        try:
            self.verifier.verify(body, dict(request.headers))
        except WebhookVerificationError:
            self.forged += 1
        post = json.loads(body)["data"]["id"]
        self.ids.setdefault(post, set()).add(request.headers["webhook-id"])
        if self.is_down:
            self.refused += 1
            return web.Response(status=503)
        self.accepted[post] += 1
        return web.Response(status=204)


@dataclass(frozen=True)
class Figures:
    """What was observed."""

    posts: int
    kills: int
    accepted: int  # different posts
    repeated: int  # messages that were accepted more than once
    refused: int
    ids_changed: int  # posts with more than one id
    forged: int  # messages whose signature is not valid
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.posts:,} posts, {self.kills} kills: {self.accepted:,} delivered, "
            f"{self.repeated:,} more than once, {self.refused:,} attempts refused, "
            f"{self.ids_changed} changed their id, {self.forged} signatures not valid; "
            f"{self.seconds:.0f} s"
        )


async def run(folder: Path, posts: int, kills: int, seed: int = 7) -> Figures:
    """Store posts, kill the service so many times, and wait until everything is delivered."""
    began, rng = time.monotonic(), Random(seed)
    options = {
        "app.database-url": f"sqlite:///{folder / 'bench.db'}",
        "app.fetch.allow-private-networks": True,
    }
    async with (
        _receiving() as receiver,
        open_app(load_settings(options=options, environ={}), upgrades=True) as app,
    ):
        source = await _prepare(app, receiver)
        for number in range(kills):
            receiver.is_down = DOWN[0] <= number / kills < DOWN[1]
            share = range(posts * number // kills, posts * (number + 1) // kills)
            storing = asyncio.create_task(_store(app, source, share))
            with _serving(folder) as process:
                await _delivered_more(receiver, process, 1 + rng.randrange(50))
                await asyncio.sleep(rng.uniform(0, 0.5))
                process.kill()
            await storing
        receiver.is_down = False
        ids = {row[0] for row in await app.store.database.fetch("SELECT id FROM posts")}
        with _serving(folder) as process:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while ids - receiver.accepted.keys():
                    _retry_now(folder)
                    await asyncio.sleep(1)
            process.terminate()
            process.wait()
    repeated = sum(count > 1 for count in receiver.accepted.values())
    changed = sum(len(found) > 1 for found in receiver.ids.values())
    spent = time.monotonic() - began
    return Figures(
        posts=len(ids),
        kills=kills,
        accepted=len(receiver.accepted),
        repeated=repeated,
        refused=receiver.refused,
        ids_changed=changed,
        forged=receiver.forged,
        seconds=spent,
    )


@asynccontextmanager
async def _receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    application = web.Application()
    application.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


async def _prepare(app: App, receiver: Receiver) -> Source:
    now = app.clock.now()
    given = WebhookSettings(f"http://{HOST}:{receiver.port}/hook")
    made = await add_webhook(app.store, app.vault, "default", given, now, allowed=True)
    receiver.verifier = Verifier(made.secret)
    source = Source(
        id="s", podcast_id="default", created_at=now, type=SourceType.RSS,
        url="https://example.org/feed", host="example.org", enabled=False,  # never polled
    )  # fmt: skip
    await app.store.sources.add_many([source])
    return source


async def _store(app: App, source: Source, numbers: range) -> None:
    """Record polls with new posts, as a poller would."""
    for first in range(0, len(numbers), POSTS_PER_POLL):
        now = app.clock.now()
        some = numbers[first : first + POSTS_PER_POLL]
        posts = tuple(_post(source, number, now) for number in some)
        current = await app.store.sources.get(source.id)
        await app.store.record(Outcome(current, current, OutcomeKind.STORED, now, posts))
        await asyncio.sleep(0.02)


def _post(source: Source, number: int, now: datetime) -> Post:
    body = f"Post {number}"
    return Post(
        f"{number:09}", source.id, body, body, source.url, None, None, content_hash(body), now
    )


def _serving(folder: Path) -> "subprocess.Popen[bytes]":
    url = f"sqlite:///{folder / 'bench.db'}"
    (folder / "headwater.yaml").write_text("app: {fetch: {allow-private-networks: true}}\n")
    command = [sys.executable, "-m", "headwater", "--database-url", url, "serve", "--port", "0"]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)


async def _delivered_more(
    receiver: Receiver, process: "subprocess.Popen[bytes]", count: int
) -> None:
    """Wait until the endpoint has received some more requests, or nothing for a while."""
    goal = receiver.accepted.total() + receiver.refused + (1 if receiver.is_down else count)
    ends_at = time.monotonic() + 20
    while receiver.accepted.total() + receiver.refused < goal and time.monotonic() < ends_at:
        if process.poll() is not None:
            raise RuntimeError("the service has stopped")
        await asyncio.sleep(0.02)


def _retry_now(folder: Path) -> None:
    """Let the time until the retries pass."""
    with closing(sqlite3.connect(folder / "bench.db", timeout=30)) as connection, connection:
        connection.execute(
            "UPDATE deliveries SET next_attempt_at = 0 WHERE next_attempt_at IS NOT NULL"
        )


def main() -> None:
    """Run with the given numbers and print the figures."""
    given = [int(text) for text in sys.argv[1:]]
    posts, kills = given[0] if given else 10_000, given[1] if given[1:] else 20
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        print(asyncio.run(run(Path(folder), posts, kills)))


if __name__ == "__main__":
    main()
