"""Access tokens, and browser sessions logged in with one; only hashes are stored (U1, U3)."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter

from headwater.errors import HeadwaterError, NotFound, UsageError
from headwater.model import Token
from headwater.store.database import Row, Session, Tables, reads, reads_inline, writes
from headwater.store.keyset_pages import fetch_items
from headwater.store.row_mapping import columns, encoded, row_reader, to_ms

MAX_TOKENS_PER_USER = 100  # expired ones count until they are revoked
MAX_SESSIONS_PER_TOKEN = 100  # the oldest are logged out: repeated logins cannot fill the table
LAST_USE_PRECISION = timedelta(minutes=1)
_NAMES = tuple(field.name for field in fields(Token))
_COLUMNS = columns(_NAMES)
_read_token = row_reader(Token, "tokens")


def _exist(session: Session) -> bool:
    """Whether any token exists, which makes authentication mandatory."""
    return bool(session.fetch("SELECT 1 FROM tokens LIMIT 1"))


def _with_hash(session: Session, token_hash: str) -> tuple[Token, str] | None:
    """The token with this hash, and the stored hash."""
    sql = f"SELECT {_COLUMNS}, hash FROM tokens WHERE hash = :hash"
    rows = session.fetch(sql, {"hash": token_hash})
    return (_read_token.one(rows[0][:-1]), rows[0][-1]) if rows else None


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token with the name of its user."""

    token: Token
    user: str | None  # None: of all users


def _listed(
    session: Session,
    *,
    only: str | None,
    limit: int,
    after: tuple[object, ...] | None = None,
    token_id: str | None = None,
) -> list[ListedToken]:
    """Tokens of one user, or of all if `only` is None; oldest first, after a position."""
    at = _NAMES.index("created_at")
    fetch = partial(_fetch_listed, session, only, limit, token_id)
    return fetch_items(fetch, _read_listed, itemgetter(at, 0), limit=limit, after=after)


def _fetch_listed(
    session: Session,
    only: str | None,
    limit: int,
    token_id: str | None,
    after: tuple[object, ...] | None,
) -> list[Row]:
    conditions = ["TRUE"]
    if only is not None:
        conditions.append("t.user_id = :only")
    if token_id is not None:
        conditions.append("t.id = :id")
    if after is not None:
        conditions.append("(t.created_at, t.id) > (:after_at, :after_id)")
    after_at, after_id = after or (None, None)
    sql = f"""SELECT {columns(_NAMES, "t")}, u.name FROM tokens t
        LEFT JOIN users u ON u.id = t.user_id WHERE {" AND ".join(conditions)}
        ORDER BY t.created_at, t.id LIMIT :limit"""
    params = {"only": only, "id": token_id, "limit": limit}
    return session.fetch(sql, params | {"after_at": after_at, "after_id": after_id})


def _read_listed(rows: Sequence[Row]) -> list[ListedToken]:
    names = {row[0]: row[-1] for row in rows}
    return [ListedToken(token, names[token.id]) for token in _read_token.all(rows)]


def _note_uses(session: Session, token_ids: Collection[str], now: datetime) -> None:
    """Store the time of use of tokens, unless a recent one is stored."""
    sql = """UPDATE tokens SET last_used_at = :now WHERE id IN :ids
        AND (last_used_at IS NULL OR last_used_at <= :before OR last_used_at >= :after)"""
    times = {
        "now": to_ms(now),
        "before": to_ms(now - LAST_USE_PRECISION),
        "after": to_ms(now + LAST_USE_PRECISION),  # the clock was set back
    }
    session.execute(sql, {"ids": list(token_ids)} | times)


def _add(session: Session, token: Token, token_hash: str) -> None:
    """Store a new token by its hash."""
    row = {name: encoded(getattr(token, name)) for name in _NAMES} | {"hash": token_hash}
    if token.user_id is not None:
        _refuse_too_many(session, token.user_id)
    session.insert_rows("tokens", [row])


def _refuse_too_many(session: Session, user_id: str) -> None:
    """Raise UsageError if a user has all the tokens that they may have (U8)."""
    user = {"user": user_id}
    session.fetch("SELECT id FROM users WHERE id = :user FOR NO KEY UPDATE", user)
    there = session.fetch("SELECT count(*) FROM tokens WHERE user_id = :user", user)[0][0]
    if there >= MAX_TOKENS_PER_USER:
        message = f"a user may have {MAX_TOKENS_PER_USER} tokens; revoke one first"
        raise UsageError(message, field="user")


class Tokens(Tables):
    """The tokens table."""

    exist = reads_inline(_exist)
    with_hash = reads_inline(_with_hash)
    listed = reads(_listed)
    note_uses = writes(_note_uses)
    add = writes(_add)

    async def all(self) -> Sequence[Token]:
        """Every token, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM tokens ORDER BY created_at, id"
        return _read_token.all(await self.database.fetch(sql))

    async def remove(self, token_id: str) -> None:
        """Revoke a token."""
        if not await self.database.execute("DELETE FROM tokens WHERE id = :id", {"id": token_id}):
            raise NotFound(f"there is no token {token_id}")


class TokenUses:
    """Stores when tokens are used, in the background and at most once a minute for each (U1)."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._used: dict[str, datetime] = {}  # not stored yet
        self._task: asyncio.Task[None] | None = None

    def note(self, token: Token, now: datetime) -> None:
        """Store a use soon; requests do not wait for it."""
        if token.last_used_at is not None and abs(now - token.last_used_at) < LAST_USE_PRECISION:
            return
        self._used[token.id] = now
        if self._task is None:
            self._task = asyncio.create_task(self._store())

    async def flush(self) -> None:
        """Wait until all uses are stored."""
        if self._task is not None:
            await self._task

    async def _store(self) -> None:
        try:
            while self._used:
                used, self._used = self._used, {}
                await self._tokens.note_uses(used.keys(), max(used.values()))
        except HeadwaterError:
            pass  # the database is not available; the next use is stored
        finally:
            self._task = None


def _add_session(
    session: Session, session_hash: str, token_id: str, *, now: datetime, expires_at: datetime
) -> bool:
    """Store a new session and delete expired ones; False if the token was revoked meanwhile."""
    params = {"token": token_id, "now": to_ms(now), "most": MAX_SESSIONS_PER_TOKEN - 1}
    if not session.fetch("SELECT id FROM tokens WHERE id = :token FOR KEY SHARE", params):
        return False
    session.execute("DELETE FROM sessions WHERE expires_at <= :now", params)
    sql = """DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE token_id = :token
            ORDER BY expires_at DESC LIMIT 1000 OFFSET :most)"""
    session.execute(sql, params)
    row = {"hash": session_hash, "token_id": token_id, "expires_at": to_ms(expires_at)}
    session.insert_rows("sessions", [row])
    return True


def _token_of(session: Session, session_hash: str, now: datetime) -> Token | None:
    """The token that a session was started with, unless the session has expired."""
    sql = f"""SELECT {columns(_NAMES, "t")} FROM sessions s JOIN tokens t ON t.id = s.token_id
        WHERE s.hash = :hash AND s.expires_at > :now
        AND (t.expires_at IS NULL OR t.expires_at > :now)"""
    rows = session.fetch(sql, {"hash": session_hash, "now": to_ms(now)})
    return _read_token.one(rows[0]) if rows else None


class Sessions(Tables):
    """The sessions table: logged-in browsers by the hash of their cookie."""

    add = writes(_add_session)
    token_of = reads_inline(_token_of)

    async def remove(self, session_hash: str) -> None:
        """End a session."""
        sql = "DELETE FROM sessions WHERE hash = :hash"
        await self.database.execute(sql, {"hash": session_hash})
