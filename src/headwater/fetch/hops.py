"""From one URL to the next: what a redirect may do, and what is sent along (N5, N6)."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headwater.errors import BadRedirect, BadUrl
from headwater.fetch.wire import Check
from headwater.rules.urls import WebUrl, follow, masked

_OF_ORIGIN = frozenset({"authorization", "cookie", "proxy-authorization"})
_RAW_BYTES = re.compile("[\udc80-\udcff]")  # bytes of a header that are no UTF-8


class Headers(Protocol):
    """Headers, of which one name can have several."""

    def getall(self, key: str, default: tuple[str, ...] = ()) -> list[str] | tuple[str, ...]:
        """All values of a header."""
        ...


@dataclass(slots=True)
class Visit:
    """One visit over all of its hops."""

    first: WebUrl
    headers: Mapping[str, str]
    seconds_left: float  # of the total; waiting for a turn or a free connection costs nothing
    check: Check = None
    seen: set[WebUrl] = field(default_factory=set)  # what has redirected us


def headers_for(visit: Visit, url: WebUrl) -> Mapping[str, str]:
    """What the caller gave, and the URL's credentials: each for its own origin only (N6).

    Validators go along everywhere: they came from the URL where the last visit ended.
    """
    headers = visit.headers
    if visit.seen and url.origin != visit.first.origin:
        headers = {k: v for k, v in headers.items() if k.lower() not in _OF_ORIGIN}
    if url.username is None or any(k.lower() == "authorization" for k in headers):
        return headers
    credentials = f"{url.username}:{url.password or ''}".encode()
    return {**headers, "Authorization": f"Basic {base64.b64encode(credentials).decode()}"}


def next_url(visit: Visit, url: WebUrl, headers: Headers, max_redirects: int) -> WebUrl:
    """Where a redirect leads, or BadRedirect where it leads nowhere (N2, N5)."""
    shown = masked(str(url))
    locations = {value.strip() for value in headers.getall("Location", ())}
    if len(locations) != 1 or "" in locations:
        raise BadRedirect(f"{shown} redirects to nowhere, or to several places")
    try:
        target = follow(url, _RAW_BYTES.sub(_quoted, locations.pop()))
    except (BadUrl, ValueError) as error:
        raise BadRedirect(f"{shown} redirects to where we do not go: {error}") from error
    visit.seen.add(url)
    if len(visit.seen) > max_redirects:
        raise BadRedirect(f"{shown} redirects once more, after {max_redirects} redirects")
    if target in visit.seen:
        raise BadRedirect(f"{shown} redirects in a circle")
    return target


def _quoted(raw: re.Match[str]) -> str:
    return f"%{ord(raw[0]) - 0xDC00:02X}"
