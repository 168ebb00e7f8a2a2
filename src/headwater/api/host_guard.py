"""Lets only requests in that name us as we are known: no foreign site can borrow a browser (U3)."""

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.problems import problem
from headwater.errors import BadUrl
from headwater.rules.urls import normal_host

OWN_NAMES = ("127.0.0.1", "::1", "localhost")


class HostGuard:
    """Answers 403 to a request whose Host header is none of the names given."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(normal_host(name) for name in (*OWN_NAMES, *names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        answer = problem(
            403, "the Host header is not one of ours; app.server.allowed-hosts adds names"
        )
        await answer(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1:
            return False
        try:
            return normal_host(host_part(given[0].decode("ascii"))) in self._names
        except (BadUrl, UnicodeDecodeError):
            return False


def host_part(header: str) -> str:
    """The host of a Host header, without its port and brackets."""
    if header.startswith("["):
        host, closed, _ = header[1:].partition("]")
        return host if closed else ""
    return header.partition(":")[0]
