"""`wrk`, which ignores responses: the maximum of the server and the kernel."""

import re
import subprocess
import sys
import urllib.request
from typing import Any

from bench import feeds
from bench.programs.driver import Counts, serve

_SECONDS = 2
_CONNECTIONS = 64


class Wrk:
    """One connection per request, like polls, all to one host."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._url = feeds.url(0, config["kind"], config["port"], config["scheme"])
        self._program = config["program"]
        self._headers = ["Connection: close"]
        self._count = 0

    async def open(self) -> None:
        with urllib.request.urlopen(self._url) as answer:
            if answer.headers["ETag"]:
                self._headers.append(f"If-None-Match: {answer.headers['ETag']}")

    async def prepare(self) -> None: ...

    async def run(self) -> int:
        headers = [part for header in self._headers for part in ("-H", header)]
        command = [self._program, "-t1", f"-c{_CONNECTIONS}", f"-d{_SECONDS}", *headers, self._url]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = re.search(r"(\d+) requests in", said)
        assert found is not None, said
        assert "Non-2xx" not in said or self._headers[1:], said
        self._count += int(found[1])
        return int(found[1])

    async def counts(self) -> Counts:
        return {}

    async def close(self) -> None: ...


if __name__ == "__main__":
    serve(Wrk)
    sys.exit(0)
