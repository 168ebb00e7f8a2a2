"""Name resolution with a time limit; distinguishes a missing name from a failed query (H5, O1)."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Protocol, Self

import aiodns
import pycares
from aiodns import error as ares

from headwater.errors import NameNotFound, NameUnresolved

LIMIT_SECONDS = 5.0
_TRY_SECONDS = 1.5  # until the query is sent again, possibly to another server
_TRIES = 3
_SECOND_FAMILY_SECONDS = 0.5  # wait for the other address family once one has been found
# no search domains: they could turn the name of the URL into another one (N4)
_FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_EDNS
_LOOPBACK = ("127.0.0.1", "::1")
# replies that mean: there is no such name, or it has no address of this family
_ABSENT = frozenset({ares.ARES_ENOTFOUND, ares.ARES_ENODATA, ares.ARES_ENONAME, ares.ARES_EBADNAME})

_Query = asyncio.Future[pycares.AddrInfoResult]


class NameResolver(Protocol):
    """Resolves host names."""

    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses of a host, at least one; raises NameNotFound or NameUnresolved."""
        ...


class SystemResolver:
    """Resolves by /etc/hosts and the system's name servers, or by the given ones.

    An async context manager: leaving it cancels all open queries.
    """

    def __init__(
        self,
        *,
        nameservers: Iterable[str] = (),
        limit_seconds: float = LIMIT_SECONDS,
        second_family_seconds: float = _SECOND_FAMILY_SECONDS,
    ) -> None:
        self._nameservers = tuple(nameservers)  # `address` or `address:port`
        self._limit_seconds = limit_seconds
        self._second_family_seconds = second_family_seconds
        self._resolver: aiodns.DNSResolver | None = None
        # called with a host and whether the servers replied, also with "does not exist"
        self.on_lookup: Callable[[str, bool], None] = lambda _host, _has_reply: None

    async def __aenter__(self) -> Self:
        self._resolver = aiodns.DNSResolver(
            nameservers=self._nameservers or None,
            loop=asyncio.get_running_loop(),
            timeout=min(_TRY_SECONDS, self._limit_seconds),
            tries=_TRIES,
            flags=_FLAGS,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses of a host, IPv4 first; raises NameNotFound or NameUnresolved."""
        if is_literal(host):
            return (host,)
        if host == "localhost" or host.endswith(".localhost"):
            return _LOOPBACK  # RFC 6761: never by a name server
        if host == "invalid" or host.endswith(".invalid"):
            raise NameNotFound(f"{host} does not exist: names in .invalid never do", name=host)
        return await self._query(host)

    async def _query(self, host: str) -> Sequence[str]:
        """Query both address families at once; the addresses of one are enough."""
        if self._resolver is None:
            raise NameUnresolved(f"{host} was not looked up: we are shutting down", name=host)
        # One query per family: for both at once the resolver reports "no address" even if one
        # of the two failed. IPv4 comes first since it works nearly everywhere.
        queries = [
            self._resolver.getaddrinfo(host, family=family, type=socket.SOCK_STREAM)
            for family in (socket.AF_INET, socket.AF_INET6)
        ]
        try:
            await self._wait(queries)
        finally:
            for query in queries:
                if not query.cancel():
                    query.exception()  # marks it as retrieved, also while being cancelled
        has_reply = True
        try:
            return _addresses(host, queries)
        except NameUnresolved:
            has_reply = False
            raise
        finally:
            self.on_lookup(host, has_reply)

    async def _wait(self, queries: Sequence[_Query]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limit_seconds
        done, pending = await asyncio.wait(
            queries, timeout=self._limit_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if pending and done:
            left = deadline - loop.time()
            if all(query.exception() is None for query in done):
                left = min(self._second_family_seconds, left)
            await asyncio.wait(pending, timeout=left)


@lru_cache(maxsize=16_384)
def is_literal(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _addresses(host: str, queries: Sequence[_Query]) -> Sequence[str]:
    finished = [query for query in queries if not query.cancelled()]
    errors = [error for query in finished if (error := query.exception()) is not None]
    found = [
        node.addr[0].decode("ascii")
        for query in finished
        if query.exception() is None
        for node in query.result().nodes
    ]
    if found:
        return list(dict.fromkeys(found))
    if len(finished) < len(queries):
        raise NameUnresolved(f"{host} could not be looked up: no answer in time", name=host)
    failed = next((error for error in errors if error.args[0] not in _ABSENT), None)
    if failed is not None:
        reason = str(failed.args[-1]).lower()
        raise NameUnresolved(f"{host} could not be looked up: {reason}", name=host) from failed
    cause = next(iter(errors), None)
    raise NameNotFound(f"{host} does not exist, or has no address", name=host) from cause
