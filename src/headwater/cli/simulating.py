"""The command that plays days of polling in seconds: will it fit, and do the rules hold?"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from headwater import logs
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.cli.serving import collect_garbage_rarely
from headwater.cli.simulation_view import show
from headwater.cli.subscriptions import read_list
from headwater.clock import SystemClock
from headwater.engine.engine import Pace
from headwater.errors import UsageError
from headwater.model import Source, SourceType
from headwater.operations.sources import SourceSettings, new_source
from headwater.rules.opml import Outline, read_opml
from headwater.settings import Settings, policy_from
from headwater.simulation.loop import START
from headwater.simulation.population import ANSWER_SECONDS, Population, invented, watched
from headwater.simulation.run import Scenario, Simulation
from headwater.simulation.story import Report, scenario_of, told
from headwater.store import Store
from headwater.store.rows import to_ms
from headwater.store.sources import Position, SourceFilter

commands = typer.Typer()
_BITE = 1000
_MOST_SOURCES = 1_000_000
_MOST_DAYS = 3660.0


@commands.command(
    rich_help_panel="Polling",
    epilog="Example: headwater simulate --opml subscriptions.opml --interval 60",
)
def simulate(
    ctx: typer.Context,
    days: Annotated[float, typer.Option(min=0.01, max=_MOST_DAYS, help="How long.")] = 2.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same story.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="So many stories, each a seed on.")] = 1,
    sources: Annotated[
        int | None, typer.Option(min=1, max=_MOST_SOURCES, help="Invent so many sources.")
    ] = None,
    opml: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the sources of a list; - for a pipe.")
    ] = None,
    interval: Annotated[
        int | None, typer.Option(min=1, max=525_600, help="Minutes between polls of a source.")
    ] = None,
    answer_seconds: Annotated[
        float, typer.Option(min=0.0, max=60.0, help="How long hosts take to answer.")
    ] = ANSWER_SECONDS,
    faults: Annotated[bool, typer.Option("--faults", help="Let everything go wrong.")] = False,
    json: output.Json = False,
) -> None:
    """Play days of polling in seconds: when requests fall, who cannot keep up, which rule fails.

    The real engine polls your sources, those of a list or invented ones on a virtual web. Nothing
    is sent and nothing is stored.
    """
    call = invocation(ctx)
    if sources is not None and opml is not None:
        raise UsageError("--sources invents what --opml has: give one of them")
    rng = Random(seed)  # noqa: S311 - a story, and no secret
    population, start = _population(call, sources, opml, interval, answer_seconds, rng)
    logs.configure(call.settings.log.format, call.log_level or "error")
    collect_garbage_rarely()
    for number in range(seed, seed + rounds):
        scenario = _scenario(call.settings, population, number, days, start, faults=faults)
        if not _played(scenario, json=json):
            raise typer.Exit(1)


def _scenario(
    settings: Settings,
    population: Population,
    seed: int,
    days: float,
    start: datetime,
    *,
    faults: bool,
) -> Scenario:
    pace = Pace(
        tick_seconds=settings.source.tick_seconds,
        shutdown_seconds=settings.shutdown_seconds,
        slots=settings.fetch.max_connections,
    )
    policy = policy_from(settings)
    return scenario_of(
        population, seed=seed, days=days, faults=faults, policy=policy, pace=pace, start=start
    )


def _played(scenario: Scenario, *, json: bool) -> bool:
    """Play a story, show what came of it, and answer whether all rules held."""
    clock = SystemClock()
    began = clock.monotonic()
    report: Report = told(Simulation(scenario))
    if json:
        output.show_json(report.plain())
    else:
        show(report, clock.monotonic() - began)
    return report.violation is None


def _population(
    call: Invocation,
    count: int | None,
    opml: Path | None,
    interval: int | None,
    answer_seconds: float,
    rng: Random,
) -> tuple[Population, datetime]:
    """Who is polled, and from when on."""
    if count is not None:
        return invented(count, rng, interval=interval), START
    if opml is not None:
        found = _listed(opml, interval)
        return watched(found, {}, answer_seconds, rng), START
    own, owners = call.do(_own)
    if not own:
        raise UsageError("there are no sources to poll; --opml FILE or --sources N brings some")
    if interval is not None:
        own = [replace(source, poll_interval_minutes=interval) for source in own]
    return watched(own, owners, answer_seconds, rng), SystemClock().now()


async def _own(app: App) -> tuple[list[Source], dict[str, str]]:
    """Everybody's enabled sources, as they stand now, and whose they are."""
    owners = {
        podcast.id: user.id
        for user in await app.store.people.users()
        for podcast in await app.store.people.podcasts(user.id)
    }
    found: list[Source] = []
    after: Position | None = None
    while page := await _page(app.store, after):
        found += [replace(source, late_entry_hours=None, late_keys_kept=False) for source in page]
        after = (to_ms(page[-1].created_at) or 0, page[-1].id)
    return found, owners


async def _page(store: Store, after: Position | None) -> Sequence[Source]:
    return await store.sources.find(SourceFilter(enabled=True), limit=_BITE, after=after)


def _listed(file: Path, interval: int | None) -> list[Source]:
    """The sources of a list, each once."""
    outlines = {outline.url: outline for outline in read_opml(read_list(file))}
    found = list(_sources(outlines.values(), interval))
    left_out = len(outlines) - len(found)
    if left_out:
        output.note(f"{words.counted(left_out, 'line')} of {file} cannot be polled")
    if not found:
        raise UsageError(f"{file} names nothing that can be polled")
    return found


def _sources(outlines: Iterable[Outline], interval: int | None) -> Iterator[Source]:
    for number, outline in enumerate(outlines):
        type_ = SourceType(outline.type) if outline.type not in (None, "rss") else None
        wanted = SourceSettings(type=type_, url=outline.url, poll_interval_minutes=interval)
        try:
            # named by its place: an id that is drawn would make every story another one
            yield replace(new_source("default", wanted, START), id=f"line{number + 1}")
        except UsageError:
            continue
