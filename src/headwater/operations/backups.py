"""Copies of everything: writing one, and going back to one."""

from pathlib import Path

from headwater.store import Store
from headwater.store.backup import back_up, restore


async def write_backup(store: Store, target: Path) -> int:
    """Copy everything into a new file while others go on working; answer the number of rows."""
    return await back_up(store.database, target)


async def read_backup(store: Store, backup: Path) -> int:
    """Replace everything with what a backup holds, in one transaction; answer the rows.

    Safe beside a running service: its polls under way find another generation and are discarded.
    """
    return await restore(store.database, backup)
