"""Backups: one SQLite file that holds every table, whichever database it came from.

A backup is a consistent copy made while others read and write. A restore replaces all rows in
one transaction: it happens whole or not at all.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headwater.errors import StoreError, UsageError
from headwater.store.database import Database, Row, Session
from headwater.store.migrate import migrate, newest_version, schema_version
from headwater.store.moving import COPIED_FROM
from headwater.store.sqlite import SqliteDatabase, SqliteFile
from headwater.store.tables import columns_of

# parents first, so that rows find what they point to
TABLES = (
    "users", "podcasts", "api_keys", "sources", "posts", "tombstones", "late_keys", "articles",
    "post_articles", "polls", "hosts", "facts",
)  # fmt: skip
_PAGE = 2000
_PAIRED = ("api_keys", "tombstones", "late_keys", "post_articles")  # keyed by their first two
_NOT_COPIED = {"facts": ("poller", "retired_master_keys", COPIED_FROM)}
# What a restore takes away. Who polls and which master keys were rotated out is none of its
# business, and what hosts asked for stays: a hold that is newer than the backup must still be
# obeyed (P3, P9).
_REPLACED = dict.fromkeys(TABLES, "TRUE") | {
    "facts": "name NOT IN ('poller', 'retired_master_keys')",
    "hosts": "FALSE",
}


async def back_up(database: Database, target: Path) -> int:
    """Write a backup to a new file and answer how many rows it holds."""
    return await database.read(lambda source: _write_file(source, target))


async def restore(database: Database, backup: Path) -> int:
    """Replace everything with what a backup holds and answer how many rows that is."""
    return await database.write(lambda target: _copy_in(target, backup))


def _write_file(source: Session, target: Path) -> int:
    if target.exists():
        raise UsageError(f"{target} exists; a backup never overwrites a file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        rows = _copy_out(source, partial)
        partial.rename(target)
    finally:
        for leftover in target.parent.glob(f"{partial.name}*"):
            leftover.unlink()
    return rows


def _copy_out(source: Session, path: Path) -> int:
    target = SqliteFile(path)
    try:
        target.execute("BEGIN IMMEDIATE")
        migrate(target, SqliteDatabase.migrations)
        for table in ("podcasts", "users"):  # those that a new database starts with
            target.execute(f"DELETE FROM {table} WHERE TRUE")
        rows = sum(_copy(source, target, table) for table in TABLES)
        target.execute("COMMIT")
    finally:
        target.close()
    return rows


def _copy_in(target: Session, path: Path) -> int:
    if not path.is_file():
        raise UsageError(f"there is no backup {path}")
    source = SqliteFile(path)
    try:
        _check(source, path)
        tokens = target.fetch("SELECT id, user_id, name, hash, created_at FROM tokens")
        for table in reversed(TABLES):
            target.execute(f"DELETE FROM {table} WHERE {_REPLACED[table]}")
        rows = sum(_copy(source, target, table) for table in TABLES)
        _keep_tokens(target, tokens)
        if target.kind == "postgres":
            target.execute(
                "SELECT setval(pg_get_serial_sequence('polls', 'id'), "
                "(SELECT coalesce(max(id), 0) + 1 FROM polls))"
            )
    finally:
        source.close()
    return rows


def _keep_tokens(target: Session, tokens: Sequence[Row]) -> None:
    """Who may come in is this machine's business: a backup brings no revoked token back (U1)."""
    users = {row[0] for row in target.fetch("SELECT id FROM users")}
    names = ("id", "user_id", "name", "hash", "created_at")
    rows = [dict(zip(names, row, strict=True)) for row in tokens if row[1] in {None, *users}]
    target.insert_rows("tokens", rows, "ON CONFLICT DO NOTHING")


def _check(source: SqliteFile, path: Path) -> None:
    damage = [row[0] for row in source.fetch("PRAGMA integrity_check") if row[0] != "ok"]
    if damage:
        raise StoreError(f"{path} is damaged: {' '.join(damage[0].split())}")
    version = schema_version(source)
    newest = newest_version(SqliteDatabase.migrations)
    if version == 0 or version > newest:
        raise StoreError(f"{path} has schema {version}, this program knows 1 to {newest}")
    if version < newest:
        source.execute("BEGIN IMMEDIATE")  # upgraded in memory only: rolled back with the copy
        migrate(source, SqliteDatabase.migrations)


def _copy(source: Session, target: Session, table: str) -> int:
    columns = columns_of(source, table)
    if not columns:
        raise StoreError(f"there is no table {table} to copy")
    # SQLite keeps truth as a number, which PostgreSQL does not take for one
    values = [f":{name} <> 0" if type_ == "boolean" else f":{name}" for name, type_ in columns]
    names = [name for name, _ in columns]
    insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"
    if _REPLACED[table] != "TRUE":
        insert += " ON CONFLICT DO NOTHING"
    total = 0
    for page in _pages(source, table, names):
        target.execute_many(insert, [dict(zip(names, row, strict=True)) for row in page])
        total += len(page)
    return total


def _pages(session: Session, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
    names = ", ".join(columns)
    skipped = _NOT_COPIED.get(table, ())
    key = {"polls": "id", "hosts": "lane", "facts": "name"}.get(table, columns[0])
    order = f"{key}, {columns[1]}" if table in _PAIRED else key
    offset: tuple[object, ...] | None = None
    while True:
        where, params = _behind(table, key, columns, offset)
        sql = f"SELECT {names} FROM {table} {where} ORDER BY {order} LIMIT {_PAGE}"
        rows = session.fetch(sql, params)
        if rows:
            yield [row for row in rows if row[0] not in skipped]
        if len(rows) < _PAGE:
            return
        last = rows[-1]
        offset = (last[columns.index(key)], last[1])


def _behind(
    table: str, key: str, columns: Sequence[str], offset: tuple[object, ...] | None
) -> tuple[str, dict[str, object]]:
    if offset is None:
        return "", {}
    if table in _PAIRED:
        return (
            f"WHERE ({key}, {columns[1]}) > (:first, :second)",
            {"first": offset[0], "second": offset[1]},
        )
    return f"WHERE {key} > :first", {"first": offset[0]}
