"""Refuses requests for other hosts and from other sites (DNS rebinding, CSRF; U3)."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.problems import problem
from headwater.errors import BadUrl
from headwater.rules.urls import normal_host

OWN_NAMES = ("127.0.0.1", "::1", "localhost")
_OWN_SITES = (b"same-origin", b"none")  # none: a typed address or a bookmark


class OriginGuard:
    """Responds 403 to requests with a foreign Host, Origin or Sec-Fetch-Site header."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(normal_host(name) for name in (*OWN_NAMES, *names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refusal = self._refusal(scope)
        await (self._app if refusal is None else problem(403, refusal))(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return "the Host header is not one of ours; app.server.allowed-hosts adds names"
        sites = _values(scope, b"sec-fetch-site")
        if any(site not in _OWN_SITES for site in sites) and not _opens_page(scope):
            return "the request comes from another site (Sec-Fetch-Site)"
        for origin in _values(scope, b"origin"):
            # with `no-referrer`, forms send Origin: null, and Sec-Fetch-Site decides
            if origin == b"null" and sites == [b"same-origin"]:
                continue
            if not _is_same_site(origin, hosts[0]):
                return "the request comes from another site (Origin)"
        return None

    def _is_ours(self, header: bytes) -> bool:
        try:
            return normal_host(host_part(header.decode("ascii"))) in self._names
        except (BadUrl, UnicodeDecodeError):
            return False


def host_part(header: str) -> str:
    """The host of a Host header, without its port and brackets."""
    if header.startswith("["):
        host, closed, _ = header[1:].partition("]")
        return host if closed else ""
    return header.partition(":")[0]


def _opens_page(scope: Scope) -> bool:
    """Whether a link opens one of our pages: a navigation cannot change anything."""
    return (
        scope["method"] == "GET"
        and not scope["path"].startswith("/api/")
        and _values(scope, b"sec-fetch-mode") == [b"navigate"]
        and _values(scope, b"sec-fetch-dest") == [b"document"]
    )


def _is_same_site(origin: bytes, host: bytes) -> bool:
    """Whether an Origin has the host and port of the Host header."""
    try:
        parts = urlsplit(origin.decode("ascii"))
    except (UnicodeDecodeError, ValueError):
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower().encode() == host.lower()


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for header, value in scope["headers"] if header == name]
