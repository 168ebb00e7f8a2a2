"""The only door to the network: one client with limits, redirects by hand, and our errors (N1)."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import lru_cache
from math import inf
from ssl import CERT_REQUIRED, SSLContext
from types import TracebackType
from typing import Protocol, Self

from headwater.clock import Clock
from headwater.errors import (
    BrokenBody,
    ConfigError,
    FetchError,
    HostBusy,
    LocalFault,
    NameNotFound,
    TimedOut,
)
from headwater.fetch.body import Place, Room, inflated, start_of_error
from headwater.fetch.connect import Connector, Deadlines, Proxy, ProxyFault, judge
from headwater.fetch.deadline import Deadline
from headwater.fetch.faults import NETWORK_ERRORS, fault_of
from headwater.fetch.headers import lines
from headwater.fetch.hops import Visit, headers_for, next_url
from headwater.fetch.inflate import ACCEPT_ENCODING
from headwater.fetch.limits import Limits
from headwater.fetch.names import Names, SystemNames, is_literal
from headwater.fetch.reading import Bounds
from headwater.fetch.response import Response, check_status, retry_after_seconds
from headwater.fetch.wire import REDIRECTS, Check, Wire
from headwater.fetch.wire_errors import Lost
from headwater.rules.urls import WebUrl, masked, parse_url

__all__ = ["Client", "Limits", "Response", "Turns", "check_status", "retry_after_seconds"]

_MAX_MEDIUM_BODIES = 8  # at once, of one or two megabytes each (H1)
_MAX_LARGE_BODIES = 3  # and of more
_WIRE_MARGIN = 1_048_576  # headers, and what the system hands over at once
_parsed = lru_cache(maxsize=16_384)(parse_url)  # the same sources come again and again
_NO_HEADERS: Mapping[str, str] = {}


class Turns(Protocol):
    """Who may be asked when (P3); the lanes know."""

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """Wait for a host's turn (or raise HostBusy, OnHold); leaving marks it as visited."""
        ...

    def check(self) -> None:
        """Raise where nothing more may be asked; every request looks, and looks again (K8)."""
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
        self._proxy = None if limits.proxy is None else Proxy.at(parse_url(limits.proxy))
        self._always = f"User-Agent: {limits.user_agent}\r\nAccept-Encoding: {ACCEPT_ENCODING}\r\n"
        self._slots = asyncio.Semaphore(limits.max_connections)
        self._room = Room(medium=_MAX_MEDIUM_BODIES, large=_MAX_LARGE_BODIES)
        self._connector: Connector | None = None
        self._owned = AsyncExitStack()

    async def __aenter__(self) -> Self:
        limits = self._limits
        names = self._names
        if names is None:
            names = await self._owned.enter_async_context(SystemNames())
        self._loop = asyncio.get_running_loop()
        self._connector = Connector(
            names=names,
            # with a proxy it alone is connected to, wherever the operator put it
            allowed=limits.allow_private_networks if limits.proxy is None else True,
            bounds=Bounds(
                read_seconds=limits.read_timeout_seconds,
                max_body_bytes=limits.max_body_bytes,
                max_wire_bytes=2 * limits.max_body_bytes + _WIRE_MARGIN,  # chunks have heads too
            ),
            proxy=self._proxy,
            tls=self._tls,
        )
        self._owned.callback(self._connector.close)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connector = None
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
        check = None if turns is None else turns.check
        visit = Visit(first, headers, self._limits.total_timeout_seconds, check)
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
                if visit.check is not None:
                    visit.check()
                step = await self._hop(visit, step)
        return step

    async def _hop(self, visit: Visit, url: WebUrl) -> WebUrl | Response:
        """Ask one URL, within what is left of the total time."""
        began = self._loop.time()
        over_at = began + visit.seconds_left
        connected_by = min(over_at, began + self._limits.connect_timeout_seconds)
        try:
            return await self._ask(visit, url, Deadlines(connected_by, over_at))
        except (FetchError, *NETWORK_ERRORS) as error:
            fault = self._fault(error, masked(str(url)), is_over=self._loop.time() >= over_at)
            try:
                if fault is error:
                    raise
                raise fault from error
            finally:
                del fault  # it would keep this frame, and the frame the whole answer
        finally:
            visit.seconds_left -= self._loop.time() - began

    def _fault(self, error: Exception, url: str, *, is_over: bool) -> FetchError:
        if self._connector is None:
            return LocalFault("the client is not open")
        if is_over and isinstance(error, TimeoutError):
            return TimedOut(f"{url} took more than {self._limits.total_timeout_seconds:g} s")
        if self._limits.proxy is not None and isinstance(error, NameNotFound):
            return LocalFault("the name of the proxy does not exist")
        return fault_of(error, url)

    async def _ask(self, visit: Visit, url: WebUrl, until: Deadlines) -> WebUrl | Response:
        connector = self._connector
        if connector is None:
            raise LocalFault("the client is not open")
        if self._proxy is not None:
            self._judge_literal(url)  # the proxy connects, and looks up names, for itself
        wire = await self._answered(connector, visit, url, until)
        try:
            if wire.status == 407 and self._proxy is not None:
                raise ProxyFault("it wants a password", 407)
            if wire.status in REDIRECTS:
                target = next_url(visit, url, wire.taken(), self._limits.max_redirects)
                self._judge_literal(target)
                return target
            body, place = await self._body(visit, wire)
        except BaseException:
            wire.is_complete = False  # so it is not asked again
            raise
        finally:
            connector.release(wire, url.origin)
        return Response(
            status=wire.status,
            headers=wire.taken(),
            body=body,
            url=url,
            size=wire.size,
            redirected_to=str(url) if visit.seen else None,
            place=place,
        )

    def _question(self, visit: Visit, url: WebUrl) -> bytes:
        """The request as it goes over the wire."""
        target, by_proxy = url.target, ""
        if self._proxy is not None and url.scheme == "http":
            target, by_proxy = str(url), self._proxy.authorization
        more = lines(headers_for(visit, url))
        head = f"GET {target} HTTP/1.1\r\nHost: {url.netloc}\r\n{self._always}{by_proxy}{more}\r\n"
        return head.encode("ascii")

    async def _answered(
        self, connector: Connector, visit: Visit, url: WebUrl, until: Deadlines
    ) -> Wire:
        """Ask, over a kept connection if there is one; a stale one is replaced once (N11)."""
        question = self._question(visit, url)
        wire = connector.kept(url)
        if wire is not None:
            try:
                return await _exchange(connector, wire, question, until, visit.check)
            except (Lost, ConnectionError):
                if not wire.is_silent:
                    raise
        with Deadline(self._loop, until.connected_by):
            wire = await connector.open(url, until, visit.check)
        return await _exchange(connector, wire, question, until, visit.check)

    async def _body(self, visit: Visit, wire: Wire) -> tuple[bytes, Place | None]:
        status = wire.status
        if status in (204, 205, 304) or status < 200:
            return b"", None
        encoded = ",".join(wire.taken().getall("Content-Encoding"))
        if not 200 <= status < 300:
            return start_of_error(wire.take_body(), encoded), None
        if status == 206:
            raise BrokenBody("the answer is a part, which we did not ask for")
        place = None
        if wire.is_waiting:
            # what is not announced, or is to be inflated, may become as large as can be
            size = inf if encoded or not wire.announced else wire.announced
            place = await self._waited_for_place(visit, wire, size)
            try:
                await wire.grow()
            except BaseException:
                place.let_go()
                raise
        limit = self._limits.max_body_bytes
        return await inflated(wire.take_body(), encoded, limit=limit, room=self._room, place=place)

    async def _waited_for_place(self, visit: Visit, wire: Wire, size: float) -> Place:
        """Wait until this body may be large, which costs its source nothing: the limit is ours."""
        began = self._loop.time()
        place = await self._room.place(size)
        waited = self._loop.time() - began
        visit.seconds_left += waited
        wire.postpone(waited)
        return place

    def _judge_literal(self, url: WebUrl) -> None:
        """Refuse a bad address before its turn is waited for; the socket judges all (N4)."""
        if is_literal(url.host):
            judge(url.host, (url.host,), self._limits.allow_private_networks)


async def _exchange(
    connector: Connector,
    wire: Wire,
    question: bytes,
    until: Deadlines,
    check: Check,
) -> Wire:
    shaken_by, over_at = until
    try:
        await wire.ask(question, shaken_by=shaken_by, over_at=over_at, check=check)
    except BaseException:
        connector.discard(wire)
        raise
    return wire
