"""Shards and workers: who polls what, where several processes poll one PostgreSQL (K8)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast

from headwater.batch import Batcher
from headwater.clock import SharedClock
from headwater.model import Fence
from headwater.store.database import Database, Row, Session
from headwater.store.facts import POLLER_FACT
from headwater.store.rows import moment

if TYPE_CHECKING:  # the driver is loaded where there is a server to talk to
    from headwater.store.postgres import PostgresSession

TICK_FACT = "cluster tick"  # when some worker last looked for what is due
_SILENT_SECONDS = 10  # workers tell every second that they live
NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT"
_OPEN = f"""
    UPDATE shards SET epoch = epoch + 1, worker = :worker, opened_at = {NOW_MS}
    FROM (SELECT shard FROM shards WHERE shard = ANY(:shards) ORDER BY shard FOR UPDATE) wanted
    WHERE shards.shard = wanted.shard RETURNING shards.shard, epoch
"""
_SUSPECT = f"""
    INSERT INTO hosts (lane, next_allowed_at)
    SELECT lane, {NOW_MS} FROM (
        SELECT lane FROM hosts
        UNION SELECT CASE WHEN type = 'twitter' THEN 'x.com/' || user_id ELSE host END
        FROM sources s JOIN podcasts p ON p.id = s.podcast_id
    ) AS lanes WHERE lane IS NOT NULL ORDER BY lane
    ON CONFLICT (lane) DO UPDATE SET next_allowed_set_at = NULL,
        next_allowed_at = greatest(hosts.next_allowed_at, excluded.next_allowed_at)
"""
_CLOSE = """
    UPDATE shards SET worker = NULL
    FROM (SELECT shard FROM shards
        JOIN unnest(CAST(:shards AS SMALLINT[]), CAST(:epochs AS BIGINT[])) AS ours (shard, epoch)
            USING (shard, epoch)
        ORDER BY shard FOR UPDATE OF shards) still
    WHERE shards.shard = still.shard RETURNING shards.shard, epoch
"""
_SEEN = f"""
    INSERT INTO workers (id, machine, pid, backend, started_at, seen_at, in_flight, polls,
        leases_lost, counts)
    VALUES (:id, :machine, :pid, :backend, :started, {NOW_MS}, :in_flight, :polls, :lost, :counts)
    ON CONFLICT (id) DO UPDATE SET seen_at = {NOW_MS}, backend = excluded.backend,
        in_flight = excluded.in_flight, polls = excluded.polls,
        leases_lost = excluded.leases_lost, counts = excluded.counts
"""
_SILENT = f"""
    DELETE FROM workers WHERE seen_at < {NOW_MS} - :lease AND id <> :me RETURNING id, backend
"""


@dataclass(frozen=True, slots=True)
class Buried:
    """Workers that fell silent, and the shards that are nobody's by that."""

    workers: Sequence[str] = ()
    shards: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """What a worker said of itself when it was last seen."""

    id: str
    machine: str
    pid: int
    started_at: datetime
    seen_at: datetime
    in_flight: int
    polls: int
    leases_lost: int
    shards: int
    is_silent: bool  # it should have told by now that it lives
    counts: str | None = None  # what only it can know, as a text


@dataclass(frozen=True, slots=True)
class Standing:
    """How many shards are open, and how many jobs wait or hang."""

    open: int
    waiting: int
    stalled: int


class Shards:
    """The shards and workers tables."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # jobs begin and end many at a time: they share commits
        self._opening: Batcher[tuple[int, str], Fence] = Batcher(self._open_many)
        self._closing: Batcher[Fence, bool] = Batcher(self._close_many)

    async def prepare_queue(self, schema: str) -> None:
        """Make the tables of the queue of jobs where there are none yet."""
        await self._database.write(lambda s: _prepare_queue(s, schema))

    async def suspect_visits(self) -> None:
        """After a process that polled alone was killed, let every host count as half visited.

        It stored visits when they ended: whoever comes first keeps the delay (P3).
        """
        await self._database.write(_suspect_visits)

    async def set(self, clock: SharedClock) -> None:
        """Make a clock go by the database's."""
        before = clock.monotonic()
        then = await self.now()
        clock.set(then, before, clock.monotonic())

    async def now(self) -> datetime:
        """The database's own time."""
        return moment((await self._database.read(lambda s: s.fetch(f"SELECT {NOW_MS}")))[0][0])

    async def open(self, shard: int, worker: str) -> Fence:
        """Take a shard over; whatever its last opening still stores is void from now on."""
        return await self._opening((shard, worker))

    async def close(self, fence: Fence) -> bool:
        """Leave a shard cleanly; False: it is not ours any more."""
        return await self._closing(fence)

    async def held_by(self, worker: str) -> Mapping[int, int]:
        """The epochs of the shards that a worker has open."""
        sql = "SELECT shard, epoch FROM shards WHERE worker = :worker"
        return dict(await self._database.read(lambda s: s.fetch(sql, {"worker": worker})))

    async def seen(self, worker: Mapping[str, object]) -> None:
        """Note that a worker lives, and what it says of itself."""
        await self._database.write(lambda s: s.execute(_SEEN, worker))

    async def gone(self, worker: str) -> None:
        """Forget a worker that stopped cleanly."""
        sql = "DELETE FROM workers WHERE id = :id"
        await self._database.write(lambda s: s.execute(sql, {"id": worker}))

    async def bury(self, me: str, lease_seconds: float) -> Buried:
        """Take the shards of silent workers away.

        The connection that held the hosts they visited is cut: a worker that only slept finds
        out, and nobody waits for one that is dead.
        """
        params = {"me": me, "lease": round(lease_seconds * 1000)}
        return await self._database.write(lambda s: _bury(s, params))

    async def standing(self, lease_seconds: float) -> Standing:
        """How the shards and their jobs stand."""
        return await self._database.read(lambda s: _standing(s, lease_seconds))

    async def workers(self) -> Sequence[WorkerSeen]:
        """Every worker that was seen of late, oldest first."""
        sql = f"""SELECT w.id, machine, pid, started_at, seen_at, in_flight, polls, leases_lost,
            (SELECT count(*) FROM shards s WHERE s.worker = w.id),
            seen_at < {NOW_MS} - {_SILENT_SECONDS * 1000}, counts
            FROM workers w ORDER BY started_at, w.id"""
        rows = await self._database.read(lambda s: s.fetch(sql))
        return [_worker(row) for row in rows]

    async def _open_many(self, wanted: Sequence[tuple[int, str]]) -> Sequence[Fence]:
        return await self._database.write(lambda s: _open_many(s, wanted))

    async def _close_many(self, fences: Sequence[Fence]) -> Sequence[bool]:
        params = {"shards": [f.shard for f in fences], "epochs": [f.epoch for f in fences]}
        rows = await self._database.write(lambda s: s.fetch(_CLOSE, params))
        closed = {Fence(*row) for row in rows}
        return [fence in closed for fence in fences]


def _suspect_visits(session: Session) -> None:
    name = {"name": POLLER_FACT}
    if session.fetch("DELETE FROM facts WHERE name = :name RETURNING name", name):
        session.execute(_SUSPECT)


def _open_many(session: Session, wanted: Sequence[tuple[int, str]]) -> list[Fence]:
    """Every opening has a number of its own, also where one shard is opened twice at once."""
    opened: dict[int, Fence] = {}
    rest = list(enumerate(wanted))
    while rest:
        worker = rest[0][1][1]
        now = {shard: place for place, (shard, who) in reversed(rest) if who == worker}
        for shard, epoch in session.fetch(_OPEN, {"shards": list(now), "worker": worker}):
            opened[now[shard]] = Fence(shard, epoch)
        rest = [one for one in rest if one[0] not in opened]
    return [opened[place] for place in range(len(wanted))]


def _standing(session: Session, lease_seconds: float) -> Standing:
    (opened,) = session.fetch("SELECT count(*) FROM shards WHERE worker IS NOT NULL")[0]
    if session.fetch("SELECT to_regclass('procrastinate_jobs')")[0][0] is None:
        return Standing(opened, 0, 0)  # no worker was here yet
    waiting, stalled = session.fetch(
        """SELECT count(*) FILTER (WHERE status = 'todo'),
            count(*) FILTER (WHERE status = 'doing' AND (w.id IS NULL
                OR w.last_heartbeat < now() - make_interval(secs => :lease)))
        FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id""",
        {"lease": lease_seconds},
    )[0]
    return Standing(opened, waiting, stalled)


def _worker(row: Row) -> WorkerSeen:
    id_, machine, pid, started, seen, *rest = row
    return WorkerSeen(id_, machine, pid, moment(started), moment(seen), *rest)


def _prepare_queue(session: Session, schema: str) -> None:
    session.execute("SELECT pg_advisory_xact_lock(8421)")  # whoever comes second finds them
    if session.fetch("SELECT to_regclass('procrastinate_jobs')")[0][0] is None:
        cast("PostgresSession", session).connection.execute(schema.encode())
    if session.fetch("SELECT to_regclass('headwater_jobs_lock')")[0][0] is not None:
        return
    # to take a job, those with the same lock are looked for: among all of them without this
    session.execute("CREATE INDEX headwater_jobs_lock ON procrastinate_jobs (lock)")
    for table in ("jobs", "events", "periodic_defers"):
        # rows come and go by the thousand: without this, looking for a job slows down
        session.execute(
            f"""ALTER TABLE procrastinate_{table} SET (autovacuum_vacuum_scale_factor = 0,
            autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0,
            autovacuum_analyze_threshold = 1000)"""
        )


def _bury(session: Session, params: Mapping[str, object]) -> Buried:
    silent = session.fetch(_SILENT, params)
    if not silent:
        return Buried()
    session.fetch(
        f"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE {session.among("pid", "backends")} AND application_name = 'headwater hosts'""",
        {"backends": session.array(backend for _, backend in silent if backend is not None)},
    )
    rows = session.fetch(
        f"""UPDATE shards SET epoch = epoch + 1, worker = NULL FROM (SELECT shard FROM shards
            WHERE {session.among("worker", "workers")} ORDER BY shard FOR UPDATE) theirs
        WHERE shards.shard = theirs.shard RETURNING shards.shard""",
        {"workers": session.array(worker for worker, _ in silent)},
    )
    return Buried([worker for worker, _ in silent], [row[0] for row in rows])


def overtaken(session: Session, fences: Iterable[Fence]) -> set[Fence]:
    """Those openings that are over; the others stay as they are until the transaction ends (K8)."""
    wanted = set(fences)
    if not wanted:
        return wanted
    rows = session.fetch(
        f"""SELECT shard, epoch FROM shards WHERE {session.among("shard", "shards")}
        ORDER BY shard FOR SHARE""",
        {"shards": session.array({fence.shard for fence in wanted})},
    )
    return wanted - {Fence(*row) for row in rows}
