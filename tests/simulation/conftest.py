"""Log only errors: simulated failures would flood the output."""

import pytest

from headwater import logs


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Set the level; the root conftest restores it."""
    monkeypatch.setattr(logs.output, "level", logs.LEVELS["error"])
