"""Commands that show one source: show, explain."""

import asyncio
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from headwater.api.schemas import ExplanationOut, PollRecordOut, SourceOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import invocation
from headwater.cli.listing import PANEL, Id, coming, interval, next_poll
from headwater.model import PollRecord
from headwater.operations.overview import (
    SourceCard,
    SourceView,
    card_of,
    explanation_of,
    view_of,
)
from headwater.operations.sources import find_source
from headwater.rules.explanation import Explanation

commands = typer.Typer()
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


@commands.command(rich_help_panel=PANEL, epilog="Example: headwater show 3f2a")
def show(
    ctx: typer.Context,
    id_: Id,
    polls: Annotated[int, typer.Option(min=0, max=500, help="How many polls to show.")] = 10,
    json: output.Json = False,
) -> None:
    """Show all that is known of a source, with its last polls."""
    card, now, alone = invocation(ctx).do(lambda app: _card(app, id_, polls))
    if json:
        history = output.plain(PollRecordOut.of(poll) for poll in card.polls)
        output.show_json(SourceOut.of(card.view).plain() | {"polls": history})
        return
    _show_card(card.view, now, alone=alone)
    if card.polls:
        rows = [_poll_row(poll, now) for poll in card.polls]
        output.say("")
        output.show_table(_POLL_COLUMNS, rows, empty="", title="Last polls")


@commands.command(rich_help_panel=PANEL, epilog="Example: headwater explain 3f2a")
def explain(ctx: typer.Context, id_: Id, json: output.Json = False) -> None:
    """Say when a source will be polled next and why, step by step."""
    explanation, view, now, alone = invocation(ctx).do(lambda app: _explained(app, id_))
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
    exact = "" if next_at is None else f" ({words.clock(next_at)})"
    told = f"{coming(view, now)}{exact}{_condition(view, alone=alone)}"
    if next_at is None and not view.source.enabled:
        told = "none while it is disabled"
    output.say(Text(f"Next poll: {told}", style="bold"))


async def _card(app: App, wanted: str, polls: int) -> tuple[SourceCard, datetime, bool]:
    source = await find_source(app.store, wanted)
    now = app.clock.now()
    card = await card_of(app.store, source.id, now, app.policy, polls=polls)
    return card, now, await _is_alone(app)


async def _explained(app: App, wanted: str) -> tuple[Explanation, SourceView, datetime, bool]:
    source = await find_source(app.store, wanted)
    now = app.clock.now()
    explanation = await explanation_of(app.store, source.id, now, app.policy)
    view = await view_of(app.store, source.id, now, app.policy)
    return explanation, view, now, await _is_alone(app)


async def _is_alone(app: App) -> bool:
    """Whether nobody polls this database just now."""
    return not await asyncio.to_thread(app.store.database.is_claimed)


def _condition(view: SourceView, *, alone: bool) -> str:
    """What must happen before the next poll can."""
    waits = view.source.enabled or view.source.requested_at is not None
    return ", once `headwater serve` runs, or a worker" if alone and waits else ""


def _show_card(view: SourceView, now: datetime, *, alone: bool) -> None:
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
            "Last poll": words.when(view.polled_at, now),
            "Last success": words.when(source.last_success_at, now),
            "Next poll": Text.assemble(next_poll(view, now), _condition(view, alone=alone)),
            "Hold": _hold(view, now),
            "Interval": interval(view),
            "Delay": delay,
            "Late entries": _optional(source.late_entry_hours, "h"),
            "Max failures": _optional(source.max_failures),
            "Max backoff": _optional(source.max_backoff_hours, "h"),
            "Aggregate": {None: "auto", True: "always", False: "never"}[source.aggregate],
            "History": "included" if source.include_history else "from the moment it was added",
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


def _hold(view: SourceView, now: datetime) -> str | None:
    hold = view.hold
    return None if hold is None else f"until {_moment(hold.until, now)}: {hold.reason}"


def _moment(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else f"{words.clock(moment)} ({words.when(moment, now)})"


def _optional(value: int | None, unit: str = "") -> str | None:
    return None if value is None else f"{value} {unit}".strip()
