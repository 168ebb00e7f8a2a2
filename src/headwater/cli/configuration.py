"""The apply command: podcasts and sources as a YAML file says (V3)."""

import json as json_
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, Styled, wide
from headwater.cli.opml import read_input
from headwater.errors import WouldDelete
from headwater.formats.configuration_file import MAX_BYTES, read_configuration
from headwater.model import User
from headwater.operations.configuration import ConfigurationChange
from headwater.operations.configuration_plan import PlanAction, PlannedChange, Planner
from headwater.operations.users_and_podcasts import DeletionCheck

commands = typer.Typer()
_STYLES = {PlanAction.ADDED: "green", PlanAction.CHANGED: "yellow", PlanAction.REMOVED: "red"}
_MAX_VALUE = 60  # characters of a value in the table


@commands.command(epilog="Example: headwater apply podcasts.yaml --dry-run")
def apply(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file; - reads standard input.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Also remove and reset what the file does not name."),
    ] = False,
    yes: output.Yes = False,
    json: output.Json = False,
) -> None:
    """Apply a YAML file of podcasts, sources and filters.

    Shows what changes first. What the file does not name stays as it is, unless --prune is given.
    A lower age limit that deletes something at once has to be confirmed.
    """
    configured = read_configuration(read_input(file, MAX_BYTES), str(file))
    call = invocation(ctx)

    async def applied(app: App, user: User, *, confirmed: bool) -> list[PlannedChange]:
        now, allowed = app.clock.now(), app.settings.fetch.allow_private_networks
        planner = Planner(user, now, allowed, prune)
        most = app.settings.limits.max_sources_per_user
        change = ConfigurationChange(app.store, app.clock, planner, configured, most)
        plan = await change.plan()
        if not json and not confirmed:
            _show(plan)
        if not dry_run:
            check = None if confirmed or yes else DeletionCheck(now, app.policy)
            await change.apply(plan, check)
        return plan

    try:
        plan = call.do_for_user(lambda app, user: applied(app, user, confirmed=False), creates=True)
    except WouldDelete as error:
        articles = humanize.counted(error.articles, "unprocessed article")
        posts = humanize.counted(error.posts, "waiting post")
        output.confirm(f"This deletes {articles} and {posts} at once. Go on?", yes=False)
        plan = call.do_for_user(lambda app, user: applied(app, user, confirmed=True))
    if json:
        output.show_json({"applied": not dry_run, "changes": [_json(one) for one in plan]})
    else:
        output.note(_summary(plan, dry_run=dry_run))


def _show(plan: Sequence[PlannedChange]) -> None:
    columns: tuple[Column[PlannedChange], ...] = (
        Column("Action", lambda one: Styled(one.action, _STYLES[one.action])),
        Column("Kind", lambda one: one.kind),
        wide("Podcast", lambda one: one.podcast, min_width=8),
        wide("Name", lambda one: one.name),
        wide("Changes", _changes),
    )
    if plan:
        output.show_table(columns, plan)


def _changes(planned: PlannedChange) -> str:
    """The settings of a change in one line."""
    if planned.action is PlanAction.ADDED:
        return ", ".join(f"{one.name}: {_value(one.after)}" for one in planned.changes)
    return ", ".join(
        f"{one.name}: {_value(one.before)} → {_value(one.after)}" for one in planned.changes
    )


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json_.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def _json(planned: PlannedChange) -> dict[str, Any]:
    changes = [
        {"name": one.name, "before": one.before, "after": one.after} for one in planned.changes
    ]
    return {
        "action": planned.action,
        "kind": planned.kind,
        "podcast": planned.podcast,
        "name": planned.name,
        "changes": changes,
    }


def _summary(plan: Sequence[PlannedChange], *, dry_run: bool) -> str:
    if not plan:
        return "Nothing to change."
    counts = Counter(one.action for one in plan)
    parts = ", ".join(f"{counts[one]:,} {one}" for one in PlanAction if counts[one])
    return f"Nothing was changed (--dry-run): {parts}" if dry_run else f"Applied: {parts}"
