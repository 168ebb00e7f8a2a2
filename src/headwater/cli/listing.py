"""The command that lists sources, and how sources are told in a few words."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from headwater.api.schemas import SourceOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.model import Health, SourceType
from headwater.operations.overview import SourceView, list_sources, views
from headwater.rules.health import health_of
from headwater.store.sources import SourceFilter

commands = typer.Typer()
PANEL = "Sources"
_ROOMY = 80  # columns
Id = Annotated[str, typer.Argument(metavar="ID", help="Id, the beginning of one, or the URL.")]
_COLUMNS = (
    output.Column("ID"),
    output.Column("Health"),
    output.wide("Source", least=20),
    output.spare(output.Column("Type"), 4),
    output.spare(output.wide("Host", least=12), 6),
    output.spare(output.Column("Last poll"), 5),
    output.Column("Next poll"),
    output.spare(output.Column("Interval"), 2),
    output.spare(output.number("Failures"), 3),
    output.spare(output.number("Posts"), 1),
)


@commands.command("list", rich_help_panel=PANEL, epilog="Example: headwater list --limit 20")
def list_(
    ctx: typer.Context,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    type_: Annotated[SourceType | None, typer.Option("--type", help="Of this type.")] = None,
    host: Annotated[str | None, typer.Option(help="Of this host.")] = None,
    health: Annotated[Health | None, typer.Option(help="In this state.")] = None,
    search: Annotated[str | None, typer.Option(help="With this in URL or label.")] = None,
    json: output.Json = False,
) -> None:
    """List sources with their health and their next poll."""
    call = invocation(ctx)
    wanted = SourceFilter(type=type_, host=host, text=search)
    listed = call.do(lambda app: _listed(call, app, wanted, limit, health))
    if json:
        output.show_json(output.plain(SourceOut.of(view) for view in listed.views))
        return
    rows = [_row(view, listed.now) for view in listed.views]
    narrowed = wanted != SourceFilter() or health is not None
    none = f"No sources in {listed.place}. Try: headwater add URL"
    output.show_table(_COLUMNS, rows, empty="No source fits." if narrowed else none)
    if output.on_terminal() and listed.views:
        output.say(Text(_totals(listed), style="dim"))


@dataclass(frozen=True, slots=True)
class _Listed:
    """The sources to show, and how many there are."""

    views: list[SourceView]
    total: int
    now: datetime
    place: str  # where the database is: another working folder may mean another one


async def _listed(
    call: Invocation, app: App, wanted: SourceFilter, limit: int | None, health: Health | None
) -> _Listed:
    user, podcast = await call.place(app)
    wanted = replace(wanted, podcast_id=podcast.id)
    now, total = app.clock.now(), 0
    found: list[SourceView] = []
    async for page in list_sources(app.store, wanted):
        fitting = [source for source in page if health in (None, health_of(source))]
        total += len(fitting)
        room = len(fitting) if limit is None else limit - len(found)
        found += await views(app.store, user.id, fitting[:room], now, app.policy)
        if len(found) == limit and not output.on_terminal():
            break  # the rest is counted for people only
    return _Listed(found, total, now, app.store.database.address)


def _row(view: SourceView, now: datetime) -> list[output.Cell]:
    source = view.source
    on_terminal = output.on_terminal()
    return [
        source.id[:8] if on_terminal else source.id,
        Text(view.health.value, style=words.HEALTH_STYLE[view.health]),
        (source.label or source.url) if on_terminal else source.url,
        source.type.value,
        view.host or "–",
        words.when(view.polled_at, now),
        _brief(next_poll(view, now)),
        interval(view),
        str(source.consecutive_failures),
        f"{view.post_count:,}" if on_terminal else str(view.post_count),
    ]


def _brief(told: output.Cell) -> output.Cell:
    """The next poll in fewer letters where room is short: `hold 1 min 50 s`."""
    if not isinstance(told, Text) or not output.on_terminal() or output.console().width >= _ROOMY:
        return told
    plain = told.plain.removesuffix(" (hold)")
    return told if plain == told.plain else Text(f"hold {plain.removeprefix('in ')}", told.style)


def next_poll(view: SourceView, now: datetime) -> output.Cell:
    """When the next poll is, and whether it was asked for or waits for the end of a hold."""
    told = coming(view, now)
    if view.held:
        return Text(f"{told} (hold)", style="yellow")
    return Text(told, style="cyan") if view.source.requested_at is not None else told


def coming(view: SourceView, now: datetime) -> str:
    """When the next poll is; before first contact only the latest moment is known (P6)."""
    if view.source.requested_at is not None and not view.held:
        return "requested"
    if view.next_poll_at is None and view.source.enabled:
        return f"within {words.minutes(view.interval_minutes)}"
    return words.coming(view.next_poll_at, now)


def interval(view: SourceView) -> output.Cell:
    """The rest between polls, and what failures make of it."""
    own = view.source.poll_interval_minutes
    if view.interval_minutes == own:
        return words.minutes(own)
    return Text(f"{words.minutes(own)} → {words.minutes(view.interval_minutes)}", style="yellow")


def _totals(listed: _Listed) -> str:
    shown = listed.views
    counts = {health: sum(view.health is health for view in shown) for health in Health}
    parts = [f"{count:,} {health}" for health, count in counts.items() if count]
    of = f"{len(shown):,} of " if len(shown) < listed.total else ""
    return f"{of}{words.counted(listed.total, 'source')}: {', '.join(parts)}"
