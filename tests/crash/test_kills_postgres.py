"""K1, K2, K7, S8: killed anywhere, nothing is lost, doubled or stuck. PostgreSQL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.books import Books
from tests.crash.nest import nest
from tests.crash.rounds import RESUME_SECONDS, Tally, run_rounds

pytestmark = [pytest.mark.system, pytest.mark.postgres, pytest.mark.timeout(900)]
ROUNDS = 50


async def test_k1_k2_killed_again_and_again_it_loses_doubles_and_forgets_nothing(
    tmp_path: Path, on_postgres: Callable[[int, Path], Books]
):
    tally = Tally()
    async with nest() as there:
        await run_rounds(
            ROUNDS, seed=8, folder=tmp_path, nest=there, new_books=on_postgres, tally=tally
        )
    told = "\n".join(tally.table())
    print(told)
    assert tally.total == ROUNDS
    assert tally.stories == [], told
    assert tally.reached.total() > ROUNDS / 2, told
    # wall time is the machine's business; this is a tenth of it where nobody else works
    assert max(work for _, work in tally.warm) < RESUME_SECONDS, told
