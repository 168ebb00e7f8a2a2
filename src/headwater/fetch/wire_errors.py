"""How a connection fails by itself; `faults` says it in our own errors."""


class Lost(ConnectionError):
    """The connection ended before the answer; a kept one is worth another try (N11)."""


class Stalled(TimeoutError):
    """Nothing came for too long."""


class Slow(TimeoutError):
    """The handshake took too long."""


class NoHttp(ConnectionError):
    """Whatever was said, it was no HTTP."""
