"""Notices: short texts to every process that listens, through PostgreSQL; missed ones are lost."""

from collections.abc import AsyncIterator, Sequence

import psycopg

from headwater.store.postgres import PostgresDatabase

_CHANNEL = "headwater_events"


class Notices:
    """One channel that workers tell on and API servers listen to."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def tell(self, texts: Sequence[str]) -> None:
        """Send texts to whoever listens now."""
        sql = "SELECT pg_notify(:channel, text) FROM unnest(CAST(:texts AS TEXT[])) AS text"
        params = {"channel": _CHANNEL, "texts": list(texts)}
        await self._database.write(lambda s: s.fetch(sql, params))

    async def listen(self) -> AsyncIterator[str]:
        """What is told from now on; raises our own error when the connection ends."""
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._database.url, autocommit=True, application_name="headwater listener"
            )
            async with connection:
                await connection.execute(f"LISTEN {_CHANNEL}")
                async for notice in connection.notifies():
                    yield notice.payload
        except psycopg.Error as error:
            raise self._database.translate(error) from error
