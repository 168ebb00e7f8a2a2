"""The apply command: podcasts and sources as a YAML file says (V3)."""

import json as json_
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
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
from headwater.store.expiry import ExpiringCounts

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

    async def applied(app: App, user: User, *, confirmed: bool) -> _Shown:
        now, allowed = app.clock.now(), app.settings.fetch.allow_private_networks
        planner = Planner(user, now, allowed, prune)
        most = app.settings.limits.max_sources_per_user
        change = ConfigurationChange(app.store, app.clock, planner, configured, most)
        plan = await change.plan()
        if not json and not confirmed:
            _show(plan)
        check = DeletionCheck(now, app.policy)
        if dry_run:
            return _Shown(plan, await change.would_delete(plan, check))
        await change.apply(plan, None if confirmed or yes else check)
        return _Shown(plan)

    try:
        shown = call.do_for_user(
            lambda app, user: applied(app, user, confirmed=False),
            creates=not dry_run,
            needs_none=dry_run,
        )
    except WouldDelete as error:
        deleted = _deleted(ExpiringCounts(error.articles, error.posts))
        output.confirm(f"This deletes {deleted} at once. Go on?", yes=False)
        shown = call.do_for_user(lambda app, user: applied(app, user, confirmed=True))
    if json:
        output.show_json({"applied": not dry_run} | _as_json(shown))
    else:
        for line in _summary(shown, dry_run=dry_run):
            output.note(line)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A plan and, of a dry run, what it would delete at once (E5)."""

    plan: list[PlannedChange]
    would_delete: ExpiringCounts | None = None


def _as_json(shown: _Shown) -> dict[str, Any]:
    deletes = {} if shown.would_delete is None else {"wouldDelete": asdict(shown.would_delete)}
    return {"changes": [_json(one) for one in shown.plan]} | deletes


def _deleted(counts: ExpiringCounts) -> str:
    articles = humanize.counted(counts.articles, "unprocessed article")
    return f"{articles} and {humanize.counted(counts.posts, 'waiting post')}"


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


def _summary(shown: _Shown, *, dry_run: bool) -> Iterator[str]:
    """What was done, or would be, in lines."""
    if not shown.plan:
        yield "Nothing to change."
        return
    counts = Counter(one.action for one in shown.plan)
    parts = ", ".join(f"{counts[one]:,} {one}" for one in PlanAction if counts[one])
    yield f"Nothing was changed (--dry-run): {parts}" if dry_run else f"Applied: {parts}"
    if shown.would_delete is not None and shown.would_delete != ExpiringCounts(0, 0):
        yield f"Applying it deletes {_deleted(shown.would_delete)} at once."
