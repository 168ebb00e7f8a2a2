"""K1, K2, K7, S8: killed anywhere, nothing is lost, doubled or stuck. PostgreSQL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.books import Books
from tests.crash.nest import nest
from tests.crash.rounds import RESUME_SECONDS, Tally, middle, run_rounds

pytestmark = [pytest.mark.system, pytest.mark.postgres, pytest.mark.timeout(900)]
ROUNDS = 60


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
    assert not tally.unreached, told  # it did die in the places that are meant
    # by the clock alone it would be the machine's business; `python -m tests.crash` tells that, too
    assert middle(one.undisturbed for one in tally.warm) < RESUME_SECONDS, told
    assert max(one.work for one in tally.warm) < RESUME_SECONDS, told
