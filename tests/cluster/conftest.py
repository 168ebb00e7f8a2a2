"""A database on PostgreSQL, open, and a crew to start on it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from headwater.app import App, open_app
from headwater.settings import load_settings
from tests.cluster.crew import Crew
from tests.postgres import PostgresServer, running_server


@pytest.fixture
def url(postgres_url: Callable[[], str]) -> str:
    """A database of one's own."""
    return postgres_url()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that may be stopped and started."""
    with running_server() as server:
        yield server


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    """The program, open on the database that the workers share."""
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_app(settings) as app:
        yield app


@pytest.fixture
def crew(url: str, tmp_path: Path) -> Iterator[Crew]:
    """Nobody yet."""
    crew = Crew(url, tmp_path)
    yield crew
    crew.dismiss()
