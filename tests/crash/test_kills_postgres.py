"""K1, K2, K7, S8: killed anywhere, nothing is lost, doubled or stuck. PostgreSQL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.books import Books
from tests.crash.test_kills import survives

pytestmark = [pytest.mark.system, pytest.mark.postgres, pytest.mark.timeout(900)]
ROUNDS = 60


async def test_k1_k2_killed_again_and_again_it_loses_doubles_and_forgets_nothing(
    tmp_path: Path, on_postgres: Callable[[int, Path], Books]
):
    await survives(ROUNDS, seed=8, folder=tmp_path, new_books=on_postgres)
