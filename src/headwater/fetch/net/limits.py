"""Limits of a fetch: timeouts, sizes and counts."""

from dataclasses import dataclass

from headwater.rules.addresses import Allowed

MAX_HEADER_BYTES = 65_536  # of a response, like the following ones (N7)
MAX_HEADERS = 200
MAX_INFORMATIONAL = 10
MAX_ERROR_BODY = 4096  # bytes kept of an error, or of a body that is dropped (N9)
_WIRE_MARGIN = 1_048_576  # bytes: headers, and what one read may hold beyond the limit


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a fetch; those without a default are in `settings/configuration_keys.py`."""

    user_agent: str
    connect_timeout_seconds: float
    read_timeout_seconds: float
    total_timeout_seconds: float
    max_body_bytes: int
    max_redirects: int
    max_connections: int
    allow_private_networks: Allowed
    proxy: str | None
    max_idle_connections: int = 64  # a thousand hosts a second must not use up descriptors
    max_medium_bodies: int = 8  # of half a megabyte to two, in memory at once (H1)
    max_large_bodies: int = 2  # and larger ones, whose posts take a multiple of their size
    host_wait_seconds: float = 30

    @property
    def max_wire_bytes(self) -> int:
        """Bytes of a response before TLS and chunked encoding are removed."""
        return 2 * self.max_body_bytes + _WIRE_MARGIN
