"""Commands that change sources: add, edit, enable, disable, remove."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import CliContext, invocation
from headwater.cli.poll import poll_and_show, show_first_poll
from headwater.cli.setting_options import Clear, changes_from, setting_options
from headwater.cli.show_sources import Id
from headwater.errors import DuplicateUrl, FetchError, HeadwaterError, UsageError
from headwater.model import SourceType, Suggestion
from headwater.operations import suggestions
from headwater.operations.source_views import SourceView, missing_key, view_of
from headwater.operations.sources import edit_source, find_source, remove_source
from headwater.rules.failure_kinds import one_line
from headwater.source_settings import SettingValues

if TYPE_CHECKING:  # it takes a while to import, and `list` and others need none of it
    from headwater.operations.add_source import Addition

commands = typer.Typer()


@commands.command(
    epilog="Example: headwater add https://example.org/feed --label News --interval 60 --poll",
)
@setting_options(without=["url"])
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="A feed, a page, a profile, or @name on X.")],
    poll: Annotated[bool, typer.Option("--poll", help="Poll it at once.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Add it only if a visit can read it.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Add it even if the podcast has this address.")
    ] = False,
    *,
    json: output.Json = False,
    **settings: Any,
) -> None:
    """Add a source; a visit finds out its type if not given."""
    call, wanted = invocation(ctx), settings | {"url": url}
    try:
        added, advice = call.do(
            lambda app: _added(call, app, wanted, check=check, unique=not again),
            creates=True,
        )
    except DuplicateUrl as error:
        if not sys.stdin.isatty():
            raise HeadwaterError(f"{error}; --again adds it again") from error
        output.confirm(f"{str(error).capitalize()}. Add it again?", yes=False)
        added, advice = call.do(lambda app: _added(call, app, wanted, check=check, unique=False))
    source, outcome = added.source, added.outcome
    if not json:
        output.say(f"Added {source.id} {source.type} {source.url}")
        for line in advice:
            output.note(line)
    if poll and outcome is not None:
        show_first_poll(call, outcome, json=json)
    elif poll:
        poll_and_show(call, [source.id], json=json)
    elif json:
        view = call.do(lambda app: _view(app, source.id))
        output.show_json(output.schema_json("SourceCreatedOut", view, added))


@commands.command(epilog="Example: headwater edit 3f2a --interval 120 --clear delay")
@setting_options()
def edit(
    ctx: typer.Context,
    id_: Id,
    *,
    clear: Clear = None,
    json: output.Json = False,
    **settings: Any,
) -> None:
    """Change settings of a source."""
    changes = changes_from(settings, clear or ())
    if not changes:
        raise UsageError("there is nothing to change: name at least one setting")
    _change(ctx, id_, changes, "Changed", json=json)


@commands.command(epilog="Example: headwater enable 3f2a")
def enable(ctx: typer.Context, id_: Id, json: output.Json = False) -> None:
    """Enable a source, reset its failures, and request a poll."""
    _change(ctx, id_, {"enabled": True}, "Enabled", json=json)


@commands.command(epilog="Example: headwater disable 3f2a")
def disable(ctx: typer.Context, id_: Id, json: output.Json = False) -> None:
    """Disable a source until it is enabled again."""
    _change(ctx, id_, {"enabled": False}, "Disabled", json=json)


@commands.command(epilog="Example: headwater accept 3f2a")
def accept(
    ctx: typer.Context,
    id_: Id,
    suggestion: Annotated[
        str, typer.Argument(help="Its id, or the beginning of it; `headwater show` lists them.")
    ] = "",
    dismiss: Annotated[
        bool, typer.Option("--dismiss", help="Reject it: it is not made again.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the URL that was changed by the last one.")
    ] = False,
    *,
    json: output.Json = False,
) -> None:
    """Change a source as one of its suggestions says."""
    if undo:
        _undo(ctx, id_, json=json)
        return

    async def closed(app: App) -> tuple[SourceView, Suggestion]:
        source = await find_source(app.store, id_)
        there = (await _view(app, source.id)).suggestions
        chosen = [one for one in there if one.id.startswith(suggestion)]
        if len(chosen) != 1:
            ids = ", ".join(one.id for one in there)
            what = f"name one of: {ids}" if there else "the source has no open suggestion"
            raise UsageError(what if not suggestion else f"no suggestion {suggestion!r}; {what}")
        if dismiss:
            await suggestions.dismiss(app.store, source, chosen[0].id)
        else:
            await suggestions.accept(app.store, source, chosen[0].id, app.clock.now())
        return await _view(app, source.id), chosen[0]

    view, chosen = invocation(ctx).do(closed)
    if json:
        output.show_json(output.schema_json("SourceOut", view))
        return
    verb = "Dismissed" if dismiss else "Accepted"
    output.say(f"{verb} {chosen.id} of {view.source.id}: {suggestions.summary(chosen)}")


def _undo(ctx: typer.Context, id_: str, *, json: bool) -> None:
    """Restore the URL that a source had before its last accepted suggestion."""

    async def undone(app: App) -> SourceView:
        source = await find_source(app.store, id_)
        moved = (await _view(app, source.id)).moved_from
        if moved is None:
            raise UsageError("no suggestion has changed the URL of the source lately")
        await suggestions.undo(app.store, source, moved.id, app.clock.now())
        return await _view(app, source.id)

    view = invocation(ctx).do(undone)
    if json:
        output.show_json(output.schema_json("SourceOut", view))
        return
    output.say(f"{view.source.id} has the URL {view.source.url} again")


@commands.command(epilog="Example: headwater remove 3f2a --yes")
def remove(ctx: typer.Context, id_: Id, yes: output.Yes = False) -> None:
    """Remove a source with its posts, articles and history."""
    call = invocation(ctx)

    async def found(app: App) -> SourceView:
        return await _view(app, (await find_source(app.store, id_)).id)

    view = call.do(found)
    posts = humanize.counted(view.post_count, "post")
    articles = humanize.counted(view.article_count, "article")
    output.confirm(f"Remove {view.source.url} with {posts} and {articles}?", yes=yes)
    call.do(lambda app: remove_source(app.store, view.source))
    output.say(f"Removed {view.source.id} {view.source.url}")


async def _added(
    call: CliContext, app: App, wanted: SettingValues, *, check: bool, unique: bool
) -> tuple["Addition", list[str]]:
    """Add a source, and return it with advice for its owner."""
    user, podcast = await call.user_and_podcast(app)
    try:
        added = await app.additions.add(
            podcast, wanted, lambda _: app.visitor(), check=check, unique=unique
        )
    except FetchError as error:
        message = f"the visit failed: {one_line(error)}"
        if not check:
            message += f"; to add it unvisited, give --type {'|'.join(SourceType)}"
        raise HeadwaterError(message) from error
    source, advice = added.source, list[str]()
    if added.recognised_as is not None and source.url != wanted["url"]:
        advice.append(f"The address was recognised as {added.recognised_as}.")
    edit = f"headwater edit {source.id[:8]} --type rss --url"
    advice += [
        f"The page has a feed; to poll that instead: {edit} {one.url}" for one in added.feeds
    ]
    missing = await missing_key(app.store, source, user.id)
    if missing is not None:
        advice.append(f"API key: none; {missing}")
    return added, advice


async def _view(app: App, source_id: str) -> SourceView:
    return await view_of(app.store, source_id, app.clock.now(), app.policy)


def _change(
    ctx: typer.Context, wanted: str, changes: dict[str, Any], verb: str, *, json: bool
) -> None:
    async def changed(app: App) -> SourceView:
        source = await find_source(app.store, wanted)
        allowed = app.settings.fetch.allow_private_networks
        await edit_source(app.store, source.id, changes, app.clock.now(), allowed=allowed)
        return await _view(app, source.id)

    view = invocation(ctx).do(changed)
    if json:
        output.show_json(output.schema_json("SourceOut", view))
        return
    follows = "; a poll is requested" if view.source.requested_at is not None else ""
    output.say(f"{verb} {view.source.id} {view.source.url}{follows}")
