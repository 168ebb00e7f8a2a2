"""Facts: single values about this database that outlive a process."""

from headwater.store.database import Database, Session

POLLER_FACT = "poller"  # who polls; there after a start only if the last stop was unclean


class Facts:
    """The facts table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> str | None:
        """The value of a fact, if it is known."""
        return await self._database.read(lambda s: _value(s, name))

    async def set(self, name: str, value: str | None) -> str | None:
        """Change a fact, or forget it, and answer what it was."""
        return await self._database.write(lambda s: _swap(s, name, value))


def _value(session: Session, name: str) -> str | None:
    rows = session.fetch("SELECT value FROM facts WHERE name = :name", {"name": name})
    return rows[0][0] if rows else None


def _swap(session: Session, name: str, value: str | None) -> str | None:
    before = _value(session, name)
    if value is None:
        session.execute("DELETE FROM facts WHERE name = :name", {"name": name})
    else:
        session.execute(
            """INSERT INTO facts (name, value) VALUES (:name, :value)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
            {"name": name, "value": value},
        )
    return before
