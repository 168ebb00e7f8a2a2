"""Shows how far a round of polls is, on a terminal only."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from headwater.cli import output, words
from headwater.cli.rounds import Polls
from headwater.model import OutcomeKind
from headwater.operations.polling import PollReport


@dataclass
class Watched:
    """The reports that came in, and a bar for them."""

    polls: Polls
    bar: Progress | None
    task: TaskID | None = None
    reports: list[PollReport] = field(default_factory=list)

    @property
    def unfinished(self) -> int:
        """How many polls did not end."""
        return len(self.polls.waiting)

    def take(self, report: PollReport) -> None:
        """Count a report."""
        self.reports.append(report)
        if self.bar is not None and self.task is not None:
            total = max(self.polls.found, len(self.reports))
            self.bar.update(
                self.task, completed=len(self.reports), total=total, counts=_counts(self.reports)
            )


@contextmanager
def watch(polls: Polls) -> Iterator[Watched]:
    """Show a bar while polls come in."""
    if not sys.stderr.isatty():
        yield Watched(polls, None)
        return
    bar = Progress(
        TextColumn("Polling"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}"),
        console=output.console(errors=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=polls.found or None, counts="")
        yield Watched(polls, bar, task)


def _counts(reports: list[PollReport]) -> str:
    counts = Counter(report.outcome for report in reports)
    styles = words.OUTCOME_STYLE
    return " ".join(f"[{styles[k]}]{counts[k]} {k}[/]" for k in OutcomeKind if counts[k])
