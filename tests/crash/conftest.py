"""Databases of both kinds for killed services."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.raw_database import RawDatabase, RawPostgres, RawSqlite


@pytest.fixture
def on_sqlite() -> Callable[[int, Path], RawDatabase]:
    """Creates a SQLite file in a folder."""
    return lambda _, folder: RawSqlite(folder / "test.db")


@pytest.fixture
def on_postgres(postgres_url: Callable[[], str]) -> Callable[[int, Path], RawDatabase]:
    """Creates a database on the server."""
    return lambda *_: RawPostgres(postgres_url())
