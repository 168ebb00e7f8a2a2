"""The command that polls now: here, or through the service that runs (S10)."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from headwater.api.schemas import PollOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.cli.progress import Watched, watch
from headwater.cli.remarks import remarks
from headwater.cli.rounds import Polls, impatient, interruptible, poll_all
from headwater.errors import UsageError
from headwater.model import OutcomeKind, Subject
from headwater.operations.overview import list_sources
from headwater.operations.polling import PollReport
from headwater.operations.sources import find_source
from headwater.store.sources import SourceFilter

commands = typer.Typer()
_COLUMNS = (
    output.Column("Outcome"),
    output.wide("Source"),
    output.number("Status"),
    output.number("New"),
    output.spare(output.number("Skipped")),
    output.spare(output.number("ms")),
    output.wide("Error"),
)
_MOST_ROWS = 40  # on a terminal; failures and new posts come first
_MOST_ERRORS = 5  # told in full below the table


@commands.command(
    rich_help_panel="Polling", epilog="Example: headwater poll --url https://example.org/feed"
)
def poll(
    ctx: typer.Context,
    source: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="This source; may be given again.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="The source with this URL.")] = None,
    due: Annotated[bool, typer.Option("--due", help="What is due: one tick.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Every enabled source now.")] = False,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Wait no longer than this.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Poll sources now and say what came of it."""
    chosen = sum((source is not None, url is not None, due, all_))
    if chosen != 1:
        raise UsageError("say what to poll: one of --source ID, --url URL, --due or --all")
    call = invocation(ctx)
    wanted = [url] if url is not None else source
    _show(*call.do(lambda app: _polled(call, app, wanted, due=due, wait=wait)), json=json)


def poll_and_show(call: Invocation, source_ids: Sequence[str], *, json: bool = False) -> None:
    """Poll sources that another command made."""
    _show(*call.do(lambda app: _polled(call, app, source_ids, due=False, wait=None)), json=json)


async def _polled(
    call: Invocation, app: App, wanted: Sequence[str] | None, *, due: bool, wait: float | None
) -> tuple[Watched, list[str]]:
    subjects = [] if due else await _subjects(call, app, wanted)
    polls = Polls(subjects, due=due)
    off = {subject.source.id for subject in subjects if not subject.source.enabled}
    with watch(polls) as watched, interruptible():
        await poll_all(impatient(app), polls, watched.take, wait_seconds=wait)
    return watched, await remarks(app, watched.reports, off)


async def _subjects(call: Invocation, app: App, wanted: Sequence[str] | None) -> list[Subject]:
    if wanted is not None:
        ids = [(await find_source(app.store, name)).id for name in wanted]
    else:
        _, podcast = await call.place(app)
        enabled = SourceFilter(podcast_id=podcast.id, enabled=True)
        ids = [s.id async for page in list_sources(app.store, enabled) for s in page]
    found = [await app.store.sources.subject(source_id) for source_id in dict.fromkeys(ids)]
    return [subject for subject in found if subject is not None]


def _show(watched: Watched, told: Sequence[str], *, json: bool) -> None:
    reports = watched.reports
    if json:
        output.show_json(
            [
                {"sourceId": r.source.id, "url": r.source.url, **PollOut.of(r).plain()}
                for r in reports
            ]
        )
    else:
        _show_table(reports)
        if output.on_terminal():  # the table cuts what is long
            failed = [r for r in reports if r.error][:_MOST_ERRORS]
            told = [*(f"Failed {r.source.label or r.source.url}: {r.error}" for r in failed), *told]
        for line in told:  # beside a table that a script reads
            output.say(line) if output.on_terminal() else output.note(line)
    if watched.unfinished:
        count = words.counted(watched.unfinished, "poll")
        stay = "it stays" if watched.unfinished == 1 else "they stay"
        output.note(f"headwater: {count} did not end in time; {stay} requested")
    if watched.unfinished or any(r.outcome is OutcomeKind.FAILED for r in reports):
        raise typer.Exit(1)


def _show_table(reports: Sequence[PollReport]) -> None:
    on_terminal = output.on_terminal()
    shown = list(reports)
    if on_terminal:
        shown = sorted(shown, key=lambda r: (r.outcome is not OutcomeKind.FAILED, -r.new_posts))
    cut = shown[:_MOST_ROWS] if on_terminal else shown
    output.show_table(_COLUMNS, [_row(r) for r in cut], empty="Nothing to poll.")
    if not on_terminal or not reports:
        return
    if len(cut) < len(shown):
        output.say(Text(f"… and {len(shown) - len(cut):,} more", style="dim"))
    counts = {kind: sum(r.outcome is kind for r in reports) for kind in OutcomeKind}
    told = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    new = words.counted(sum(r.new_posts for r in reports), "new post")
    output.say(Text(f"{words.counted(len(reports), 'poll')}: {told}; {new}", style="bold"))


def _row(report: PollReport) -> list[output.Cell]:
    source = report.source
    name = (source.label or source.url) if output.on_terminal() else source.url
    return [
        Text(report.outcome.value, style=words.OUTCOME_STYLE[report.outcome]),
        name,
        "–" if report.status is None else str(report.status),
        str(report.new_posts),
        str(sum(report.skipped.values())),
        str(report.duration_ms),
        report.error or "",
    ]
