"""What all tests share: where the corpus is."""

import os
from pathlib import Path

import pytest

from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]  # fixtures, started where a test asks for them


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real feeds, pages and answers, or skip where there is none."""
    named = os.environ.get("HEADWATER_CORPUS")
    beside = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    folder = Path(named) if named else beside
    if not folder.is_dir():
        pytest.skip("no corpus of real feeds and pages here (HEADWATER_CORPUS)")
    return folder
