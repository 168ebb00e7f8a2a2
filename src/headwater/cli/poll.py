"""The poll command: polls now, in this process or in the service that runs (S10)."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import CliContext, invocation
from headwater.cli.columns import Column, Styled, number, wide
from headwater.errors import AlreadyPolling, UsageError
from headwater.garbage_collection import collect_garbage_rarely
from headwater.model import Outcome, OutcomeKind, SkipReason, Subject
from headwater.operations.manual_polls import (
    PollReport,
    hand_over,
    poll_due,
    poll_sources,
    report_of,
)
from headwater.operations.preview import subject_of
from headwater.operations.source_views import list_sources
from headwater.operations.sources import find_source
from headwater.rules.admission import article_age
from headwater.store.sources import SourceFilter

if TYPE_CHECKING:  # a pipe has no progress bar, and rich takes a while to import
    from rich.progress import Progress

commands = typer.Typer()
_COLUMNS: tuple[Column[PollReport], ...] = (
    Column("Outcome", lambda report: humanize.styled_outcome(report.outcome)),
    wide("Source", lambda report: humanize.source_name(report.source)),
    number("Status", lambda report: "–" if report.status is None else report.status),
    number("New", lambda report: report.new_posts),
    number("Skipped", lambda report: sum(report.skipped.values()), optional=1),
    number("ms", lambda report: report.duration_ms, optional=1),
    wide("Error", lambda report: report.error or ""),
)
_MAX_ROWS = 40  # on a terminal; failures and new posts come first
_MAX_ERRORS = 5  # printed in full below the table
_LOCK_SECONDS = 2.0  # how often to check whether the other process still polls
_DRAIN_SECONDS = 1  # polls that are cut off stay requested


@commands.command(epilog="Example: headwater poll --url https://example.org/feed")
def poll(
    ctx: typer.Context,
    source: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="This source; may be repeated.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="The source with this URL.")] = None,
    due: Annotated[bool, typer.Option("--due", help="All sources that are due: one tick.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="All enabled sources.")] = False,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Wait no longer than this.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Poll sources now and report the outcomes."""
    chosen = sum((source is not None, url is not None, due, all_))
    if chosen != 1:
        raise UsageError("say what to poll: one of --source ID, --url URL, --due or --all")
    call = invocation(ctx)
    collect_garbage_rarely()
    wanted = [url] if url is not None else source
    _show(*call.do(lambda app: _polled(call, app, wanted, due=due, wait=wait)), json=json)


def poll_and_show(call: CliContext, source_ids: Sequence[str], *, json: bool = False) -> None:
    """Poll sources that another command has added, and report the outcomes."""
    _show(*call.do(lambda app: _polled(call, app, source_ids, due=False, wait=None)), json=json)


def show_first_poll(call: CliContext, outcome: Outcome, *, json: bool) -> None:
    """Report the poll of a source that a command visited in order to add it."""
    session, report = PollSession([]), report_of(outcome)
    session.add(report)
    _show(session, call.do(lambda app: _messages(app, [report], ())), json=json)


async def _polled(
    call: CliContext, app: App, wanted: Sequence[str] | None, *, due: bool, wait: float | None
) -> tuple["PollSession", list[str]]:
    tick = due and not await _is_poll_locked(app)
    subjects = [] if tick else await _subjects(call, app, wanted, due=due)
    disabled = {subject.source.id for subject in subjects if not subject.source.enabled}
    session = PollSession(subjects)
    seconds = min(app.settings.shutdown_seconds, _DRAIN_SECONDS)
    settings = app.settings.model_copy(update={"shutdown_seconds": seconds})
    with session.progress_bar(), _interruptible():
        await _poll_all(replace(app, settings=settings), session, tick=tick, wait_seconds=wait)
    return session, await _messages(app, session.reports, disabled)


async def _subjects(
    call: CliContext, app: App, wanted: Sequence[str] | None, *, due: bool
) -> list[Subject]:
    if due:
        ids = [source.id for source in await app.store.sources.due(app.clock.now(), app.policy)]
    elif wanted is not None:
        ids = [(await find_source(app.store, name)).id for name in wanted]
    else:
        _, podcast = await call.user_and_podcast(app)
        enabled = SourceFilter(podcast_id=podcast.id, enabled=True)
        pages = list_sources(app.store, enabled)
        return [subject_of(source, podcast) async for page in pages for source in page]
    return list((await app.store.sources.subjects(list(dict.fromkeys(ids)))).values())


async def _messages(
    app: App, reports: Sequence[PollReport], disabled: Collection[str]
) -> list[str]:
    """Return lines about skipped entries and newly disabled sources.

    `disabled` has the ids of sources that were disabled before the poll.
    """
    counts: Counter[SkipReason] = Counter()
    days: set[int | None] = set()
    lines = []
    for report in reports:
        counts.update(report.skipped)
        too_old = report.skipped.get(SkipReason.TOO_OLD)
        failed = report.outcome is OutcomeKind.FAILED and report.source.id not in disabled
        if not too_old and not failed:
            continue
        subject = await app.store.sources.subject(report.source.id)
        if too_old:
            days.add(None if subject is None else subject.max_article_age_days)
        source = report.source if subject is None else subject.source  # as the poll left it
        if failed and not source.enabled and source.disabled_reason is not None:
            command = f"`headwater enable {source.id[:8]}` enables it again"
            name = source.label or source.title or source.url
            lines.append(f"Disabled {name}: {source.disabled_reason}; {command}")
    if counts.total():
        age = article_age(days.pop(), app.policy) if len(days) == 1 else None
        behind = [r.source.id for r in reports if r.skipped.get(SkipReason.BEFORE_CREATION)]
        source_id = behind[0][:8] if len(behind) == 1 else "ID"
        remedy = f"`headwater edit {source_id} --include-history`"
        lines.insert(0, f"Skipped: {humanize.skips(counts, age, remedy=remedy)}")
    return lines


def _show(session: "PollSession", messages: Sequence[str], *, json: bool) -> None:
    reports, unfinished = session.reports, len(session.waiting)
    if json:
        output.show_json(
            [
                {"sourceId": r.source.id, "url": r.source.url, **output.schema_json("PollOut", r)}
                for r in reports
            ]
        )
    else:
        _show_table(reports)
        _show_messages(reports, messages)
    if unfinished:
        count = humanize.counted(unfinished, "poll")
        stay = "it stays" if unfinished == 1 else "they stay"
        output.note(f"headwater: {count} did not end in time; {stay} requested")
    if unfinished or any(r.outcome is OutcomeKind.FAILED for r in reports):
        raise typer.Exit(1)


def _show_messages(reports: Sequence[PollReport], messages: Sequence[str]) -> None:
    if not output.on_terminal():  # a script reads the table
        for line in messages:
            output.note(line)
        return
    for report in [r for r in reports if r.error][:_MAX_ERRORS]:  # the table may cut errors
        source = report.source
        output.say(f"Failed {source.label or source.title or source.url}: {report.error}")
    for line in messages:
        output.say(line)


def _show_table(reports: Sequence[PollReport]) -> None:
    if not output.on_terminal():
        output.show_table(_COLUMNS, reports)
        return
    sorted_ = sorted(reports, key=lambda r: (r.outcome is not OutcomeKind.FAILED, -r.new_posts))
    output.show_table(_COLUMNS, sorted_[:_MAX_ROWS], empty="Nothing to poll.")
    if not reports:
        return
    if len(reports) > _MAX_ROWS:
        output.say(Styled(f"… and {len(reports) - _MAX_ROWS:,} more", "dim"))
    counts = Counter(report.outcome for report in reports)
    outcomes = ", ".join(f"{counts[kind]:,} {kind}" for kind in OutcomeKind if counts[kind])
    polls = humanize.counted(len(reports), "poll")
    new = humanize.counted(sum(r.new_posts for r in reports), "new post")
    output.say(Styled(f"{polls}: {outcomes}; {new}", "bold"))


class PollSession:
    """The sources still to poll, the reports so far, and a progress bar for them."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self.waiting = {subject.source.id: subject for subject in subjects}
        self.found = len(self.waiting)  # grows while a tick hands sources over
        self.reports: list[PollReport] = []
        self._bar: Progress | None = None

    def add(self, report: PollReport) -> None:
        """Record that a poll has ended."""
        self.waiting.pop(report.source.id, None)
        self.reports.append(report)
        if self._bar is not None:
            task, done = self._bar.task_ids[0], len(self.reports)
            total, styles = max(self.found, done), humanize.OUTCOME_STYLE
            counts = Counter(report.outcome for report in self.reports)
            parts = (f"[{styles[k]}]{counts[k]} {k}[/]" for k in OutcomeKind if counts[k])
            self._bar.update(task, completed=done, total=total, counts=" ".join(parts))

    @contextmanager
    def progress_bar(self) -> Iterator[None]:
        """Show progress while polls end, on a terminal only."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.progress import MofNCompleteColumn

        from headwater.cli.terminal import progress_bar

        self._bar = progress_bar("Polling", MofNCompleteColumn(), "{task.fields[counts]}")
        with self._bar:
            self._bar.add_task("", total=self.found or None, counts="")
            yield

    async def collect(self, reports: AsyncIterator[PollReport]) -> None:
        """Record polls as they end."""
        async for report in reports:
            self.add(report)


async def _poll_all(
    app: App, session: PollSession, *, tick: bool, wait_seconds: float | None
) -> None:
    """Run a tick or poll the session's sources; what does not end in time stays requested (P10)."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_seconds):
            if tick:
                async with app.service() as service:
                    lanes = service.lanes
                    async for report in poll_due(service):
                        found = len(lanes.in_flight()) + lanes.waiting()
                        session.found = max(session.found, found)
                        session.add(report)
            while session.waiting:
                await _poll_waiting(app, session)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C cancel the polls cleanly; a second one ends the process at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        output.note("stopping; a second Ctrl-C ends at once")
        if task is not None:
            task.cancel()

    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


async def _poll_waiting(app: App, session: PollSession) -> None:
    """Poll in this process if no other polls; else request polls while the other does."""
    subjects = list(session.waiting.values())
    if not await _is_poll_locked(app):
        with suppress(AlreadyPolling):  # another process has just started: request polls from it
            async with app.service() as service:
                await session.collect(poll_sources(service, subjects))
        return
    requested = asyncio.create_task(session.collect(hand_over(app.store, app.clock, subjects)))
    try:
        while not requested.done() and await _is_poll_locked(app):
            await asyncio.wait([requested], timeout=_LOCK_SECONDS)
        if requested.done():
            await requested
    finally:
        requested.cancel()
        await asyncio.gather(requested, return_exceptions=True)


async def _is_poll_locked(app: App) -> bool:
    return await asyncio.to_thread(app.store.database.is_poll_locked)
