"""Copy all tables from one database into another, in batches, then compare them.

An interrupted copy continues where it stopped.
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
from headwater.store import Database, Store, database_copy, sequence_numbers
from headwater.store.database_copy import Table, TableDigest, advance_sequence

_LOCK_ATTEMPTS = 5
_LOCK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How many rows of all tables were copied or compared so far."""

    step: str  # `Copying` or `Comparing`
    table: str
    rows: int
    total: int


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The digests of a table in both databases."""

    table: str
    source: TableDigest
    target: TableDigest

    @property
    def same(self) -> bool:
        """Whether both databases have the same rows."""
        return self.source == self.target


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result of a copy."""

    tables: Sequence[TableComparison]
    copied: int  # rows, in this run
    went_on: bool  # continued an interrupted copy
    was_complete: bool  # was complete before; this run only compared

    @property
    def differing(self) -> Sequence[str]:
        """The tables that differ between both databases."""
        return [compared.table for compared in self.tables if not compared.same]


OnProgress = Callable[[CopyProgress], None]


async def copy_database(
    source: Store, target: Store, clock: Clock, on_progress: OnProgress
) -> CopyResult:
    """Copy the rows that the target does not have yet, then compare every table."""
    if source.database.address == target.database.address:
        raise UsageError("source and target are the same database")
    await _refuse_outdated(source)
    await source.check()
    await _acquire_poll_lock(source.database, clock, "source")
    await _acquire_poll_lock(target.database, clock, "target")
    await target.prepare()
    return await _Copier(source.database, target.database, on_progress).run()


class _Copier:
    def __init__(self, source: Database, target: Database, on_progress: OnProgress) -> None:
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._tables: list[tuple[Table, Table]] = []  # of the source and of the target
        self._total = 0
        self._rows = 0  # copied, or compared

    async def run(self) -> CopyResult:
        address = self._source.address
        source = await self._source.read(lambda s: database_copy.identity_of(s, address))
        await self._read_tables()
        was_complete = await self._target.write(lambda s: database_copy.begin(s, source))
        there = sum([await self._target.read(table.count) for _, table in self._tables])
        copied = 0 if was_complete else await self._copy(there)
        tables = await self._compare()
        if not was_complete and all(table.same for table in tables):
            await self._renew_poll_locks()
            unclean = await self._source.read(database_copy.was_stopped_uncleanly)
            last_seq = await self._source.read(sequence_numbers.last)
            complete = partial(
                database_copy.complete, source=source, unclean=unclean, last_seq=last_seq
            )
            await self._target.write(complete)
        return CopyResult(tables, copied, there > 0, was_complete)

    async def _read_tables(self) -> None:
        there = await self._source.read(database_copy.tables_of)
        here = await self._target.read(database_copy.tables_of)
        self._tables = list(zip(there, here, strict=True))
        for one, other in self._tables:
            if missing := set(one.columns) ^ set(other.columns):
                raise StoreError(f"only one side's {one.name} have {', '.join(sorted(missing))}")
        self._total = sum([await self._source.read(table.count) for table in there])

    async def _copy(self, rows_before: int) -> int:
        """Copy the rows that are missing and return their number."""
        self._rows = rows_before
        for there, here in self._tables:
            after = await self._target.read(here.last_key)
            while rows := await self._source.read(partial(there.batch, after=after)):
                await self._renew_poll_locks()
                try:
                    await self._target.write(
                        partial(database_copy.store_batch, target=here, rows=rows)
                    )
                except DatabaseUnavailable:
                    raise
                except StoreError as error:
                    raise StoreError(
                        f"the target refused rows of {here.name}: {error}. If the source was "
                        "changed since the copy started, start again with an empty target"
                    ) from error
                after = here.key_of(rows[-1])
                self._report("Copying", here, len(rows))
            await self._target.write(partial(advance_sequence, name=here.name))
        return self._rows - rows_before

    async def _compare(self) -> list[TableComparison]:
        self._rows = 0
        compared = list[TableComparison]()
        for there, here in self._tables:
            digests = await asyncio.gather(
                self._digest(self._source, there, report=True), self._digest(self._target, here)
            )
            compared.append(TableComparison(there.name, *digests))
        return compared

    async def _digest(
        self, database: Database, table: Table, *, report: bool = False
    ) -> TableDigest:
        digest, after = TableDigest(), None
        while rows := await database.read(partial(table.batch, after=after)):
            digest = await asyncio.to_thread(digest.with_rows, rows)
            after = table.key_of(rows[-1])
            if report:
                self._report("Comparing", table, len(rows))
        return digest

    def _report(self, step: str, table: Table, more: int) -> None:
        self._rows += more
        self._on_progress(CopyProgress(step, table.name, self._rows, self._total))

    async def _renew_poll_locks(self) -> None:
        for database in (self._source, self._target):
            if not await database.renew_poll_lock():
                raise AlreadyPolling(f"{database.address} is polled again: stop that process first")


async def _refuse_outdated(source: Store) -> None:
    there, known = await source.schema()
    address = source.database.address
    if there > known:
        raise SchemaTooNew(f"{address} has schema {there}, this program knows {known}: upgrade it")
    if there < known:
        url = address if there else "…"
        raise StoreError(
            f"{address} has schema {there}, a copy needs {known}: update it first with "
            f"`headwater --database-url {url} migrate`"
        )


async def _acquire_poll_lock(database: Database, clock: Clock, side: str) -> None:
    # a server needs a moment to notice that a process was killed
    for _ in range(_LOCK_ATTEMPTS):
        if await database.acquire_poll_lock():
            return
        await clock.sleep(_LOCK_SECONDS)
    raise AlreadyPolling(f"another headwater process polls the {side}, {database.address}: stop it")
