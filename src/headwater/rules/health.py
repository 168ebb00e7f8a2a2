"""Health: a source's state in one word."""

from headwater.model import Health, Source


def health_of(source: Source) -> Health:
    """Disabled, else failing, else new until a poll succeeded, else ok."""
    if not source.enabled:
        return Health.DISABLED
    if source.consecutive_failures > 0:
        return Health.FAILING
    return Health.NEW if source.last_success_at is None else Health.OK
