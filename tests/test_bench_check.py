"""The guard on what polls cost: it tells when a poll does more than it did."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import check, counting
from bench.sites import Site, open_site

from headwater.engine import poll
from headwater.model import Outcome

FEEDS = 10


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A few feeds that answer 304."""
    with open_site(tmp_path, "still", FEEDS, own=True) as site:
        yield site


async def test_a_poll_that_does_more_is_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await counting.calls_of_a_poll(site, rounds=2)
    limits = check.new_limits({"a poll: calls": before})
    log = poll._log

    def log_and_dawdle(outcome: Outcome) -> None:
        log(outcome)
        for _ in range(round(before * 0.2)):
            len(())

    monkeypatch.setattr(poll, "_log", log_and_dawdle)
    (site.folder / "1.db").unlink()
    after = await counting.calls_of_a_poll(site, rounds=2)
    assert len(check.complaints({"a poll: calls": after}, limits)) == 1


def test_what_costs_as_much_as_before_is_no_complaint() -> None:
    measured = {"a poll: calls": 100.0, "a poll: statements": 0.5, "a poll: blocks": 0.0}
    limits = check.new_limits(measured)
    assert check.complaints(measured, limits) == []
    assert len(check.complaints(measured | {"a poll: blocks": 3.0}, limits)) == 1


def test_a_figure_without_a_limit_is_a_complaint() -> None:
    assert check.complaints({"a poll: calls": 1.0}, {}) == [
        "a poll: calls: has no figure or no limit"
    ]
    assert check.complaints({}, {"a poll: calls": 1.0}) == [
        "a poll: calls: has no figure or no limit"
    ]
