"""Counts: what happens in a worker without an event that tells of it, for API servers to show.

They go with the sign of life that a worker gives every second, as a text of a bounded length.
"""

from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from headwater.engine.metrics import Histogram, Metrics


@dataclass(frozen=True, slots=True)
class Sizes:
    """A histogram as it was at some moment."""

    counts: tuple[int, ...] = ()
    total: float = 0.0

    @classmethod
    def of(cls, seen: Histogram) -> "Sizes":
        """What a histogram holds now."""
        return cls(tuple(seen.counts), round(seen.total, 6))


@dataclass(frozen=True, slots=True)
class Counts:
    """What a worker counted since its start, and how things stand in it."""

    commit_sizes: Sizes = Sizes()
    commit_seconds: Sizes = Sizes()
    loop_lag: Sizes = Sizes()
    loop_lag_max_seconds: float = 0.0
    parse_kills: int = 0
    names_answered: int = 0
    names_unanswered: int = 0
    ticks_failed: int = 0
    lanes: int = 0
    waiting: int = 0  # sources in lanes
    in_flight: int = 0
    on_hold: int = 0
    results_waiting: int = 0

    @property
    def commits(self) -> int:
        """How often results were stored."""
        return sum(self.commit_sizes.counts)

    @property
    def results(self) -> int:
        """How many results were stored."""
        return round(self.commit_sizes.total)

    def text(self) -> str:
        """For others to read."""
        return _counts.dump_json(self, exclude_defaults=True).decode()


_counts = TypeAdapter(Counts)


def counts_from(text: str | None) -> Counts:
    """What a worker told; nothing if another version of the program wrote it."""
    try:
        return _counts.validate_json(text or "{}")
    except ValidationError:
        return Counts()


def add(metrics: Metrics, before: Counts, after: Counts) -> None:
    """Count what a worker did between two looks at it."""
    pairs = (
        (metrics.commit_sizes, before.commit_sizes, after.commit_sizes),
        (metrics.commit_seconds, before.commit_seconds, after.commit_seconds),
        (metrics.loop_lag.seconds, before.loop_lag, after.loop_lag),
    )
    for seen, then, now in pairs:
        _add(seen, then, now)
    metrics.parse_kills += after.parse_kills - before.parse_kills
    metrics.names.answered += after.names_answered - before.names_answered
    metrics.names.unanswered += after.names_unanswered - before.names_unanswered
    metrics.ticks_failed += after.ticks_failed - before.ticks_failed


def _add(seen: Histogram, before: Sizes, after: Sizes) -> None:
    if len(after.counts) != len(seen.counts):  # of a version with other bounds
        return
    known = before.counts or (0,) * len(after.counts)
    for place, (then, now) in enumerate(zip(known, after.counts, strict=True)):
        seen.counts[place] += now - then
    seen.total += after.total - before.total
