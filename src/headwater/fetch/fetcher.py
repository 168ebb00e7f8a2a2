"""Fetches a source by its type, with conditional requests (P8)."""

import asyncio
import hashlib
import re
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from headwater.errors import FeedBehindLogin, FetchError, PageNotFeed
from headwater.fetch.net.http_response import Response, check_status
from headwater.fetch.page.feed_links import FeedLink
from headwater.fetch.pool.parser_pool import ParserPool
from headwater.fetch.x.timeline import XTimelines
from headwater.model import Answer, Source, SourceType, Subject
from headwater.rules.admission import article_age, earliest_new_date
from headwater.rules.policy import Policy
from headwater.rules.url_secrets import masked
from headwater.rules.urls import is_login_url

if TYPE_CHECKING:  # the HTTP client takes half a second to import (decision 14)
    from headwater.fetch.net.http_client import Client, PoliteVisit

_ACCEPT = {
    SourceType.RSS: "application/atom+xml, application/rss+xml, application/feed+json, "
    "application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5",
    SourceType.WEBSITE: "text/html, application/xhtml+xml, */*;q=0.5",
}
_SMALL_PAGE = 20_000  # bytes; other pages may have a login form as well
_PASSWORD_FIELD = re.compile(rb"type\s*=\s*[\"']?password", re.IGNORECASE)
_LARGE_BODY = 1 << 20  # bytes; hashing more would block the event loop (H2)


class Fetcher:
    """Fetches sources of every type."""

    def __init__(
        self, client: "Client", parsers: ParserPool, *, x_base_url: str, policy: Policy
    ) -> None:
        self._client = client
        self._parsers = parsers
        self._x = XTimelines(client, base_url=x_base_url)
        self._policy = policy

    async def __call__(
        self, subject: Subject, key: str | None, *, visit: "PoliteVisit | None", now: datetime
    ) -> Answer:
        """Fetch a source; `key` is the API key of its owner, for X."""
        source = subject.source
        if source.type is SourceType.TWITTER:
            start = self._start_of_timeline(subject, now)
            return await self._x.fetch(source, key, start_time=start, now=now, visit=visit)
        response = await self.document(source, visit=visit)
        try:
            check_status(response, now=now)
            since = earliest_new_date(source, now, self._policy)
            return await self.answer(source, response, since=since)
        except FetchError as error:
            error.status, error.size = response.status, response.size
            raise
        finally:
            response.release()

    async def document(self, source: Source, *, visit: "PoliteVisit | None") -> Response:
        """Request a source's document, unless it is unchanged."""
        headers = {"Accept": _ACCEPT[source.type]}
        if source.validators.etag is not None:
            headers["If-None-Match"] = source.validators.etag
        if source.validators.last_modified is not None:
            headers["If-Modified-Since"] = source.validators.last_modified
        return await self._client.get(source.url, headers=headers, visit=visit)

    async def feed_links(
        self, source: Source, *, visit: "PoliteVisit | None", now: datetime
    ) -> tuple[Answer, tuple[FeedLink, ...]]:
        """Request a page and return the feeds that it links to; an error page may link to some."""
        response = await self.document(source, visit=visit)
        try:
            links = await self._parsers.feed_links(
                response.body, content_type=response.content_type, url=str(response.url)
            )
            if not links:
                check_status(response, now=now)
            return Answer(response.status, size=response.size), links
        finally:
            response.release()

    async def answer(
        self, source: Source, response: Response, *, since: datetime | None = None
    ) -> Answer:
        """Parse the response for a source; entries dated before `since` get no Markdown."""
        answer = Answer(
            response.status,
            unchanged=True,
            validators=source.validators,
            size=response.size,
            redirected_to=response.redirected_to,
            moved_to=response.url.with_credentials if response.is_moved else None,
        )
        if response.status == 304:
            return answer
        body_hash = await _hash(response.body)
        is_unchanged, validators = body_hash == source.body_hash, response.validators
        answer = replace(answer, unchanged=is_unchanged, validators=validators, body_hash=body_hash)
        if answer.unchanged:
            return answer
        parse = partial(self._parsers.feed, since=since)
        if source.type is SourceType.WEBSITE:
            parse = partial(self._parsers.page, watch=source.watch)
        try:
            feed = await parse(
                response.body, content_type=response.content_type, url=str(response.url)
            )
        except PageNotFeed as error:
            if is_login_page(response, is_short=len(response.body) <= _SMALL_PAGE):
                text = f"{masked(str(response.url))} asks for a login"
                raise FeedBehindLogin(text) from error
            raise
        return replace(
            answer,
            entries=feed.entries,
            complete=feed.complete,
            title=feed.title,
            permit=feed.permit,
        )

    def _start_of_timeline(self, subject: Subject, now: datetime) -> datetime | None:
        """The start of a first poll; later ones continue after the last post seen (X2)."""
        source = subject.source
        if source.first_poll_done:
            return None
        oldest = now - article_age(subject.max_article_age_days, self._policy)
        return oldest if source.include_history else max(oldest, source.created_at)


def is_login_page(response: Response, *, is_short: bool) -> bool:
    """Whether a page only lets users log in: where redirects end, or a short one with a password.

    A page with enough text may have a login form as well.
    """
    if response.redirected_to is not None and is_login_url(str(response.url)):
        return True
    return is_short and _PASSWORD_FIELD.search(response.body) is not None


async def _hash(body: bytes) -> str:
    digest = hashlib.sha256
    if len(body) > _LARGE_BODY:
        return (await asyncio.to_thread(digest, body)).hexdigest()
    return digest(body).hexdigest()
