"""Preview: fetch a URL and show which entries would be stored, and why others would not."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from headwater.clock import Clock
from headwater.engine.hosts.access import HostAccess, HostVisit
from headwater.engine.lane_table import NULL_LANE
from headwater.errors import (
    FeedNotFound,
    FetchError,
    LoginPage,
    NoContent,
    NotAFeed,
    TooExpensive,
    TooMany,
    UsageError,
)
from headwater.fetch.fetcher import Fetcher, is_login_page
from headwater.fetch.net.http_response import Response, check_status
from headwater.fetch.page.feed_links import FeedLink
from headwater.fetch.pool.parser_pool import ParserPool
from headwater.model import Answer, Entry, Podcast, SkipReason, Source, SourceType, Subject
from headwater.operations.full_text_advice import advice_for
from headwater.operations.recent_visits import MAX_KEPT_BYTES, FirstVisit, RecentVisits
from headwater.operations.sources import new_source
from headwater.rules.admission import Known, admit, new_by_date
from headwater.rules.failure_kinds import classify, one_line
from headwater.rules.full_text import FullTextAdvice, fetched_page, visited_page
from headwater.rules.outcome import failed
from headwater.rules.pasted_addresses import Pasted, resolve
from headwater.rules.policy import Policy
from headwater.rules.politeness import lane_of
from headwater.rules.url_secrets import masked, without_url_secrets
from headwater.rules.watched_parts import PageBlock, toggled
from headwater.source_settings import SettingValues
from headwater.watch_settings import WatchSettings

_PAGE = SourceType.WEBSITE
_SHORT_TEXT = 1000  # characters; the text of a login page is shorter
Fetched = TypeVar("Fetched")
KeyFor = Callable[[Subject], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Preview:
    """The result of a first poll of a source, which is not stored."""

    source: Source
    status: int | None
    redirected_to: str | None
    complete: bool
    decisions: tuple[tuple[Entry, SkipReason | None], ...]
    feeds: tuple[FeedLink, ...] = ()  # linked by a page
    error: str | None = None  # of a poll of a page: it, or what is watched of it, has no text
    title: str | None = None  # of a feed
    recognised_as: str | None = None  # the rule for a known site (J1)
    full_text_advice: FullTextAdvice | None = None  # of a feed (T4)
    blocks: tuple[PageBlock, ...] = ()  # of a page, unless it is very long

    @property
    def admitted(self) -> tuple[Entry, ...]:
        """The entries that would become posts."""
        return tuple(entry for entry, reason in self.decisions if reason is None)


@dataclass(frozen=True, slots=True)
class Previewer:
    """Visits URLs as a poll would, but stores nothing of what it fetches."""

    fetcher: Fetcher
    parsers: ParserPool
    hosts: HostAccess
    clock: Clock
    policy: Policy

    async def look_up(self, pasted: Pasted) -> tuple[Pasted, Response | None]:
        """Find the address of the feed with one visit (J1).

        If the document can be a source itself, it is returned, to be fetched only once.
        """
        if pasted.lookup is None:
            return pasted, None
        lookup, source = pasted.lookup, _page_at(pasted.lookup.url, self.clock.now())
        with _without_secrets(source):
            response = await self._document(Subject(source, user_id=""))
        url = await asyncio.to_thread(lookup.find, response.body)  # it may be large (H2)
        if url is not None:
            return replace(pasted, url=url, lookup=None), None
        if lookup.missing is not None:
            raise FeedNotFound(lookup.missing)
        return Pasted(pasted.url), response

    async def visit(
        self,
        subject: Subject,
        pasted: Pasted,
        *,
        key: str | None = None,
        document: Response | None = None,
        refuse_login: bool = False,
    ) -> FirstVisit:
        """Visit a source as its first poll does, and detect its type if none is given (J2).

        `document`: the response of a visit that was made already. `refuse_login`: raise LoginPage
        for a page that only asks for a login, as if no type is given.
        """
        started_at, started = subject.source.created_at, self.clock.monotonic()
        source = subject.source
        with _without_secrets(source):
            if source.type is SourceType.TWITTER:
                fetch = partial(self.fetcher, subject, key, now=started_at)
                answer = await self._visit(subject, lambda visit: fetch(visit=visit))
                visited = FirstVisit(subject, started_at, 0, answer)
            else:
                response = document or await self._document(subject)
                if pasted.type is None:
                    source = replace(source, type=await self._type_of(response))
                    subject, refuse_login = replace(subject, source=source), True
                visited = await self._read(subject, response, refuse_login=refuse_login)
        spent = self.clock.monotonic() - started
        rule = pasted.recognised_as
        return replace(visited, recognised_as=rule, duration_ms=round(spent * 1000))

    async def reread(self, visited: FirstVisit, watch: WatchSettings | None) -> FirstVisit:
        """The same visit to a page, as if it had been made with these settings."""
        subject, response = visited.subject, visited.response
        assert response is not None
        subject = replace(subject, source=replace(subject.source, watch=watch))
        with _without_secrets(subject.source):
            again = await self._read(subject, response, refuse_login=False)
        return replace(again, recognised_as=visited.recognised_as, duration_ms=visited.duration_ms)

    async def preview(self, visited: FirstVisit) -> Preview:
        """What a first poll with this response would store."""
        # in a thread: a feed may have very many entries (H2)
        preview = await asyncio.to_thread(_decided, visited, self.clock.now(), self.policy)
        source, entries = preview.source, [entry for entry, _ in preview.decisions]
        advice = await advice_for(source, entries, partial(self._page_text, source))
        blocks = await self._blocks_of(visited)
        return replace(preview, full_text_advice=advice, blocks=blocks)

    async def _blocks_of(self, visited: FirstVisit) -> tuple[PageBlock, ...]:
        response = visited.response
        if response is None:
            return ()
        try:
            return await self.parsers.page_blocks(
                response.body,
                content_type=response.content_type,
                url=str(response.url),
                watch=visited.subject.source.watch,
            )
        except TooExpensive:  # the rest of the preview does not depend on it
            return ()

    async def _page_text(self, source: Source, url: str) -> str:
        """The text of the page of an entry, read in the lane of its host."""
        page = visited_page(source, url)
        subject = Subject(fetched_page(page), user_id="")
        fetch = partial(self.fetcher, subject, None, now=self.clock.now())
        with _without_secrets(page):
            answer = await self._visit(Subject(page, ""), lambda visit: fetch(visit=visit))
        if answer.permit is not None:
            answer.permit.release()
        return answer.entries[0].body

    async def _document(self, subject: Subject) -> Response:
        async def fetch(visit: HostVisit) -> Response:
            response = await self.fetcher.document(subject.source, visit=visit)
            check_status(response, now=self.clock.now())
            return response

        return await self._visit(subject, fetch)

    async def _visit(
        self, subject: Subject, fetch: Callable[[HostVisit], Awaitable[Fetched]]
    ) -> Fetched:
        """Fetch within a visit to the source's host; a hold that it asks for is kept (P9)."""
        source = subject.source
        lane = lane_of(source, subject.user_id) or NULL_LANE
        async with self.hosts.visit(source, lane) as visit:
            try:
                return await fetch(visit)
            except FetchError as error:
                now = self.clock.now()
                outcome = failed(
                    subject, classify(error), started_at=now, now=now, policy=self.policy
                )
                if outcome.hold is not None and outcome.hold_lane is not None:
                    await visit.hold(outcome.hold_lane, outcome.hold)
                raise

    async def _type_of(self, response: Response) -> SourceType:
        try:
            await self.parsers.feed(
                response.body, content_type=response.content_type, url=str(response.url)
            )
        except NotAFeed:
            return _PAGE
        return SourceType.RSS

    async def _read(
        self, subject: Subject, response: Response, *, refuse_login: bool
    ) -> FirstVisit:
        source, error = subject.source, None
        feeds = await self._feeds_on(response) if source.type is _PAGE else ()
        answer = Answer(response.status, redirected_to=response.redirected_to)
        try:
            answer = await self.fetcher.answer(source, response)
        except NoContent as raised:
            error = raised
        if refuse_login and source.type is _PAGE:
            text = answer.entries[0].body if answer.entries else ""
            if is_login_page(response, is_short=len(text) < _SHORT_TEXT):
                raise LoginPage(f"{masked(str(response.url))} asks for a login")
        if error is not None and not feeds and source.watch is None:
            raise error
        response.release()
        is_kept = source.type is _PAGE and len(response.body) <= MAX_KEPT_BYTES
        kept = response if is_kept else None
        return FirstVisit(
            subject, source.created_at, 0, answer, feeds=feeds, error=error, response=kept
        )

    async def _feeds_on(self, response: Response) -> tuple[FeedLink, ...]:
        return await self.parsers.feed_links(
            response.body, content_type=response.content_type, url=str(response.url)
        )


class Previews:
    """Previews for all users, with a limit of simultaneous ones per user (U8)."""

    def __init__(self, key_for: KeyFor, clock: Clock, *, most: int) -> None:
        self._key_for = key_for
        self._clock = clock
        self._most = most
        self._running: Counter[str] = Counter()  # by user
        self.recent = RecentVisits(clock)

    async def preview(
        self, previewer: Previewer, wanted: SettingValues, podcast: Podcast
    ) -> Preview:
        """Visit a URL for a podcast and decide as its first poll would.

        With `watch`, the response of a preview of the same page is used if it is still kept.
        """
        async with self.counted(podcast.user_id):
            if (kept := self._kept_page(wanted, podcast)) is not None:
                visited = await previewer.reread(kept, wanted["watch"])
                self.recent.keep(visited)
                return await previewer.preview(visited)
            pasted, document = await previewer.look_up(resolve(wanted["url"], wanted.get("type")))
            settings, is_detected = {**wanted, **pasted.settings()}, pasted.type is None
            now = self._clock.now()
            source = new_source(podcast.id, settings, now, is_detected=is_detected)
            subject = subject_of(source, podcast)
            visited = await self.visit(previewer, subject, pasted, document=document)
            self.recent.keep(visited)
            return await previewer.preview(visited)

    async def with_click(
        self,
        previewer: Previewer,
        wanted: SettingValues,
        podcast: Podcast,
        *,
        toggle: str = "",
        only: str = "",
    ) -> Preview:
        """A preview of a page after a click on one of its blocks, if one is given (W4)."""
        selector = only or toggle
        shown = await self.preview(previewer, wanted, podcast)
        if not selector or not any(block.selector == selector for block in shown.blocks):
            return shown  # the page has changed meanwhile
        try:
            watch = toggled(shown.source.watch, shown.blocks, selector, only=bool(only))
        except ValueError as error:
            raise UsageError(str(error), field="watch") from error
        return await self.preview(previewer, {**wanted, "watch": watch}, podcast)

    def needs_visit(self, wanted: SettingValues, podcast: Podcast) -> bool:
        """Whether a preview with these settings sends a request."""
        return self._kept_page(wanted, podcast) is None

    def _kept_page(self, wanted: SettingValues, podcast: Podcast) -> FirstVisit | None:
        """The last visit to a page of which other parts shall be watched."""
        if "watch" not in wanted:
            return None
        return self.recent.page(podcast.id, resolve(wanted["url"], wanted.get("type")).url)

    async def visit(
        self,
        previewer: Previewer,
        subject: Subject,
        pasted: Pasted,
        *,
        document: Response | None = None,
        refuse_login: bool = False,
    ) -> FirstVisit:
        """Visit a source, with its owner's key if it is an X timeline (X1)."""
        key = await self._key_for(subject)
        return await previewer.visit(
            subject, pasted, key=key, document=document, refuse_login=refuse_login
        )

    @asynccontextmanager
    async def counted(self, user_id: str) -> AsyncIterator[None]:
        """Count a preview of a user; TooMany if too many are under way (U8)."""
        if self._running[user_id] >= self._most:
            raise TooMany(
                f"{self._most} previews are under way already "
                "(app.limits.max-previews-per-user); try again when one is done"
            )
        self._running[user_id] += 1
        try:
            yield
        finally:
            self._running -= Counter([user_id])  # without users that have none


def subject_of(source: Source, podcast: Podcast) -> Subject:
    """A source with the settings of its podcast."""
    return Subject(
        source,
        podcast.user_id,
        max_article_age_days=podcast.max_article_age_days,
        dedupe_across_sources=podcast.dedupe_across_sources,
        keep=podcast.keep,
        block=podcast.block,
    )


@contextmanager
def _without_secrets(source: Source) -> Iterator[None]:
    """Remove the secrets of a URL from the message of a failed fetch (U6)."""
    try:
        yield
    except FetchError as error:
        error.args = (without_url_secrets(str(error), source.url),)
        raise


def _redirect_target(source: Source, redirected_to: str | None) -> str | None:
    return None if redirected_to is None else without_url_secrets(redirected_to, source.url)


def _page_at(url: str, now: datetime) -> Source:
    return new_source("", {"type": _PAGE, "url": url}, now)


def _decided(visited: FirstVisit, now: datetime, policy: Policy) -> Preview:
    subject, answer, error = visited.subject, visited.answer, visited.error
    source = subject.source
    dated = new_by_date(source, answer.entries, now, policy)
    admission = admit(subject, dated, Known(), now, policy)
    return Preview(
        source=source,
        status=answer.status,
        redirected_to=_redirect_target(source, answer.redirected_to),
        complete=answer.complete,
        decisions=tuple(
            (candidate.entry, reason)
            for candidate, reason in zip(dated.candidates, admission.reasons, strict=True)
        ),
        feeds=visited.feeds,
        error=None if error is None else without_url_secrets(one_line(error), source.url),
        title=answer.title,
        recognised_as=visited.recognised_as,
    )
