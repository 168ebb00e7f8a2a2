"""Sessions: browsers that are logged in, known by the hash of their cookie (U1, U3)."""

from collections.abc import Mapping
from datetime import datetime

from headwater.model import Token
from headwater.store.database import Database, Session
from headwater.store.rows import moment, to_ms

MOST_PER_TOKEN = 100  # older ones are logged out: a script that logs in for ever fills nothing


class Sessions:
    """The sessions table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, session_hash: str, token_id: str, *, now: datetime, expires_at: datetime
    ) -> bool:
        """Remember a browser that logged in, and forget those whose time is over.

        False: its token was revoked meanwhile, and nothing is remembered.
        """
        row = {
            "hash": session_hash,
            "token": token_id,
            "now": to_ms(now),
            "most": MOST_PER_TOKEN - 1,
        }
        return await self._database.write(lambda s: _add(s, row | {"until": to_ms(expires_at)}))

    async def token_of(self, session_hash: str, now: datetime) -> Token | None:
        """The token that a browser logged in with, while its time lasts."""
        sql = """SELECT t.id, t.user_id, t.name, t.created_at
            FROM sessions s JOIN tokens t ON t.id = s.token_id
            WHERE s.hash = :hash AND s.expires_at > :now"""
        params = {"hash": session_hash, "now": to_ms(now)}
        rows = await self._database.glance(lambda s: s.fetch(sql, params))
        return Token(rows[0][0], rows[0][1], rows[0][2], moment(rows[0][3])) if rows else None

    async def remove(self, session_hash: str) -> None:
        """Log a browser out."""
        sql = "DELETE FROM sessions WHERE hash = :hash"
        await self._database.write(lambda s: s.execute(sql, {"hash": session_hash}))


def _add(session: Session, row: Mapping[str, object]) -> bool:
    lock = " FOR KEY SHARE" if session.kind == "postgres" else ""
    if not session.fetch(f"SELECT id FROM tokens WHERE id = :token{lock}", row):
        return False
    session.execute("DELETE FROM sessions WHERE expires_at <= :now", row)
    session.execute(
        """DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE token_id = :token
            ORDER BY expires_at DESC LIMIT 1000 OFFSET :most)""",
        row,
    )
    session.execute(
        "INSERT INTO sessions (hash, token_id, expires_at) VALUES (:hash, :token, :until)", row
    )
    return True
