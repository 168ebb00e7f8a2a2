"""Lost feeds: when the site of a feed is searched for another one, and in which steps (Y5).

A search visits the page at the feed's URL and the site's front page, and fetches the feeds that
they link to. It has one step at a time, and stops at the first page that links to a feed that can
be read.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from headwater.model import (
    FailureType,
    Outcome,
    Source,
    SourceType,
    Suggestion,
    SuggestionKind,
)
from headwater.rules.admission import suggestion_id
from headwater.rules.url_secrets import masked
from headwater.rules.urls import url_host

MIN_PAUSE = timedelta(days=7)  # between two searches for a source
MAX_CANDIDATES = 3  # feeds that are fetched in one search
RETRY_AFTER = timedelta(hours=1)  # during an outage or a storm of the host
_COMMENTS = re.compile(r"comment|kommentar|commentaire|replies", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundFeed:
    """A feed that a page links to and that could be read."""

    url: str
    title: str | None
    page: str  # that links to it


@dataclass(frozen=True, slots=True)
class FeedSearch:
    """The state of a search; its first step is the next one."""

    source_id: str
    feed_url: str  # the lost one
    started_at: datetime
    not_before: datetime  # of the next step
    pages: tuple[str, ...]  # still to be visited
    candidates: tuple[str, ...] = ()  # feeds still to be fetched
    page: str = ""  # that links to the candidates
    visited: int = 0  # pages
    fetched: tuple[str, ...] = ()  # candidates
    found: tuple[FoundFeed, ...] = ()
    problem: str | None = None  # why the last page could not be read

    @property
    def next_url(self) -> str | None:
        """What is visited next; None: the search is over."""
        if self.is_candidate_next:
            return self.candidates[0]
        return self.pages[0] if self.pages and not self.found else None

    @property
    def is_candidate_next(self) -> bool:
        """Whether the next step fetches a feed instead of a page."""
        return bool(self.candidates) and len(self.fetched) < MAX_CANDIDATES


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What one step of a search changes."""

    before: FeedSearch
    after: FeedSearch
    outcome: Outcome  # of the visited page as if it were a source


def wants_search(outcome: Outcome) -> bool:
    """Whether a failed poll shows that a feed is lost: it is gone, or has become a page.

    A feed that never worked is searched for when failures disable it: a single failure may be
    a wrong URL that is corrected soon.
    """
    failure = outcome.failure
    if failure is None or failure.local or failure.by_host:
        return False
    if outcome.source.type is not SourceType.RSS:
        return False
    is_lost = failure.type is FailureType.PERMANENT or failure.is_page
    return is_lost and (outcome.before.first_poll_done or outcome.disabled)


def new_search(source: Source, now: datetime) -> FeedSearch:
    """The search for another feed on the site of a source."""
    front = front_page(source.url)
    pages = (source.url,) if front is None else (source.url, front)
    return FeedSearch(source.id, source.url, now, now, pages)


def front_page(url: str) -> str | None:
    """The front page of a URL's site; None if the URL is that page."""
    parts = urlsplit(url)
    site = f"{parts.scheme}://{parts.netloc}/"
    return site if url not in (site, site[:-1]) else None


def is_still_wanted(search: FeedSearch, source: Source) -> bool:
    """Whether a search continues: the source still has its URL, and still fails."""
    is_same = source.url == search.feed_url and source.type is SourceType.RSS
    if not source.enabled and source.disabled_reason is None:
        return False  # a user disabled it meanwhile
    return is_same and source.consecutive_failures > 0


def after_page(search: FeedSearch, linked: Sequence[tuple[str, str]], now: datetime) -> FeedSearch:
    """The search after a visit to a page with links to feeds, given as URL and title.

    Feeds of comments come last.
    """
    known = {search.feed_url, *search.fetched}
    links = sorted(linked, key=lambda link: _COMMENTS.search(" ".join(link)) is not None)
    candidates = tuple(dict.fromkeys(url for url, _ in links if url not in known))
    return replace(
        search,
        not_before=now,
        pages=search.pages[1:],
        page=search.pages[0],
        visited=search.visited + 1,
        candidates=candidates,
        problem=None,
    )


def after_unreadable_page(search: FeedSearch, problem: str, now: datetime) -> FeedSearch:
    """The search after a visit to a page that could not be read."""
    return replace(after_page(search, (), now), problem=problem)


def after_candidate(
    search: FeedSearch, now: datetime, *, is_feed: bool, title: str | None = None
) -> FeedSearch:
    """The search after a candidate was fetched."""
    url = search.candidates[0]
    found = (*search.found, FoundFeed(url, title, search.page)) if is_feed else search.found
    rest, fetched = search.candidates[1:], (*search.fetched, url)
    return replace(search, not_before=now, candidates=rest, fetched=fetched, found=found)


def result_text(search: FeedSearch) -> str:
    """What came of a search, in one line."""
    if search.found:
        number = len(search.found)
        return f"found {number} feed{'s' if number > 1 else ''} on {masked(search.found[0].page)}"
    pages = "the page at its URL" + (" and the front page" if search.visited > 1 else "")
    if search.fetched:
        number = len(search.fetched)
        many = "the feed that is" if number == 1 else f"none of the {number} feeds that are"
        cannot = "cannot" if number == 1 else "can"
        return f"{many} linked from {pages} {cannot} be read"
    text = f"no other feed is linked from {pages}"
    return text if search.problem is None else f"{text}; the last one: {search.problem}"


def found_suggestions(search: FeedSearch, now: datetime) -> Iterable[Suggestion]:
    """The feeds that were found, as suggestions for the source."""
    for feed in search.found:
        id_ = suggestion_id(search.source_id, SuggestionKind.FEED, feed.url)
        detail = {"url": feed.url, "title": feed.title, "found_on": feed.page}
        yield Suggestion(id_, SuggestionKind.FEED, detail, now)


def host_of_step(search: FeedSearch) -> str | None:
    """The host in whose lane the next step runs; None: the search is over."""
    return None if search.next_url is None else url_host(search.next_url)
