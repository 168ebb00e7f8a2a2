"""Backups: one SQLite file with all tables, of either database.

A backup is a consistent snapshot, made while others read and write. A restore replaces all rows in
one transaction: as a whole or not at all.
"""

from contextlib import closing
from pathlib import Path

from headwater.errors import StoreError, UsageError
from headwater.store import search_index, sequence_numbers
from headwater.store.api_keys import RETIRED_KEYS
from headwater.store.database import Database, Session
from headwater.store.database_copy import COPIED_FROM, KEYS, advance_sequence, table
from headwater.store.key_values import POLLER_KEY
from headwater.store.migrate import migrate, newest_version, schema_version
from headwater.store.sqlite import SqliteDatabase, SqliteFile

# Tokens and sessions belong to the machine: a backup must not restore a revoked one (U1). The audit
# log stays, so that no restore can erase an entry (U9).
TABLES = tuple(name for name in KEYS if name not in ("tokens", "sessions", "audit"))
LAST_BACKUP = "last backup at"  # the key-value entry with the time of the last one
_KEPT = f"'{POLLER_KEY}', '{RETIRED_KEYS}', '{LAST_BACKUP}'"
_NOT_COPIED = {"facts": f"name NOT IN ({_KEPT}, '{COPIED_FROM}', '{search_index.CURSOR}')"}
# Rows that a restore deletes first; the others stay as they are. The polling process, the retired
# master keys and the time of the last backup are not part of a backup. Host states stay: a hold
# that is newer than the backup must still be obeyed (P3, P9).
_REPLACED = {"facts": f"name NOT IN ({_KEPT})", "hosts": "FALSE"}


async def back_up(database: Database, target: Path) -> int:
    """Write a backup to a new file and return its number of rows."""
    return await database.read(lambda source: _write_file(source, target))


async def restore(database: Database, backup: Path) -> int:
    """Replace everything with the rows of a backup and return their number."""
    return await database.write(lambda target: _copy_in(target, backup))


def _write_file(source: Session, target: Path) -> int:
    if target.exists():
        raise UsageError(f"{target} exists; a backup never overwrites a file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with closing(SqliteFile(partial)) as file:
            file.execute("BEGIN IMMEDIATE")
            migrate(file, SqliteDatabase.migrations)
            for name in ("podcasts", "users"):  # the migrations insert a default one
                file.execute(f"DELETE FROM {name} WHERE TRUE")
            rows = sum(_copy(source, file, name) for name in TABLES)
            sequence_numbers.continue_after(file, sequence_numbers.last(source))
            file.execute("COMMIT")
        partial.rename(target)
    finally:
        for leftover in target.parent.glob(f"{partial.name}*"):
            leftover.unlink()
    return rows


def _copy_in(target: Session, path: Path) -> int:
    if not path.is_file():
        raise UsageError(f"there is no backup {path}")
    with closing(SqliteFile(path)) as source:
        _check(source, path)
        tokens = table(target, "tokens")
        kept = [tokens.values_of(row) for rows in tokens.batches(target) for row in rows]
        for name in reversed(TABLES):
            target.execute(f"DELETE FROM {name} WHERE {_REPLACED.get(name, 'TRUE')}")
        total = sum(_copy(source, target, name) for name in TABLES)
        sequence_numbers.continue_after(
            target, sequence_numbers.last(source)
        )  # never lower than it was
    search_index.clear_index(target)  # a backup has none: it is written again
    # this database's tokens were deleted with their users
    users = {row[0] for row in target.fetch("SELECT id FROM users")}
    kept = [token for token in kept if token["user_id"] in {None, *users}]
    target.insert_rows("tokens", kept, "ON CONFLICT DO NOTHING")
    return total


def _check(source: SqliteFile, path: Path) -> None:
    damage = [row[0] for row in source.fetch("PRAGMA integrity_check") if row[0] != "ok"]
    if damage:
        raise StoreError(f"{path} is damaged: {' '.join(damage[0].split())}")
    version = schema_version(source)
    newest = newest_version(SqliteDatabase.migrations)
    if version == 0 or version > newest:
        raise StoreError(f"{path} has schema {version}, this program knows 1 to {newest}")
    if version < newest:
        source.execute("BEGIN IMMEDIATE")  # never committed: the file stays unchanged
        migrate(source, SqliteDatabase.migrations)


def _copy(source: Session, target: Session, name: str) -> int:
    copied = table(source, name, _NOT_COPIED.get(name, "TRUE"))
    conflict = "ON CONFLICT DO NOTHING" if name in _REPLACED else ""
    total = 0
    for rows in copied.batches(source):
        target.insert_rows(name, [copied.values_of(row) for row in rows], conflict)
        total += len(rows)
    advance_sequence(target, name)
    return total
