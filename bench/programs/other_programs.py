"""Other programs, each in a temporary environment."""

import asyncio
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import feeds
from bench.programs.driver import Counts, MeasuredProgram, serve

_SLOTS = 256


class Reader:
    """`reader`: its own update_feeds, with workers."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._reader: Any = None

    async def open(self) -> None:
        if self._config["ca"]:
            _trust(self._config["ca"])
        self._reader = importlib.import_module("reader").make_reader(self._config["database"])
        self._add_feeds()

    def _add_feeds(self) -> None:
        config = self._config
        for index in range(config["feeds"]):
            url = feeds.url(index, config["kind"], config["port"], config["scheme"])
            self._reader.add_feed(url)

    async def prepare(self) -> None: ...

    async def run(self) -> int:
        self._reader.update_feeds(workers=self._config["workers"], scheduled=False)
        return int(self._config["feeds"])

    async def counts(self) -> Counts:
        found = self._reader.get_feed_counts()
        entries = self._reader.get_entry_counts()
        return {"sources": found.total, "failing": found.broken, "posts": entries.total}

    async def close(self) -> None:
        self._reader.close()


def _trust(authority: str) -> None:
    """Make `requests` trust our authority: as `reader` uses it, the environment is ignored."""
    session: Any = importlib.import_module("requests").Session
    begin = session.__init__

    def begin_with_trust(self: Any) -> None:
        begin(self)
        self.verify = authority

    session.__init__ = begin_with_trust


class ReaderImport(Reader):
    """`reader` importing a list: feeds added, then updated for the first time."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._files = iter(config["databases"])

    async def open(self) -> None: ...

    async def prepare(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = importlib.import_module("reader").make_reader(next(self._files))

    async def run(self) -> int:
        self._add_feeds()
        return await super().run()


class Wreq:
    """A bare loop over `wreq`, a client written in Rust."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        kind, port, scheme = config["kind"], config["port"], config["scheme"]
        self._urls = [feeds.url(n, kind, port, scheme) for n in range(config["feeds"])]
        self._etags: dict[str, str] = {}
        self._statuses: Counts = {}
        self._client: Any = None

    async def open(self) -> None:
        package: Any = importlib.import_module("wreq")
        options = {}
        if self._config["ca"]:
            pem = Path(self._config["ca"]).read_text()
            options["tls_verify"] = package.CertStore.from_pem_certs([pem])
        self._client = package.Client(user_agent="bench", **options)

    async def prepare(self) -> None: ...

    async def run(self) -> int:
        rest = iter(self._urls)

        async def worker() -> None:
            for url in rest:
                await self._visit(url)

        await asyncio.gather(*(worker() for _ in range(_SLOTS)))
        return len(self._urls)

    async def _visit(self, url: str) -> None:
        known = self._etags.get(url)
        answer = await self._client.get(
            url, headers={} if known is None else {"If-None-Match": known}
        )
        await answer.bytes()
        status, new = str(answer.status.as_int()), answer.headers.get("ETag")
        if new is not None and status == "200":
            self._etags[url] = bytes(new).decode()
        self._statuses[status] = self._statuses.get(status, 0) + 1

    async def counts(self) -> Counts:
        return self._statuses

    async def close(self) -> None: ...


_PROGRAMS: Mapping[str, Callable[[dict[str, Any]], MeasuredProgram]] = {
    "reader": Reader,
    "reader import": ReaderImport,
    "wreq": Wreq,
}


if __name__ == "__main__":
    serve(lambda config: _PROGRAMS[config["program"]](config))
    sys.exit(0)
