"""K1, K2, K7, S8: killed anywhere, nothing is lost, doubled or stuck. SQLite."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.crash.books import Books
from tests.crash.doomed import POINTS, WHENS
from tests.crash.nest import nest
from tests.crash.rounds import RESUME_SECONDS, Deck, Tally, middle, run_rounds

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
ROUNDS = 140


async def test_k1_k2_killed_again_and_again_it_loses_doubles_and_forgets_nothing(
    tmp_path: Path, on_sqlite: Callable[[int, Path], Books]
):
    await survives(ROUNDS, seed=7, folder=tmp_path, new_books=on_sqlite)


async def survives(
    rounds: int, *, seed: int, folder: Path, new_books: Callable[[int, Path], Books]
) -> None:
    """Kill it again and again, and look at all that came of it."""
    tally = Tally()
    async with nest() as there:
        await run_rounds(
            rounds, seed=seed, folder=folder, nest=there, new_books=new_books, tally=tally
        )
    told = "\n".join(tally.table())
    print(told)
    assert tally.total == rounds
    assert tally.stories == [], told
    assert not tally.unreached, told  # it did die in the places that are meant
    # by the clock alone it would be the machine's business; `python -m tests.crash` tells that, too
    assert middle(one.undisturbed for one in tally.warm) < RESUME_SECONDS, told
    assert max(one.work for one in tally.warm) < RESUME_SECONDS, told


def test_k1_there_is_a_place_to_die_at_between_any_two_steps():
    steps = {"fetch", "parse", "begin", "insert", "state", "history", "commit", "event"}
    upkeep = {"cleanup", "aggregation", "migration", "key creation"}
    assert set(POINTS) == steps | upkeep
    assert Tally().unreached == {f"{when} {point}" for point in POINTS for when in WHENS}
    dealt, deck = set(), Deck(Random(1))
    while not deck.is_through:
        dealt.add(deck.deal().name)
    assert dealt | {"before migration", "after migration"} == Tally().unreached
