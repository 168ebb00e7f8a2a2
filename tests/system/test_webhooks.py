"""The service is killed while it delivers: every message arrives, under a constant id (V2)."""

from pathlib import Path

import pytest
from bench.webhooks import run


@pytest.mark.slow
async def test_v2_kills_and_an_endpoint_that_is_down_lose_no_message(tmp_path: Path):
    """The bench `webhooks` does the same with 10,000 posts and 20 kills."""
    figures = await run(tmp_path, posts=400, kills=4)
    assert figures.posts == figures.accepted == 400
    assert figures.ids_changed == figures.forged == 0
    assert figures.refused > 0
