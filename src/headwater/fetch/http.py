"""The only door to the network: one client with limits, redirects by hand, and our errors (N1)."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import lru_cache
from ssl import CERT_REQUIRED, SSLContext
from types import TracebackType
from typing import Protocol, Self

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar
from yarl import URL

from headwater.clock import Clock
from headwater.errors import (
    BrokenBody,
    ConfigError,
    FetchError,
    HostBusy,
    LocalFault,
    NameNotFound,
    TimedOut,
    TooLarge,
)
from headwater.fetch.body import read_start, read_whole
from headwater.fetch.connect import MAX_HEADER_BYTES, MAX_HEADERS, Connector, judge
from headwater.fetch.faults import NETWORK_ERRORS, fault_of
from headwater.fetch.hops import Visit, headers_for, next_url
from headwater.fetch.inflate import ACCEPT_ENCODING
from headwater.fetch.limits import Limits
from headwater.fetch.names import Names, SystemNames, is_literal
from headwater.fetch.response import Response, check_status, retry_after_seconds
from headwater.rules.urls import WebUrl, masked, parse_url

__all__ = ["Client", "Limits", "Response", "Turns", "check_status", "retry_after_seconds"]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_BODY = frozenset({204, 205, 304})
_MAX_LARGE_BODIES = 16  # at once, of more than a megabyte each (H1)
_READ_BUFFER = 65_536
_WIRE_MARGIN = 1_048_576  # headers, and what the system hands over at once
_parsed = lru_cache(maxsize=16_384)(parse_url)  # the same sources come again and again
_NO_HEADERS: Mapping[str, str] = {}


class Turns(Protocol):
    """Who may be asked when (P3); the lanes know."""

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """Wait for a host's turn (or raise HostBusy, OnHold); leaving marks it as visited."""
        ...


class Client:
    """Visits URLs. An async context manager: it owns the connections and closes them."""

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        *,
        names: Names | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        if tls is not None and not (tls.verify_mode == CERT_REQUIRED and tls.check_hostname):
            raise ConfigError("certificates are always verified (N14)")
        self._limits = limits
        self._clock = clock
        self._names = names
        self._tls = tls
        self._slots = asyncio.Semaphore(limits.max_connections)
        self._large = asyncio.Semaphore(_MAX_LARGE_BODIES)
        self._session: ClientSession | None = None
        self._owned = AsyncExitStack()

    async def __aenter__(self) -> Self:
        limits = self._limits
        names = self._names
        if names is None:
            names = await self._owned.enter_async_context(SystemNames())
        # with a proxy it alone is connected to, wherever the operator put it
        allowed = limits.allow_private_networks if limits.proxy is None else True
        connector = Connector(
            names=names,
            allowed=allowed,
            max_wire_bytes=2 * limits.max_body_bytes + _WIRE_MARGIN,  # chunks have heads too
            tls=self._tls,
        )
        session = ClientSession(
            connector=connector,
            headers={"User-Agent": limits.user_agent, "Accept-Encoding": ACCEPT_ENCODING},
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(
                total=None,  # is ours: it leaves out the turns
                connect=limits.connect_timeout_seconds,
                sock_read=limits.read_timeout_seconds,
            ),
            auto_decompress=False,
            trust_env=False,
            proxy=limits.proxy,
            read_bufsize=_READ_BUFFER,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )
        self._session = await self._owned.enter_async_context(session)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session = None
        await self._owned.aclose()

    async def get(
        self,
        url: WebUrl | str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        turns: Turns | None = None,
    ) -> Response:
        """Visit a URL and where it redirects to; raises a FetchError where that fails.

        `turns` is asked whenever a redirect changes the host, on the way back too (P3).
        """
        first = _parsed(url) if isinstance(url, str) else url
        visit = Visit(first, headers, self._limits.total_timeout_seconds)
        step = await self._stay(visit, first)
        while isinstance(step, WebUrl):
            step = await self._go(visit, step, turns)
        return step

    async def _go(self, visit: Visit, url: WebUrl, turns: Turns | None) -> WebUrl | Response:
        """Go on to another host, when it is its turn."""
        if turns is None:
            return await self._stay(visit, url)
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(self._limits.turn_timeout_seconds):
                    await turn.enter_async_context(turns.at(url.host))
            except TimeoutError as error:
                raise HostBusy(f"{url.host}, where we were sent to, had no turn for us") from error
            return await self._stay(visit, url)

    async def _stay(self, visit: Visit, url: WebUrl) -> WebUrl | Response:
        """Follow redirects as long as they stay on one host, which is one visit to it."""
        step: WebUrl | Response = url
        while isinstance(step, WebUrl) and step.host == url.host:
            async with self._slots:
                step = await self._hop(visit, step)
        return step

    async def _hop(self, visit: Visit, url: WebUrl) -> WebUrl | Response:
        """Ask one URL, within what is left of the total time."""
        began = self._clock.monotonic()
        limit = asyncio.timeout(visit.seconds_left)
        try:
            async with limit:
                return await self._ask(visit, url)
        except (FetchError, *NETWORK_ERRORS) as error:
            fault = self._fault(error, masked(str(url)), is_over=limit.expired())
            if fault is error:
                raise
            raise fault from error
        finally:
            visit.seconds_left -= self._clock.monotonic() - began

    def _fault(self, error: Exception, url: str, *, is_over: bool) -> FetchError:
        if self._session is None:
            return LocalFault("the client is not open")
        if is_over:
            return TimedOut(f"{url} took more than {self._limits.total_timeout_seconds:g} s")
        if self._limits.proxy is not None and isinstance(error, NameNotFound):
            return LocalFault("the name of the proxy does not exist")
        return fault_of(error, url)

    async def _ask(self, visit: Visit, url: WebUrl) -> WebUrl | Response:
        if self._session is None:
            raise LocalFault("the client is not open")
        if self._limits.proxy is not None:
            self._judge_literal(url)  # the proxy connects, and looks up names, for itself
        answer = await self._session.get(
            URL(str(url), encoded=True),
            headers=headers_for(visit, url),
            allow_redirects=False,
        )
        try:
            if answer.status in _REDIRECTS:
                target = next_url(visit, url, answer.headers, self._limits.max_redirects)
                self._judge_literal(target)
                return target
            body, size = await self._body(answer)
        finally:
            answer.release()  # kept if all of it was read, else closed
        return Response(
            status=answer.status,
            headers=answer.headers,
            body=body,
            url=url,
            size=size,
            redirected_to=str(url) if visit.seen else None,
        )

    async def _body(self, answer: ClientResponse) -> tuple[bytes, int]:
        if answer.status in _NO_BODY or answer.status < 200:
            return b"", 0
        encoded = ",".join(answer.headers.getall("Content-Encoding", ()))
        if not 200 <= answer.status < 300:
            return await read_start(answer.content, encoded)
        if answer.status == 206:
            raise BrokenBody("the answer is a part, which we did not ask for")
        limit = self._limits.max_body_bytes
        if (answer.content_length or 0) > limit:
            raise TooLarge(f"the body is announced with more than {limit} bytes")
        return await read_whole(answer.content, encoded, limit=limit, large=self._large)

    def _judge_literal(self, url: WebUrl) -> None:
        """Refuse a bad address before its turn is waited for; the socket judges all (N4)."""
        if is_literal(url.host):
            judge(url.host, (url.host,), self._limits.allow_private_networks)
