"""Storage: backups with a record of the last one, and what an operator monitors about the size."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headwater.engine.cleanup import cleanup_batches
from headwater.errors import DatabaseUnavailable
from headwater.logs import get_logger
from headwater.rules.policy import Policy
from headwater.store import Session, Store
from headwater.store.audit import describe
from headwater.store.backup_file import LAST_BACKUP, back_up
from headwater.store.vacuum import DatabaseSize, database_size

log = get_logger()
MAX_BACKLOG = 10_000  # rows of a kind that are counted


@dataclass(frozen=True, slots=True)
class StorageStatus:
    """Size, expired rows that are not cleaned up yet, and the last backup."""

    size: DatabaseSize
    backlog: Mapping[str, int]  # by kind of row, at most MAX_BACKLOG each
    last_backup_at: datetime | None  # by `headwater backup`


async def back_up_and_record(store: Store, target: Path, now: datetime) -> int:
    """Write a backup, record its time for monitoring, and return its number of rows."""
    describe("database.backup", target.name)
    rows = await back_up(store.database, target)
    try:
        await store.key_values.set(LAST_BACKUP, now.isoformat())
    except DatabaseUnavailable as error:  # the backup itself is complete
        log.warning("the time of the backup could not be stored", error=str(error))
    return rows


async def storage_status(store: Store, policy: Policy, now: datetime) -> StorageStatus:
    """The current status; its cost does not grow with the database."""

    def read(session: Session) -> tuple[DatabaseSize, dict[str, int]]:
        batches = cleanup_batches(policy).items()
        backlog = {kind: len(batch.find(session, now, MAX_BACKLOG)) for kind, batch in batches}
        return database_size(session), backlog

    return StorageStatus(*await store.database.read(read), await last_backup_at(store))


async def last_backup_at(store: Store) -> datetime | None:
    """When `headwater backup` last succeeded; None if it never did."""
    try:
        return datetime.fromisoformat(await store.key_values.get(LAST_BACKUP) or "")
    except (ValueError, TypeError):  # never, or not written by this program
        return None
