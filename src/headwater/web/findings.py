"""What a preview found, in the words of the page that shows it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.fetch.feed_links import FeedLink
from headwater.model import Entry, SkipReason, SourceType
from headwater.operations.preview import Preview
from headwater.operations.sources import MAX_LABEL

_MOST_SHOWN = 12  # entries; whoever looks wants to see what they are like
_LONGEST = 240  # characters of a body
TYPE_WORDS = {
    SourceType.RSS: "Feed",
    SourceType.WEBSITE: "Web page",
    SourceType.TWITTER: "X timeline",
}
_FORMATS = {
    "application/rss+xml": "RSS",
    "application/atom+xml": "Atom",
    "application/feed+json": "JSON Feed",
    "application/rdf+xml": "RDF",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One entry as the page shows it."""

    title: str
    url: str | None
    published_at: datetime | None
    excerpt: str
    why_not: str | None  # None: it becomes a post
    is_older: bool  # it becomes one if older entries are included


@dataclass(frozen=True, slots=True)
class Finding:
    """What is at a URL, ready to be shown."""

    type: SourceType
    kind: str
    url: str
    title: str
    redirected_to: str | None
    complete: bool
    total: int
    stored: int
    older: int
    others: Sequence[tuple[int, str]]  # how many entries are skipped in any case, and why
    entries: Sequence[Seen]
    feeds: Sequence[tuple[FeedLink, str]]  # with the name of the format
    error: str | None

    @property
    def hidden(self) -> int:
        """How many entries there are beyond those shown."""
        return self.total - len(self.entries)


def finding_of(found: Preview, age: timedelta) -> Finding:
    """A preview as its page shows it; `age` is how old posts of the podcast may be (D2)."""
    source = found.source
    reasons = Counter(reason for _, reason in found.verdicts)
    skipped = [reason for reason in SkipReason if reason is not SkipReason.BEFORE_CREATION]
    return Finding(
        type=source.type,
        kind=TYPE_WORDS[source.type],
        url=source.url,
        title=_title(found)[:MAX_LABEL],
        redirected_to=found.redirected_to,
        complete=found.complete,
        total=len(found.verdicts),
        stored=reasons[None],
        older=reasons[SkipReason.BEFORE_CREATION],
        others=[(reasons[r], why_skipped(r, age)) for r in skipped if reasons[r]],
        entries=[_seen(entry, reason, age) for entry, reason in found.verdicts[:_MOST_SHOWN]],
        feeds=[(feed, _FORMATS.get(feed.type, "feed")) for feed in found.feeds],
        error=found.error,
    )


def why_skipped(reason: SkipReason, age: timedelta) -> str:
    """Why an entry does not become a post."""
    days = f"{age.days:,} day{'' if age.days == 1 else 's'}"
    return {
        SkipReason.ALREADY_SEEN: "no newer than the last seen",
        SkipReason.DUPLICATE: "the same text as another entry",
        SkipReason.TOO_OLD: f"older than {days}, this podcast's limit",
        SkipReason.BEFORE_CREATION: "published before you added it",
        SkipReason.EMPTY: "without any text",
    }[reason]


def _title(found: Preview) -> str:
    """What a source calls itself: its label, unless somebody knows better."""
    if found.source.type is SourceType.WEBSITE and found.verdicts:
        return found.verdicts[0][0].title
    return found.title or ""


def _seen(entry: Entry, reason: SkipReason | None, age: timedelta) -> Seen:
    text = entry.body if entry.body != entry.title else ""
    return Seen(
        title=entry.title,
        url=entry.url,
        published_at=entry.published_at,
        excerpt=text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()}…",
        why_not=None if reason is None else why_skipped(reason, age),
        is_older=reason is SkipReason.BEFORE_CREATION,
    )
