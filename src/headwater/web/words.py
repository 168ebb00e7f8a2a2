"""Moments, lengths and numbers as people say them."""

from datetime import datetime, timedelta

from headwater.model import Health, Source
from headwater.rules.explanation import span
from headwater.rules.urls import masked

HEALTH_WORDS = {
    Health.OK: "fine",
    Health.NEW: "new",
    Health.FAILING: "failing",
    Health.DISABLED: "disabled",
}
_CAUSES = {
    "DNS": "the name does not exist",
    "URL": "the address cannot be visited",
    "local": "this machine could not ask",
    "timeout": "no answer in time",
    "TLS": "certificate not valid",
    "connection": "no connection",
    "address": "private address",
    "redirect": "redirects to nowhere",
    "too large": "answer too large",
    "broken body": "answer cut short",
    "busy": "another host had no turn",
    "hold": "on hold",
    "key": "no API key",
    "parse": "not a feed",
    "no content": "no text",
    "too expensive": "too costly to read",
    "unexpected": "something unknown",
}


def ago(moment: datetime | None, now: datetime) -> str:
    """`5 min ago`, `in 12 min`, `now`, or `never`."""
    if moment is None:
        return "never"
    seconds = (moment - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    told = span(abs(seconds))
    return f"in {told}" if seconds > 0 else f"{told} ago"


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


def cause(kind: str) -> str:
    """A kind of failure in a few words."""
    return f"HTTP {kind}" if kind.isdigit() else _CAUSES.get(kind, kind)


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
