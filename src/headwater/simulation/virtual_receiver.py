"""VirtualReceiver: the other end of webhooks; it fails at times, and some responses get lost."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

from headwater.engine.hosts.access import HostVisit
from headwater.errors import ConnectFailed, TimedOut
from headwater.model import SealedSecret
from headwater.simulation.message_checks import MessageChecks
from headwater.simulation.virtual_loop import VirtualClock

_SECRET = "whsec_" + b64encode(bytes(24)).decode()
_FAILED, _LOST = 0.1, 0.05  # shares of requests
_RESPONSE_SECONDS = 0.2


class ReceiverResponse(NamedTuple):
    """The response to a message."""

    status: int


class VirtualReceiver:
    """Accepts messages."""

    def __init__(
        self,
        checks: MessageChecks,
        clock: VirtualClock,
        rng: Random,
        is_offline: Callable[[], bool],
        *,
        has_faults: bool,
    ) -> None:
        self._checks = checks
        self._clock = clock
        self._rng = rng
        self._is_offline = is_offline
        self._has_faults = has_faults

    async def __call__(
        self, url: str, body: bytes, headers: Mapping[str, str], *, visit: HostVisit | None
    ) -> ReceiverResponse:
        """Receive a message, or fail; it may be received although its response is lost."""
        del visit
        await self._clock.after(_RESPONSE_SECONDS)
        luck = self._rng.random() if self._has_faults else 1.0
        if self._is_offline():
            raise ConnectFailed("no network")
        if luck < _FAILED:
            return ReceiverResponse(503)
        receiver = (urlsplit(url).hostname or "").partition(".")[0]
        self._checks.arrived(receiver, headers["webhook-id"], body.decode())
        if luck < _FAILED + _LOST:
            raise TimedOut("the response got lost")
        return ReceiverResponse(204)


def open_secret(_sealed: SealedSecret, _webhook_id: str) -> str:
    """Return the secret of every webhook."""
    return _SECRET
