"""WorkerCounters: numbers of one worker that are not events, published with its heartbeat."""

from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from headwater.engine.lane_table import LaneTable
from headwater.engine.metrics import Histogram, Metrics
from headwater.rules.full_text import RESULT_KINDS
from headwater.store import Store


@dataclass(frozen=True, slots=True)
class HistogramCounts:
    """The counts of a histogram at one time."""

    counts: tuple[int, ...] = ()
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerCounters:
    """What a worker counted since its start, and its current state."""

    commit_sizes: HistogramCounts = HistogramCounts()
    commit_seconds: HistogramCounts = HistogramCounts()
    loop_lag: HistogramCounts = HistogramCounts()
    loop_lag_max_seconds: float = 0.0
    parse_kills: int = 0
    names_answered: int = 0
    names_unanswered: int = 0
    ticks_failed: int = 0
    page_visits: tuple[int, ...] = ()  # by result, in the order of RESULT_KINDS
    lanes: int = 0
    waiting: int = 0  # sources in lanes
    in_flight: int = 0
    results_waiting: int = 0
    oldest_result_seconds: float = 0.0  # of the scheduler's queries, too

    @classmethod
    def of(cls, metrics: Metrics, lanes: LaneTable, store: Store) -> "WorkerCounters":
        """The current counters of a worker."""
        sizes, seconds, lags = (
            HistogramCounts(tuple(histogram.counts), round(histogram.total, 6))
            for histogram in _histograms(metrics)
        )
        return cls(
            commit_sizes=sizes,
            commit_seconds=seconds,
            loop_lag=lags,
            loop_lag_max_seconds=round(metrics.loop_lag.worst(), 6),
            parse_kills=metrics.parse_kills,
            names_answered=metrics.names.answered,
            names_unanswered=metrics.names.unanswered,
            ticks_failed=metrics.ticks_failed,
            page_visits=tuple(metrics.page_visits.values()),
            lanes=len(lanes.names()),
            waiting=lanes.waiting(),
            in_flight=len(lanes.in_flight()),
            results_waiting=store.results_waiting,
            oldest_result_seconds=round(store.stalled_seconds(), 3),
        )

    @property
    def commits(self) -> int:
        """How many commits stored results."""
        return sum(self.commit_sizes.counts)

    @property
    def results(self) -> int:
        """How many results were stored."""
        return round(self.commit_sizes.total)

    def encode(self) -> str:
        """JSON of a bounded length."""
        return _adapter.dump_json(self, exclude_defaults=True).decode()


_adapter = TypeAdapter(WorkerCounters)


def decode_counters(text: str | None) -> WorkerCounters:
    """The counters of a worker; zeros if another version of the program wrote them."""
    try:
        return _adapter.validate_json(text or "{}")
    except ValidationError:
        return WorkerCounters()


def add_difference(metrics: Metrics, before: WorkerCounters, after: WorkerCounters) -> None:
    """Add the difference between two readings of a worker to metrics."""
    then = (before.commit_sizes, before.commit_seconds, before.loop_lag)
    now = (after.commit_sizes, after.commit_seconds, after.loop_lag)
    for histogram, old, new in zip(_histograms(metrics), then, now, strict=True):
        if len(new.counts) != len(histogram.counts):  # of a version with other bounds
            continue
        for index, count in enumerate(new.counts):
            histogram.counts[index] += count - (old.counts[index] if old.counts else 0)
        histogram.total += new.total - old.total
    metrics.parse_kills += after.parse_kills - before.parse_kills
    metrics.names.answered += after.names_answered - before.names_answered
    metrics.names.unanswered += after.names_unanswered - before.names_unanswered
    metrics.ticks_failed += after.ticks_failed - before.ticks_failed
    pages_before = before.page_visits or (0,) * len(after.page_visits)
    for kind, count, earlier in zip(RESULT_KINDS, after.page_visits, pages_before, strict=False):
        metrics.page_visits[kind] += count - earlier


def _histograms(metrics: Metrics) -> tuple[Histogram, Histogram, Histogram]:
    return metrics.commit_sizes, metrics.commit_seconds, metrics.loop_lag.seconds
