"""Who finds nothing must have looked: programs that are wrong on purpose are found out."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from tests.crash.books import SqliteBooks
from tests.crash.doomed import Plan
from tests.crash.life import Life
from tests.crash.nest import Nest, nest
from tests.crash.rounds import KINDS, Tally

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]
AT_REST = Plan("at rest")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there() -> AsyncIterator[Nest]:
    async with nest() as one:
        yield one


@pytest.mark.parametrize(
    ("mutant", "death", "found"),
    [
        ("validators first", Plan("insert", "before", 1), "lost"),
        ("posts first", Plan("state", "before", 1), "double"),
        ("lock by presence", Plan("event", "before", 1), "stuck"),
        ("validators first", Plan("insert", "before", 2, small_bites=True), "lost"),
        ("bites apart", Plan("insert", "before", 2, small_bites=True), "torn"),
        (None, Plan("insert", "before", 1), None),
        (None, Plan("insert", "before", 2, small_bites=True), None),
    ],
)
async def test_k1_k2_what_a_wrong_program_does_is_found(
    mutant: str | None, death: Plan, found: str | None, tmp_path: Path, there: Nest
):
    tally, before = Tally(), None
    life = Life(SqliteBooks(tmp_path / "test.db"), tmp_path, there, Random(1))
    async with life.begun():
        life.begin_with_first_schema()
        for plan in (AT_REST, death, AT_REST, AT_REST):
            for feed in life.feeds:
                feed.publish(3)
            plan = plan.but(mutant=mutant, small_bites=death.small_bites)
            tally.note("here", await life.round(plan), before)
            before = plan
    told = "\n".join(tally.table())
    assert tally.reached[death.name] == 1, told
    kinds = {kind for kind in KINDS if tally.count(kind)}
    assert found in kinds if found else not kinds, told
