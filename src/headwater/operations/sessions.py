"""Logging browsers in with a token, and out again (U1, U3)."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import Token
from headwater.operations.tokens import token_with
from headwater.store import Store

LASTS = timedelta(days=30)
_RANDOM_BYTES = 32
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Login:
    """What a browser is given to come back with, and whose token it used."""

    cookie: str
    token: Token


async def log_in(
    store: Store, secret: str, now: datetime, *, instead_of: str | None = None
) -> Login | None:
    """Start a session for whoever has this token; None: nobody has it.

    `instead_of`: the cookie that the browser has had until now, which ends with this.
    """
    token = await token_with(store, secret.strip())
    if token is None:
        return None
    cookie = secrets.token_urlsafe(_RANDOM_BYTES)
    if not await store.sessions.add(_hash(cookie), token.id, now=now, expires_at=now + LASTS):
        return None
    if instead_of is not None:
        await log_out(store, instead_of)
    return Login(cookie, token)


async def token_in_session(store: Store, cookie: str, now: datetime) -> Token | None:
    """The token that a browser logged in with; a revoked one ends its sessions too."""
    if not cookie or len(cookie) > _LONGEST:
        return None
    return await store.sessions.token_of(_hash(cookie), now)


async def log_out(store: Store, cookie: str) -> None:
    """End a session."""
    await store.sessions.remove(_hash(cookie))


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()
