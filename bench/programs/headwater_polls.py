"""Our whole poll path: tick, lanes, fetch, decision, store, log line."""

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvloop

from bench import feeds
from bench.polled_site import Site
from bench.programs.driver import Counts, serve
from headwater import logs
from headwater.app import App, open_app
from headwater.cli.serve import raise_file_limit, shorten_thread_switches
from headwater.engine.local_service import LocalService
from headwater.garbage_collection import collect_garbage_rarely
from headwater.model import Source, SourceType
from headwater.operations.webhooks import WebhookSettings, add_webhook
from headwater.settings import Settings, load_settings
from headwater.source_settings import FullText

_DAY_MS = 86_400_000
_POLLED = "url LIKE 'http%/%.xml'"  # sources that are not due


class WholePath:
    """A service over one database whose ticks are triggered by the benchmark."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._open = AsyncExitStack()
        self.app: App
        self.service: LocalService
        self._tick_ms = 0.0

    async def open(self) -> None:
        settings = self.settings()
        self.app = await self._open.enter_async_context(open_app(settings))
        await self._fill()
        self.service = await self._open.enter_async_context(self.app.service())

    def settings(self) -> Settings:
        """Default settings, except for the web on loopback; the log is discarded."""
        # `serve` writes a line per poll; these go to a null file, open until the process ends
        logs.configure("text", "info", stream=Path(os.devnull).open("w"))  # noqa: SIM115
        return load_settings(
            options={
                "app.database-url": self._config["database"],
                "app.encryption.master-key": "1b" * 32,  # of webhooks
                "app.fetch.allow-private-networks": True,
                "app.fetch.max-connections": self._config.get("slots", 256),
            },
            environ={},
        )

    async def _fill(self) -> None:
        now = self.app.clock.now()
        long_ago = now - timedelta(days=3)
        config = self._config
        hosts, per_url = config.get("hosts", config["feeds"]), config.get("per_url", 1)
        full_text = FullText.ON if config.get("full_text") else FullText.OFF
        sources = [
            Source(
                id=f"polled-{index}",
                podcast_id="default",
                type=SourceType.RSS,
                url=feeds.url(place, config["kind"], config["port"], config["scheme"], hosts),
                host=feeds.address(place % hosts),
                created_at=long_ago,
                include_history=True,
                last_polled=long_ago,
                block=config.get("block"),
                full_text=full_text,
            )
            for index in range(config["feeds"])
            for place in [index // per_url]
        ]
        for first in range(0, len(sources), 1000):
            await self.app.store.sources.add_many(sources[first : first + 1000])
        for number in range(config.get("webhooks", 0)):  # their messages are stored, not sent
            given = WebhookSettings(f"http://127.0.0.1:{config['port']}/{number}")
            app = self.app
            await add_webhook(app.store, app.vault, "default", given, now, allowed=True)

    async def prepare(self) -> None:
        sql = f"UPDATE sources SET last_polled = last_polled - {_DAY_MS} WHERE {_POLLED}"
        await self.app.store.database.write(lambda session: session.execute(sql))

    async def run(self) -> int:
        began = time.process_time()
        taken = await self.service.tick()
        self._tick_ms = (time.process_time() - began) * 1000
        await self.service.lanes.emptied(self.service.lanes.names())
        return taken

    async def tick_ms(self) -> float:
        """CPU of the last tick, until all due sources were in their lanes."""
        return self._tick_ms

    async def counts(self) -> Counts:
        sql = f"""SELECT (SELECT count(*) FROM sources WHERE {_POLLED}),
            (SELECT count(*) FROM sources WHERE {_POLLED} AND enabled),
            (SELECT count(*) FROM sources WHERE {_POLLED} AND consecutive_failures > 0),
            (SELECT count(*) FROM posts), (SELECT count(*) FROM polls)"""
        rows = await self.app.store.database.read(lambda session: session.fetch(sql))
        return dict(zip(("sources", "enabled", "failing", "posts", "polls"), rows[0], strict=True))

    async def close(self) -> None:
        await self._open.aclose()


@asynccontextmanager
async def whole_path(site: Site, slots: int) -> AsyncIterator[WholePath]:
    """The whole path in this process, with every source polled once already."""
    path = WholePath(
        {
            "database": f"sqlite:///{site.folder / f'{slots}.db'}",
            "kind": site.kind,
            "port": site.port,
            "scheme": site.scheme,
            "feeds": site.hosts,
            "slots": slots,
        }
    )
    await path.open()
    try:
        await path.run()
        yield path
    finally:
        await path.close()
    assert site.server.responses(0)


if __name__ == "__main__":
    raise_file_limit()
    collect_garbage_rarely()
    shorten_thread_switches()
    serve(WholePath, uvloop.new_event_loop)
    sys.exit(0)
