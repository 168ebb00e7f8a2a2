"""What a simulation came to, for people: a chart, percentiles, and hosts that cannot keep up."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Thread

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from headwater.cli import output, words
from headwater.simulation.capacity import LaneLoad, by_minutes
from headwater.simulation.run import Simulation
from headwater.simulation.story import Report

_ROWS = 8
_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHOWN = 10
_REFRESH_SECONDS = 0.25
_COLUMNS = (
    output.wide("Host"),
    output.number("Sources"),
    output.number("Delay"),
    output.number("Load"),
    output.spare(output.number("Late by")),
    output.Column("Fits"),
    output.number("Shortest interval"),
)


@contextmanager
def progress(simulation: Simulation, *, hidden: bool) -> Iterator[None]:
    """Show how far a story is while it is told, to who looks at standard error."""
    if hidden or not sys.stderr.isatty():
        yield
        return
    bar = Progress(
        TextColumn("Simulating"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=output.console(errors=True),
        transient=True,
        auto_refresh=False,
    )
    over = Event()
    # beside the story, which must be the same whether or not somebody looks
    looking = Thread(target=_look, args=(simulation, bar, over), daemon=True)
    with bar:
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()


def _look(simulation: Simulation, bar: Progress, over: Event) -> None:
    task = bar.add_task("", total=1.0)
    bar.refresh()
    while not over.wait(_REFRESH_SECONDS):
        bar.update(task, completed=simulation.share_done, refresh=True)


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
    mean, peak = _mean(report.per_minute), max(report.per_minute, default=0)
    per_second = report.sources * report.days / max(seconds, 0.001)
    days = f"{report.days:g} {'day' if report.days == 1 else 'days'}"
    hosts = words.counted(report.hosts, "host")
    title = f"{days} of {words.counted(report.sources, 'source')} on {hosts}"
    busy = f"{report.most_in_a_second:,} begun in one second at most, "
    busy += f"{report.most_at_once:,} of {report.connections:,} connections in use at most"
    fields: dict[str, output.Cell | None] = {
        "Polls": f"{report.polls:,}",
        "Requests per minute, last day": f"{mean:.1f} on average, {peak:,} at most",
        "Requests at once": busy,
        "Late by": _lateness(report),
        "What went wrong": _mishaps(report) if report.faults else None,
        "In the end": f"{report.failing:,} failing, {report.disabled:,} disabled",
        "Took": f"{seconds:.1f} s, {per_second:,.0f} source-days per second",
        "Story": f"seed {report.seed}, {report.digest}",
    }
    output.show_card(fields, title=title)


def _lateness(report: Report) -> str:
    shares = {"p50": "half of the polls", "p90": "90 %", "p99": "99 %", "most": "all"}
    late = ", ".join(f"{shares[n]} {words.span(s)}" for n, s in report.lateness.items())
    within = "; time asleep, stopped, offline or on hold left out" if report.faults else ""
    return f"{late} at most{within}"


def _mishaps(report: Report) -> str:
    """What befell the machine; hosts have their own troubles."""
    return ", ".join(
        (
            f"asleep for {words.span(report.asleep_seconds)} on top of these days",
            f"stopped for {words.span(report.down_seconds)}",
            f"{words.counted(report.outages, 'outage')} noticed",
        )
    )


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _show_chart(per_minute: list[int]) -> None:
    """Requests per minute over a day, drawn with blocks."""
    width = max(min(output.console().width - 14, 144), 24)  # the last hour stands behind it
    columns = by_minutes(per_minute, width)
    top = max(columns) or 1.0
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
        told, style = _verdict(report)
        output.say(Text(f"All rules held. {told}", style=f"bold {style}"))
        return
    output.say(Text(f"Rule {broken}", style="bold red"))
    for line in broken.story:
        output.say(f"  {line}")
    output.say(f"The same again: the same command with --seed {report.seed}")


def _verdict(report: Report) -> tuple[str, str]:
    """Whether hosts keep up, in words and in a colour."""
    full = sum(not one.fits for one in report.loads)
    if full:
        return f"{words.counted(full, 'host')} cannot keep up.", "red"
    behind = sum(one.fell_behind for one in report.loads)
    if behind:
        hosts = words.counted(behind, "host")
        return f"{hosts} fell behind: a source waited for longer than its interval.", "yellow"
    return "Everybody keeps up.", "green"
