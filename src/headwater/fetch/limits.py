"""How far a visit may go."""

from dataclasses import dataclass

from headwater.fetch.address import Allowed


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a visit may go; plain values that others make from the settings."""

    user_agent: str
    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 30
    total_timeout_seconds: float = 60
    max_body_bytes: int = 10_485_760
    max_redirects: int = 5
    max_connections: int = 256
    allow_private_networks: Allowed = False
    proxy: str | None = None
    turn_timeout_seconds: float = 30
