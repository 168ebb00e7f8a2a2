"""What all tests share: where the corpus is, and a stream to log to."""

import gc
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headwater import logs
from tests.postgres import (
    migrated_postgres_url,
    postgres_server,
    postgres_template,
    postgres_url,
)

# fixtures, started where a test asks for them
__all__ = ["migrated_postgres_url", "postgres_server", "postgres_template", "postgres_url"]
# a machine that is busy with something else is no fault of what is tested
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give out modules by turns of their folders where several workers share them.

    So modules that wait run beside those that work, and no long one is left for the end.
    """
    if not hasattr(config, "workerinput"):
        return
    turns: dict[Path, dict[Path, int]] = {}
    for item in items:
        modules = turns.setdefault(item.path.parent, {})
        modules.setdefault(item.path, len(modules))
    items.sort(key=lambda item: turns[item.path.parent][item.path])


def pytest_collection_finish() -> None:
    """Spare the garbage collector thousands of tests and modules that stay anyway."""
    gc.collect()
    gc.freeze()


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
