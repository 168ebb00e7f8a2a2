"""Fixtures of all tests, the `slow` marker and the order of parallel runs."""

import gc
import io
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiodns
import pytest
from hypothesis import HealthCheck, settings

from headwater import logs
from tests.postgres import (
    migrated_postgres_url,
    postgres_server,
    postgres_template,
    postgres_url,
)

# fixtures, created when a test requests them
__all__ = ["migrated_postgres_url", "postgres_server", "postgres_template", "postgres_url"]
# Every run tries the same examples; HYPOTHESIS_PROFILE=explore tries others. No deadlines: load
# from other processes is no fault of the tested code
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("repeatable", settings.get_profile("explore"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# folders with tests that run many processes for minutes; other modules set pytestmark
SLOW_FOLDERS = {"cluster", "crash", "hostile", "system"}
# fixtures that need more than Python
SLOW_FIXTURES = {"browser", "corpus"}


@pytest.fixture(scope="session", autouse=True)
def no_name_servers() -> Iterator[None]:
    """Names are not resolved, except by name servers of a test: no packet leaves loopback."""
    resolver = aiodns.DNSResolver

    def local(nameservers: Sequence[str] | None = None, **options: Any) -> aiodns.DNSResolver:
        return resolver(nameservers=nameservers or ["127.0.0.1:9"], **options)  # nothing listens

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aiodns, "DNSResolver", local)
        yield


def pytest_xdist_auto_num_workers() -> int:
    """Twice as many workers as cores (`-n auto`): many tests wait for a process or a server."""
    return 2 * (os.cpu_count() or 1)


# before pytest selects by marker (-m)
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and order the modules for parallel runs."""
    for item in items:
        if _is_slow(item):
            item.add_marker("slow")
    if hasattr(config, "workerinput"):
        _interleave_folders(items)


def _is_slow(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    is_system = item.get_closest_marker("system") is not None  # it starts processes of the program
    return is_system or item.path.parent.name in SLOW_FOLDERS or bool(fixtures & SLOW_FIXTURES)


def _interleave_folders(items: list[pytest.Item]) -> None:
    """Order the first module of every folder before the second of any, and so on.

    Modules that wait then run beside modules that compute, and no long module runs last.
    """
    turns: dict[Path, dict[Path, int]] = {}
    for item in items:
        modules = turns.setdefault(item.path.parent, {})
        modules.setdefault(item.path, len(modules))
    items.sort(key=lambda item: turns[item.path.parent][item.path])


def pytest_collection_finish() -> None:
    """Exclude thousands of permanent test objects from garbage collection."""
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


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    """Undo a test's logging configuration: logging is global."""
    root = logging.getLogger()
    handlers, level, output = root.handlers[:], root.level, dict(vars(logs.output))
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    vars(logs.output).update(output)
    logging.captureWarnings(False)


@pytest.fixture
def lines() -> io.StringIO:
    """A stream to log to."""
    return io.StringIO()
