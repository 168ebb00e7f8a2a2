"""The only module that sends requests: one client with limits, redirects and our errors (N1)."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from ssl import CERT_REQUIRED, SSLContext
from typing import Protocol, Self

from headwater import errors
from headwater.fetch.net.connector import (
    Connector,
    ProxyFault,
    basic_authorization,
    check_addresses,
    proxy_authorization,
)
from headwater.fetch.net.decompression import ACCEPT_ENCODING
from headwater.fetch.net.dns import NameResolver, SystemResolver, is_literal
from headwater.fetch.net.http_connection import Check, Deadlines, HttpConnection
from headwater.fetch.net.http_response import Response
from headwater.fetch.net.http_response_parser import REDIRECTS
from headwater.fetch.net.large_bodies import (
    LargeBodyLimiter,
    LargeBodyPermit,
    inflated,
    start_of_error,
)
from headwater.fetch.net.limits import Limits
from headwater.fetch.net.network_errors import NETWORK_ERRORS, fetch_error
from headwater.rules.url_secrets import masked
from headwater.rules.urls import WebUrl, follow, parse_url

_parsed = lru_cache(maxsize=16_384)(parse_url)  # the same sources are fetched again and again
_NO_HEADERS: Mapping[str, str] = {}
_ORIGIN_ONLY = frozenset({"authorization", "cookie", "proxy-authorization"})
_PERMANENT = frozenset({301, 308})
_RAW_BYTES = re.compile("[\udc80-\udcff]")  # bytes of a header that are not UTF-8


class PoliteVisit(Protocol):
    """The visit that requests belong to: it decides when a host may be requested (P3, K8)."""

    def redirect_to(self, host: str) -> AbstractAsyncContextManager[None]:
        """Wait for the host of a redirect; HostBusy or OnHold if that takes too long."""
        ...

    def check(self) -> None:
        """Raise LeaseLost if no further request may be sent; called before each request."""
        ...


@dataclass(slots=True)
class _RequestChain:
    """The state of one fetch over all of its redirects."""

    first: WebUrl
    headers: Mapping[str, str]
    seconds_left: float  # of the total; waiting for a host or a free connection does not count
    check: Check = None
    body: bytes | None = None  # of a POST
    seen: set[WebUrl] = field(default_factory=set)  # URLs that redirected
    is_permanent: bool = True  # every redirect so far (Y4)


class Client:
    """Fetches URLs. An async context manager: it owns the connections and closes them."""

    def __init__(
        self,
        limits: Limits,
        *,
        names: NameResolver | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        if tls is not None and not (tls.verify_mode == CERT_REQUIRED and tls.check_hostname):
            raise errors.ConfigError("certificates are always verified (N14)")
        self._limits = limits
        self._names = names
        self._tls = tls
        self._proxy = None if limits.proxy is None else parse_url(limits.proxy)
        self._fixed_headers = format_headers(
            {"User-Agent": limits.user_agent, "Accept-Encoding": ACCEPT_ENCODING}
        )
        self._connections = asyncio.Semaphore(limits.max_connections)
        self._limiter = LargeBodyLimiter(
            medium=limits.max_medium_bodies, large=limits.max_large_bodies
        )
        self._owned = AsyncExitStack()
        self.connector: Connector | None = None  # None: the client is not open

    async def __aenter__(self) -> Self:
        names = self._names
        if names is None:
            names = await self._owned.enter_async_context(SystemResolver())
        self._loop = asyncio.get_running_loop()
        self.connector = Connector(self._limits, names=names, proxy=self._proxy, tls=self._tls)
        self._owned.callback(self.connector.close)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.connector = None
        await self._owned.aclose()

    async def get(
        self,
        url: WebUrl | str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        visit: PoliteVisit | None = None,
    ) -> Response:
        """Fetch a URL and follow its redirects; raises FetchError.

        Each redirect to another host waits for `visit.redirect_to`, also back to the first (P3).
        """
        first = _parsed(url) if isinstance(url, str) else url
        check = None if visit is None else visit.check
        chain = _RequestChain(first, headers, self._limits.total_timeout_seconds, check)
        step = await self._fetch_on_host(chain, first)
        while isinstance(step, WebUrl):
            async with AsyncExitStack() as redirect:
                if visit is not None:
                    await self._wait_for_host(redirect, visit, step.host)
                step = await self._fetch_on_host(chain, step)
        return step

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        visit: PoliteVisit | None = None,
    ) -> Response:
        """Send a POST request; raises FetchError, also instead of following a redirect (V2).

        A request that an idle connection has lost is sent again. Of the body of the response,
        whatever its status, only the start is kept.
        """
        first = parse_url(url)
        check = None if visit is None else visit.check
        chain = _RequestChain(first, headers, self._limits.total_timeout_seconds, check, body)
        async with self._connections:
            if check is not None:
                check()
            response = await self._request(chain, first)
        if isinstance(response, WebUrl):
            raise errors.BadRedirect(f"{masked(url)} redirects, which a POST does not follow")
        return response

    async def _wait_for_host(self, redirect: AsyncExitStack, visit: PoliteVisit, host: str) -> None:
        try:
            async with asyncio.timeout(self._limits.host_wait_seconds):
                await redirect.enter_async_context(visit.redirect_to(host))
        except TimeoutError as error:
            raise errors.HostBusy(f"{host}, the host of a redirect, was not free") from error

    async def _fetch_on_host(self, chain: _RequestChain, url: WebUrl) -> WebUrl | Response:
        """Fetch a URL and follow redirects on its host, which count as one visit to it."""
        step: WebUrl | Response = url
        while isinstance(step, WebUrl) and step.host == url.host:
            async with self._connections:
                if chain.check is not None:
                    chain.check()
                step = await self._request(chain, step)
        return step

    async def _request(self, chain: _RequestChain, url: WebUrl) -> WebUrl | Response:
        """Request one URL within the rest of the total time; returns a redirect's target."""
        began = self._loop.time()
        over_at = began + chain.seconds_left
        connected_by = min(over_at, began + self._limits.connect_timeout_seconds)
        try:
            return await self._exchange(chain, url, Deadlines(connected_by, over_at))
        except (errors.FetchError, *NETWORK_ERRORS) as error:
            failure = self._failure(error, masked(str(url)), is_over=self._loop.time() >= over_at)
            try:
                if failure is error:
                    raise
                raise failure from error
            finally:
                del failure  # it refers to this frame, and the frame to the whole response
        finally:
            chain.seconds_left -= self._loop.time() - began

    def _failure(self, error: Exception, url: str, *, is_over: bool) -> errors.FetchError:
        if self.connector is None:
            return errors.LocalFault("the client is not open")
        if is_over and isinstance(error, TimeoutError):
            return errors.TimedOut(f"{url} took more than {self._limits.total_timeout_seconds:g} s")
        if self._proxy is not None and isinstance(error, errors.NameNotFound):
            return errors.LocalFault("the name of the proxy does not exist")
        return fetch_error(error, url)

    async def _exchange(
        self, chain: _RequestChain, url: WebUrl, until: Deadlines
    ) -> WebUrl | Response:
        connector = self.connector
        if connector is None:
            raise errors.LocalFault("the client is not open")
        if self._proxy is not None:
            self._check_literal(url)  # the proxy resolves names itself
        connection = await self._send(connector, chain, url, until)
        received = connection.response
        try:
            if received.status == 407 and self._proxy is not None:
                raise ProxyFault("it wants a password", 407)
            if received.status in REDIRECTS:
                locations = received.header_values("location")
                target = _next_url(chain, url, locations, self._limits.max_redirects)
                self._check_literal(target)
                chain.is_permanent &= received.status in _PERMANENT
                return target
            body, permit = await self._body(chain, connection)
        except BaseException:
            received.is_complete = False  # so that the connection is not used again
            raise
        finally:
            connector.release(connection, url.origin)
        return Response(
            status=received.status,
            headers={} if received.status == 304 else received.first_headers(),  # unused for a 304
            body=body,
            url=url,
            size=received.size,
            redirected_to=str(url) if chain.seen else None,
            is_moved=chain.is_permanent and bool(chain.seen),
            permit=permit,
        )

    async def _send(
        self, connector: Connector, chain: _RequestChain, url: WebUrl, until: Deadlines
    ) -> HttpConnection:
        """Send a request; a stale idle connection is replaced by a new one, once (N11)."""
        request = self._encoded_request(chain, url)
        connection = idle = connector.take_idle(url)
        while True:
            if connection is None:
                async with asyncio.timeout_at(until.connected_by):
                    connection = await connector.open(url, until, chain.check)
            try:
                await connection.send(
                    request, until, drops_body=chain.body is not None, check=chain.check
                )
            except BaseException as error:
                connector.discard(connection)
                is_lost = isinstance(error, ConnectionError)
                if connection is not idle or not is_lost or connection.response.received_bytes:
                    raise
                connection = None
            else:
                return connection

    def _encoded_request(self, chain: _RequestChain, url: WebUrl) -> bytes:
        target, authorization = url.target, ""
        if self._proxy is not None and url.scheme == "http":
            target, authorization = str(url), proxy_authorization(self._proxy)
        headers = self._fixed_headers + authorization + format_headers(_headers_for(chain, url))
        method, body = "GET", b""
        if chain.body is not None:
            method, body = "POST", chain.body
            headers += f"Content-Length: {len(body)}\r\n"
        head = f"{method} {target} HTTP/1.1\r\nHost: {url.netloc}\r\n{headers}\r\n"
        return head.encode("ascii") + body

    async def _body(
        self, chain: _RequestChain, connection: HttpConnection
    ) -> tuple[bytes, LargeBodyPermit | None]:
        """The decompressed body, and its permit if it is large."""
        received = connection.response
        if received.status in (204, 205, 304) or received.status < 200:
            return b"", None
        encoding = ",".join(received.header_values("content-encoding"))
        if not received.needs_body:
            return start_of_error(received.take_body(), encoding), None
        if received.status == 206:
            raise errors.BrokenBody("the response is a part, which was not requested")
        permit = None
        if connection.needs_permit:
            # without a length, or compressed, a body may become as large as the limit
            size = inf if encoding or not received.content_length else received.content_length
            began = self._loop.time()
            permit = await self._limiter.acquire(size)
            waited = self._loop.time() - began  # which does not count against the source
            chain.seconds_left += waited
            connection.timer.over_at += waited
            try:
                await connection.read_large_body()
            except BaseException:
                permit.release()
                raise
        limit = self._limits.max_body_bytes
        body = received.take_body()
        return await inflated(body, encoding, limit=limit, limiter=self._limiter, permit=permit)

    def _check_literal(self, url: WebUrl) -> None:
        """Refuse a bad address before waiting for its host; the connector checks all (N4)."""
        if is_literal(url.host):
            check_addresses(url.host, (url.host,), self._limits.allow_private_networks)


def _headers_for(chain: _RequestChain, url: WebUrl) -> Mapping[str, str]:
    """The caller's headers and the URL's credentials, each for its own origin only (N6).

    Validators are sent everywhere: they came from the URL where the last fetch ended.
    """
    headers = chain.headers
    if chain.seen and url.origin != chain.first.origin:
        headers = {k: v for k, v in headers.items() if k.lower() not in _ORIGIN_ONLY}
    authorization = basic_authorization(url)
    if authorization is None or any(k.lower() == "authorization" for k in headers):
        return headers
    return {**headers, "Authorization": authorization}


def _next_url(
    chain: _RequestChain, url: WebUrl, locations: Iterable[str], max_redirects: int
) -> WebUrl:
    """The target of a redirect; raises BadRedirect for one that is not followed (N2, N5)."""
    shown = masked(str(url))
    targets = {value.strip() for value in locations}
    if len(targets) != 1 or "" in targets:
        raise errors.BadRedirect(f"{shown} redirects to nowhere, or to several places")
    try:
        target = follow(
            url, _RAW_BYTES.sub(lambda raw: f"%{ord(raw[0]) - 0xDC00:02X}", targets.pop())
        )
    except (errors.BadUrl, ValueError) as error:
        raise errors.BadRedirect(f"{shown} redirects to where we do not go: {error}") from error
    chain.seen.add(url)
    if len(chain.seen) > max_redirects:
        raise errors.BadRedirect(f"{shown} redirects again, after {max_redirects} redirects")
    if target in chain.seen:
        raise errors.BadRedirect(f"{shown} redirects in a circle")
    return target


def format_headers(headers: Mapping[str, str]) -> str:
    """Headers as sent; raises ValueError for a value that contains a line break (N6)."""
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if text.count("\n") != len(headers) or text.count("\r") != len(headers) or "\0" in text:
        raise ValueError("a header has a line break in it")
    return text
