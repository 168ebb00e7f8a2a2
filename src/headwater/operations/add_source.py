"""Adding a source: from the pasted text to the first poll (J1-J3)."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlsplit

from headwater.clock import Clock
from headwater.engine.poller import decide
from headwater.errors import (
    BadRedirect,
    BadStatus,
    BrokenBody,
    DuplicateUrl,
    NotAFeed,
    TooExpensive,
    TooLarge,
)
from headwater.fetch.page.feed_links import FeedLink
from headwater.model import Outcome, Podcast, Source, SourceType, Subject
from headwater.operations.preview import Preview, Previewer, Previews, subject_of
from headwater.operations.recent_visits import FirstVisit
from headwater.operations.sources import check_watch, describe_new, new_source, url_spellings
from headwater.rules.addresses import Allowed
from headwater.rules.failure_kinds import one_line
from headwater.rules.pasted_addresses import Pasted, resolve
from headwater.rules.policy import Policy
from headwater.rules.url_secrets import without_url_secrets
from headwater.rules.urls import parse_url
from headwater.source_settings import SettingValues
from headwater.store import Store

_MOST_VISITS = 4  # to one host for one search
_COMMON_PATHS = ("/feed", "/rss.xml", "/atom.xml", "/index.xml")
_SLOW_DOWN = (429, 503)  # end the search
_NOT_HERE = (NotAFeed, BadRedirect, BrokenBody, TooLarge, TooExpensive)  # try the next URL


OpenVisitor = Callable[[str], AbstractAsyncContextManager[Previewer]]


@dataclass(frozen=True, slots=True)
class Addition:
    """A source that was added, and what is worth reporting about it."""

    source: Source
    recognised_as: str | None = None  # the rule for a known site (J1)
    duplicate_of: str | None = None  # another source of the podcast with the same URL (J3)
    feeds: tuple[FeedLink, ...] = ()  # linked by its page
    subject: Subject | None = None  # with `outcome`
    outcome: Outcome | None = None  # of its first poll, which was the visit that found its type


@dataclass(frozen=True, slots=True)
class Additions:
    """Adds single sources, for every interface: resolve, visit if necessary, store (J1-J3)."""

    store: Store
    clock: Clock
    policy: Policy
    previews: Previews
    most: int
    allowed: Allowed

    async def add(
        self,
        podcast: Podcast,
        wanted: SettingValues,
        visitor: OpenVisitor,
        *,
        check: bool = False,
        unique: bool = False,
        poll: bool = False,
    ) -> Addition:
        """Add the source that a pasted address stands for.

        It is visited if its type is not known, or to `check` whether it can be read; the response
        is that of its first poll. `poll`: else a poll is requested. Raises FetchError if it cannot
        be read, and DuplicateUrl if it must be `unique` and is not.
        """
        pasted, visited = resolve(wanted["url"], wanted.get("type")), None
        source = self._new(podcast, wanted, pasted)
        if unique:
            await self._refuse_duplicate(source)
        if check or pasted.type is None or pasted.lookup is not None:
            await self.store.sources.refuse_too_many(podcast.user_id, 1, self.most)
            async with visitor(pasted.url) as previewer, self.previews.counted(podcast.user_id):
                pasted, document = await previewer.look_up(pasted)
                source = self._new(podcast, wanted, pasted)
                if check or pasted.type is None:
                    subject = subject_of(source, podcast)
                    visited = await self.previews.visit(
                        previewer, subject, pasted, document=document, refuse_login=True
                    )
        if visited is None and poll:
            visited = self._previewed(source, podcast)
        if visited is not None:
            return await self._polled(visited, unique=unique)
        if poll:  # requested in the same transaction: a crash must not delay it (S9)
            source = replace(source, requested_at=source.created_at)
        return await self._stored(Addition(source, pasted.recognised_as), unique=unique)

    def _new(self, podcast: Podcast, wanted: SettingValues, pasted: Pasted) -> Source:
        settings = {**wanted, **pasted.settings()}
        is_detected = pasted.type is None
        now, allowed = self.clock.now(), self.allowed
        return new_source(podcast.id, settings, now, allowed=allowed, is_detected=is_detected)

    def _previewed(self, source: Source, podcast: Podcast) -> FirstVisit | None:
        """The visit that a preview has just made, as if it was made with these settings."""
        visited = self.previews.recent.take(source)
        if visited is None:
            return None
        # from the visit on, entries count as new (D2)
        source = replace(source, created_at=visited.started_at)
        return replace(visited, subject=subject_of(source, podcast))

    async def _refuse_duplicate(self, source: Source) -> None:
        there = await duplicate_of(self.store, source.podcast_id, source.url, source.type)
        if there is not None:
            raise DuplicateUrl(there)

    async def _polled(self, visited: FirstVisit, *, unique: bool) -> Addition:
        """Store a source together with the outcome of its first poll (J2)."""
        subject, answer, error = visited.subject, visited.answer, visited.error
        if error is not None:
            urls = ", ".join(feed.url for feed in visited.feeds)
            message = f"{one_line(error)}; it links to feeds: {urls}" if urls else one_line(error)
            raise type(error)(without_url_secrets(message, subject.source.url))
        outcome = None
        try:
            check_watch(subject.source)
            if subject.source.enabled:
                now, started_at = self.clock.now(), visited.started_at
                outcome = await decide(self.store, subject, answer, started_at, now, self.policy)
                outcome = _at_its_time(outcome, visited)
            added = Addition(
                subject.source,
                visited.recognised_as,
                feeds=visited.feeds,
                subject=subject,
                outcome=outcome,
            )
            return await self._stored(added, unique=unique)
        finally:
            if answer.permit is not None:
                answer.permit.release()

    async def _stored(self, added: Addition, *, unique: bool) -> Addition:
        source = added.source
        describe_new(source)
        there, outcome = await self.store.add_source(
            source,
            urls=url_spellings(source.url, source.type),
            most=self.most,
            unique=unique,
            outcome=added.outcome,
        )
        source = source if outcome is None else outcome.source
        return replace(added, source=source, duplicate_of=there, outcome=outcome)


def _at_its_time(outcome: Outcome, visited: FirstVisit) -> Outcome:
    """The outcome with the time of the visit, which may be that of a preview some minutes ago."""
    ended_at = visited.started_at + timedelta(milliseconds=visited.duration_ms)
    source = replace(outcome.source, last_polled=ended_at, last_success_at=ended_at)
    return replace(outcome, source=source, duration_ms=visited.duration_ms)


async def duplicate_of(store: Store, podcast_id: str, url: str, type_: SourceType) -> str | None:
    """The id of a podcast's source with this URL, in any spelling, if there is one."""
    urls = url_spellings(url, type_)
    watched = await store.sources.watched_urls(podcast_id, urls)
    return next((watched[one] for one in urls if one in watched), None)


async def find_feed(
    previews: Previews, previewer: Previewer, podcast: Podcast, url: str
) -> Preview | None:
    """A preview of the first feed at the usual URLs of a site, or None (only on request, N15).

    Visits one URL after another in its host's lane; stops if the host asks to slow down.
    """
    for feed_url in common_feed_urls(url):
        settings = {"type": SourceType.RSS, "url": feed_url}
        try:
            return await previews.preview(previewer, settings, podcast)
        except BadStatus as error:
            if error.status in _SLOW_DOWN:
                raise
        except _NOT_HERE:
            continue
    return None


def common_feed_urls(url: str) -> Sequence[str]:
    """Usual URLs of a site's feed, those near the page first."""
    parse_url(url)  # raises BadUrl
    parts = urlsplit(url)
    site = f"{parts.scheme}://{parts.netloc}"
    folder = parts.path.rstrip("/")
    near = [f"{site}{folder}/feed"] if folder else []
    urls = dict.fromkeys([*near, *(site + path for path in _COMMON_PATHS)])
    return list(urls)[:_MOST_VISITS]
