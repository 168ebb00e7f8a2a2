"""What all tests share: where the corpus is, and a stream to log to."""

import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headwater import logs
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]  # fixtures, started where a test asks for them
# a machine that is busy with something else is no fault of what is tested
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real feeds, pages and answers, or skip where there is none."""
    named = os.environ.get("HEADWATER_CORPUS")
    beside = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    folder = Path(named) if named else beside
    if not folder.is_dir():
        pytest.skip("no corpus of real feeds and pages here (HEADWATER_CORPUS)")
    return folder


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """A stream to log to; what was set up before comes back afterwards."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, dict(vars(logs._output)))
    stream = io.StringIO()
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    vars(logs._output).update(before[2])
    logging.captureWarnings(False)
