"""Tokens: who may come in; only their hashes are known here (U1)."""

from collections.abc import Sequence

from headwater.errors import NotFound
from headwater.model import Token
from headwater.store.database import Database, Row, Session
from headwater.store.rows import moment, to_ms

_COLUMNS = "id, user_id, name, created_at"


class Tokens:
    """The tokens table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, token: Token, token_hash: str) -> None:
        """Store a new token by its hash."""
        params = {
            "id": token.id,
            "user": token.user_id,
            "name": token.name,
            "hash": token_hash,
            "now": to_ms(token.created_at),
        }
        sql = """INSERT INTO tokens (id, user_id, name, hash, created_at)
            VALUES (:id, :user, :name, :hash, :now)"""
        await self._database.write(lambda s: s.execute(sql, params))

    async def all(self) -> Sequence[Token]:
        """Every token, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM tokens ORDER BY created_at, id"
        return [_token(row) for row in await self._database.read(lambda s: s.fetch(sql))]

    async def remove(self, token_id: str) -> None:
        """Revoke a token: from now on nobody comes in with it."""
        sql = "DELETE FROM tokens WHERE id = :id"
        if not await self._database.write(lambda s: s.execute(sql, {"id": token_id})):
            raise NotFound(f"there is no token {token_id}")

    async def exist(self) -> bool:
        """Whether there is any token, so that one is needed."""
        return await self._database.glance(_exist)

    async def with_hash(self, token_hash: str) -> tuple[Token, str] | None:
        """The token with this hash, and the hash as it is stored."""
        sql = f"SELECT {_COLUMNS}, hash FROM tokens WHERE hash = :hash"
        rows = await self._database.glance(lambda s: s.fetch(sql, {"hash": token_hash}))
        return (_token(rows[0]), rows[0][4]) if rows else None


def _exist(session: Session) -> bool:
    return bool(session.fetch("SELECT 1 FROM tokens LIMIT 1"))


def _token(row: Row) -> Token:
    return Token(row[0], row[1], row[2], moment(row[3]))
