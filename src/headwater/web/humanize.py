"""Formats times, durations and numbers for pages."""

import re
from collections.abc import Mapping
from datetime import datetime

from markupsafe import Markup, escape

from headwater.model import (
    Health,
    OutcomeKind,
    PollRecord,
    Post,
    SkipReason,
    Source,
    SourceType,
    TextFrom,
)
from headwater.rules.explanation import span
from headwater.rules.url_secrets import masked
from headwater.web.texts import TEXTS

HEALTH_LABELS = {
    Health.OK: "fine",
    Health.NEW: "new",
    Health.FAILING: "failing",
    Health.DISABLED: "disabled",
}
OUTCOME_LABELS = {
    OutcomeKind.STORED: "new posts",
    OutcomeKind.UNCHANGED: "nothing new",
    OutcomeKind.FAILED: "failed",
}
OUTCOME_TONES = {  # the class of a tag
    OutcomeKind.STORED: "accent",
    OutcomeKind.UNCHANGED: "good",
    OutcomeKind.FAILED: "bad",
}
_TOPS = (10, 12, 16, 20, 30, 40, 50, 60, 80, 100)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_CODE = re.compile("`([^`]+)`")
_TIME = Markup('<time datetime="{0}" data-clock>{0}</time>')


def ago(moment: datetime | None, now: datetime) -> str:
    """Return `5 min ago`, `in 12 min`, `now`, or `never`."""
    if moment is None:
        return "never"
    seconds = (moment - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    length = span(abs(seconds))
    return f"in {length}" if seconds > 0 else f"{length} ago"


def until(moment: datetime, now: datetime) -> str:
    """Return `in 12 min`, or `now` if that is past."""
    return ago(moment, now) if moment > now else "now"


def utc(moment: datetime) -> str:
    """Return a time in ISO 8601; the script shows it in the viewer's time zone."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 post`, `1,200 posts`; `plural` if it has no `s` added."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def count(number: int) -> str:
    """Return a number with thousands separators."""
    return f"{number:,}"


def minutes(number: int) -> str:
    """Return a duration in minutes in its largest units."""
    return span(number * 60)


def name_of(source: Source) -> str:
    """Return a source's label, else its title, else its URL (T5)."""
    return source.label or source.title or shown_url(source.url)


def shown_url(url: str) -> str:
    """Return a URL without its scheme, secrets masked."""
    return masked(url).removeprefix("https://").removeprefix("http://")


def link(url: str | None) -> str | None:
    """Return the URL if it may be a link: http or https only (U4)."""
    return url if url is not None and url.lower().startswith(("http://", "https://")) else None


def delay_origin(text: str) -> str:
    """Return where a delay is set, in the terms of the pages."""
    return text.replace("pollDelaySeconds", "delay setting")


def with_moments(text: str) -> Markup:
    """Return a text as HTML; the script shows its times in the viewer's time zone."""
    pieces = _MOMENT.split(text)  # every second one is a time
    shown = (_TIME.format(piece) if n % 2 else escape(piece) for n, piece in enumerate(pieces))
    return Markup("").join(shown)


def with_code(text: str) -> Markup:
    """Return a text as HTML, with what is between backticks as code."""
    pieces = _CODE.split(text)  # every second one is code
    shown = (
        Markup("<code>{}</code>").format(piece) if n % 2 else escape(piece)
        for n, piece in enumerate(pieces)
    )
    return Markup("").join(shown)


def seconds(number: float) -> str:
    """Return a duration in seconds: `2 s`, `0.5 s`, `5 min`."""
    return span(number) if number >= 60 else f"{number:g} s"


def excerpt(text: str, most: int = 280) -> str:
    """Return the beginning of a text on one line, cut between words."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most:
        return line
    kept = line[:most]
    return f"{kept.rpartition(' ')[0] or kept} …"


def text_of(post: Post, source: Source | None) -> str:
    """Return the text of a post; if the page that a feed links to was read, that one (T4)."""
    is_of_feed = source is not None and source.type is SourceType.RSS
    is_read = is_of_feed and post.text_from is TextFrom.PAGE
    return (post.page_text or post.body) if is_read else post.body


def score_text(score: float) -> str:
    """Return a score: `8.5`, `11`; its scale is known to its maker only (E4)."""
    return f"{score:.6g}"


def round_top(highest: int) -> int:
    """Return the even number at which a scale up to this value ends."""
    if highest <= _TOPS[0]:
        return max(highest + highest % 2, 2)
    size = 1
    while highest > _TOPS[-1] * size:
        size *= 10
    return next(top * size for top in _TOPS if top * size >= highest)


def duration(milliseconds: int) -> str:
    """Return `412 ms`, `1.9 s`, `58 s`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def new_posts(number: int) -> str:
    """Return `1 new post`, `12 new posts`."""
    return f"{number:,} new post{'' if number == 1 else 's'}"


def skips(counts: Mapping[SkipReason, int]) -> str:
    """Return how many entries were skipped, by reason."""
    labels = TEXTS["skipped"]
    return ", ".join(f"{counts[why]:,} {labels[why]}" for why in SkipReason if counts.get(why))


def poll_summary(poll: PollRecord) -> str:
    """Return everything about a poll but its time, on one line."""
    parts = [
        new_posts(poll.new_posts) if poll.new_posts else OUTCOME_LABELS[poll.outcome],
        None if poll.status is None else f"HTTP {poll.status}",
        duration(poll.duration_ms),
        poll.error,
    ]
    return " · ".join(part for part in parts if part)


def sentence(text: object) -> str:
    """Return an error as a sentence."""
    line = str(text)
    return f"{line[:1].upper()}{line[1:].rstrip('.')}."
