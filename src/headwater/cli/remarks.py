"""What polls leave to say beyond their numbers: why entries were skipped, what got disabled."""

from collections import Counter
from collections.abc import Collection, Sequence

from headwater.app import App
from headwater.cli import words
from headwater.model import OutcomeKind, SkipReason, Source
from headwater.operations.polling import PollReport
from headwater.rules.admission import article_age


async def remarks(app: App, reports: Sequence[PollReport], off: Collection[str]) -> list[str]:
    """Lines about polls that have just ended; `off`: sources that were disabled before."""
    lines = await _skips(app, reports)
    for report in reports:
        if report.outcome is OutcomeKind.FAILED and report.source.id not in off:
            lines += await _disabled(app, report.source)
    return lines


async def _skips(app: App, reports: Sequence[PollReport]) -> list[str]:
    counts: Counter[SkipReason] = Counter()
    for report in reports:
        counts.update(report.skipped)
    if not counts.total():
        return []
    days: set[int | None] = set()
    for report in reports:
        if report.skipped.get(SkipReason.TOO_OLD):
            subject = await app.store.sources.subject(report.source.id)
            days.add(subject.max_article_age_days if subject is not None else None)
    age = article_age(days.pop(), app.policy) if len(days) == 1 else None
    behind = [r.source.id for r in reports if r.skipped.get(SkipReason.BEFORE_CREATION)]
    wanted = behind[0][:8] if len(behind) == 1 else "ID"
    remedy = f"`headwater edit {wanted} --include-history`"
    return [f"Skipped: {words.skips(counts, age, remedy=remedy)}"]


async def _disabled(app: App, polled: Source) -> list[str]:
    """A line if the poll was the one that disabled its source."""
    subject = await app.store.sources.subject(polled.id)  # a poll elsewhere reports the old state
    if subject is None or subject.source.enabled or subject.source.disabled_reason is None:
        return []
    name = polled.label or polled.url
    again = f"`headwater enable {polled.id[:8]}` starts it again"
    return [f"Disabled {name}: {subject.source.disabled_reason}; {again}"]
