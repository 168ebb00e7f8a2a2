"""The list, show and explain commands: the state of sources and their next polls."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import CliContext, invocation
from headwater.cli.columns import Cell, Column, Styled, number, wide
from headwater.cli.setting_options import setting_rows
from headwater.model import Health, PollDay, PollRecord, SourceType
from headwater.operations.source_views import (
    OwnedSource,
    SourceCard,
    SourceView,
    all_sources,
    card_of,
    explanation_of,
    list_sources,
    view_of,
    views,
)
from headwater.operations.sources import find_source
from headwater.operations.suggestions import summary
from headwater.rules.explanation import Explanation
from headwater.rules.health import health_of
from headwater.rules.pause_choice import is_paused
from headwater.store.key_values import PAUSED_KEY
from headwater.store.row_mapping import to_ms
from headwater.store.sources import SourceFilter

commands = typer.Typer()
_NARROW = 80  # columns
_PAGE = 500
Id = Annotated[str, typer.Argument(metavar="ID", help="Id, the beginning of one, URL or label.")]
# settings whose rows also say what follows from them
_OWN_ROWS = ("type", "url", "label", "enabled", "poll_interval_minutes", "poll_delay_seconds")


@commands.command("list", epilog="Example: headwater list --limit 20")
def list_(
    ctx: typer.Context,
    limit: Annotated[int | None, typer.Option(min=1, help="Show at most this many.")] = None,
    type_: Annotated[SourceType | None, typer.Option("--type", help="Of this type.")] = None,
    host: Annotated[str | None, typer.Option(help="Of this host.")] = None,
    health: Annotated[Health | None, typer.Option(help="With this health.")] = None,
    search: Annotated[
        str | None, typer.Option(help="With this text in URL, label or folder.")
    ] = None,
    all_users: Annotated[
        bool, typer.Option("--all-users", help="In all podcasts of all users.")
    ] = False,
    json: output.Json = False,
) -> None:
    """List sources with their health and their next poll."""
    call = invocation(ctx)
    now, wanted = call.now, SourceFilter(type=type_, host=host, text=search)
    if all_users:
        _list_all(call, replace(wanted, health=health), limit, json=json)
        return

    async def listed(app: App) -> tuple[list[SourceView], int, str, bool]:
        """Return sources, how many match, the address of the database, and whether it is paused."""
        user, podcast = await call.user_and_podcast(app)
        total, found = 0, list[SourceView]()
        async for page in list_sources(app.store, replace(wanted, podcast_id=podcast.id)):
            matching = [source for source in page if health in (None, health_of(source))]
            total += len(matching)
            room = len(matching) if limit is None else limit - len(found)
            found += await views(app.store, user.id, matching[:room], now, app.policy)
            if len(found) == limit and not output.on_terminal():
                break  # only the line below a drawn table shows the total
        return found, total, app.store.database.address, await _is_paused(app)

    shown, total, database, paused = call.do(listed)
    empty = "No source matches."
    if wanted == SourceFilter() and health is None:
        # the address: in another working directory it may be another database
        empty = f"No sources in {database}. Try: headwater add URL"
    columns = _columns(now, paused=paused)
    output.show_items(columns, shown, schema="SourceOut", json=json, empty=empty)
    if output.on_terminal() and shown and not json:
        _show_problems(shown)
        counts = {health: sum(view.health is health for view in shown) for health in Health}
        parts = [f"{count:,} {health}" for health, count in counts.items() if count]
        of = f"{len(shown):,} of " if len(shown) < total else ""
        totals = f"{of}{humanize.counted(total, 'source')}: {', '.join(parts)}"
        output.say(Styled(totals, "dim"))


def _list_all(call: CliContext, wanted: SourceFilter, limit: int | None, *, json: bool) -> None:
    """List sources of all users, by podcast in the order they were added."""
    now = call.now

    async def read(app: App) -> tuple[list[OwnedSource], bool]:
        found = list[OwnedSource]()
        while limit is None or len(found) < limit:
            size = _PAGE if limit is None else min(_PAGE, limit - len(found))
            last = found[-1].source if found else None
            after = None if last is None else (last.podcast_id, to_ms(last.created_at), last.id)
            page = await all_sources(app.store, wanted, now, app.policy, limit=size, after=after)
            found += page
            if len(page) < size:
                break
        return found, await _is_paused(app)

    found, paused = call.do(read)
    columns: tuple[Column[Any], ...] = (
        wide("User", lambda one: one.user, min_width=8),
        wide("Podcast", lambda one: one.source.podcast_id, min_width=8),
        *_columns(now, paused=paused),
    )
    empty = "No source matches."
    output.show_items(columns, found, schema="OwnedSourceOut", json=json, empty=empty)
    if output.on_terminal() and not json:
        _show_problems(found)


def _columns(now: datetime, *, paused: bool) -> tuple[Column[SourceView], ...]:
    drawn = output.on_terminal()
    narrow = drawn and output.width() < _NARROW

    def short_next_poll(view: SourceView) -> Cell:
        if view.held and narrow and not _is_waiting(view, paused=paused):
            return Styled(f"hold {coming(view, now).removeprefix('in ')}", "yellow")
        return _next_poll(view, now, paused=paused)

    return (
        Column("ID", lambda view: view.source.id[:8] if drawn else view.source.id),
        Column("Health", lambda view: humanize.styled_health(view.health)),
        wide("Source", lambda view: humanize.source_name(view.source), min_width=20),
        Column("Type", lambda view: view.source.type.value, optional=4),
        wide("Host", lambda view: view.host or "–", min_width=12, optional=6),
        Column("Last poll", lambda view: humanize.when(view.polled_at, now), optional=5),
        Column("Next poll", short_next_poll),
        Column("Interval", _interval, optional=2),
        number("Failures", lambda view: view.source.consecutive_failures, optional=3),
        number("Posts", lambda view: f"{view.post_count:{',' if drawn else ''}}", optional=1),
        *(_IN_PIPES if not drawn else ()),
    )


def _label(view: SourceView) -> str:
    return view.source.label or ""


# a table has no room for them
_IN_PIPES: tuple[Column[SourceView], ...] = (
    wide("Problem", lambda view: _problem(view)),
    Column("Label", _label),
)


def _show_problems(shown: Sequence[SourceView]) -> None:
    """Print below a drawn table why sources fail, a line for each."""
    for view in shown:
        if problem := _problem(view):
            output.say(Styled(f"{view.source.id[:8]}  ", "cyan"), problem)


def _problem(view: SourceView) -> str:
    """Return why a source fails or was given up, and whether another URL is suggested."""
    source = view.source
    failure = (source.last_error or "") if source.consecutive_failures else ""
    is_suggested = any("url" in one.detail for one in view.suggestions)
    hint = "another URL is suggested: `headwater show`" if is_suggested else ""
    return "; ".join(text for text in (source.disabled_reason or failure, hint) if text)


@commands.command(epilog="Example: headwater show 3f2a")
def show(
    ctx: typer.Context,
    id_: Id,
    polls: Annotated[int, typer.Option(min=0, max=500, help="How many polls to show.")] = 10,
    days: Annotated[int, typer.Option(min=0, max=500, help="How many days to show.")] = 0,
    json: output.Json = False,
) -> None:
    """Show everything known about a source, and its last polls."""
    call = invocation(ctx)
    now = call.now

    async def read(app: App) -> tuple[SourceCard, Sequence[PollDay], bool, bool]:
        source = await find_source(app.store, id_)
        card = await card_of(app.store, source.id, now, app.policy, polls=polls)
        by_day = await app.store.poll_days.newest(source.id, limit=days)
        return card, by_day, await _is_polled(app), await _is_paused(app)

    card, by_day, polled, paused = call.do(read)
    if json:
        history = {
            "polls": [output.schema_json("PollRecordOut", poll) for poll in card.polls],
            "days": [output.schema_json("PollDayOut", day) for day in by_day],
        }
        output.show_json(output.schema_json("SourceOut", card.view) | history)
        return
    condition = _condition(card.view, polled=polled)
    _show_source(card.view, now, _next_poll(card.view, now, condition, paused=paused))
    if card.polls:
        _show_polls(card.polls, now)
    if by_day:
        _show_days(by_day)


def _show_polls(polls: Sequence[PollRecord], now: datetime) -> None:
    columns: tuple[Column[PollRecord], ...] = (
        Column("Started", lambda poll: humanize.moment(poll.started_at, now)),
        Column("Outcome", lambda poll: humanize.styled_outcome(poll.outcome)),
        number("Status", lambda poll: "–" if poll.status is None else poll.status),
        number("New", lambda poll: poll.new_posts),
        number("Skipped", lambda poll: sum(poll.skipped.values()), optional=1),
        number("Bytes", lambda poll: poll.size, optional=1),
        number("ms", lambda poll: poll.duration_ms, optional=1),
        wide("Error", lambda poll: poll.error or ""),
    )
    output.say("")
    output.show_table(columns, polls, title="Last polls")


def _show_days(days: Sequence[PollDay]) -> None:
    columns: tuple[Column[PollDay], ...] = (
        Column("Day (UTC)", lambda day: str(day.day)),
        number("Polls", lambda day: day.stored + day.unchanged + day.failed),
        number("New", lambda day: day.new_posts),
        number("Failed", lambda day: day.failed),
        number("Bytes", lambda day: day.size, optional=1),
        wide(
            "Failures", lambda day: ", ".join(f"{k}: {n}" for k, n in sorted(day.failures.items()))
        ),
    )
    output.say("")
    output.show_table(columns, days, title="Polls by day")


@commands.command(epilog="Example: headwater explain 3f2a")
def explain(ctx: typer.Context, id_: Id, json: output.Json = False) -> None:
    """Explain step by step when a source is polled next."""
    call = invocation(ctx)
    now = call.now

    async def read(app: App) -> tuple[Explanation, SourceView, bool, bool]:
        source = await find_source(app.store, id_)
        paused = await _is_paused(app)
        explanation = await explanation_of(app.store, source.id, now, app.policy, paused=paused)
        view = await view_of(app.store, source.id, now, app.policy)
        return explanation, view, await _is_polled(app), paused

    explanation, view, polled, paused = call.do(read)
    if json:
        output.show_json(output.schema_json("ExplanationOut", explanation))
        return
    for index, step in enumerate(explanation.steps, start=1):
        at = ""
        if step.at is not None:
            at = f" ({humanize.when(step.at, now)}, {humanize.clock(step.at)})"
        what = Styled(step.what, "bold")
        output.say(Styled(f"{index}. ", "dim"), what, f": {step.detail}", Styled(at, "cyan"))
    next_at = explanation.next_poll_at
    exact = "" if next_at is None else f" ({humanize.clock(next_at)})"
    text = f"{coming(view, now)}{exact}{_condition(view, polled=polled)}"
    if next_at is None and not view.source.enabled:
        text = "none while it is disabled"
    elif _is_waiting(view, paused=paused):
        text = "none while the scheduler is paused"
    output.say(Styled(f"Next poll: {text}", "bold"))


async def _is_polled(app: App) -> bool:
    """Return whether a process polls this database at the moment."""
    return await asyncio.to_thread(app.store.database.is_poll_locked)


async def _is_paused(app: App) -> bool:
    """Return whether the scheduler is paused, by a setting or a user (G2)."""
    stored = await app.store.key_values.get(PAUSED_KEY)
    return is_paused(stored, configured=app.settings.source.paused)


def _is_waiting(view: SourceView, *, paused: bool) -> bool:
    """Return whether a source is not polled because the scheduler is paused."""
    return paused and view.source.enabled and view.source.requested_at is None


def _condition(view: SourceView, *, polled: bool) -> str:
    """Return what must be started before the next poll can happen."""
    waits = view.source.enabled or view.source.requested_at is not None
    return ", once `headwater serve` or a worker runs" if waits and not polled else ""


def _show_source(view: SourceView, now: datetime, next_poll: Styled) -> None:
    source, hold = view.source, view.hold
    output.show_fields(
        {
            "ID": source.id,
            "URL": source.url,
            "Label": source.label,
            "Title": source.title,
            "Type": source.type.value,
            "Host": view.host,
            "Podcast": source.podcast_id,
            "Health": humanize.styled_health(view.health),
            "Disabled because": source.disabled_reason,
            "Failing since": _moment(source.failing_since, now),
            "Failures": str(source.consecutive_failures) if source.consecutive_failures else None,
            "Last error": source.last_error,
            "Last poll": humanize.when(view.polled_at, now),
            "Last success": humanize.when(source.last_success_at, now),
            "Next poll": next_poll,
            "Hold": f"until {_moment(hold.until, now)}: {hold.reason}" if hold else None,
            "Interval": _interval(view),
            "Delay": f"{view.delay_seconds:g} s after each poll",
            **setting_rows(source, without=_OWN_ROWS),
            "Suggestions": _suggestions(view),
            "Moved from": _moved_from(view, now),
            "Posts": f"{view.post_count:,}",
            "Articles": f"{view.article_count:,}",
            "Added": _moment(source.created_at, now),
        },
        title=source.label or source.title or source.url,
    )


def _next_poll(view: SourceView, now: datetime, suffix: str = "", *, paused: bool) -> Styled:
    """Return when the next poll is, coloured if it is requested, paused or delayed by a hold."""
    if _is_waiting(view, paused=paused):
        return Styled("paused", "yellow")
    if view.held:
        return Styled(f"{coming(view, now)} (hold){suffix}", "yellow")
    style = "cyan" if view.source.requested_at is not None else ""
    return Styled(f"{coming(view, now)}{suffix}", style)


def coming(view: SourceView, now: datetime) -> str:
    """Return when the next poll is; before first contact only its latest time is known (P6)."""
    if view.source.requested_at is not None and not view.held:
        return "requested"
    if view.next_poll_at is None and view.source.enabled:
        return f"within {humanize.minutes(view.interval_minutes)}"
    return humanize.coming(view.next_poll_at, now)


def _interval(view: SourceView) -> Cell:
    """Return the interval, and the longer one that applies after failures."""
    own = view.source.poll_interval_minutes
    if view.interval_minutes == own:
        return humanize.minutes(own)
    return Styled(f"{humanize.minutes(own)} → {humanize.minutes(view.interval_minutes)}", "yellow")


def _suggestions(view: SourceView) -> str | None:
    """Return the open suggestions with the command that accepts one."""
    lines = [f"{one.id}: {summary(one)}" for one in view.suggestions]
    accept = f"`headwater accept {view.source.id[:8]}` accepts one"
    return "\n".join([*lines, accept]) if lines else None


def _moved_from(view: SourceView, now: datetime) -> str | None:
    """Return the previous URL with the command that restores it."""
    moved = view.moved_from
    if moved is None:
        return None
    undo = f"`headwater accept {view.source.id[:8]} --undo` restores it"
    return f"{moved.url} ({humanize.when(moved.at, now)})\n{undo}"


def _moment(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else f"{humanize.clock(moment)} ({humanize.when(moment, now)})"
