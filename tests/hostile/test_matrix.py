"""Every misbehaviour of the hostile web against the real service, on both databases (H1-H4).

Unit tests of such input are in `tests/fetch` above all; here it is the whole program, with
everything at once.
"""

import asyncio
import fcntl
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from tests.hostile.lag_checks import healthy_client_faults, lags, stall_faults, starved_seconds
from tests.hostile.matrix_run import AT_ONCE, Run, run_matrix
from tests.hostile.row_checks import faults, flood_faults, is_excused
from tests.hostile.rows import FLOOD_ROWS, ROWS, TOPICS

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]
_CASES = [
    pytest.param(index, id=f"{topic}: {ROWS[index].name}")
    for index, topic in enumerate(chain(*([topic] * len(rows) for topic, rows in TOPICS.items())))
]
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Lock out concurrent runs in other test processes, which would compete for processors."""
    with (folder.parents[1] / "hostile.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Matrix:
    """The expectations of the matrix, on either database."""

    @pytest.mark.parametrize("index", _CASES)
    def test_every_misbehaviour_has_its_expected_result(self, run: Run, index: int) -> None:
        assert not faults(ROWS[index], run.results[index])

    def test_h3_a_healthy_source_is_not_delayed(self, run: Run) -> None:
        assert run.rounds[-1].slot > 20, "no samples"
        assert not healthy_client_faults(run.rounds, run.looks)

    def test_h2_the_event_loop_is_never_blocked(self, run: Run) -> None:
        assert lags(run.rounds[-1].metrics)["+Inf"] > 5 * run.rounds[-1].slot, "no samples"
        assert not stall_faults(run.log, run.looks)

    def test_h2_parsers_finish_in_time_unless_a_processor_was_missing(self, run: Run) -> None:
        assert sum(map(is_excused, run.results)) <= 3

    def test_h1_memory_stays_bounded_for_one_and_for_many(self, run: Run) -> None:
        """The growth of each row is checked with the rest of the row."""
        assert max(row.megabytes for row in ROWS) == 150
        polled = [result for result in run.results if result.created]
        assert all(result.costs for result in polled), "its cost was not measured"
        assert run.grown_at_once.tree <= 400, f"{AT_ONCE} at once"

    def test_h1_memory_stays_bounded_for_many_that_send_all_they_may(self, run: Run) -> None:
        assert len(run.flood) == len(FLOOD_ROWS) == AT_ONCE
        found = (
            (row.name, flood_faults(row, result))
            for row, result in zip(FLOOD_ROWS, run.flood, strict=True)
        )
        assert not [(name, wrong) for name, wrong in found if wrong]
        assert run.grown_by_flood.tree <= 400

    def test_the_whole_matrix_takes_less_than_three_minutes(self, run: Run) -> None:
        """Without the time that the service and its parsers waited for a processor."""
        assert len(run.looks) > 100, "no samples"
        assert run.seconds - starved_seconds(run.looks) < 180

    def test_h4_the_service_neither_ends_nor_restarts(self, run: Run) -> None:
        assert run.exit_code == 0
        assert "Traceback" not in run.log
        assert run.log.count("[Polling] failed") >= 100

    def test_n3_no_connection_reached_a_refused_address(self, run: Run) -> None:
        assert run.witnessed == 0

    def test_u6_u7_the_log_holds_no_secret_and_one_printable_line_per_event(self, run: Run) -> None:
        reported = [secret for row in ROWS for secret in row.secrets if secret in run.log]
        assert not reported
        assert not _CONTROL.search(run.log)


class TestOnSqlite(Matrix):
    """A file."""

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, tmp_path_factory: pytest.TempPathFactory) -> Run:
        folder = tmp_path_factory.mktemp("sqlite")
        with one_at_a_time(folder):
            return asyncio.run(run_matrix(folder, None))


@pytest.mark.postgres
class TestOnPostgres(Matrix):
    """A server."""

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, postgres_url: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Run:
        folder = tmp_path_factory.mktemp("postgres")
        with one_at_a_time(folder):
            return asyncio.run(run_matrix(folder, postgres_url()))


def test_the_table_has_a_row_for_every_requirement_a_source_can_violate() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 150
    settled = {number for row in ROWS for number in row.ids.split()}
    lines = {f"N{n}" for n in range(2, 16)} | {f"M{n}" for n in range(1, 9)} | {"H1", "H2", "H4"}
    assert lines <= settled
