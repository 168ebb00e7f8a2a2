"""Counts of served HTTP requests, by route."""

from collections import Counter

from headwater.engine.metrics import Histogram

OTHER = "other"  # an unknown path, a request that was refused before routing, an unknown method
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class HttpMetrics:
    """Requests since the start; routes are path templates, so there are few of them."""

    def __init__(self) -> None:
        # by method, route and status; and by method and route. Both metrics exist from the start
        self.requests = Counter({("GET", OTHER, "404"): 0})
        self.seconds = {("GET", OTHER): Histogram(_SECONDS)}

    def add(self, method: str, route: str, status: str, seconds: float) -> None:
        """Count a request that has ended."""
        self.requests[method, route, status] += 1
        histogram = self.seconds.get((method, route))
        if histogram is None:
            histogram = self.seconds[method, route] = Histogram(_SECONDS)
        histogram.add(seconds)
