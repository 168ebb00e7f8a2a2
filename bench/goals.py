"""Performance goals, and whether the figures reach them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.results import Figure, rate_ratio, ratio

Find = Callable[[str, str], Figure | None]


@dataclass(frozen=True)
class Goal:
    """A bound on one figure, or on one figure divided by another."""

    text: str
    case: str
    program: str
    most: float | None = None
    least: float | None = None
    over: str | None = None  # a program of the same case to divide by
    by_rate: bool = False  # polls per second instead of cost


_SQLITE, _POSTGRES, _READER = "ours, SQLite", "ours, PostgreSQL", "reader"
_SERVE, _POLL_ALL = "`serve`, SQLite", "`poll --all`, SQLite"
_INSERT = "parse + text + insert, bare loop, "
GOALS = (
    Goal(f"304, {_SERVE}: CPU of a poll, ms", "304", _SERVE, most=0.2),
    Goal(f"TLS 1.3, {_SERVE}: CPU of a poll, ms", "tls", _SERVE, most=0.6),
    Goal(f"twenty new, {_SERVE}: CPU of a poll, ms", "new", _SERVE, most=2.2),
    Goal(f"304: {_POLL_ALL} / `serve`", "304", _POLL_ALL, over=_SERVE, most=1.5),
    Goal(f"twenty new: {_POLL_ALL} / `serve`", "new", _POLL_ALL, over=_SERVE, most=1.5),
    Goal(f"304, {_SQLITE}: CPU of a poll, ms", "304", _SQLITE, most=0.2),
    Goal(f"304, {_POSTGRES}: CPU of a poll, ms", "304", _POSTGRES, most=0.2),
    Goal("304: bare client loop / whole path", "304", "our client, bare loop",
         over=_SQLITE, least=0.8),
    Goal("TLS 1.3, SQLite: CPU of a poll, ms", "tls", _SQLITE, most=0.8),
    Goal("twenty new: reader / ours, one core", "new", _READER, over=_SQLITE, least=15),
    Goal("twenty new: reader / ours on PostgreSQL, one core", "new", _READER,
         over=_POSTGRES, least=15),
    Goal("twenty new: polls/s on two cores / reader", "new", "ours, SQLite, two cores",
         over=_READER, least=25, by_rate=True),
    Goal("twenty new: yarr (quoted) / ours", "new", "yarr (quoted; lost 2–3 %)",
         over=_SQLITE, least=5),
    Goal("twenty new: whole path / bare loop, SQLite", "new", _SQLITE,
         over=f"{_INSERT}SQLite", most=1.5),
    Goal("twenty new: whole path / bare loop, PostgreSQL", "new", _POSTGRES,
         over=f"{_INSERT}PostgreSQL", most=1.5),
    Goal("1,000,000 sources: whole tick, ms", "tick", "whole tick, 1,000,000 sources", most=20),
    Goal("1,000,000 sources: look-up, ms", "tick", "look-up, 1,000,000 sources", most=2),
    Goal("import: reader / ours, CPU per feed", "import", _READER, over=_SQLITE, least=10),
    Goal("idle, 100,000 sources, MB", "memory", "idle, 100,000 sources", most=200),
    Goal("1,000 lanes in flight, MB", "memory", "1,000 lanes in flight", most=300),
)  # fmt: skip


def lines(figures: Sequence[Figure]) -> Iterator[str]:
    """One line per goal whose figures were measured."""
    by_name = {(figure.case, figure.program): figure for figure in figures}
    for goal in GOALS:
        figure = by_name.get((goal.case, goal.program))
        base = by_name.get((goal.case, goal.over)) if goal.over else None
        if figure is None or (goal.over and base is None):
            continue
        value = _value(figure, base, by_rate=goal.by_rate)
        reached = (goal.most is None or value <= goal.most) and (
            goal.least is None or value >= goal.least
        )
        bound = f"≤ {goal.most:g}" if goal.most is not None else f"≥ {goal.least:g}"
        yield f"- {'reached' if reached else 'missed'}: {goal.text} {bound}: {value:.3g}"


def _value(figure: Figure, base: Figure | None, *, by_rate: bool) -> float:
    if base is None:
        return figure.median
    return rate_ratio(figure, base) if by_rate else ratio(figure, base)
