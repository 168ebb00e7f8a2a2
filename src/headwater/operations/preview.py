"""Preview: fetch a URL and say what would be stored, and why the rest would not."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from headwater.clock import Clock
from headwater.engine.service import Service
from headwater.errors import FetchError, NoContent, NotAFeed, TooMany
from headwater.fetch.feed_links import FeedLink
from headwater.fetch.fetcher import Fetcher
from headwater.fetch.parsers import Parsers
from headwater.fetch.response import Response, check_status
from headwater.model import Answer, Entry, Podcast, SkipReason, Source, SourceType, Subject
from headwater.operations.sources import SourceSettings, new_source, type_of_url
from headwater.operations.turns import Door, ServiceDoor, StoredDoor, Turns
from headwater.rules.admission import Known, admit, sift
from headwater.rules.discretion import discreet
from headwater.rules.failure import classify, one_line
from headwater.rules.outcome import failed
from headwater.rules.policy import Policy
from headwater.rules.politeness import lane_of
from headwater.store import Store

_MANY_ENTRIES = 500  # deciding on more than this would hold up the event loop (H2)
_PAGE = SourceType.WEBSITE
Brought = TypeVar("Brought")
KeyFor = Callable[[Subject], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a first poll of a source would bring."""

    source: Source
    status: int | None
    redirected_to: str | None
    complete: bool
    verdicts: tuple[tuple[Entry, SkipReason | None], ...]
    feeds: tuple[FeedLink, ...] = ()  # that a page names
    error: str | None = None  # what a poll would fail with, of a page that at least names feeds
    title: str | None = None  # of a feed, as it calls itself

    @property
    def admitted(self) -> tuple[Entry, ...]:
        """The entries that would become posts."""
        return tuple(entry for entry, reason in self.verdicts if reason is None)


@dataclass(frozen=True, slots=True)
class Look:
    """What a URL is."""

    type: SourceType
    feeds: tuple[FeedLink, ...] = ()  # that a page names


@dataclass(frozen=True, slots=True)
class Previewer:
    """Visits URLs without storing what they bring; hosts' turns are respected all the same."""

    fetcher: Fetcher
    parsers: Parsers
    store: Store
    clock: Clock
    policy: Policy
    service: Service | None = None  # the one that runs in this process, whose gates count then

    async def preview(
        self, wanted: SourceSettings, podcast: Podcast, *, key: str | None = None
    ) -> Preview:
        """Visit a URL as a first poll for this podcast would."""
        now = self.clock.now()
        source = new_source("preview", wanted, now)
        own_days = podcast.max_article_age_days
        subject = Subject(source, podcast.user_id, max_article_age_days=own_days)
        with _discreetly(source):
            if source.type is SourceType.TWITTER:
                asking = partial(self.fetcher, subject, key, now=now)
                return await self._judged(subject, await self._visit(subject, asking), now)
            response = await self._document(subject)
            if wanted.type is None:
                subject = replace(
                    subject, source=replace(source, type=await self._type_of(response))
                )
            return await self._previewed(subject, response, now)

    async def look(self, source: Source) -> Look:
        """What a URL is by what it answers: a feed, else a page; X goes by the URL alone."""
        by_url = type_of_url(source.url)
        if by_url is not None:
            return Look(by_url)
        with _discreetly(source):
            response = await self._document(Subject(source, user_id=""))
            type_ = await self._type_of(response)
            return Look(type_, await self._feeds_on(response) if type_ is _PAGE else ())

    async def _document(self, subject: Subject) -> Response:
        async def asking(*, turns: Turns) -> Response:
            response = await self.fetcher.document(subject.source, turns=turns)
            check_status(response, now=self.clock.now())
            return response

        return await self._visit(subject, asking)

    async def _visit(self, subject: Subject, asking: Callable[..., Awaitable[Brought]]) -> Brought:
        """Ask a host when it is its turn; it is left alone afterwards if it says so (P9)."""
        door, source = self._door(), subject.source
        async with door.visit(source, lane_of(source, subject.user_id) or "") as turns:
            try:
                return await asking(turns=turns)
            except FetchError as error:
                now = self.clock.now()
                failure = classify(error)
                told = failed(subject, failure, started_at=now, now=now, policy=self.policy)
                if told.hold is not None and told.hold_lane is not None:
                    await door.hold(told.hold_lane, told.hold)
                raise

    def _door(self) -> Door:
        if self.service is None:
            return StoredDoor(self.store, self.clock, self.policy)
        return ServiceDoor(self.service, self.store, self.policy)

    async def _type_of(self, response: Response) -> SourceType:
        try:
            await self.parsers.feed(
                response.body, content_type=response.content_type, url=str(response.url)
            )
        except NotAFeed:
            return _PAGE
        return SourceType.RSS

    async def _previewed(self, subject: Subject, response: Response, now: datetime) -> Preview:
        source = subject.source
        feeds = await self._feeds_on(response) if source.type is _PAGE else ()
        try:
            answer = await self.fetcher.answer(source, response)
        except NoContent as error:
            if not feeds:
                raise
            told = discreet(one_line(error), source.url)
            to = _told_place(source, response.redirected_to)
            return Preview(source, response.status, to, True, (), feeds, told)
        return replace(await self._judged(subject, answer, now), feeds=feeds)

    async def _feeds_on(self, response: Response) -> tuple[FeedLink, ...]:
        return await self.parsers.feed_links(
            response.body, content_type=response.content_type, url=str(response.url)
        )

    async def _judged(self, subject: Subject, answer: Answer, now: datetime) -> Preview:
        judging = partial(_judged, subject, answer, now, self.policy)
        if len(answer.entries) > _MANY_ENTRIES:
            return await asyncio.to_thread(judging)
        return judging()


class Previews:
    """Previews for several people, of whom none gets more than their share (U8)."""

    def __init__(self, key_for: KeyFor, clock: Clock, *, most: int) -> None:
        self._key_for = key_for
        self._clock = clock
        self._most = most
        self._running: Counter[str] = Counter()  # by user

    async def preview(
        self, previewer: Previewer, wanted: SourceSettings, podcast: Podcast
    ) -> Preview:
        """Visit a URL for a podcast, with its owner's key if it is an X timeline (X1)."""
        user_id = podcast.user_id
        if self._running[user_id] >= self._most:
            raise TooMany(
                f"{self._most} previews are under way already "
                "(app.limits.max-previews-per-user); try again when one is done"
            )
        self._running[user_id] += 1
        try:
            candidate = new_source(podcast.id, wanted, self._clock.now())
            key = await self._key_for(Subject(candidate, user_id))
            return await previewer.preview(wanted, podcast, key=key)
        finally:
            self._running[user_id] -= 1
            if not self._running[user_id]:
                del self._running[user_id]


@contextmanager
def _discreetly(source: Source) -> Iterator[None]:
    """Keep what a URL entrusts to its host out of what is told of a failed visit (U6)."""
    try:
        yield
    except FetchError as error:
        error.args = (discreet(str(error), source.url),)
        raise


def _told_place(source: Source, redirected_to: str | None) -> str | None:
    return None if redirected_to is None else discreet(redirected_to, source.url)


def _judged(subject: Subject, answer: Answer, now: datetime, policy: Policy) -> Preview:
    sifted = sift(subject.source, answer.entries, now, policy)
    admission = admit(subject, sifted, Known(), now, policy)
    return Preview(
        source=subject.source,
        status=answer.status,
        redirected_to=_told_place(subject.source, answer.redirected_to),
        complete=answer.complete,
        verdicts=admission.verdicts,
        title=answer.title,
    )
