"""Targets of the Apprise library, which only the configuration of the operator may name (Y3).

Apprise connects by itself, without our address guard: no user can choose such a target (N1, N3).
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.errors import ConfigError, NotSent
from headwater.rules.notice_messages import Notice

_KEY = "app.notify.apprise-urls"
_SECONDS = 60.0


class AppriseTargets:
    """The configured targets, by the hash of their URLs, which contain secrets."""

    def __init__(self, urls: Sequence[str]) -> None:
        try:
            import apprise
        except ImportError:
            text = f"{_KEY} needs the extra package: pip install 'headwater[apprise]'"
            raise ConfigError(text, field=_KEY) from None
        # its log lines may contain URLs (U6)
        logger = logging.getLogger("apprise")
        logger.propagate = False
        logger.addHandler(logging.NullHandler())
        targets: dict[str, Any] = {}
        for number, url in enumerate(urls, 1):
            target = targets[_hash(url)] = apprise.Apprise()
            if not target.add(url):
                text = f"{_KEY}: Apprise does not understand URL number {number}"
                raise ConfigError(text, field=_KEY)
        self._targets: Mapping[str, Any] = targets

    @property
    def hashes(self) -> Sequence[str]:
        """The names of all targets."""
        return list(self._targets)

    async def send(self, target: str, notice: Notice) -> None:
        """Send a message, or raise NotSent."""
        chosen = self._targets.get(target)
        if chosen is None:
            raise NotSent(f"{_KEY} does not contain this target any more")
        try:
            async with asyncio.timeout(_SECONDS):
                accepted = await asyncio.to_thread(
                    chosen.notify, title=notice.subject, body=notice.text, body_format="text"
                )
        except TimeoutError:
            raise NotSent("the Apprise target did not respond in time") from None
        if not accepted:
            raise NotSent("the Apprise target did not accept the message")


def _hash(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()
