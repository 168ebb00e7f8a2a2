"""When messages of webhooks are sent again after failed attempts (V2)."""

from datetime import datetime, timedelta
from random import Random

# After each failed attempt, as Standard Webhooks has it; after the last one the message is given up
RETRY_AFTER = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
_JITTER = 0.1  # a retry is up to this share later


def retry_at(attempts: int, now: datetime, rng: Random) -> datetime | None:
    """When a message is sent again after this many failed attempts; None: it is given up."""
    if attempts > len(RETRY_AFTER):
        return None
    return now + RETRY_AFTER[attempts - 1] * (1 + rng.uniform(0, _JITTER))
