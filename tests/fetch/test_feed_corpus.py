"""The parser agrees with the recorded facts about real feeds (R1, R4-R6)."""

from pathlib import Path

import pytest
from bench.scores.feeds import score, score_dates

pytestmark = pytest.mark.corpus


def test_r1_nothing_but_not_a_feed_is_raised_and_the_facts_agree(corpus: Path):
    result = score(corpus)
    assert result.errors == []
    assert result.share >= 0.995, [f"{miss.file}: {miss.kind}" for miss in result.misses]


def test_m7_the_dates_agree(corpus: Path):
    right, total, misses = score_dates(corpus)
    assert right >= 0.985 * total, misses
