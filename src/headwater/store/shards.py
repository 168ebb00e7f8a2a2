"""Shards and workers: leases of shards and presence of workers, on PostgreSQL (K8)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.clock import Clock, SharedClock
from headwater.model import Fence
from headwater.rules.shards import MAX_SHARDS, SHARDS
from headwater.store.database import Session, Tables, reads, reads_single, writes
from headwater.store.key_values import PAUSED_KEY, POLLER_KEY
from headwater.store.row_mapping import from_ms, row_reader, to_ms

HOST_LOCKS_APPLICATION = "headwater hosts"  # name of the sessions that lock hosts
SILENT_SECONDS = 10.0  # without a heartbeat, which is due every second
NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT"
_OPEN_FREE = f"""
    UPDATE shards SET epoch = epoch + 1, worker = :worker, opened_at = {NOW_MS}
    FROM (SELECT shard FROM shards WHERE worker IS NULL ORDER BY shard LIMIT :most
        FOR UPDATE SKIP LOCKED) free
    WHERE shards.shard = free.shard RETURNING shards.shard, epoch
"""
_ASSUME_UNFINISHED_VISITS = f"""
    INSERT INTO hosts (lane, next_allowed_at)
    SELECT lane, {NOW_MS} FROM (
        SELECT lane FROM hosts
        UNION SELECT CASE WHEN type = 'twitter' THEN 'x.com/' || user_id ELSE host END
        FROM sources s JOIN podcasts p ON p.id = s.podcast_id
        UNION SELECT host FROM page_visits UNION SELECT host FROM feed_searches
    ) AS lanes WHERE lane IS NOT NULL ORDER BY lane
    ON CONFLICT (lane) DO UPDATE SET next_allowed_set_at = NULL,
        next_allowed_at = greatest(hosts.next_allowed_at, excluded.next_allowed_at)
"""
_CLOSE = """
    UPDATE shards SET worker = NULL FROM (SELECT shard FROM shards
        WHERE shard IN :shards AND worker = :worker ORDER BY shard FOR UPDATE) ours
    WHERE shards.shard = ours.shard
"""
_ABANDONED = "worker IS NOT NULL AND NOT EXISTS (SELECT FROM workers w WHERE w.id = worker)"
_RELEASE = f"""
    UPDATE shards SET epoch = epoch + 1, worker = NULL FROM (SELECT shard FROM shards
        WHERE {_ABANDONED} ORDER BY shard FOR UPDATE) theirs
    WHERE shards.shard = theirs.shard RETURNING shards.shard
"""
# Whether any process listens to events: all of them share this lock.
LISTENERS_LOCK = 1_207_361_846
HAS_LISTENERS = f"""
    CASE WHEN pg_try_advisory_lock({LISTENERS_LOCK})
        THEN NOT pg_advisory_unlock({LISTENERS_LOCK}) ELSE TRUE END
"""
# One statement per second and worker.
_HEARTBEAT = f"""
    WITH beat AS (
        INSERT INTO workers (id, machine, pid, backend, started_at, seen_at, ticked_at, draining,
            in_flight, polls, leases_lost, counts)
        VALUES (:id, :machine, :pid, :backend, :started, {NOW_MS}, :ticked, :draining, :in_flight,
            :polls, :lost, :counts)
        ON CONFLICT (id) DO UPDATE SET seen_at = {NOW_MS}, backend = excluded.backend,
            ticked_at = excluded.ticked_at, in_flight = excluded.in_flight,
            polls = excluded.polls, leases_lost = excluded.leases_lost, counts = excluded.counts
        RETURNING seen_at, draining
    )
    SELECT seen_at, draining, (SELECT value FROM facts WHERE name = '{PAUSED_KEY}'),
        (SELECT array_agg(shard) FROM shards WHERE worker = :id),
        (SELECT array_agg(epoch) FROM shards WHERE worker = :id),
        {HAS_LISTENERS}
    FROM beat
"""
# Workers are ranked by their start: a new one changes the rank of no other. At a thousand workers
# this statement runs 500 times a second: it reads the workers once, and few shards.
_CLUSTER_STATE = f"""
    SELECT (SELECT max(shard) + 1 FROM shards),
        EXISTS (SELECT FROM shards WHERE worker IS NULL),
        coalesce((SELECT array_agg(shard) FROM shards WHERE worker = :id), '{{}}'),
        count(*) FILTER (WHERE takes_part),
        count(*) FILTER (WHERE takes_part AND (started_at, id) < (:started, :id)),
        coalesce(bool_or(takes_part AND id = :id), FALSE),
        coalesce(bool_or(draining AND id = :id), FALSE),
        coalesce(bool_or(silent_ms >= :lease AND id <> :id), FALSE)
    FROM (SELECT id, started_at, draining, now_ms - seen_at AS silent_ms, ticked_at IS NOT NULL
        AND NOT draining AND now_ms - seen_at < :silent AS takes_part
        FROM workers, (SELECT {NOW_MS} AS now_ms) AS clock) AS w
"""
_DELETE_DEAD = f"""
    DELETE FROM workers WHERE id IN (SELECT id FROM workers
        WHERE seen_at < {NOW_MS} - :lease AND id <> :me FOR UPDATE SKIP LOCKED)
    RETURNING id, backend
"""


@dataclass(frozen=True, slots=True)
class DeadWorkers:
    """Dead workers and the shards that were taken from them."""

    workers: Sequence[str] = ()
    shards: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a worker learns from its heartbeat."""

    at: datetime  # by the database's clock
    draining: bool
    pause_choice: str | None  # stored by `PauseState`
    held: Mapping[int, int]  # the epochs of its shards
    has_listeners: bool  # whether any API server listens to events


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All shards and live workers, as one worker sees them."""

    shards: int
    has_free: bool
    held: Collection[int]  # by this worker
    workers: int  # that take shards: neither silent nor draining
    rank: int  # of this worker among them
    takes_part: bool  # whether this worker is one of them
    draining: bool  # whether this worker is
    has_dead: bool  # another worker is silent for a lease


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker as its last heartbeat described it."""

    id: str
    machine: str
    pid: int
    started_at: datetime
    seen_at: datetime
    ticked_at: datetime | None  # when it last queried due sources
    in_flight: int
    polls: int
    leases_lost: int
    shards: int
    is_silent: bool  # its heartbeat is overdue
    draining: bool
    counts: str | None = None  # encoded WorkerCounters


def all_draining(workers: Iterable[WorkerStatus]) -> bool:
    """Whether workers are alive and each of them is draining: nothing is polled."""
    alive = [one for one in workers if not one.is_silent]
    return bool(alive) and all(one.draining for one in alive)


_read_worker = row_reader(WorkerStatus, "workers")


def _assume_unfinished_visits(session: Session) -> None:
    """If a process that polled alone was killed, mark every host as being visited.

    It stored visits only when they ended: the next visitor keeps the delay (P3).
    """
    name = {"name": POLLER_KEY}
    if session.fetch("DELETE FROM facts WHERE name = :name RETURNING name", name):
        session.execute(_ASSUME_UNFINISHED_VISITS)


def _open_free(session: Session, worker: str, most: int) -> list[Fence]:
    """Open up to `most` free shards; results of earlier openings are discarded from now on.

    None for a worker that was reaped meanwhile: until its next heartbeat its shards would
    belong to no worker.
    """
    if not session.fetch("SELECT id FROM workers WHERE id = :id FOR SHARE", {"id": worker}):
        return []
    rows = session.fetch(_OPEN_FREE, {"worker": worker, "most": most})
    return [Fence(*row) for row in rows]


def _close(session: Session, worker: str, shards: Collection[int]) -> int:
    """Release shards; return how many of them the worker still had."""
    return session.execute(_CLOSE, {"worker": worker, "shards": list(shards)})


def _counts(session: Session) -> tuple[int, int]:
    """The number of shards, and of those that a worker has open."""
    shards, opened = session.fetch("SELECT count(*), count(worker) FROM shards")[0]
    return shards, opened


def _resize(session: Session, shards: int) -> None:
    """Divide all lanes into another number of shards; no worker may run.

    Every epoch grows, so that results under the old numbers are discarded.
    """
    session.execute(_shard_function(shards))
    session.execute("UPDATE shards SET worker = NULL, epoch = (SELECT max(epoch) + 1 FROM shards)")
    session.execute("DELETE FROM shards WHERE shard >= :shards", {"shards": shards})
    session.execute(
        """INSERT INTO shards (shard, epoch)
        SELECT n, (SELECT max(epoch) FROM shards) FROM generate_series(0, :last) AS n
        ON CONFLICT (shard) DO NOTHING""",
        {"last": shards - 1},
    )
    session.execute(
        """UPDATE sources s SET shard = lanes.shard FROM (
            SELECT s.id, headwater_shard(CASE WHEN type = 'twitter' THEN 'x.com/' || user_id
                ELSE coalesce(host, '') END) AS shard
            FROM sources s JOIN podcasts p ON p.id = s.podcast_id
        ) AS lanes WHERE lanes.id = s.id AND lanes.shard <> s.shard"""
    )
    session.execute("UPDATE page_visits SET shard = headwater_shard(host)")
    session.execute("UPDATE feed_searches SET shard = headwater_shard(coalesce(host, ''))")


def _shard_function(shards: int) -> str:
    """The statement that makes `headwater_shard` compute `rules.shards.shard_of`."""
    if not SHARDS <= shards <= MAX_SHARDS:
        raise ValueError(f"{shards} shards")
    return f"""CREATE OR REPLACE FUNCTION headwater_shard(lane TEXT) RETURNS SMALLINT
        LANGUAGE sql IMMUTABLE STRICT AS $$
            SELECT (((get_byte(decode(md5(lane), 'hex'), 0) << 8)
                + get_byte(decode(md5(lane), 'hex'), 1)) * {shards} >> 16)::SMALLINT
        $$"""


def _reap(session: Session, me: str, lease_seconds: float) -> DeadWorkers:
    """Delete workers without a heartbeat for a lease, and free the shards of deleted workers.

    Their sessions with host locks are terminated: the hosts become free, and a worker that
    was only suspended notices.
    """
    dead = session.fetch(_DELETE_DEAD, {"me": me, "lease": round(lease_seconds * 1000)})
    session.fetch(
        f"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE pid IN :backends
            AND application_name = '{HOST_LOCKS_APPLICATION}'""",
        {"backends": [backend for _, backend in dead if backend is not None]},
    )
    return DeadWorkers([worker for worker, _ in dead], _free_abandoned(session))


def _free_abandoned(session: Session) -> list[int]:
    """Free the shards of workers that are not in the list of workers; return them."""
    return [row[0] for row in session.fetch(_RELEASE)]


def overtaken(session: Session, fences: Iterable[Fence]) -> set[Fence]:
    """The fences whose shard was opened again; the others are locked until the commit (K8)."""
    wanted = set(fences)
    if not wanted:
        return wanted
    sql = "SELECT shard, epoch FROM shards WHERE shard IN :shards ORDER BY shard FOR SHARE"
    rows = session.fetch(sql, {"shards": {fence.shard for fence in wanted}})
    return wanted - {Fence(*row) for row in rows}


def _now(session: Session) -> datetime:
    """The database's own time."""
    return from_ms(session.fetch(f"SELECT {NOW_MS}")[0][0])


def heartbeat(session: Session, worker: Mapping[str, object]) -> Heartbeat:
    """Store that a worker is alive, with its counters; return what it must know."""
    at, draining, choice, shards, epochs, listeners = session.fetch(_HEARTBEAT, worker)[0]
    held = dict(zip(shards or (), epochs or (), strict=True))
    return Heartbeat(from_ms(at), draining, choice, held, listeners)


def _state(
    session: Session, worker: str, started_at: datetime, lease_seconds: float
) -> ClusterState:
    """The shards and live workers; silent workers keep their shards until their lease ends."""
    params = {
        "id": worker,
        "started": to_ms(started_at),
        "lease": round(lease_seconds * 1000),
        "silent": round(min(SILENT_SECONDS, lease_seconds) * 1000),
    }
    return ClusterState(*session.fetch(_CLUSTER_STATE, params)[0])


def _remove_worker(session: Session, worker: str) -> None:
    """Delete a worker that stopped cleanly, and release the shards that it still has."""
    session.execute(
        """UPDATE shards SET worker = NULL FROM (SELECT shard FROM shards
            WHERE worker = :id ORDER BY shard FOR UPDATE) ours WHERE shards.shard = ours.shard""",
        {"id": worker},
    )
    session.execute("DELETE FROM workers WHERE id = :id", {"id": worker})


def _workers(session: Session) -> list[WorkerStatus]:
    """All workers that are not reaped yet, oldest first."""
    sql = f"""SELECT w.id, machine, pid, started_at, seen_at, ticked_at, in_flight, polls,
        leases_lost, (SELECT count(*) FROM shards s WHERE s.worker = w.id),
        seen_at < {NOW_MS} - {round(SILENT_SECONDS * 1000)}, draining, counts
        FROM workers w ORDER BY started_at, w.id"""
    return _read_worker.all(session.fetch(sql))


def _drain(session: Session, worker: str, draining: bool) -> None:
    """Have a worker hand over its shards, or take some again."""
    session.execute(
        "UPDATE workers SET draining = :draining WHERE id = :id",
        {"id": worker, "draining": draining},
    )


class Shards(Tables):
    """The shards and workers tables."""

    assume_unfinished_visits = writes(_assume_unfinished_visits)
    now = reads_single(_now)
    open_free = writes(_open_free)
    close = writes(_close)
    state = reads_single(_state)
    remove_worker = writes(_remove_worker)
    reap = writes(_reap)
    free_abandoned = writes(_free_abandoned)
    counts = reads_single(_counts)
    workers = reads(_workers)
    drain = writes(_drain)
    resize = writes(_resize)

    async def synchronize(self, clock: Clock) -> None:
        """Set a shared clock to the database's time; other clocks are left alone."""
        if not isinstance(clock, SharedClock):
            return
        before = clock.monotonic()
        then = await self.now()
        clock.set(then, before, clock.monotonic())
