"""Commands that show sources: list, show, explain."""

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from headwater.api.schemas import ExplanationOut, PollRecordOut, SourceOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.model import Health, PollRecord, SourceType
from headwater.operations.overview import (
    SourceCard,
    SourceView,
    card_of,
    explanation_of,
    list_sources,
    views,
)
from headwater.operations.sources import find_source
from headwater.rules.explanation import Explanation
from headwater.store.sources import SourceFilter

commands = typer.Typer()
PANEL = "Sources"
Id = Annotated[str, typer.Argument(metavar="ID", help="Id, the beginning of one, or the URL.")]
_COLUMNS = (
    output.Column("ID"),
    output.Column("Health"),
    output.wide("Source"),
    output.spare(output.Column("Type")),
    output.spare(output.wide("Host")),
    output.spare(output.Column("Last poll")),
    output.Column("Next poll"),
    output.spare(output.Column("Interval")),
    output.spare(output.number("Failures")),
    output.number("Posts"),
)
_POLL_COLUMNS = (
    output.Column("Started"),
    output.Column("Outcome"),
    output.number("Status"),
    output.number("New"),
    output.spare(output.number("Skipped")),
    output.spare(output.number("Bytes")),
    output.spare(output.number("ms")),
    output.wide("Error"),
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
    """List the sources of a podcast with their health and their next poll."""
    call = invocation(ctx)
    wanted = SourceFilter(type=type_, host=host, text=search)
    found, now = call.do(lambda app: _listed(call, app, wanted, limit, health))
    if json:
        output.show_json(output.plain(SourceOut.of(view) for view in found))
        return
    rows = [_row(view, now) for view in found]
    output.show_table(_COLUMNS, rows, empty="No sources. Try: headwater add URL")
    if output.on_terminal() and found:
        output.say(Text(_totals(found), style="dim"))


@commands.command(rich_help_panel=PANEL, epilog="Example: headwater show 3f2a")
def show(
    ctx: typer.Context,
    id_: Id,
    polls: Annotated[int, typer.Option(min=0, max=500, help="How many polls to show.")] = 10,
    json: output.Json = False,
) -> None:
    """Show all that is known of a source, with its last polls."""
    card, now = invocation(ctx).do(lambda app: _card(app, id_, polls))
    if json:
        history = output.plain(PollRecordOut.of(poll) for poll in card.polls)
        output.show_json(SourceOut.of(card.view).plain() | {"polls": history})
        return
    _show_card(card.view, now)
    if card.polls:
        rows = [_poll_row(poll, now) for poll in card.polls]
        output.say("")
        output.show_table(_POLL_COLUMNS, rows, empty="", title="Last polls")


@commands.command(rich_help_panel=PANEL, epilog="Example: headwater explain 3f2a")
def explain(ctx: typer.Context, id_: Id, json: output.Json = False) -> None:
    """Say when a source will be polled next and why, step by step."""
    explanation, now = invocation(ctx).do(lambda app: _explained(app, id_))
    if json:
        output.show_json(ExplanationOut.of(explanation).plain())
        return
    for index, step in enumerate(explanation.steps, start=1):
        line = Text(f"{index}. ", style="dim").append(step.what, style="bold")
        line.append(f": {step.detail}", style="none")
        if step.at is not None:
            line.append(f" ({words.when(step.at, now)}, {words.clock(step.at)})", style="cyan")
        output.say(line)
    next_at = explanation.next_poll_at
    told = "not scheduled" if next_at is None else words.coming(next_at, now)
    exact = "" if next_at is None else f" ({words.clock(next_at)})"
    output.say(Text(f"Next poll: {told}{exact}", style="bold"))


async def _listed(
    call: Invocation, app: App, wanted: SourceFilter, limit: int | None, health: Health | None
) -> tuple[list[SourceView], datetime]:
    user, podcast = await call.place(app)
    wanted = SourceFilter(podcast.id, wanted.type, None, wanted.host, None, wanted.text)
    now = app.clock.now()
    found: list[SourceView] = []
    at_most = limit if health is None else None
    async for page in list_sources(app.store, wanted, limit=at_most):
        shown = await views(app.store, user.id, page, now, app.policy)
        found += [view for view in shown if health in (None, view.health)]
        if limit is not None and len(found) >= limit:
            break
    return found[:limit], now


async def _card(app: App, wanted: str, polls: int) -> tuple[SourceCard, datetime]:
    source = await find_source(app.store, wanted)
    now = app.clock.now()
    return await card_of(app.store, source.id, now, app.policy, polls=polls), now


async def _explained(app: App, wanted: str) -> tuple[Explanation, datetime]:
    source = await find_source(app.store, wanted)
    now = app.clock.now()
    return await explanation_of(app.store, source.id, now, app.policy), now


def _row(view: SourceView, now: datetime) -> list[output.Cell]:
    source = view.source
    on_terminal = output.on_terminal()
    return [
        source.id[:8] if on_terminal else source.id,
        Text(view.health.value, style=words.HEALTH_STYLE[view.health]),
        (source.label or source.url) if on_terminal else source.url,
        source.type.value,
        view.host or "–",
        _last_poll(view, now),
        _next_poll(view, now),
        _interval(view),
        str(source.consecutive_failures),
        f"{view.post_count:,}" if on_terminal else str(view.post_count),
    ]


def _last_poll(view: SourceView, now: datetime) -> str:
    source = view.source
    polled = source.last_success_at or source.consecutive_failures or source.last_error
    return words.when(source.last_polled if polled else None, now)


def _next_poll(view: SourceView, now: datetime) -> output.Cell:
    if view.source.requested_at is not None and view.hold is None:
        return Text("requested", style="cyan")
    told = words.coming(view.next_poll_at, now)
    return Text(f"{told} (hold)", style="yellow") if view.hold is not None else told


def _interval(view: SourceView) -> output.Cell:
    own = view.source.poll_interval_minutes
    if view.interval_minutes == own:
        return words.minutes(own)
    return Text(f"{words.minutes(own)} → {words.minutes(view.interval_minutes)}", style="yellow")


def _totals(found: list[SourceView]) -> str:
    counts = {health: sum(view.health is health for view in found) for health in Health}
    parts = [f"{count:,} {health}" for health, count in counts.items() if count]
    return f"{words.counted(len(found), 'source')}: {', '.join(parts)}"


def _show_card(view: SourceView, now: datetime) -> None:
    source = view.source
    health = Text(view.health.value, style=words.HEALTH_STYLE[view.health])
    delay = f"{view.delay_seconds:g} s after each poll"
    output.show_card(
        {
            "ID": source.id,
            "URL": source.url,
            "Label": source.label,
            "Type": source.type.value,
            "Host": view.host,
            "Podcast": source.podcast_id,
            "Health": health,
            "Disabled because": source.disabled_reason,
            "Failing since": _moment(source.failing_since, now),
            "Failures": str(source.consecutive_failures) if source.consecutive_failures else None,
            "Last error": source.last_error,
            "Last poll": _last_poll(view, now),
            "Last success": words.when(source.last_success_at, now),
            "Next poll": _next_poll(view, now),
            "Hold": None if view.hold is None else view.hold.reason,
            "Interval": _interval(view),
            "Delay": delay,
            "Late entries": _optional(source.late_entry_hours, "h"),
            "Max failures": _optional(source.max_failures),
            "Max backoff": _optional(source.max_backoff_hours, "h"),
            "Aggregate": {None: "auto", True: "always", False: "never"}[source.aggregate],
            "History": "included" if source.include_history else "from the day it was added",
            "Posts": f"{view.post_count:,}",
            "Articles": f"{view.article_count:,}",
            "Added": _moment(source.created_at, now),
        },
        title=source.label or source.url,
    )


def _poll_row(poll: PollRecord, now: datetime) -> list[output.Cell]:
    return [
        words.when(poll.started_at, now) if output.on_terminal() else words.clock(poll.started_at),
        Text(poll.outcome.value, style=words.OUTCOME_STYLE[poll.outcome]),
        "–" if poll.status is None else str(poll.status),
        str(poll.new_posts),
        str(sum(poll.skipped.values())),
        str(poll.size),
        str(poll.duration_ms),
        poll.error or "",
    ]


def _moment(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else f"{words.when(moment, now)} ({words.clock(moment)})"


def _optional(value: int | None, unit: str = "") -> str | None:
    return None if value is None else f"{value} {unit}".strip()
