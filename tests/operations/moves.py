"""Databases to move between, with something in every table."""

import asyncio
from typing import Any

from headwater.clock import SystemClock
from headwater.model import Token
from headwater.operations.moving import Moved, Progress, move
from headwater.store import Session, Store, open_database
from headwater.store.tables import KEYS
from tests.store.filling import fill
from tests.store.pieces import DAY, NOW, everything

Rows = dict[str, list[tuple[Any, ...]]]
OWN_FACTS = ("copied_from", "poller")


async def fill_all(url: str) -> None:
    """Put something into every table, tokens and sessions included, in no common order."""
    async with Store(open_database(url), SystemClock()) as store:
        await store.prepare()
        await fill(store)
        for token_id, user_id in (("t1", None), ("t2", "u"), ("T-3", "default"), ("t_4", None)):
            token = Token(token_id, user_id, f"token {token_id}", NOW)
            await store.tokens.add(token, f"hash of {token_id}")
            await store.sessions.add(f"s-{token_id}", token_id, now=NOW, expires_at=NOW + DAY)
        # servers sort these by other rules than SQLite
        for name in ("b", "B", "a_b", "a-b", "A b", "ä", "retired_master_keys"):
            await store.facts.set(name, f"value of {name}")


async def all_rows(url: str) -> Rows:
    """All that moves, comparable across the two kinds of database."""
    async with Store(open_database(url), SystemClock()) as store:
        found = await everything(store)
        found["facts"] = [row for row in found["facts"] if row[0] not in OWN_FACTS]

        def more(session: Session) -> Rows:
            return {
                name: sorted(session.fetch(f"SELECT * FROM {name}"), key=repr)
                for name in ("tokens", "sessions")
            }

        found |= await store.database.read(more)
    assert sorted(found) == sorted(KEYS)
    return found


async def moved(source: str, target: str, told: list[Progress] | None = None) -> Moved:
    """Move everything from one database to another."""
    clock = SystemClock()
    async with (
        Store(open_database(source), clock) as there,
        Store(open_database(target), clock) as here,
    ):
        return await move(there, here, clock, lambda p: None if told is None else told.append(p))


async def change(url: str, sql: str, **params: Any) -> int:
    """Change rows behind everybody's back."""
    async with Store(open_database(url), SystemClock()) as store:
        return await store.database.write(lambda s: s.execute(sql, params))


async def unclaimed(*urls: str) -> None:
    """Wait until nobody has the right to poll: a server needs a moment to miss a client."""
    for url in urls:
        database = open_database(url)
        while database.is_claimed():
            await asyncio.sleep(0.01)
        await database.close()
