"""What a simulation came to, for people: a chart, percentiles, and hosts that cannot keep up."""

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

from headwater.cli import output, words
from headwater.simulation.capacity import LaneLoad, by_minutes
from headwater.simulation.story import Report

_ROWS = 8
_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHOWN = 10
_COLUMNS = (
    output.wide("Host"),
    output.number("Sources"),
    output.number("Delay"),
    output.number("Load"),
    output.spare(output.number("Latest")),
    output.Column("Fits"),
    output.number("Shortest interval"),
)


def show(report: Report, seconds: float) -> None:
    """Show a report; the table of hosts has the busiest ones, and all that do not fit."""
    _show_summary(report, seconds)
    if output.on_terminal() and report.per_minute:
        _show_chart(report.per_minute)
    crowded = [one for one in report.loads if one.sources > 1 or not one.fits]
    busy = [one for place, one in enumerate(crowded) if place < _SHOWN or not one.fits]
    rows = [_row(one) for one in busy]
    output.show_table(_COLUMNS, rows, empty="No two sources share a host.", title="Busiest hosts")
    _show_end(report)


def _show_summary(report: Report, seconds: float) -> None:
    late = ", ".join(f"{name} {words.span(value)}" for name, value in report.lateness.items())
    mean, peak = _mean(report.per_minute), max(report.per_minute, default=0)
    per_second = report.sources * report.days / max(seconds, 0.001)
    days = words.counted(int(report.days), "day") if report.days >= 1 else f"{report.days:g} days"
    title = f"{days} of {words.counted(report.sources, 'source')} on {report.hosts:,} hosts"
    fields: dict[str, output.Cell | None] = {
        "Polls": f"{report.polls:,}, at most {report.most_in_a_second:,} begun in one second",
        "Requests per minute, last day": f"{mean:.1f} on average, {peak:,} at most",
        "Late by": late,
        "In the end": f"{report.failing:,} failing, {report.disabled:,} disabled",
        "Outages": f"{report.outages:,} noticed" if report.outages else None,
        "Took": f"{seconds:.1f} s, {per_second:,.0f} source-days per second",
        "Story": f"seed {report.seed}, {report.digest}",
    }
    output.show_card(fields, title=title)


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _show_chart(per_minute: list[int]) -> None:
    """Requests per minute over a day, drawn with blocks."""
    width = max(min(output.console().width - 14, 144), 24)  # the last hour stands behind it
    columns = by_minutes(per_minute, width)
    top = max(max(columns), 1.0)
    output.say("")
    output.say(Text("Requests per minute over the last day", style="bold"))
    for row in range(_ROWS - 1, -1, -1):
        label = f"{top:7.1f} " if row == _ROWS - 1 else f"{0:7.1f} " if row == 0 else " " * 8
        line = "".join(_block(value / top * _ROWS - row) for value in columns)
        output.say(Text(label, style="dim").append(line, style="cyan"))
    hours = len(per_minute) / 60
    output.say(Text(" " * 8 + _ruler(len(columns), hours), style="dim"))


def _block(height: float) -> str:
    return _BLOCKS[round(min(max(height, 0.0), 1.0) * (len(_BLOCKS) - 1))]


def _ruler(width: int, hours: float) -> str:
    """Hours below the chart."""
    marks = [(round(part * width / 4), f"{hours * part / 4:.0f} h") for part in range(5)]
    line = ""
    for (place, mark), (following, _) in pairwise([*marks, (width + 8, "")]):
        line += mark.ljust(max(following - place, len(mark) + 1))
    return line.rstrip()


def _row(load: LaneLoad) -> list[output.Cell]:
    return [
        load.lane,
        f"{load.sources:,}",
        f"{load.delay_seconds:.3g} s",
        f"{load.load:.1%}",
        words.span(load.late_seconds),
        "yes" if load.fits else Text("no", style="bold red"),
        words.minutes(load.shortest_minutes),
    ]


def _show_end(report: Report) -> None:
    broken = report.violation
    if broken is None:
        full = sum(not one.fits for one in report.loads)
        told = f"{words.counted(full, 'host')} cannot keep up." if full else "Everybody keeps up."
        output.say(Text(f"All rules held. {told}", style="bold red" if full else "bold green"))
        return
    output.say(Text(f"Rule {broken}", style="bold red"))
    for line in broken.story:
        output.say(f"  {line}")
    output.say(f"The same again: the same command with --seed {report.seed}")
