"""Places to live in, on either database."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.books import Books, PostgresBooks, SqliteBooks


@pytest.fixture
def on_sqlite() -> Callable[[int, Path], Books]:
    """Makes a SQLite file in a folder."""
    return lambda _, folder: SqliteBooks(folder / "test.db")


@pytest.fixture
def on_postgres(postgres_url: Callable[[], str]) -> Callable[[int, Path], Books]:
    """Makes a database on the server."""
    return lambda *_: PostgresBooks(postgres_url())
