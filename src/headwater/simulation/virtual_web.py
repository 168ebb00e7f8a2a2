"""VirtualWeb: the fetch half of a poll, computed from a model of hosts without a network."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from headwater.engine.hosts.access import HostVisit
from headwater.errors import HostBusy, NotAFeed, OnHold
from headwater.model import Answer, Entry, Source, SourceType, Subject, Validators
from headwater.rules.politeness import host_of
from headwater.simulation.checker import Checker
from headwater.simulation.population import Population
from headwater.simulation.search_checks import UNREADABLE
from headwater.simulation.virtual_hosts import FAILURES, VirtualHost, VisitResult, error_of
from headwater.simulation.virtual_loop import START, VirtualClock
from headwater.source_settings import FullText

if TYPE_CHECKING:  # parsers take a while to import (decision 14)
    from headwater.fetch.page.feed_links import FeedLink

_CANDIDATES = "/candidates"
_MOST_LINKS = 6  # fewer feeds than this are linked on a front page
_ENTRIES_PER_FEED = 3
_DEFAULT_SECONDS = 0.3  # response time of hosts outside the population
_PUBLISHED_DAYS = (1, 3, 7, 14, 30, 60)  # between two entries of a source
_DATED_SECONDS = 7200.0  # between two entries of a source that falls silent
_FULL_TEXT_POSTS = 24  # times as many of a source whose pages are read
_UNEXPECTED, _TIMEOUT = FAILURES["unexpected"], FAILURES["timeout"]


class NetworkFault(StrEnum):
    """Faults of our own network."""

    DNS_DOWN = "DNS down"  # no name server answers
    NXDOMAIN = "NXDOMAIN"  # name servers deny every name
    CAPTIVE_PORTAL = "captive portal"  # a portal answers every request with 404


_FAULT_RESULTS = {  # seconds and result of every request
    NetworkFault.DNS_DOWN: (5.0, FAILURES["unresolved"]),
    NetworkFault.NXDOMAIN: (0.05, FAILURES["DNS"]),
    NetworkFault.CAPTIVE_PORTAL: (0.1, FAILURES["404"]),
}


class VirtualLink(NamedTuple):
    """A link to a feed."""

    url: str
    title: str


class VirtualWeb:
    """Answers fetches; `fault` is the current fault of our network, hosts have their own."""

    def __init__(
        self, population: Population, checker: Checker, clock: VirtualClock, rng: Random
    ) -> None:
        self._hosts = dict(population.hosts)
        self._silences = population.silences
        self._deaths = population.deaths
        self._checker = checker
        self._clock = clock
        self._rng = rng
        # seconds between two entries of a document, and their phase
        self._periods: dict[str, tuple[float, float]] = {}  # by URL
        self.fault: NetworkFault | None = None

    async def __call__(
        self,
        subject: Subject,
        key: str | None,  # noqa: ARG002 - required by `Fetch`
        *,
        visit: HostVisit,
        now: datetime,  # noqa: ARG002
    ) -> Answer:
        """Visit a source as a fetcher would."""
        source = subject.source
        page = source.url if source.url != self._checker.sources[source.id].source.url else None
        if page is not None and _CANDIDATES in page:
            await self._visit(source, visit, page, is_search=True)
            if UNREADABLE in page:
                raise NotAFeed(f"{page} is not a feed")
            return Answer(200, title="Candidate", size=20_000)
        host, target = self._host(visit.lane), await self._visit(source, visit, page)
        if page is not None:
            return _page(page)
        moved_to = None
        if target is not None and host.has_moved_for_good and _is_followed(source):
            moved_to = f"https://{target}{urlsplit(source.url).path}"
        self._checker.move_checks.answered(source.url, moved_to)
        answer = self._answer(source)
        return answer if moved_to is None else replace(answer, moved_to=moved_to)

    async def find_feeds(
        self,
        source: Source,
        *,
        visit: HostVisit,
        now: datetime,  # noqa: ARG002 - required by `FindFeeds`
    ) -> "tuple[Answer, Sequence[FeedLink]]":
        """Visit a page of a search for a lost feed: only front pages link to feeds (Y5)."""
        await self._visit(source, visit, source.url, is_search=True)
        site, links = source.url, []
        if urlsplit(site).path == "/":
            for number in range(len(site) % _MOST_LINKS):
                kind = UNREADABLE if number % 3 == 0 else "/a-feed/"
                host = f"{'feeds.' if number % 2 else ''}{urlsplit(site).netloc}"
                links.append(VirtualLink(f"https://{host}{_CANDIDATES}{kind}{number}", "A feed"))
        return Answer(200, size=20_000), cast("Sequence[FeedLink]", links)

    async def _visit(
        self, source: Source, visit: HostVisit, page: str | None, *, is_search: bool = False
    ) -> str | None:
        """Make the requests of a visit; return the host that it was redirected to, if any."""
        lane, target, result = visit.lane, None, _UNEXPECTED
        host = self._host(lane)
        how: dict[str, Any] = {"page": page, "is_search": is_search}
        try:
            result = await self._request(lane, host, source.id, **how)
            if result.kind == "ok":
                target = host.redirect_target(self._clock.monotonic())
            if target is not None:
                async with visit.redirect_to(target):
                    result = await self._request(
                        target, self._host(target), source.id, redirected=True, **how
                    )
        except (HostBusy, OnHold) as error:
            result = FAILURES["busy" if isinstance(error, HostBusy) else "hold"]
            raise
        finally:
            self._checker.visit_ended(lane, source.id, result, **how)
        if result.kind != "ok":
            raise error_of(result, target or host_of(source) or "")
        return target

    async def _request(
        self,
        lane: str,
        host: VirtualHost,
        source_id: str,
        *,
        redirected: bool = False,
        page: str | None = None,
        is_search: bool = False,
    ) -> VisitResult:
        checker = self._checker
        checker.request_started(
            lane, source_id, redirected=redirected, page=page, is_search=is_search
        )
        result = _TIMEOUT  # if the request is cancelled
        try:
            if self.fault is None:
                at = self._clock.monotonic()
                seconds, result = host.visit(at, self._rng)
                url = checker.sources[source_id].source.url
                is_source = page in (None, url)
                if is_source and result.kind == "ok" and at >= self._deaths.get(url, at + 1):
                    result = FAILURES["404"]
            else:
                seconds, result = _FAULT_RESULTS[self.fault]
            await self._clock.after(seconds)
        finally:
            checker.request_ended(lane, source_id, result, redirected=redirected, page=page)
        return result

    def _host(self, lane: str) -> VirtualHost:
        host = self._hosts.get(lane)
        if host is None:
            host = self._hosts[lane] = VirtualHost(lane, _DEFAULT_SECONDS)
        return host

    def _answer(self, source: Source) -> Answer:
        """Return the current feed, or 304 if the validators match its newest entry."""
        if source.url not in self._periods:
            period = 86_400.0 * self._rng.choice(_PUBLISHED_DAYS)
            if source.url in self._silences:
                period = _DATED_SECONDS
            elif source.full_text is FullText.ON:
                period /= _FULL_TEXT_POSTS
            self._periods[source.url] = (period, self._rng.random() * period)
        period, phase = self._periods[source.url]
        silence = self._silences.get(source.url)
        at = self._clock.monotonic()
        newest = int(((at if silence is None else silence.time_published(at)) + phase) / period)
        etag = f'"{newest}"'
        if source.validators.etag == etag:
            return Answer(304, unchanged=True, validators=Validators(etag))
        first = max(newest - _ENTRIES_PER_FEED + 1, 0)
        entries = tuple(_entry(source, number) for number in range(first, newest + 1))
        if silence is not None:
            times = [silence.time_of(int(entry.id or 0) * period - phase) for entry in entries]
            entries = tuple(
                replace(entry, published_at=START + timedelta(seconds=int(seconds)))
                for entry, seconds in zip(entries, times, strict=True)
            )
        return Answer(200, entries, validators=Validators(etag), size=20_000, body_hash=etag)


def _is_followed(source: Source) -> bool:
    """Return whether a redirect concerns the URL of the source: that of an X timeline has none."""
    return source.type is not SourceType.TWITTER


def _entry(source: Source, number: int) -> Entry:
    url = f"{source.url}/{number}"
    if number % 2 and source.full_text is FullText.ON:
        name = source.url.rpartition("/")[2]
        url = f"https://pages{number % 3}.example/{name}/{number}"
    return Entry(str(number), f"Entry {number}", url, None, None, f"The text of entry {number}.")


def _page(url: str) -> Answer:
    """Return the page of an entry; the text of some pages is not used."""
    number = int(url.rpartition("/")[2])
    text = f"The text of entry {number} and much more that only its page has."
    if number % 5 == 0:
        text = "Access denied"
    return Answer(200, (Entry(None, "Page", url, None, None, text),), size=20_000)
