"""The size of a database, and `vacuum`, which returns or reuses the space of deleted rows."""

import asyncio
import shutil
from contextlib import closing
from typing import NamedTuple

from headwater.errors import UsageError
from headwater.store.database import Database, Session
from headwater.store.sqlite import SqliteDatabase, SqliteSession

_PAGES_PER_BATCH = 500  # 2 MB: another writer waits for about a tenth of a second
_PAUSE_SECONDS = 0.1  # between batches, for other writers
_INCREMENTAL = 2  # SQLite's auto_vacuum mode
_COPIES = 2  # a full vacuum writes a temporary copy, then the log
_MB = 1024**2
# the pace of PostgreSQL's own background vacuum, so that other sessions notice little
_PACE = "SET vacuum_cost_delay = '2ms'"


class DatabaseSize(NamedTuple):
    """Bytes of a database, without the write-ahead log."""

    total: int
    free: int | None  # unused space of a SQLite file; None on PostgreSQL


class VacuumReport(NamedTuple):
    """The sizes before and after, and what was done."""

    before: DatabaseSize
    after: DatabaseSize
    method: str


def database_size(session: Session) -> DatabaseSize:
    """The current size; takes milliseconds."""
    if session.kind == "postgres":
        rows = session.fetch("SELECT pg_database_size(current_database())")
        return DatabaseSize(int(rows[0][0]), None)
    page, pages, free = (_number(session, n) for n in ("page_size", "page_count", "freelist_count"))
    return DatabaseSize(page * pages, page * free)


async def vacuum(database: Database) -> VacuumReport:
    """Return the space of deleted rows to the system (SQLite) or to new rows (PostgreSQL).

    A SQLite file that is being polled is vacuumed in small steps, if it was vacuumed once before.
    """
    before = await database.read(database_size)
    if not isinstance(database, SqliteDatabase):
        await asyncio.to_thread(_vacuum_server, database)
        method = "tables vacuumed and analyzed"
    elif await database.acquire_poll_lock():
        await asyncio.to_thread(_vacuum_file, database)
        method = "file rewritten"
    else:
        await _vacuum_in_steps(database)
        method = "free pages removed in small steps"
    return VacuumReport(before, await database.read(database_size), method)


def _vacuum_file(database: SqliteDatabase) -> None:
    """Rewrite the file without gaps; the caller holds the poll lock."""
    with closing(database.connect()) as session:
        size = database_size(session)
        needed = _COPIES * (size.total - (size.free or 0))
        folder = database.path.absolute().parent
        there = shutil.disk_usage(folder).free
        if there < needed:
            raise UsageError(
                f"a vacuum needs {needed / _MB:,.0f} MB of free disk space in {folder}, but there "
                f"are {there / _MB:,.0f} MB; nothing was changed"
            )
        # a file on the same disk: by default the copy would be in memory
        quoted = str(folder).replace("'", "''")
        session.execute(f"PRAGMA temp_store_directory = '{quoted}'")
        session.execute("PRAGMA temp_store = FILE")
        session.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")  # small steps from now on
        session.execute("INSERT INTO search_index (search_index) VALUES ('optimize')")
        session.execute("VACUUM")
        session.fetch("PRAGMA wal_checkpoint(TRUNCATE)")


async def _vacuum_in_steps(database: SqliteDatabase) -> None:
    """Remove free pages beside a running service, each step a short transaction."""
    with closing(await asyncio.to_thread(database.connect)) as session:
        if _number(session, "auto_vacuum") != _INCREMENTAL:
            raise UsageError(
                "a headwater process polls this database: stop it for the first vacuum; later ones "
                "can run beside it"
            )
        for _ in range(0, _number(session, "freelist_count"), _PAGES_PER_BATCH):
            await asyncio.to_thread(_remove_pages, session)
            await asyncio.sleep(_PAUSE_SECONDS)


def _remove_pages(session: SqliteSession) -> None:
    # as a script: the driver would run only the first step of this statement
    session.connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_PER_BATCH})")


def _vacuum_server(database: Database) -> None:
    """VACUUM (ANALYZE) every table of the schema that has rows; others read and write meanwhile."""
    with closing(database.connect()) as session:
        session.execute(_PACE)
        sql = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema()"
        for (name,) in session.fetch(f"{sql} AND tableowner = current_user ORDER BY 1"):
            # statistics of an empty table would make the planner expect that it stays empty
            if session.fetch(f"SELECT 1 FROM {name} LIMIT 1"):
                session.execute(f"VACUUM (ANALYZE) {name}")


def _number(session: Session, pragma: str) -> int:
    return int(session.fetch(f"PRAGMA {pragma}")[0][0])
