"""A PostgreSQL database and worker processes to start on it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from headwater.app import App, open_app
from headwater.settings import load_settings
from tests.cluster.worker_processes import WorkerProcesses
from tests.postgres import PostgresServer, running_server


@pytest.fixture
def url(postgres_url: Callable[[], str]) -> str:
    """A separate database per test."""
    return postgres_url()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that may be stopped and restarted."""
    with running_server() as server:
        yield server


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    """The application, opened on the database of the workers."""
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_app(settings) as app:
        yield app


@pytest.fixture
def processes(url: str, tmp_path: Path) -> Iterator[WorkerProcesses]:
    """Worker processes; none is started yet."""
    processes = WorkerProcesses(url, tmp_path)
    yield processes
    processes.stop_all()
