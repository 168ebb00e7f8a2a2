"""The two clients: `Headwater`, whose calls block, and `AsyncHeadwater`."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Self, TypeVar, Unpack

from headwater.client.connections import AsyncConnections, Connections
from headwater.client.decoding import decode
from headwater.client.errors import (
    HeadwaterClientError,
    problem_from,
    wait_before_retry,
)
from headwater.client.event_reader import EventReader
from headwater.client.http_exchange import Address, IncomingResponse, OutgoingRequest
from headwater.client.operation import ApiRequest, AsyncSender, Page, Sender
from headwater.client.operations.content import (
    ArticleOperations,
    NumberedFilters,
    PostOperations,
    SearchOperations,
)
from headwater.client.operations.service import (
    AccountOperations,
    NoticeOperations,
    ServiceOperations,
    WebhookOperations,
)
from headwater.client.operations.sources import (
    PodcastOperations,
    PollOperations,
    SourceOperations,
)
from headwater.client.results.content import Article, Post
from headwater.client.results.events import Event

T = TypeVar("T")
TIMEOUT_SECONDS = 90.0  # more than the service takes for a poll that is waited for
POLL_SECONDS = 2.0
EVENT_SECONDS = 60.0  # the service sends something every 15 s


class Operations(
    PostOperations,
    ArticleOperations,
    SearchOperations,
    PodcastOperations,
    SourceOperations,
    PollOperations,
    WebhookOperations,
    AccountOperations,
    NoticeOperations,
    ServiceOperations,
):
    """All calls of the API, for both clients."""

    def __init__(self, token: str | None, user: str) -> None:
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise ValueError("the token has characters that no token has")
        self.user = user
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def outgoing(self, request: ApiRequest[Any]) -> OutgoingRequest:
        """A request as it is sent."""
        headers = {"Accept": "*/*", **self._headers, **request.headers}
        if request.body is None:
            return OutgoingRequest(request.method, request.target, headers)
        headers["Content-Type"] = request.content_type
        is_text = isinstance(request.body, str)
        body = request.body if is_text else json.dumps(request.body, allow_nan=False)
        return OutgoingRequest(request.method, request.target, headers, body.encode())


class Headwater(Operations, Sender):
    """A client of a Headwater service. Threads can share it.

    `user` is the name or id of the user whose podcasts are meant. Calls raise `HeadwaterProblem`
    if the service refuses them, and `HeadwaterUnreachable` if it does not respond.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        user: str = "default",
        timeout: float = TIMEOUT_SECONDS,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(token, user)
        self._connections = Connections(Address.of(url), ssl_context, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self._connections.close()

    def send(self, request: ApiRequest[T]) -> T:
        """Send a request and return its result."""
        return result_of(request, self._connections.exchange(self.outgoing(request)))

    def follow(
        self,
        podcast: str,
        after: int = 0,
        *,
        poll_seconds: float = POLL_SECONDS,
        **filters: Unpack[NumberedFilters],
    ) -> Iterator[Post]:
        """The posts stored after the one with the number `after`, then new ones, without end.

        It waits while the service cannot be reached, once it could.
        """
        read = self.posts.page
        return self._follow(lambda seq: read(podcast, seq, **filters), after, poll_seconds)

    def follow_articles(
        self,
        podcast: str,
        after: int = 0,
        *,
        poll_seconds: float = POLL_SECONDS,
        **filters: Unpack[NumberedFilters],
    ) -> Iterator[Article]:
        """The same for articles."""
        read = self.articles.page
        return self._follow(lambda seq: read(podcast, seq, **filters), after, poll_seconds)

    def _follow(self, read: Callable[[int], Page[T]], after: int, seconds: float) -> Iterator[T]:
        page = read(after)  # raises what is wrong with the request
        while True:
            yield from page.items
            if page.next_after in (None, after):
                time.sleep(seconds)
            after = after if page.next_after is None else page.next_after
            page = self._retried(read, after, seconds)

    def _retried(self, read: Callable[[int], Page[T]], after: int, seconds: float) -> Page[T]:
        while True:
            try:
                return read(after)
            except HeadwaterClientError as error:
                time.sleep(wait_before_retry(error, seconds))

    def events(
        self,
        *,
        podcast: str | None = None,
        source: str | None = None,
        types: Iterable[str] | None = None,
        last_event_id: str | None = None,
    ) -> Iterator[Event]:
        """Events as they happen, without end, from the first `next` on.

        It reconnects, and continues after the last event; `ResetEvent` if some were missed.
        """
        reader = EventReader(podcast, source, types, last_event_id)
        while True:
            error: HeadwaterClientError | None = None
            try:
                outgoing = self.outgoing(reader.request)
                with self._connections.stream(outgoing, EVENT_SECONDS) as stream:
                    if not reader.accept(stream.head):
                        raise error_of(replace(stream.head, body=b"".join(stream.parts())))
                    for part in stream.parts():
                        yield from reader.events_in(part)
            except HeadwaterClientError as caught:
                error = caught
            time.sleep(reader.seconds_after(error))


class AsyncHeadwater(Operations, AsyncSender):
    """The same client for asyncio. It belongs to one event loop at a time."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        user: str = "default",
        timeout: float = TIMEOUT_SECONDS,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(token, user)
        self._connections = AsyncConnections(Address.of(url), ssl_context, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._connections.close()

    async def send(self, request: ApiRequest[T]) -> T:
        """Send a request and return its result."""
        return result_of(request, await self._connections.exchange(self.outgoing(request)))

    def follow(
        self,
        podcast: str,
        after: int = 0,
        *,
        poll_seconds: float = POLL_SECONDS,
        **filters: Unpack[NumberedFilters],
    ) -> AsyncIterator[Post]:
        """The posts stored after the one with the number `after`, then new ones, without end.

        It waits while the service cannot be reached, once it could.
        """
        read = self.posts.page
        return self._follow(lambda seq: read(podcast, seq, **filters), after, poll_seconds)

    def follow_articles(
        self,
        podcast: str,
        after: int = 0,
        *,
        poll_seconds: float = POLL_SECONDS,
        **filters: Unpack[NumberedFilters],
    ) -> AsyncIterator[Article]:
        """The same for articles."""
        read = self.articles.page
        return self._follow(lambda seq: read(podcast, seq, **filters), after, poll_seconds)

    async def _follow(
        self, read: Callable[[int], Awaitable[Page[T]]], after: int, seconds: float
    ) -> AsyncIterator[T]:
        page = await read(after)  # raises what is wrong with the request
        while True:
            for item in page.items:
                yield item
            if page.next_after in (None, after):
                await asyncio.sleep(seconds)
            after = after if page.next_after is None else page.next_after
            page = await self._retried(read, after, seconds)

    async def _retried(
        self, read: Callable[[int], Awaitable[Page[T]]], after: int, seconds: float
    ) -> Page[T]:
        while True:
            try:
                return await read(after)
            except HeadwaterClientError as error:
                await asyncio.sleep(wait_before_retry(error, seconds))

    async def events(
        self,
        *,
        podcast: str | None = None,
        source: str | None = None,
        types: Iterable[str] | None = None,
        last_event_id: str | None = None,
    ) -> AsyncIterator[Event]:
        """Events as they happen, without end, from the first `anext` on.

        It reconnects, and continues after the last event; `ResetEvent` if some were missed.
        """
        reader = EventReader(podcast, source, types, last_event_id)
        while True:
            error: HeadwaterClientError | None = None
            try:
                outgoing = self.outgoing(reader.request)
                async with self._connections.stream(outgoing, EVENT_SECONDS) as stream:
                    if not reader.accept(stream.head):
                        body = b"".join([part async for part in stream.parts()])
                        raise error_of(replace(stream.head, body=body))
                    async for part in stream.parts():
                        for event in reader.events_in(part):
                            yield event
            except HeadwaterClientError as caught:
                error = caught
            await asyncio.sleep(reader.seconds_after(error))


def result_of(request: ApiRequest[T], incoming: IncomingResponse) -> T:
    """The result in a response; raise if it is a problem."""
    if incoming.status >= 300:
        raise problem_from(incoming.status, incoming.headers, incoming.body)
    value: Any = None
    if request.result is str:
        value = incoming.body.decode()
    elif request.result is not type(None):
        try:
            value = json.loads(incoming.body)
        except ValueError:
            raise error_of(incoming) from None
    result = decode(request.result, value)
    if hasattr(result, "etag"):
        result = replace(result, etag=incoming.headers.get("etag"))  # type: ignore[type-var]
    return result


def error_of(incoming: IncomingResponse) -> HeadwaterClientError:
    """The error of a response that is not what was requested."""
    return problem_from(incoming.status, incoming.headers, incoming.body)
