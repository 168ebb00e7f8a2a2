"""A stream to log to."""

import io
import logging

import pytest

from headwater import logs


@pytest.fixture
def lines():
    """A stream to log to; what was set up before comes back afterwards."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, dict(vars(logs._output)))
    stream = io.StringIO()
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    vars(logs._output).update(before[2])
    logging.captureWarnings(False)
