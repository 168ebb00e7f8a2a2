"""Moments, lengths and numbers as people say them."""

import re
from datetime import datetime, timedelta

from markupsafe import Markup, escape

from headwater.model import Health, Source
from headwater.rules.explanation import span
from headwater.rules.urls import masked

HEALTH_WORDS = {
    Health.OK: "fine",
    Health.NEW: "new",
    Health.FAILING: "failing",
    Health.DISABLED: "disabled",
}
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_TIME = Markup('<time datetime="{0}" data-clock>{0}</time>')


def ago(moment: datetime | None, now: datetime) -> str:
    """`5 min ago`, `in 12 min`, `now`, or `never`."""
    if moment is None:
        return "never"
    seconds = (moment - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    told = span(abs(seconds))
    return f"in {told}" if seconds > 0 else f"{told} ago"


def until(moment: datetime, now: datetime) -> str:
    """`in 12 min`, or `now` once that is over."""
    return ago(moment, now) if moment > now else "now"


def utc(moment: datetime) -> str:
    """A moment for machines and for tooltips; the page's script shows it in the viewer's zone."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def count(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}"


def minutes(number: int) -> str:
    """A length in minutes in its largest units."""
    return span(timedelta(minutes=number).total_seconds())


def name_of(source: Source) -> str:
    """What a source is called in a list: its label, else its URL."""
    return source.label or shown_url(source.url)


def shown_url(url: str) -> str:
    """A URL for a list: without its scheme, secrets masked."""
    return masked(url).removeprefix("https://").removeprefix("http://")


def link(url: str | None) -> str | None:
    """A URL that may be a link: http and https alone (U4)."""
    return url if url is not None and url.lower().startswith(("http://", "https://")) else None


def delay_origin(text: str) -> str:
    """Where a delay is set, in the words of these pages."""
    return text.replace("pollDelaySeconds", "delay setting")


def with_moments(text: str) -> Markup:
    """A text whose moments the page's script shows in the viewer's zone."""
    pieces = _MOMENT.split(text)  # every second one is a moment
    shown = (_TIME.format(piece) if n % 2 else escape(piece) for n, piece in enumerate(pieces))
    return Markup("").join(shown)


def seconds(number: float) -> str:
    """A length in seconds: `2 s`, `0.5 s`, `5 min`."""
    return span(number) if number >= 60 else f"{number:g} s"


def excerpt(text: str, most: int = 280) -> str:
    """The beginning of a text on one line, cut between words."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most:
        return line
    kept = line[:most]
    return f"{kept.rpartition(' ')[0] or kept} …"
