"""Access tokens: making, listing, revoking and recognising them (U1)."""

import hashlib
import hmac
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.errors import NotFound, UsageError
from headwater.model import Token, User
from headwater.operations.people import one_line_name
from headwater.store import Store

_PREFIX = "hw_"
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token and its secret, which is shown this once."""

    token: Token
    secret: str


async def add_token(store: Store, user: User | None, name: str, now: datetime) -> NewToken:
    """Make a token for a user, or for an administrator if there is none."""
    secret = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    token = Token(
        id=str(uuid.uuid4()),
        user_id=None if user is None else user.id,
        name=one_line_name(name),
        created_at=now,
    )
    await store.tokens.add(token, _hash(secret))
    return NewToken(token, secret)


async def list_tokens(store: Store) -> Sequence[Token]:
    """Every token, oldest first."""
    return await store.tokens.all()


async def revoke_token(store: Store, wanted: str) -> Token:
    """Revoke the token with this id, this beginning of an id, or this name."""
    tokens = await store.tokens.all()
    matches = [t for t in tokens if t.id == wanted] or [
        t for t in tokens if t.name == wanted or (wanted and t.id.startswith(wanted))
    ]
    if not matches:
        raise NotFound(f"there is no token {wanted!r}; `headwater tokens` shows them all")
    if len(matches) > 1:
        raise UsageError(f"{wanted!r} fits {len(matches)} tokens; give the whole id")
    await store.tokens.remove(matches[0].id)
    return matches[0]


async def token_with(store: Store, secret: str) -> Token | None:
    """The token that this secret belongs to, if any.

    Whatever is no token is looked up like one, so that the time it takes tells nothing.
    """
    given = _hash(secret)
    found = await store.tokens.with_hash(given)
    if found is None or not hmac.compare_digest(found[1], given):
        return None
    return found[0]


def _hash(secret: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
