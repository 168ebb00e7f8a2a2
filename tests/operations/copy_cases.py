"""Databases to copy between, with rows in every table."""

import asyncio
from typing import Any

from headwater.clock import SystemClock
from headwater.model import Token, TokenScope
from headwater.operations.copy_database import CopyProgress, CopyResult, copy_database
from headwater.store import Session, Store, open_database
from headwater.store.database_copy import KEYS
from tests.store.filled_tables import fill
from tests.store.store_data import DAY, NOW, everything

Rows = dict[str, list[tuple[Any, ...]]]
OWN_FACTS = ("copied_from", "poller")


async def fill_all(url: str) -> None:
    """Fill every table, tokens and sessions included, in no common order."""
    async with Store(open_database(url), SystemClock()) as store:
        await store.prepare()
        await fill(store)
        for token_id, user_id in (("t1", None), ("t2", "u"), ("T-3", "default"), ("t_4", None)):
            token = Token(token_id, user_id, f"token {token_id}", NOW, TokenScope.READ)
            await store.tokens.add(token, f"hash of {token_id}")
            await store.sessions.add(f"s-{token_id}", token_id, now=NOW, expires_at=NOW + DAY)
            await store.audit.add(f"token {token_id}", "user.add", f"user {user_id}", name="ä")
        # servers sort these by other rules than SQLite
        for name in ("b", "B", "a_b", "a-b", "A b", "ä", "retired_master_keys"):
            await store.key_values.set(name, f"value of {name}")


async def all_rows(url: str) -> Rows:
    """All copied rows, comparable across the two kinds of database."""
    async with Store(open_database(url), SystemClock()) as store:
        found = await everything(store)
        found["facts"] = [row for row in found["facts"] if row[0] not in OWN_FACTS]

        def more(session: Session) -> Rows:
            return {
                name: sorted(session.fetch(f"SELECT * FROM {name}"), key=repr)
                for name in ("tokens", "sessions", "audit")
            }

        found |= await store.database.read(more)
    assert sorted(found) == sorted(KEYS)
    return found


async def moved(source: str, target: str, reported: list[CopyProgress] | None = None) -> CopyResult:
    """Copy everything from one database to another."""
    clock = SystemClock()
    async with (
        Store(open_database(source), clock) as there,
        Store(open_database(target), clock) as here,
    ):
        return await copy_database(
            there, here, clock, lambda p: None if reported is None else reported.append(p)
        )


async def change(url: str, sql: str, **params: Any) -> int:
    """Change rows directly."""
    async with Store(open_database(url), SystemClock()) as store:
        return await store.database.write(lambda s: s.execute(sql, params))


async def unclaimed(*urls: str) -> None:
    """Wait until no process holds the right to poll: a server notices a lost client late."""
    for url in urls:
        database = open_database(url)
        while database.is_poll_locked():
            await asyncio.sleep(0.01)
        await database.close()
