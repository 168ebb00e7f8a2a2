"""The command that plays days of polling in seconds: will it fit, and do the rules hold?"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from headwater import logs
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.cli.simulation_view import progress, show
from headwater.cli.subscriptions import read_list
from headwater.clock import SystemClock
from headwater.engine.engine import Pace
from headwater.errors import UsageError
from headwater.model import Source, SourceType
from headwater.operations.sources import SourceSettings, new_source
from headwater.rules.opml import Outline, read_opml
from headwater.rules.urls import masked
from headwater.settings import Settings, policy_from
from headwater.simulation.loop import START
from headwater.simulation.population import ANSWER_SECONDS, Population, invented, watched
from headwater.simulation.run import Scenario, Simulation
from headwater.simulation.story import Report, scenario_of, told
from headwater.store.rows import to_ms
from headwater.store.sources import Position, SourceFilter

commands = typer.Typer()
_BITE = 1000
_MOST_SOURCES = 1_000_000
_MOST_DAYS = 3660.0
_MOST_TOLD = 20  # lines of a list


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
    """Play days of polling in seconds, and see who cannot keep up.

    Also told are when requests fall and, with --faults, which rule does not hold. The real engine
    polls your sources, those of a list or invented ones on a virtual web. Nothing is sent and
    nothing is stored. --podcast or --user plays with the sources of one alone.
    """
    call = invocation(ctx)
    if sources is not None and opml is not None:
        raise UsageError("--sources invents what --opml has: give one of them")
    who = _who(ctx, sources, opml, interval, answer_seconds)
    logs.configure(call.settings.log.format, call.log_level or "error")
    collect_garbage_hardly_ever()
    for number in range(seed, seed + rounds):
        # drawn anew, so that the seed of a round alone tells the same story again
        population = who(Random(number))  # noqa: S311 - a story, and no secret
        scenario = _scenario(call.settings, population, number, days, faults=faults)
        if not _played(scenario, json=json):
            raise typer.Exit(1)


def collect_garbage_hardly_ever() -> None:
    """Look for garbage cycles now and then only: stories leave few, and all else stays."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


def _scenario(
    settings: Settings, population: Population, seed: int, days: float, *, faults: bool
) -> Scenario:
    pace = Pace(
        tick_seconds=settings.source.tick_seconds,
        shutdown_seconds=settings.shutdown_seconds,
        slots=settings.fetch.max_connections,
    )
    policy = policy_from(settings)
    return scenario_of(population, seed=seed, days=days, faults=faults, policy=policy, pace=pace)


def _played(scenario: Scenario, *, json: bool) -> bool:
    """Play a story, show what came of it, and answer whether all rules held."""
    clock, simulation = SystemClock(), Simulation(scenario)
    began = clock.monotonic()
    with progress(simulation, hidden=json):
        report: Report = told(simulation)
    if json:
        output.show_json(report.plain())
    else:
        show(report, clock.monotonic() - began)
    return report.violation is None


def _who(
    ctx: typer.Context,
    count: int | None,
    opml: Path | None,
    interval: int | None,
    answer_seconds: float,
) -> Callable[[Random], Population]:
    """Who is polled, but for what is drawn from the seed."""
    chosen = [f"--{name}" for name in ("podcast", "user") if _is_given(ctx, name)]
    if chosen and (count is not None or opml is not None):
        other = "--sources" if opml is None else "--opml"
        raise UsageError(f"{chosen[0]} is about your own sources, {other} is not: give one of them")
    if count is not None:
        return lambda rng: invented(count, rng, interval=interval)
    if opml is not None:
        found = _listed(opml, interval)
        return lambda rng: watched(found, {}, answer_seconds, rng)
    call = invocation(ctx)
    own, owners = call.do(lambda app: _own(app, call, chosen))
    if not own:
        raise UsageError("there are no sources to poll; --opml FILE or --sources N brings some")
    if interval is not None:
        own = [replace(source, poll_interval_minutes=interval) for source in own]
    return lambda rng: watched(own, owners, answer_seconds, rng)


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.find_root().get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


async def _own(
    app: App, call: Invocation, chosen: Sequence[str]
) -> tuple[list[Source], dict[str, str]]:
    """The enabled sources of everybody, or of whom was chosen, and whose they are."""
    wanted, users = SourceFilter(enabled=True), await app.store.people.users()
    if "--podcast" in chosen:
        user, podcast = await call.place(app)
        wanted, users = replace(wanted, podcast_id=podcast.id), [user]
    elif chosen:
        users = [await app.store.people.user(call.user)]
    owners = {
        podcast.id: user.id
        for user in users
        for podcast in await app.store.people.podcasts(user.id)
    }
    found: list[Source] = []
    after: Position | None = None
    while page := await app.store.sources.find(wanted, limit=_BITE, after=after):
        found += [_unpolled(source) for source in page if source.podcast_id in owners]
        after = (to_ms(page[-1].created_at) or 0, page[-1].id)
    return found, owners


def _unpolled(source: Source) -> Source:
    """A source as a person set it up: what polls left behind would change the story all the time.

    What was seen late is remembered by the real store alone (R8).
    """
    return Source(
        id=source.id,
        podcast_id=source.podcast_id,
        type=source.type,
        url=source.url,
        created_at=START,
        host=source.host,
        poll_interval_minutes=source.poll_interval_minutes,
        poll_delay_seconds=source.poll_delay_seconds,
        max_failures=source.max_failures,
        max_backoff_hours=source.max_backoff_hours,
        include_history=source.include_history,
    )


def _listed(file: Path, interval: int | None) -> list[Source]:
    """The sources of a list, each once; tells of those that are left out."""
    outlines = {outline.url: outline for outline in read_opml(read_list(file))}
    found: list[Source] = []
    left_out: list[str] = []
    for number, outline in enumerate(outlines.values(), 1):
        try:
            found.append(_source(number, outline, interval))
        except UsageError as error:
            left_out.append(f"{masked(outline.url)}: {error}")
    if left_out:
        output.note(f"{words.counted(len(left_out), 'line')} of {file} cannot be polled:")
        for told in left_out[:_MOST_TOLD]:
            output.note(f"  {told}")
    if len(left_out) > _MOST_TOLD:
        output.note(f"  and {len(left_out) - _MOST_TOLD} more")
    if not found:
        raise UsageError(f"{file} names nothing that can be polled")
    return found


def _source(number: int, outline: Outline, interval: int | None) -> Source:
    type_ = SourceType(outline.type) if outline.type not in (None, "rss") else None
    wanted = SourceSettings(type=type_, url=outline.url, poll_interval_minutes=interval)
    # named by its place: an id that is drawn would make every story another one
    return replace(new_source("default", wanted, START), id=f"line{number}")
