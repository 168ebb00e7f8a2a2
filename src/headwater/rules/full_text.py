"""Full text of the pages that entries link to: which are visited, which texts are used (T4)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from textwrap import shorten

from headwater.model import (
    Completeness,
    Entry,
    FailureType,
    Outcome,
    Post,
    Source,
    SourceType,
    Validators,
    changed,
)
from headwater.rules.completeness import completeness
from headwater.rules.urls import url_host
from headwater.source_settings import FullText

MAX_PAGES_PER_POLL = 20
MAX_COMPARED = 3  # entries that a preview compares with their pages
MAX_ATTEMPTS = 3
GIVE_UP_AFTER = timedelta(hours=6)  # after the first attempt
ARTICLES_WAIT = timedelta(hours=1)  # for a page, before an article is made without it
_RETRY_AFTER = (timedelta(minutes=10), timedelta(hours=1))  # after the first and second attempt
_RETRY_LOCAL = timedelta(minutes=1)  # after a failure of our own network, which is not an attempt

MIN_GAIN = 1.3  # length of the page's text, in lengths of the feed's text
MIN_SHARED = 0.5  # share of the feed's words that the page must have
_MAX_WORDS = 300  # of the feed's text that are compared
_FEW_WORDS = 5  # with fewer long words, short ones are compared too
_LONG_WORD = 4  # characters: shorter words such as "the" are in every text of a language
_STEM = 6  # characters that are compared: "approves" is "approved"
_WORD = re.compile(r"[^\W_]+")
_WITHOUT_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff]")
# What a page says instead of its text. Longer pages may mention it in passing.
_WALL_LENGTH = 2_000
_MAX_SHOWN = 60  # characters of it in the reason; whole words
_WALL = re.compile(
    r"""\b(?:
        (?:enable|activate|turn\ on|requires?|without)\ (?:your\ )?(?:java\s?script|cookies)
        | (?:accept|allow|agree\ to|consent\ to)\ (?:all\ |the\ use\ of\ |our\ )?cookies
        | (?:verify|confirm|prove|checking)\ (?:that\ |if\ )?(?:you\ are|you're|your\ browser)
        | are\ you\ a\ (?:human|robot) | access\ (?:to\ this\ page\ )?(?:is\ |has\ been\ )?denied
        | (?:log|sign)\ ?in\ to\ (?:continue|read|view|your\ account) | forgot\ (?:your\ )?password
        | already\ (?:a\ subscriber|have\ an\ account|a\ member)
        | subscrib(?:e|ers)\b.{0,40}\b(?:continue|keep|read|access)
        | (?:article|content|story)\ is\ (?:for|reserved\ for)\ (?:subscribers|members)
        | (?:cookies?|alle)\ akzeptieren | melden\ sie\ sich\ an | accepter\ les\ cookies
        | aceptar\ (?:las\ )?cookies | inicia\ sesión | connectez-vous
    )\w*""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PageVisit:
    """The pending visit to the page of a post."""

    post: Post
    host: str
    attempts: int
    not_before: datetime
    give_up_at: datetime | None  # None: there was no attempt yet


@dataclass(frozen=True, slots=True)
class PageResult:
    """What a visit to a page changes."""

    visit: PageVisit
    outcome: Outcome  # of the page as if it were a source
    page: Entry | None = None  # its text is used
    error: str | None = None  # why no text is used
    retry: PageVisit | None = None  # None: no further attempt

    @property
    def kind(self) -> str:
        """The result in one word."""
        if self.page is not None:
            return "used"
        if self.retry is not None:
            return "retried"
        return "rejected" if self.outcome.failure is None else "failed"


RESULT_KINDS = ("used", "rejected", "retried", "failed")


@dataclass(frozen=True, slots=True)
class PageComparison:
    """An entry of a feed, compared with its page."""

    url: str
    feed_length: int  # of its text, in characters
    page_length: int | None  # None: the page could not be read
    error: str | None  # why the text of the page would not be used


@dataclass(frozen=True, slots=True)
class FullTextAdvice:
    """Whether `fullText` is worthwhile for a feed, and why."""

    worthwhile: bool
    reason: str
    compared: tuple[PageComparison, ...] = ()


def pages_to_visit(source: Source, posts: Sequence[Post]) -> list[tuple[Post, str]]:
    """The posts of a poll whose pages are visited, each with the host of its page."""
    if source.full_text is FullText.OFF or source.type is not SourceType.RSS:
        return []
    newest_first = sorted(posts, key=lambda post: post.seq or 0, reverse=True)
    shown = (post for post in newest_first if post.filtered_by is None)  # B2
    linked = [(post, page_host(source, post.url)) for post in shown]
    return [(post, host) for post, host in linked if host is not None][:MAX_PAGES_PER_POLL]


def page_host(source: Source, url: str | None) -> str | None:
    """The host of the page that an entry links to; None: it has none, but the source's URL."""
    if url is None or url == source.url or not url.startswith(("http://", "https://")):
        return None
    return url_host(url)


def entries_to_compare(source: Source, entries: Sequence[Entry]) -> list[Entry]:
    """The first entries of a feed that may have more text on their own page."""
    linked = (entry for entry in entries if page_host(source, entry.url) is not None)
    short = (entry for entry in linked if entry.completeness is not Completeness.FULL)
    return list(islice(short, MAX_COMPARED))


def compared_page(entry: Entry, page_text: str) -> PageComparison:
    """An entry and the text of its page."""
    error = reason_against(entry.body, page_text)
    return PageComparison(entry.url or "", len(entry.body), len(page_text), error)


def full_text_advice(compared: Sequence[PageComparison]) -> FullTextAdvice:
    """Recommend `fullText` if the text of most of the compared pages would be used."""
    if not compared:
        return FullTextAdvice(worthwhile=False, reason="the feed has the whole text of its entries")
    used = [one for one in compared if one.error is None]
    if 2 * len(used) > len(compared):
        feed, page = (
            sum(lengths) // len(used)
            for lengths in (
                [one.feed_length for one in used],
                [one.page_length or 0 for one in used],
            )
        )
        text = f"the pages have {page:,} characters of text on average, the feed {feed:,}"
        return FullTextAdvice(worthwhile=True, reason=text, compared=tuple(compared))
    cause = next(one.error for one in compared if one.error is not None)
    text = f"{len(used)} of {len(compared)} pages have more text; {cause}"
    return FullTextAdvice(worthwhile=False, reason=text, compared=tuple(compared))


def is_visit_due(visit: PageVisit, now: datetime) -> bool:
    """Whether a page is to be visited now, also if a clock that was wrong has set its time."""
    return visit.not_before <= now or visit.not_before > now + GIVE_UP_AFTER


def visited_page(source: Source, url: str) -> Source:
    """A page as a source whose host is visited: with the delay of `own_delay` (P2)."""
    host = url_host(url)
    return changed(source, {
        "url": url, "host": host, "poll_delay_seconds": own_delay(source, host),
        "validators": Validators(), "body_hash": None, "hold": None,
    })  # fmt: skip


def own_delay(source: Source, host: str | None) -> int | None:
    """The delay that a source sets for its own host applies to its pages there as well (P2)."""
    return source.poll_delay_seconds if host == source.host else None


def fetched_page(visited: Source) -> Source:
    """The same as a source that is fetched and parsed as a page."""
    return changed(visited, {"type": SourceType.WEBSITE, "watch": None})


def result_of_page(visit: PageVisit, outcome: Outcome, page: Entry) -> PageResult:
    """The result of a visit that returned a page: its text is used, or why not."""
    if error := reason_against(visit.post.body, page.body):
        return PageResult(visit, outcome, error=error)
    return PageResult(visit, outcome, page=page)


def failed_visit(visit: PageVisit, outcome: Outcome, now: datetime) -> PageResult:
    """The result of a visit that failed: another attempt, or none if that is pointless."""
    failure = outcome.failure
    assert failure is not None
    result = PageResult(visit, outcome, error=f"the page could not be read: {failure.message}")
    if failure.local:
        return postponed(result, now)
    attempts, give_up_at = visit.attempts + 1, visit.give_up_at or now + GIVE_UP_AFTER
    # a name that does not exist may be an outage that is not detected yet
    is_final = failure.type is FailureType.PERMANENT and failure.kind != "DNS"
    if is_final or attempts >= MAX_ATTEMPTS:
        return result
    not_before = now + _RETRY_AFTER[attempts - 1]
    if outcome.hold is not None:
        not_before = max(not_before, outcome.hold.until)
    if not_before > give_up_at:
        return result
    retry = replace(visit, attempts=attempts, give_up_at=give_up_at, not_before=not_before)
    return replace(result, retry=retry)


def postponed(result: PageResult, now: datetime) -> PageResult:
    """The same visit again, without counting it: an outage on our side explains its result."""
    return replace(result, retry=replace(result.visit, not_before=now + _RETRY_LOCAL))


def page_completeness(page: Entry) -> Completeness:
    """Whether the text of a used page is the whole story (T3)."""
    return completeness(page.body, has_content=True)


def reason_against(feed_text: str, page_text: str) -> str | None:
    """Why the text of a page is not used instead of the feed's; None: it is used."""
    if wall := wall_in(page_text):
        return f"the page shows “{wall}” instead of the text"
    if len(page_text) < MIN_GAIN * len(feed_text):
        return (
            f"the page has no more text than the feed: {len(page_text):,} characters instead of "
            f"{len(feed_text):,}"
        )
    share = shared_words(feed_text, page_text)
    if share < MIN_SHARED:
        return f"the page is about something else: it has {share:.0%} of the words of the feed"
    return None


def wall_in(page_text: str) -> str | None:
    """What a page shows instead of its text: a login, a block or consent; None: nothing of that."""
    wall = _WALL.search(page_text) if len(page_text) < _WALL_LENGTH else None
    return None if wall is None else shorten(wall[0], _MAX_SHOWN, placeholder="…")


def shared_words(feed_text: str, page_text: str) -> float:
    """The share of the feed's words that the page has too, from 0 to 1."""
    wanted = list(dict.fromkeys(_words(feed_text, longer=True)))
    if len(wanted) < _FEW_WORDS:
        wanted = list(dict.fromkeys(_words(feed_text, longer=False)))
    wanted = wanted[:_MAX_WORDS]
    if not wanted:
        return 0.0
    there = set(_words(page_text, longer=False))
    return sum(word in there for word in wanted) / len(wanted)


def _words(text: str, *, longer: bool) -> list[str]:
    """The words of a text; of scripts without spaces, pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if _WITHOUT_SPACES.search(word):
            found += [word[i : i + 2] for i in range(max(len(word) - 1, 1))]
        elif not longer or len(word) >= _LONG_WORD:
            found.append(word[:_STEM])
    return found
