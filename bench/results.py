"""Figures, and the table that shows them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """The result of one program of a case: per round, by default ms of CPU per poll."""

    case: str
    program: str
    unit: str
    values: tuple[float, ...]
    rates: tuple[float, ...] = ()  # polls per second
    note: str = ""
    quoted: bool = False

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return median(self.values)

    @property
    def least(self) -> float:
        """The least disturbed round."""
        return min(self.values)

    @property
    def rate(self) -> float | None:
        """The median of the rounds, in polls per second."""
        return median(self.rates) if self.rates else None

    def as_json(self) -> dict[str, object]:
        """All values, for the JSON file."""
        return {**asdict(self), "median": self.median, "least": self.least, "rate": self.rate}


def ratio(figure: Figure, base: Figure) -> float:
    """The ratio to the cost of the base; rounds are compared in pairs if both have them."""
    return _by_round(figure.values, base.values)


def rate_ratio(figure: Figure, base: Figure) -> float:
    """The ratio to the base's polls per second, compared in the same way."""
    return _by_round(figure.rates, base.rates)


def _by_round(mine: Sequence[float], others: Sequence[float]) -> float:
    if len(mine) == len(others):
        return median(one / other for one, other in zip(mine, others, strict=True))
    return median(mine) / median(others)


def table(titles: Mapping[str, str], figures: Sequence[Figure], base: str = "ours") -> str:
    """One table in Markdown; the first program of every case is the baseline."""
    rows = [("case", "program", "median", "least", "polls/s", f"times {base}")]
    for case, title in titles.items():
        found = [figure for figure in figures if figure.case == case]
        rows += [
            (
                title if position == 0 else "",
                " · ".join(part for part in (figure.program, figure.note) if part),
                f"{_short(figure.median)} {figure.unit}",
                "" if figure.quoted else _short(figure.least),
                "" if figure.rate is None else f"{figure.rate:,.0f}",
                "1" if position == 0 else _short(ratio(figure, found[0])),
            )
            for position, figure in enumerate(found)
        ]
    return "\n".join(_aligned(rows))


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        left = (f"{cell:{w}}" for cell, w in zip(row[:2], widths[:2], strict=True))
        right = (f"{cell:>{w}}" for cell, w in zip(row[2:], widths[2:], strict=True))
        yield f"| {' | '.join((*left, *right))} |"
        if number == 0:
            marks = [*("-" * w for w in widths[:2]), *("-" * (w - 1) + ":" for w in widths[2:])]
            yield f"| {' | '.join(marks)} |"


def _short(value: float) -> str:
    """Three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}"
