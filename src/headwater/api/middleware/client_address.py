"""The address of a client whose request was forwarded by a trusted proxy (U1)."""

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.settings.value_types import Network


def client_address(app: ASGIApp, trusted_proxies: Sequence[Network]) -> ASGIApp:
    """Replace the address of a trusted proxy in the scope with that of its client."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("client") is not None:
            peer, port = scope["client"]
            forwarded = Headers(scope=scope).getlist("x-forwarded-for")
            scope["client"] = (address_behind(peer, forwarded, trusted_proxies), port)
        await app(scope, receive, send)

    return respond


def address_behind(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """The right-most forwarded address that is not a trusted proxy; else the peer itself.

    Clients can send any X-Forwarded-For: only what trusted proxies have appended is used.
    """
    try:
        for text in (peer, *reversed(",".join(forwarded).split(","))):
            address = ipaddress.ip_address(text.strip())
            address = getattr(address, "ipv4_mapped", None) or address
            if not any(address in network for network in trusted):
                return text.strip()
    except ValueError:  # not an address: the header is ignored
        pass
    return peer
