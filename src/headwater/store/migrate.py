"""Migrations: bring a database to the newest schema in one transaction (K7)."""

import re
from pathlib import Path

from headwater.errors import SchemaTooNew, StoreError
from headwater.store.database import Session

_NAME = re.compile(r"(\d{4})_\w+\.sql")


def schema_version(session: Session) -> int:
    """The number of the last migration that was applied; 0 for an empty database."""
    tables = {
        "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'",
        "postgres": "SELECT 1 WHERE to_regclass('schema_version') IS NOT NULL",
    }
    if not session.fetch(tables[session.kind]):
        return 0
    return int(session.fetch("SELECT coalesce(max(version), 0) FROM schema_version")[0][0])


def too_new(version: int, newest: int) -> str:
    """The message for a schema that a newer version of this program has made."""
    return f"the database has schema {version}, this program knows {newest}: upgrade headwater"


def newest_version(folder: Path) -> int:
    """The number of the last migration this program knows."""
    return max(number for number, _ in _migrations(folder))


def migrate(session: Session, folder: Path) -> tuple[int, int]:
    """Apply missing migrations in the caller's transaction; return the old and new version."""
    if session.kind == "postgres":  # processes that start at once migrate one after the other
        session.execute("SELECT pg_advisory_xact_lock(8420)")
    before = schema_version(session)
    newest = newest_version(folder)
    if before > newest:
        raise SchemaTooNew(too_new(before, newest))
    if before == 0 and session.kind == "sqlite":
        _refuse_other_schema(session)
    session.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)")
    for number, path in _migrations(folder):
        if number > before:
            for statement in statements(path.read_text(encoding="utf-8")):
                session.execute(statement)
            session.execute("INSERT INTO schema_version VALUES (:number)", {"number": number})
    return before, newest


def _refuse_other_schema(session: Session) -> None:
    """Raise StoreError if the file has tables of another program; it stays unchanged."""
    sql = """SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'schema_version'
        AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"""
    if rows := session.fetch(sql):
        raise StoreError(f"this is not a headwater database: it has a table {rows[0][0]!r}")


def statements(script: str) -> list[str]:
    """The statements of a migration; a semicolon at the end of a line ends one, except in $$."""
    bare = re.sub(r"--[^\n]*", "", script)
    bare = re.sub(r"\$\$.*?\$\$", lambda body: body[0].replace("\n", " "), bare, flags=re.DOTALL)
    return [part.strip() for part in re.split(r";\s*\n", bare + "\n") if part.strip()]


def _migrations(folder: Path) -> list[tuple[int, Path]]:
    found = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in found if match is not None)
