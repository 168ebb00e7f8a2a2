"""The audit works: it detects programs with planted faults."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from tests.crash.fork_server import ForkServer, fork_server
from tests.crash.kill_rounds import KINDS, Tally
from tests.crash.killed_process import Plan
from tests.crash.raw_database import RawSqlite
from tests.crash.restarted_service import RestartedService

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]
AT_REST = Plan("at rest")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there() -> AsyncIterator[ForkServer]:
    async with fork_server() as one:
        yield one


@pytest.mark.parametrize(
    ("mutant", "death", "found"),
    [
        ("validators first", Plan("insert", "before", 1), "lost"),
        ("posts first", Plan("state", "before", 1), "double"),
        ("lock by presence", Plan("event", "before", 1), "stuck"),
        ("validators first", Plan("insert", "before", 2, small_batches=True), "lost"),
        ("batches apart", Plan("insert", "before", 2, small_batches=True), "torn"),
        (None, Plan("insert", "before", 1), None),
        (None, Plan("insert", "before", 2, small_batches=True), None),
    ],
)
async def test_k1_k2_a_planted_fault_is_detected(
    mutant: str | None, death: Plan, found: str | None, tmp_path: Path, there: ForkServer
):
    tally, before = Tally(), None
    service = RestartedService(RawSqlite(tmp_path / "test.db"), tmp_path, there, Random(1))
    async with service.begun():
        service.begin_with_first_schema()
        for plan in (AT_REST, death, AT_REST, AT_REST):
            for feed in service.feeds:
                feed.publish(3)
            plan = plan.but(mutant=mutant, small_batches=death.small_batches)
            tally.note("here", await service.round(plan), before)
            before = plan
    reported = "\n".join(tally.table())
    assert tally.reached[death.name] == 1, reported
    kinds = {kind for kind in KINDS if tally.count(kind)}
    assert found in kinds if found else not kinds, reported
