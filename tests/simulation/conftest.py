"""Stories are told by their reports alone."""

import pytest

from headwater import logs


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """A log of days of trouble would be all there is to see."""
    monkeypatch.setattr(logs._output, "level", logs.LEVELS["error"])
