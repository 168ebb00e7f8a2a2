"""Importing a list of feeds: OPML import, then the first poll of every feed."""

import sys
from contextlib import AsyncExitStack
from typing import Any

import uvloop

from bench import feeds
from bench.programs.driver import serve
from bench.programs.headwater_polls import WholePath
from headwater.app import open_app
from headwater.cli.serve import raise_file_limit, shorten_thread_switches
from headwater.formats.opml import Outline, write_opml
from headwater.garbage_collection import collect_garbage_rarely


class Importing(WholePath):
    """A new database in every round."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._databases = iter(config["databases"])
        self._open = AsyncExitStack()
        self._list = b""

    async def open(self) -> None: ...

    async def prepare(self) -> None:
        await self._open.aclose()
        self._config["database"] = next(self._databases)
        settings = self.settings()
        self.app = await self._open.enter_async_context(open_app(settings))
        self.service = await self._open.enter_async_context(self.app.service())
        config = self._config
        urls = (
            feeds.url(n, config["kind"], config["port"], config["scheme"])
            for n in range(config["feeds"])
        )
        outlines = [Outline(url=url, title=None, type="rss") for url in urls]
        self._list = write_opml(outlines, title="bench", created=self.app.clock.now())

    async def run(self) -> int:
        store = self.app.store
        podcast = (await store.accounts.podcasts("default"))[0]
        lines = await self.app.imports.take(podcast, self._list)
        ids = [line.source_id for line in lines if line.source_id is not None]
        # entries older than the import count too, and polls start at once, not over half an hour
        sql = "UPDATE sources SET include_history = true"
        await store.database.write(lambda session: session.execute(sql))
        await store.sources.request(ids, self.app.clock.now())
        return await super().run()


if __name__ == "__main__":
    raise_file_limit()
    collect_garbage_rarely()
    shorten_thread_switches()
    serve(Importing, uvloop.new_event_loop)
    sys.exit(0)
