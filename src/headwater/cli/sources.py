"""Commands that change sources: add, edit, enable, disable, remove."""

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from headwater.api.schemas import SourceOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.cli.listing import PANEL, Id
from headwater.cli.polling import poll_and_show
from headwater.errors import FetchError, HeadwaterError, UsageError
from headwater.model import Source, SourceType
from headwater.operations.overview import SourceView, missing_key, view_of
from headwater.operations.preview import Look, Previewer
from headwater.operations.sources import (
    SourceSettings,
    add_source,
    edit_source,
    find_source,
    given,
    new_source,
    remove_source,
    type_of_url,
)
from headwater.rules.failure import one_line

commands = typer.Typer()

Type = Annotated[SourceType | None, typer.Option("--type", help="What it is.")]
Label = Annotated[str | None, typer.Option(help="A name for people.")]
Interval = Annotated[int | None, typer.Option(metavar="MINUTES", help="Rest between polls.")]
Delay = Annotated[int | None, typer.Option(metavar="SECONDS", help="Pause of its host's lane.")]
MaxFailures = Annotated[
    int | None, typer.Option(metavar="N", help="Permanent failures in a row that disable it.")
]
MaxBackoff = Annotated[int | None, typer.Option(metavar="HOURS", help="Longest rest by failures.")]
LateEntries = Annotated[
    int | None, typer.Option(metavar="HOURS", help="Take entries that appear so late.")
]
History = Annotated[
    bool | None, typer.Option("--include-history/--no-include-history", help="Old entries too.")
]
Aggregate = Annotated[
    bool | None, typer.Option("--aggregate/--no-aggregate", help="Digests instead of single posts.")
]


class Optional(StrEnum):
    """Settings that can be taken back."""

    LABEL = "label"
    DELAY = "delay"
    MAX_FAILURES = "max-failures"
    MAX_BACKOFF_HOURS = "max-backoff-hours"
    LATE_ENTRY_HOURS = "late-entry-hours"
    AGGREGATE = "aggregate"


@commands.command(
    rich_help_panel=PANEL,
    epilog="Example: headwater add https://example.org/feed --label News --interval 60 --poll",
)
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="A feed, a page, or @name on X.")],
    type_: Type = None,
    poll: Annotated[bool, typer.Option("--poll", help="Poll it at once.")] = False,
    label: Label = None,
    interval: Interval = None,
    delay: Delay = None,
    max_failures: MaxFailures = None,
    max_backoff_hours: MaxBackoff = None,
    late_entry_hours: LateEntries = None,
    include_history: History = None,
    aggregate: Aggregate = None,
    json: output.Json = False,
) -> None:
    """Add a source; a visit finds out its type if not given."""
    call = invocation(ctx)
    wanted = SourceSettings(
        type=type_,
        url=url,
        label=label,
        poll_interval_minutes=interval,
        poll_delay_seconds=delay,
        max_failures=max_failures,
        max_backoff_hours=max_backoff_hours,
        late_entry_hours=late_entry_hours,
        include_history=include_history,
        aggregate=aggregate,
    )
    source, advice = call.do(lambda app: _added(call, app, wanted))
    if not json:
        output.say(f"Added {source.id} {source.type} {source.url}")
        for line in advice:
            output.note(line)
    if poll:
        poll_and_show(call, [source.id], json=json)
    elif json:
        output.show_json(SourceOut.of(call.do(lambda app: _view(app, source.id))).plain())


@commands.command(
    rich_help_panel=PANEL, epilog="Example: headwater edit 3f2a --interval 120 --clear delay"
)
def edit(
    ctx: typer.Context,
    id_: Id,
    url: Annotated[str | None, typer.Option(help="Where it is now.")] = None,
    type_: Type = None,
    label: Label = None,
    interval: Interval = None,
    delay: Delay = None,
    max_failures: MaxFailures = None,
    max_backoff_hours: MaxBackoff = None,
    late_entry_hours: LateEntries = None,
    include_history: History = None,
    aggregate: Aggregate = None,
    clear: Annotated[list[Optional] | None, typer.Option(help="Back to the default.")] = None,
    json: output.Json = False,
) -> None:
    """Change settings of a source."""
    changes = given(
        SourceSettings(
            type=type_,
            url=url,
            label=label,
            poll_interval_minutes=interval,
            poll_delay_seconds=delay,
            max_failures=max_failures,
            max_backoff_hours=max_backoff_hours,
            late_entry_hours=late_entry_hours,
            include_history=include_history,
            aggregate=aggregate,
        )
    )
    for name in clear or ():
        if changes.get(_field(name)) is not None:
            raise UsageError(f"--{name} and --clear {name} contradict each other")
        changes[_field(name)] = None
    if not changes:
        raise UsageError("there is nothing to change: name at least one setting")
    _change(ctx, id_, changes, "Changed", json=json)


@commands.command(rich_help_panel=PANEL, epilog="Example: headwater enable 3f2a")
def enable(ctx: typer.Context, id_: Id, json: output.Json = False) -> None:
    """Switch a source on, with a clean record, and ask for a poll."""
    _change(ctx, id_, {"enabled": True}, "Enabled", json=json)


@commands.command(rich_help_panel=PANEL, epilog="Example: headwater disable 3f2a")
def disable(ctx: typer.Context, id_: Id, json: output.Json = False) -> None:
    """Switch a source off until somebody enables it."""
    _change(ctx, id_, {"enabled": False}, "Disabled", json=json)


@commands.command(rich_help_panel=PANEL, epilog="Example: headwater remove 3f2a --yes")
def remove(
    ctx: typer.Context,
    id_: Id,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a source with its posts, articles and history."""
    call = invocation(ctx)
    view = call.do(lambda app: _found(app, id_))
    if not yes:
        posts = words.counted(view.post_count, "post")
        articles = words.counted(view.article_count, "article")
        question = f"Remove {view.source.url} with {posts} and {articles}?"
        typer.confirm(question, abort=True, err=True)
    call.do(lambda app: remove_source(app.store, view.source.id))
    output.say(f"Removed {view.source.id} {view.source.url}")


async def _added(call: Invocation, app: App, wanted: SourceSettings) -> tuple[Source, list[str]]:
    """Add a source, and say what its owner may want to do next."""
    user, podcast = await call.place(app)
    now, named = app.clock.now(), list[str]()
    if wanted.type is None and wanted.url is not None and type_of_url(wanted.url) is None:
        look = await _look(app, new_source(podcast.id, wanted, now))
        wanted = replace(wanted, type=look.type)
        named = [feed.url for feed in look.feeds]
    most = app.settings.limits.max_sources_per_user
    source = await add_source(app.store, podcast.id, wanted, now, most=most)
    missing = await missing_key(app.store, source, user.id)
    instead = f"`headwater edit {source.id[:8]} --type rss --url URL` follows that instead"
    advice = [f"The page names a feed, {url}; {instead}" for url in named]
    if missing is not None:
        advice.append(f"API key: none; {missing}")
    return source, advice


async def _look(app: App, candidate: Source) -> Look:
    async with app.network() as network:
        try:
            previewer = Previewer(
                network.fetcher, network.parsers, app.store, app.clock, app.policy
            )
            return await previewer.look(candidate)
        except FetchError as error:
            kinds = "|".join(SourceType)
            raise HeadwaterError(
                f"the visit to find out the type failed: {one_line(error)}; "
                f"to add it unvisited, give --type {kinds}"
            ) from error


async def _found(app: App, wanted: str) -> SourceView:
    source = await find_source(app.store, wanted)
    return await _view(app, source.id)


async def _view(app: App, source_id: str) -> SourceView:
    return await view_of(app.store, source_id, app.clock.now(), app.policy)


def _change(
    ctx: typer.Context, wanted: str, changes: dict[str, Any], verb: str, *, json: bool
) -> None:
    async def changed(app: App) -> SourceView:
        source = await find_source(app.store, wanted)
        await edit_source(app.store, source.id, changes, app.clock.now())
        return await _view(app, source.id)

    view = invocation(ctx).do(changed)
    if json:
        output.show_json(SourceOut.of(view).plain())
        return
    follows = "; a poll is requested" if view.source.requested_at is not None else ""
    output.say(f"{verb} {view.source.id} {view.source.url}{follows}")


def _field(name: Optional) -> str:
    return "poll_delay_seconds" if name is Optional.DELAY else name.value.replace("-", "_")
