"""Access tokens, and browser sessions that start with one (U1, U3)."""

import hashlib
import hmac
import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.errors import Forbidden, NotFound, UsageError
from headwater.model import Token, TokenScope, User
from headwater.operations.users_and_podcasts import one_line_name
from headwater.store import Store
from headwater.store.audit import LOOPBACK, describe

SESSION_LIFETIME = timedelta(days=30)
_PREFIX = "hw_"
_RANDOM_BYTES = 32
_MAX_COOKIE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token and its secret, which is shown only once."""

    token: Token
    secret: str


async def add_token(
    store: Store,
    user: User | None,
    name: str,
    now: datetime,
    *,
    scope: TokenScope | None = None,
    expires_at: datetime | None = None,
    creator: Token | None = None,
) -> NewToken:
    """Create a token; by default with scope `user`, or `admin` if `user` is None.

    `creator`: the token of the caller, which must permit as much and expire no earlier.
    """
    scope = scope or (TokenScope.ADMIN if user is None else TokenScope.USER)
    if user is None and scope is TokenScope.USER:
        raise UsageError("a token with scope user belongs to a user", field="user")
    if user is not None and scope in (TokenScope.ADMIN, TokenScope.METRICS):
        raise UsageError(f"a token with scope {scope} belongs to no user", field="user")
    if creator is not None:
        expires_at = _within(creator, scope, expires_at)
    if expires_at is not None and expires_at <= now:
        raise UsageError("a token expires in the future", field="expiresAt")
    secret = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    token = Token(
        id=str(uuid.uuid4()),
        user_id=None if user is None else user.id,
        name=one_line_name(name),
        created_at=now,
        scope=scope,
        expires_at=expires_at,
    )
    described = {"name": token.name, "scope": scope, "user": token.user_id, "expires": expires_at}
    describe("token.add", f"token {token.id}", **described)
    await store.tokens.add(token, _hash(secret))
    return NewToken(token, secret)


def _within(creator: Token, scope: TokenScope, expires_at: datetime | None) -> datetime | None:
    """The expiry of a token that another one creates: without one, that of its creator."""
    if creator.user_id is not None and scope not in (TokenScope.USER, TokenScope.READ):
        raise Forbidden(f"a token with scope {scope} needs an administrator's token")
    if expires_at is None or creator.expires_at is None:
        return expires_at or creator.expires_at
    if expires_at > creator.expires_at:  # else a leaked token could be renewed forever
        raise UsageError("it would expire after the token that creates it", field="expiresAt")
    return expires_at


async def revoke_token(store: Store, wanted: str) -> Token:
    """Revoke the token with this id, prefix of an id, or name."""
    tokens = await store.tokens.all()
    matches = [t for t in tokens if t.id == wanted] or [
        t for t in tokens if t.name == wanted or (wanted and t.id.startswith(wanted))
    ]
    if not matches:
        raise NotFound(f"there is no token {wanted!r}; `headwater tokens` lists all")
    if len(matches) > 1:
        raise UsageError(f"{wanted!r} matches {len(matches)} tokens; give the whole id")
    await remove_token(store, matches[0])
    return matches[0]


async def remove_token(store: Store, token: Token) -> None:
    """Revoke a token: it is refused from now on."""
    describe("token.revoke", f"token {token.id}", name=token.name, user=token.user_id)
    await store.tokens.remove(token.id)


async def token_with(store: Store, secret: str, now: datetime) -> Token | None:
    """The valid token with this secret, if any; an unknown one takes as long to look up."""
    given = _hash(secret)
    found = await store.tokens.with_hash(given)
    if found is None or not hmac.compare_digest(found[1], given):
        return None
    expires_at = found[0].expires_at
    return found[0] if expires_at is None or now < expires_at else None


async def log_in(
    store: Store, secret: str, now: datetime, *, instead_of: str | None = None
) -> str | None:
    """Start a session with a token's secret, and return its cookie; None: there is no such token.

    The session permits what the token permits, while the token is valid. `instead_of`: the
    browser's previous cookie, whose session ends.
    """
    token = await token_with(store, secret.strip(), now)
    if token is None:
        return None
    if token.scope is TokenScope.METRICS:
        raise Forbidden("this token permits reading /metrics only; it cannot log in")
    cookie = secrets.token_urlsafe(_RANDOM_BYTES)
    expires_at = now + SESSION_LIFETIME
    async with store.audit.acting(await name_of(store, token)):
        describe("login", f"token {token.id}")
        if not await store.sessions.add(_hash(cookie), token.id, now=now, expires_at=expires_at):
            return None
    if instead_of is not None:
        await log_out(store, instead_of)
    return cookie


async def token_in_session(store: Store, cookie: str, now: datetime) -> Token | None:
    """The token of a session; None if the session ended, or its token expired or was revoked."""
    if not cookie or len(cookie) > _MAX_COOKIE_LENGTH:
        return None
    return await store.sessions.token_of(_hash(cookie), now)


async def log_out(store: Store, cookie: str) -> None:
    """End a session."""
    describe("logout", "")
    await store.sessions.remove(_hash(cookie))


async def name_of(store: Store, token: Token | None) -> str:
    """Who acts with a token, for the audit log; without one, someone on this machine."""
    if token is None:
        return LOOPBACK
    if token.user_id is None:
        return f"token {token.name}"
    return f"token {token.name} of {(await store.accounts.user(token.user_id)).name}"


def _hash(secret: str) -> str:
    # a fast hash is enough: 256 random bits cannot be guessed
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
