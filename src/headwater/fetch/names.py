"""Name resolution: asynchronous, limited in time, and clear about who is to blame (H5, O1)."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from types import TracebackType
from typing import Protocol, Self

import aiodns
import pycares

from headwater.errors import NameNotFound, NameUnresolved

LIMIT_SECONDS = 5.0
_TRY_SECONDS = 1.5  # until the question is sent again, maybe to another server
_TRIES = 3
_STRAGGLER_SECONDS = 0.5  # how long the other family may still take once one has answered
# no search domains: none of them may make another name of the one in the URL (N4)
_FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_EDNS
_LOOPBACK = ("127.0.0.1", "::1")
# the answers that say that there is no such name, or that it has no address of this family
_ABSENT = frozenset(
    {
        aiodns.error.ARES_ENOTFOUND,
        aiodns.error.ARES_ENODATA,
        aiodns.error.ARES_ENONAME,
        aiodns.error.ARES_EBADNAME,
    }
)

_Question = asyncio.Future[pycares.AddrInfoResult]


class Names(Protocol):
    """What the client asks for the addresses of a host."""

    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses of a host, never none; raises NameNotFound or NameUnresolved."""
        ...


class SystemNames:
    """Asks /etc/hosts and the name servers of the system, or those that are given.

    An async context manager: leaving it ends all questions that are still open.
    """

    def __init__(
        self, *, nameservers: Iterable[str] = (), limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self._nameservers = tuple(nameservers)  # `address` or `address:port`
        self._limit_seconds = limit_seconds
        self._resolver: aiodns.DNSResolver | None = None
        # told of every name that servers were asked for: answered, be it with "does not exist"?
        self.on_lookup: Callable[[str, bool], None] = lambda _host, _answered: None

    async def __aenter__(self) -> Self:
        self._resolver = aiodns.DNSResolver(
            nameservers=self._nameservers or None,
            loop=asyncio.get_running_loop(),
            timeout=min(_TRY_SECONDS, self._limit_seconds),
            tries=_TRIES,
            flags=_FLAGS,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses of a host, IPv4 first; raises NameNotFound or NameUnresolved."""
        if is_literal(host):
            return (host,)
        if host == "localhost" or host.endswith(".localhost"):
            return _LOOPBACK  # RFC 6761: whatever a name server would say
        if host == "invalid" or host.endswith(".invalid"):
            raise NameNotFound(f"{host} does not exist: names in .invalid never do", name=host)
        return await self._ask(host)

    async def _ask(self, host: str) -> Sequence[str]:
        """Ask for both families at once; what one of them brings is enough."""
        if self._resolver is None:
            raise NameUnresolved(f"{host} was not looked up: we are shutting down", name=host)
        # A question per family: asked for both, the resolver reports "no address" although
        # it could not ask for one of the two. IPv4 comes first since it works nearly everywhere.
        questions = [
            self._resolver.getaddrinfo(host, family=family, type=socket.SOCK_STREAM)
            for family in (socket.AF_INET, socket.AF_INET6)
        ]
        try:
            await _settle(questions, self._limit_seconds)
        finally:
            for question in questions:
                if not question.cancel():
                    question.exception()  # looked at, also where we are being cancelled
        answered = True
        try:
            return _verdict(host, questions)
        except NameUnresolved:
            answered = False
            raise
        finally:
            self.on_lookup(host, answered)


@lru_cache(maxsize=16_384)
def is_literal(host: str) -> bool:
    """Whether a host is an address and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _settle(questions: Sequence[_Question], limit_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_seconds
    done, open_ = await asyncio.wait(
        questions, timeout=limit_seconds, return_when=asyncio.FIRST_COMPLETED
    )
    if open_ and done:
        left = deadline - loop.time()
        has_answer = all(question.exception() is None for question in done)
        await asyncio.wait(open_, timeout=min(_STRAGGLER_SECONDS, left) if has_answer else left)


def _verdict(host: str, questions: Sequence[_Question]) -> Sequence[str]:
    answered = [question for question in questions if not question.cancelled()]
    errors = [error for question in answered if (error := question.exception()) is not None]
    found = [
        node.addr[0].decode("ascii")
        for question in answered
        if question.exception() is None
        for node in question.result().nodes
    ]
    if found:
        return list(dict.fromkeys(found))
    if len(answered) < len(questions):
        raise NameUnresolved(f"{host} could not be looked up: no answer in time", name=host)
    failed = next((error for error in errors if error.args[0] not in _ABSENT), None)
    if failed is not None:
        reason = str(failed.args[-1]).lower()
        raise NameUnresolved(f"{host} could not be looked up: {reason}", name=host) from failed
    cause = next(iter(errors), None)
    raise NameNotFound(f"{host} does not exist, or has no address", name=host) from cause
