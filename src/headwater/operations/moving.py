"""Moving house: everything from one database into another, bite by bite, and compared in the end.

An interrupted move goes on where it stopped when it is asked for again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.clock import Clock
from headwater.errors import (
    AlreadyPolling,
    DatabaseUnavailable,
    SchemaTooNew,
    StoreError,
    UsageError,
)
from headwater.store import Database, Session, Store, moving
from headwater.store.database import Row
from headwater.store.moving import Copy, Digest
from headwater.store.tables import Key, Table

_CLAIM_ATTEMPTS = 5
_CLAIM_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Progress:
    """How many rows of all tables were copied, or compared."""

    step: str  # `Copying` or `Comparing`
    table: str
    rows: int
    total: int


@dataclass(frozen=True, slots=True)
class Compared:
    """A table on both sides."""

    table: str
    source: Digest
    target: Digest

    @property
    def same(self) -> bool:
        """Whether both sides have the same rows."""
        return self.source == self.target


@dataclass(frozen=True, slots=True)
class Moved:
    """What came of a move."""

    tables: Sequence[Compared]
    copied: int  # rows, this time
    went_on: bool  # a move that was interrupted
    was_complete: bool  # before: nothing was copied, only compared

    @property
    def differing(self) -> Sequence[str]:
        """The tables that are not the same on both sides."""
        return [compared.table for compared in self.tables if not compared.same]


Tell = Callable[[Progress], None]


async def move(source: Store, target: Store, clock: Clock, tell: Tell) -> Moved:
    """Copy everything that is not in the target yet, then compare every table."""
    if source.database.address == target.database.address:
        raise UsageError("source and target are the same database")
    await _refuse_outdated(source)
    await source.check()
    await _claim(source.database, clock, "source")
    await _claim(target.database, clock, "target")
    await target.prepare()
    mover = _Mover(source.database, target.database, tell)
    return await mover.move()


class _Mover:
    def __init__(self, source: Database, target: Database, tell: Tell) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._tables: list[tuple[Table, Table]] = []  # as the source has them, and the target
        self._total = 0
        self._compared = 0  # rows

    async def move(self) -> Moved:
        await self._look()
        address = self._source.address
        origin = await self._source.read(lambda s: moving.origin_of(s, address))
        begun = copy = await self._target.write(lambda s: moving.begin(s, origin))
        if not begun.complete:
            copy = await self._copy(begun)
        tables = await self._compare()
        if not begun.complete and all(table.same for table in tables):
            await self._complete(copy)
        return Moved(tables, _rows(copy) - _rows(begun), bool(begun.places), begun.complete)

    async def _look(self) -> None:
        there = await self._source.read(moving.tables_of)
        here = await self._target.read(moving.tables_of)
        self._tables = list(zip(there, here, strict=True))
        for pair in self._tables:
            moving.refuse_unlike(*pair)
        self._total = sum([await self._source.read(table.count) for table in there])

    async def _copy(self, copy: Copy) -> Copy:
        for there, here in self._tables:
            while rows := await self._next_rows(there, copy):
                await self._keep_claims()
                copy = await self._take(here, rows, copy)
                self._tell(Progress("Copying", here.name, _rows(copy), self._total))
            await self._target.write(partial(moving.follow_on, name=here.name))
        return copy

    async def _next_rows(self, table: Table, copy: Copy) -> Sequence[Row]:
        after = copy.place(table.name).after
        return await self._source.read(partial(table.bite, after=after))

    async def _take(self, table: Table, rows: Sequence[Row], copy: Copy) -> Copy:
        try:
            work = partial(moving.take, here=table, rows=rows, copy=copy)
            return await self._target.write(work)
        except DatabaseUnavailable:
            raise
        except StoreError as error:
            raise StoreError(
                f"the target does not take all {table.name} of the source: {error}. If the source "
                "was changed since the copy was begun, begin again with an empty target"
            ) from error

    async def _compare(self) -> list[Compared]:
        compared = list[Compared]()
        for there, here in self._tables:
            digests = await asyncio.gather(
                self._digest(self._source, there, tells=True), self._digest(self._target, here)
            )
            compared.append(Compared(there.name, *digests))
        return compared

    async def _digest(self, database: Database, table: Table, *, tells: bool = False) -> Digest:
        digest, after = Digest(), None
        while True:
            work = partial(_digested, table=table, digest=digest, after=after)
            digest, after, count = await database.read(work)
            if not count:
                return digest
            if tells:
                self._compared += count
                self._tell(Progress("Comparing", table.name, self._compared, self._total))

    async def _complete(self, copy: Copy) -> None:
        await self._keep_claims()
        unclean = await self._source.read(moving.was_stopped_uncleanly)
        await self._target.write(lambda s: moving.complete(s, copy, unclean=unclean))

    async def _keep_claims(self) -> None:
        for database in (self._source, self._target):
            if not await database.keep_claim():
                raise AlreadyPolling(f"{database.address} is polled again: stop that first")


def _digested(
    session: Session, *, table: Table, digest: Digest, after: Key | None
) -> tuple[Digest, Key | None, int]:
    rows = table.bite(session, after)
    return digest.with_rows(rows), table.key_of(rows[-1]) if rows else after, len(rows)


async def _refuse_outdated(source: Store) -> None:
    there, known = await source.schema()
    address = source.database.address
    if there > known:
        raise SchemaTooNew(f"{address} has schema {there}, this program knows {known}: upgrade it")
    if there < known:
        url = address if there else "…"
        raise StoreError(
            f"{address} has schema {there}, a move needs {known}: bring it up to date first with "
            f"`headwater --database-url {url} migrate`"
        )


async def _claim(database: Database, clock: Clock, side: str) -> None:
    # a server needs a moment to miss a process that was killed
    for attempt in range(_CLAIM_ATTEMPTS):
        if await database.try_claim():
            return
        if attempt + 1 < _CLAIM_ATTEMPTS:
            await clock.sleep(_CLAIM_SECONDS)
    raise AlreadyPolling(f"another headwater process polls the {side}, {database.address}: stop it")


def _rows(copy: Copy) -> int:
    return sum(place.rows for place in copy.places.values())
