"""K1, K2, K7, S8: after a kill at any point nothing is lost, duplicated or stuck. PostgreSQL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.raw_database import RawDatabase
from tests.crash.test_kills import survives

pytestmark = [pytest.mark.system, pytest.mark.postgres, pytest.mark.timeout(900)]
ROUNDS = 60


async def test_k1_k2_repeated_kills_lose_and_duplicate_nothing(
    tmp_path: Path, on_postgres: Callable[[int, Path], RawDatabase]
):
    await survives(ROUNDS, seed=8, folder=tmp_path, new_database=on_postgres)
