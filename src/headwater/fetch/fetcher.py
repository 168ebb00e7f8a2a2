"""Fetcher: picks the way to visit a source by its type, and asks only for what changed (P8)."""

import asyncio
import hashlib
from datetime import datetime
from typing import TYPE_CHECKING

from headwater.errors import FetchError
from headwater.fetch.parsers import Parsers
from headwater.fetch.response import Response, check_status
from headwater.fetch.x import XTimelines
from headwater.model import Answer, Source, SourceType, Subject, changed, made
from headwater.rules.admission import article_age
from headwater.rules.policy import Policy

if TYPE_CHECKING:  # the HTTP library takes half a second to load: whoever visits nobody does not
    from headwater.fetch.http import Client, Turns

_ACCEPT = {
    SourceType.RSS: "application/atom+xml, application/rss+xml, application/feed+json, "
    "application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5",
    SourceType.WEBSITE: "text/html, application/xhtml+xml, */*;q=0.5",
}
_LARGE_BODY = 1 << 20  # hashing more than this would hold up the event loop (H2)


class Fetcher:
    """Visits sources of every type."""

    def __init__(
        self, client: "Client", parsers: Parsers, *, x_base_url: str, policy: Policy
    ) -> None:
        self._client = client
        self._parsers = parsers
        self._x = XTimelines(client, base_url=x_base_url)
        self._policy = policy

    async def __call__(
        self, subject: Subject, key: str | None, *, turns: "Turns | None", now: datetime
    ) -> Answer:
        """Visit a source and bring what it has; `key` is the owner's, for X."""
        source = subject.source
        if source.type is SourceType.TWITTER:
            start = self._start_of_timeline(subject, now)
            return await self._x.fetch(source, key, start_time=start, now=now, turns=turns)
        response = await self.document(source, turns=turns)
        try:
            check_status(response, now=now)
            return await self.answer(source, response)
        except FetchError as error:
            error.status, error.size = response.status, response.size
            raise
        finally:
            response.done()

    async def document(self, source: Source, *, turns: "Turns | None") -> Response:
        """Ask for a source's document, on the condition that it changed."""
        headers = {"Accept": _ACCEPT[source.type]}
        if source.validators.etag is not None:
            headers["If-None-Match"] = source.validators.etag
        if source.validators.last_modified is not None:
            headers["If-Modified-Since"] = source.validators.last_modified
        return await self._client.get(source.url, headers=headers, turns=turns)

    async def answer(self, source: Source, response: Response) -> Answer:
        """What a response holds for a source."""
        size, redirected_to = response.size, response.redirected_to
        if response.status == 304:
            story = {"status": 304, "unchanged": True, "validators": source.validators}
            return made(Answer, {**story, "size": size, "redirected_to": redirected_to})
        body_hash = await _hash(response.body)
        answer = Answer(
            response.status,
            unchanged=body_hash == source.body_hash,
            validators=response.validators,
            body_hash=body_hash,
            size=size,
            redirected_to=redirected_to,
        )
        if answer.unchanged:
            return answer
        body, content_type, url = response.body, response.content_type, str(response.url)
        is_page = source.type is SourceType.WEBSITE
        parse = self._parsers.page if is_page else self._parsers.feed
        feed = await parse(body, content_type=content_type, url=url)
        told = {"entries": feed.entries, "complete": feed.complete, "title": feed.title}
        return changed(answer, {**told, "leave": feed.leave})

    def _start_of_timeline(self, subject: Subject, now: datetime) -> datetime | None:
        """Where a first poll begins; later ones go on behind the last post seen (X2)."""
        source = subject.source
        if source.first_poll_done:
            return None
        oldest = now - article_age(subject.max_article_age_days, self._policy)
        return oldest if source.include_history else max(oldest, source.created_at)


async def _hash(body: bytes) -> str:
    digest = hashlib.sha256
    if len(body) > _LARGE_BODY:
        return (await asyncio.to_thread(digest, body)).hexdigest()
    return digest(body).hexdigest()
