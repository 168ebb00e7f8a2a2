"""Notices: short texts to every process that listens, through PostgreSQL; missed ones are lost."""

import zlib
from collections.abc import AsyncIterator, Sequence
from typing import cast

import psycopg

from headwater.store.database import Session
from headwater.store.postgres import CONNECTED, PostgresDatabase, PostgresSession

_CHANNEL = "headwater_events"
_LISTENING = zlib.crc32(b"headwater listener")  # a lock that everybody who listens shares
_TELL = f"SELECT pg_notify('{_CHANNEL}', text) FROM unnest(%b::TEXT[]) AS text"


class Notices:
    """One channel that workers tell on and API servers listen to."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def tell(self, texts: Sequence[str]) -> None:
        """Send texts to whoever listens now."""
        await self._database.write(lambda s: _tell(s, texts))

    async def are_heard(self) -> bool:
        """Whether anybody listens."""
        sql = f"SELECT NOT pg_try_advisory_xact_lock({_LISTENING})"
        return bool((await self._database.read(lambda s: s.fetch(sql)))[0][0])

    async def listen(self) -> AsyncIterator[str]:
        """What is told from now on; raises our own error when the connection ends."""
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._database.url,
                autocommit=True,
                application_name="headwater listener",
                **CONNECTED,
            )
            async with connection:
                await connection.execute(f"LISTEN {_CHANNEL}")
                await connection.execute(f"SELECT pg_advisory_lock_shared({_LISTENING})")
                async for notice in connection.notifies():
                    yield notice.payload
        except psycopg.Error as error:
            raise self._database.translate(error) from error


def _tell(session: Session, texts: Sequence[str]) -> None:
    session.execute("SET LOCAL synchronous_commit = off")  # nothing of it is on any disk
    cast(PostgresSession, session).connection.execute(_TELL, [list(texts)])
