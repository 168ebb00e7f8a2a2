"""The simulate command: days of polling in seconds, to check capacity and rules."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Annotated

import typer
from rich.progress import TaskProgressColumn, TimeRemainingColumn

from headwater.app import App, available_cores, pace_from
from headwater.cli import humanize, output
from headwater.cli.cli_context import CliContext, invocation, is_given
from headwater.cli.columns import Cell, Column, Styled, number, wide
from headwater.cli.opml import read_opml_file
from headwater.cli.terminal import progress_bar
from headwater.clock import SystemClock
from headwater.errors import UsageError
from headwater.formats.opml import read_opml
from headwater.garbage_collection import collect_garbage_very_rarely
from headwater.model import Source, SourceType
from headwater.operations.source_views import list_sources
from headwater.operations.sources import new_source
from headwater.rules.url_secrets import masked
from headwater.settings import policy_from
from headwater.simulation.capacity import LaneLoad, column_means
from headwater.simulation.parts import DividedSimulation
from headwater.simulation.population import (
    ANSWER_SECONDS,
    Population,
    generated_population,
    population_of,
)
from headwater.simulation.scenarios import Report, scenario_of
from headwater.simulation.simulation_run import Scenario
from headwater.simulation.virtual_loop import START
from headwater.source_settings import SETTINGS
from headwater.store.sources import SourceFilter

commands = typer.Typer()
_MAX_SOURCES = 1_000_000
_MAX_DAYS = 3660.0
_MAX_LINES = 20
_CHART_ROWS = 8
_BLOCKS = " ▁▂▃▄▅▆▇█"
_MAX_HOSTS = 10
_REFRESH_SECONDS = 0.25
_COLUMNS: tuple[Column[LaneLoad], ...] = (
    wide("Host", lambda load: load.lane),
    number("Sources", lambda load: f"{load.sources:,}"),
    number("Delay", lambda load: f"{load.delay_seconds:.3g} s"),
    number("Load", lambda load: f"{load.load:.1%}"),
    number("Late by", lambda load: humanize.span(load.late_seconds), optional=1),
    Column("Fits", lambda load: "yes" if load.fits else Styled("no", "bold red")),
    number("Shortest interval", lambda load: humanize.minutes(load.shortest_minutes)),
)


@commands.command(
    epilog="Example: headwater simulate --opml subscriptions.opml --interval 60",
)
def simulate(
    ctx: typer.Context,
    days: Annotated[float, typer.Option(min=0.01, max=_MAX_DAYS, help="Simulated time.")] = 2.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Runs, each with the next seed.")] = 1,
    sources: Annotated[
        int | None, typer.Option(min=1, max=_MAX_SOURCES, help="Use this many invented sources.")
    ] = None,
    opml: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use sources of an OPML file; - for stdin."),
    ] = None,
    interval: Annotated[
        int | None, typer.Option(min=1, max=525_600, help="Minutes between polls of a source.")
    ] = None,
    answer_seconds: Annotated[
        float, typer.Option(min=0.0, max=60.0, help="Response time of hosts.")
    ] = ANSWER_SECONDS,
    faults: Annotated[bool, typer.Option("--faults", help="Inject faults of all kinds.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes for many sources; default: one per core.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Simulate days of polling in seconds.

    Reports which hosts cannot keep up, when requests happen and, with --faults, which rule is
    broken. The real engine polls your sources, those of an OPML file or invented ones on a
    simulated web. Nothing is sent and nothing is stored. --podcast or --user selects the sources
    of one podcast or user.
    """
    call = invocation(ctx)
    if sources is not None and opml is not None:
        raise UsageError("--sources and --opml contradict each other: give one of them")
    draw_population = _population(ctx, sources, opml, interval, answer_seconds)
    call.log_errors()
    collect_garbage_very_rarely()
    policy = policy_from(call.settings)
    pace = replace(pace_from(call.settings), paused=False)
    for run_seed in range(seed, seed + rounds):
        # drawn for each run, so that its seed alone repeats it
        population = draw_population(Random(run_seed))  # noqa: S311 - not a secret
        scenario = scenario_of(
            population, seed=run_seed, days=days, faults=faults, policy=policy, pace=pace
        )
        if not _run(scenario, jobs=jobs or available_cores(), json=json):
            raise typer.Exit(1)


def _run(scenario: Scenario, *, jobs: int, json: bool) -> bool:
    """Run a simulation, print its report, and return whether all rules held."""
    clock, simulation = SystemClock(), DividedSimulation(scenario, jobs=jobs)
    began = clock.monotonic()
    with _progress(simulation, hidden=json):
        report = simulation.run()
    if json:
        output.show_json(report.to_json())
    else:
        _show(report, clock.monotonic() - began)
    return report.violation is None


def _population(
    ctx: typer.Context,
    count: int | None,
    opml: Path | None,
    interval: int | None,
    answer_seconds: float,
) -> Callable[[Random], Population]:
    """Return what draws the simulated sources from a random generator."""
    chosen = [f"--{name}" for name in ("podcast", "user") if is_given(ctx, name)]
    if chosen and (count is not None or opml is not None):
        other = "--sources" if opml is None else "--opml"
        raise UsageError(f"{chosen[0]} selects stored sources, {other} does not: give one of them")
    if count is not None:
        return lambda rng: generated_population(count, rng, interval=interval)
    if opml is not None:
        found = _opml_sources(opml, interval)
        return lambda rng: population_of(found, {}, answer_seconds, rng)
    call = invocation(ctx)
    file = call.settings.database_file
    if file is not None and not file.exists():
        raise UsageError(f"there is no database {file.absolute()}; use --opml FILE or --sources N")
    own, owners = call.do(lambda app: _stored_sources(app, call, chosen))
    if not own:
        raise UsageError("there are no sources to poll; use --opml FILE or --sources N")
    if interval is not None:
        own = [replace(source, poll_interval_minutes=interval) for source in own]
    return lambda rng: population_of(own, owners, answer_seconds, rng)


async def _stored_sources(
    app: App, call: CliContext, chosen: Sequence[str]
) -> tuple[list[Source], dict[str, str]]:
    """Return the enabled sources of the chosen users, and the owner of each podcast."""
    wanted, users = SourceFilter(enabled=True), await app.store.accounts.users()
    if "--podcast" in chosen:
        user, podcast = await call.user_and_podcast(app)
        wanted, users = replace(wanted, podcast_id=podcast.id), [user]
    elif chosen:
        users = [await app.store.accounts.user(call.user)]
    owners = {
        podcast.id: user.id
        for user in users
        for podcast in await app.store.accounts.podcasts(user.id)
    }
    found = [
        _without_history(source)
        async for page in list_sources(app.store, wanted)
        for source in page
        if source.podcast_id in owners
    ]
    return found, owners


def _without_history(source: Source) -> Source:
    """Return a source with its settings only: with the state of polls, every run would differ.

    Late entries are remembered by the real store only (R8).
    """
    settings = {name: getattr(source, name) for name in SETTINGS if name != "late_entry_hours"}
    return Source(
        id=source.id,
        podcast_id=source.podcast_id,
        created_at=START,
        host=source.host,
        **settings,
    )


def _opml_sources(file: Path, interval: int | None) -> list[Source]:
    """Return the sources of an OPML file, each once, and print those that cannot be polled."""
    outlines = {outline.url: outline for outline in read_opml(read_opml_file(file))}
    found: list[Source] = []
    left_out: list[str] = []
    for position, outline in enumerate(outlines.values(), 1):
        try:
            type_ = SourceType(outline.type) if outline.type not in (None, "rss") else None
            settings = {"type": type_, "url": outline.url, "poll_interval_minutes": interval}
            # an id by position: with a random id, every run would differ
            found.append(replace(new_source("default", settings, START), id=f"line{position}"))
        except UsageError as error:
            left_out.append(f"{masked(outline.url)}: {error}")
    if left_out:
        output.note(f"{humanize.counted(len(left_out), 'line')} of {file} cannot be polled:")
    for line in left_out[:_MAX_LINES]:
        output.note(f"  {line}")
    if len(left_out) > _MAX_LINES:
        output.note(f"  and {len(left_out) - _MAX_LINES} more")
    if not found:
        raise UsageError(f"{file} has nothing that can be polled")
    return found


@contextmanager
def _progress(simulation: DividedSimulation, *, hidden: bool) -> Iterator[None]:
    """Show a progress bar on standard error, if that is a terminal."""
    if hidden or not sys.stderr.isatty():
        yield
        return
    bar = progress_bar("Simulating", TaskProgressColumn(), TimeRemainingColumn())
    done = Event()

    def update() -> None:
        task = bar.add_task("", total=1.0)
        while not done.wait(_REFRESH_SECONDS):
            bar.update(task, completed=simulation.share_done)

    thread = Thread(target=update, daemon=True)  # the bar must not change what the simulation does
    with bar:
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _show(report: Report, seconds: float) -> None:
    """Print a report; the table has the busiest hosts and all that cannot keep up."""
    _show_summary(report, seconds)
    if output.on_terminal() and report.requests_per_minute:
        _show_chart(report.requests_per_minute)
    crowded = [one for one in report.lanes if one.sources > 1 or not one.fits]
    busy = [one for rank, one in enumerate(crowded) if rank < _MAX_HOSTS or not one.fits]
    output.show_table(_COLUMNS, busy, empty="No two sources share a host.", title="Busiest hosts")
    _show_end(report)


def _show_summary(report: Report, seconds: float) -> None:
    mean = sum(report.requests_per_minute) / max(len(report.requests_per_minute), 1)
    peak = max(report.requests_per_minute, default=0)
    per_second = report.sources * report.days / max(seconds, 0.001)
    days = f"{report.days:g} {'day' if report.days == 1 else 'days'}"
    hosts = humanize.counted(report.hosts, "host")
    title = f"{days} of {humanize.counted(report.sources, 'source')} on {hosts}"
    busy = f"{report.most_in_one_second:,} begun in one second at most, "
    busy += f"{report.most_at_once:,} of {report.connections:,} connections in use at most"
    fields: dict[str, Cell | None] = {
        "Polls": f"{report.polls:,}",
        "Requests per minute, last day": f"{mean:.1f} on average, {peak:,} at most",
        "Requests at once": busy,
        "Late by": _lateness(report),
        "Faults": _faults(report) if report.faults else None,
        "In the end": f"{report.failing:,} failing, {report.disabled:,} disabled",
        "Took": f"{seconds:.1f} s, {per_second:,.0f} source-days per second",
        "Run": f"seed {report.seed}, {report.digest}",
    }
    output.show_fields(fields, title=title)


def _lateness(report: Report) -> str:
    shares = {"p50": "half of the polls", "p90": "90 %", "p99": "99 %", "most": "all"}
    late = ", ".join(f"{shares[n]} {humanize.span(s)}" for n, s in report.lateness_seconds.items())
    within = "; time asleep, stopped, offline or on hold left out" if report.faults else ""
    return f"{late} at most{within}"


def _faults(report: Report) -> str:
    """Return the faults of the machine, without those of hosts."""
    asleep = f"asleep for {humanize.span(report.asleep_seconds)} on top of these days"
    stopped = f"stopped for {humanize.span(report.down_seconds)}"
    return f"{asleep}, {stopped}, {humanize.counted(report.outages, 'outage')} noticed"


def _show_chart(per_minute: list[int]) -> None:
    """Print a bar chart of requests per minute over a day."""
    width = max(min(output.width() - 14, 144), 24)  # leaves room for the last hour
    columns = column_means(per_minute, width)
    top = max(columns) or 1.0
    output.say("")
    output.say(Styled("Requests per minute over the last day", "bold"))
    for row in range(_CHART_ROWS - 1, -1, -1):
        label = f"{top:7.1f} " if row == _CHART_ROWS - 1 else f"{0:7.1f} " if row == 0 else " " * 8
        heights = (min(max(value / top * _CHART_ROWS - row, 0.0), 1.0) for value in columns)
        line = "".join(_BLOCKS[round(height * (len(_BLOCKS) - 1))] for height in heights)
        output.say(Styled(label, "dim"), Styled(line, "cyan"))
    hours = len(per_minute) / 60
    output.say(Styled(" " * 8 + _ruler(len(columns), hours), "dim"))


def _ruler(width: int, hours: float) -> str:
    """Return the hours below the chart."""
    labels = [(round(part * width / 4), f"{hours * part / 4:.0f} h") for part in range(5)]
    line = ""
    for (start, label), (following, _) in pairwise([*labels, (width + 8, "")]):
        line += label.ljust(max(following - start, len(label) + 1))
    return line.rstrip()


def _show_end(report: Report) -> None:
    broken = report.violation
    if broken is not None:
        output.say(Styled(f"Rule {broken}", "bold red"))
        for line in broken.trace:
            output.say(f"  {line}")
        output.say(f"To repeat it: the same command with --seed {report.seed}")
        return
    full = sum(not one.fits for one in report.lanes)
    behind = sum(one.fell_behind for one in report.lanes)
    verdict, style = "All hosts keep up.", "green"
    if full:
        verdict, style = f"{humanize.counted(full, 'host')} cannot keep up.", "red"
    elif behind:
        hosts = humanize.counted(behind, "host")
        verdict = f"{hosts} fell behind: a source waited for longer than its interval."
        style = "yellow"
    output.say(Styled(f"All rules held. {verdict}", f"bold {style}"))
