"""Jobs: wake-ups of shards and ticks on Procrastinate; what is due stays in the sources."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, AppNotOpen, ProcrastinateException
from procrastinate.jobs import DeleteJobCondition, Job, Status
from procrastinate.schema import SchemaManager

from headwater.errors import DatabaseUnavailable
from headwater.rules.shards import SHARDS
from headwater.store.postgres import CONNECTED, for_a_queue

_SHARDS, _TICKS = "shards", "ticks"
_TODO = Status.TODO.value
_POLLING_SECONDS = 1.0
_CONNECTIONS = 6
_PATIENCE_SECONDS = 10.0  # with a database that is away, before a worker begins anew
SCHEMA = SchemaManager.get_schema()  # of the queue's own tables


class Jobs:
    """The queue that all workers share: one job at a time runs for a shard, one more may wait."""

    def __init__(
        self,
        url: str,
        *,
        run_shard: Callable[[int], Awaitable[None]],
        tick: Callable[[], Awaitable[None]],
        tick_seconds: float,
        lease_seconds: float,
        concurrency: int = SHARDS,
    ) -> None:
        self._lease_seconds = lease_seconds
        self._concurrency = concurrency
        self._app = App(
            connector=PsycopgConnector(
                conninfo=url,
                kwargs=CONNECTED,
                configure=for_a_queue,
                min_size=1,
                max_size=_CONNECTIONS,
                timeout=min(lease_seconds, _PATIENCE_SECONDS),
            )
        )

        @self._app.task(name="headwater.shard", queue=_SHARDS)
        async def shard(shard: int) -> None:
            await run_shard(shard)

        @self._app.periodic(cron=cron_of(tick_seconds), periodic_id="tick")
        @self._app.task(name="headwater.tick", queue=_TICKS, queueing_lock="tick")
        async def ticked(timestamp: int) -> None:  # noqa: ARG001 - the queue gives it
            await tick()

        self._shard_task = shard

    async def run(self) -> None:
        """Work on ticks and shards until cancelled, or until the database is away for long."""
        async with self._app.open_async(), asyncio.TaskGroup() as group:
            # ticks have a worker of their own: shards may keep all others busy
            group.create_task(self._work(_TICKS, 1))
            group.create_task(self._work(_SHARDS, self._concurrency))

    async def wake(self, shards: Iterable[int]) -> None:
        """Have these shards looked after; those that wait for it already are left alone."""
        wanted = {f"shard:{shard}": shard for shard in shards}
        manager = self._app.job_manager
        try:
            if len(wanted) > 1:
                for job in await manager.list_jobs_async(queue=_SHARDS, status=_TODO):
                    wanted.pop(job.queueing_lock or "", None)
            await self._defer([self._job(lock, shard) for lock, shard in wanted.items()])
        except ProcrastinateException as error:
            raise _unavailable("jobs cannot be deferred now", error) from error

    def _job(self, lock: str, shard: int) -> Job:
        return self._shard_task.configure(lock=lock, queueing_lock=lock).make_new_job(shard=shard)

    async def _defer(self, jobs: list[Job]) -> None:
        """Defer jobs together; one that somebody else deferred meanwhile would undo them all."""
        manager = self._app.job_manager
        try:
            if jobs:
                await manager.batch_defer_jobs_async(jobs)
        except AlreadyEnqueued:
            for job in jobs:
                with suppress(AlreadyEnqueued):
                    await manager.defer_job_async(job)

    async def reap(self) -> set[int]:
        """End the jobs of workers that fell silent; answer the shards that are free by that.

        They are failed and deleted, each on its own: a retry would meet the job that a tick
        deferred meanwhile, and block its shard for good.
        """
        manager, freed = self._app.job_manager, set()
        try:
            for job in await manager.get_stalled_jobs(seconds_since_heartbeat=self._lease_seconds):
                await manager.finish_job(job, Status.FAILED, delete_job=True)
                freed |= _shards_of(job)
        except ProcrastinateException as error:
            raise _unavailable("stalled jobs cannot be ended now", error) from error
        return freed

    async def _work(self, queue: str, concurrency: int) -> None:
        await self._app.run_worker_async(
            queues=[queue],
            name=queue,
            concurrency=concurrency,
            fetch_job_polling_interval=_POLLING_SECONDS,
            delete_jobs=DeleteJobCondition.ALWAYS,
            install_signal_handlers=False,
            update_heartbeat_interval=self._lease_seconds / 6,
            stalled_worker_timeout=self._lease_seconds,
        )
        raise DatabaseUnavailable("the queue of jobs cannot be used now")


def cron_of(seconds: float) -> str:
    """A pace as a line for cron; a sixth field stands for seconds."""
    if round(seconds) < 60:
        return f"* * * * * */{max(round(seconds), 1)}"
    return f"*/{min(round(seconds / 60), 59)} * * * *"


def _unavailable(what: str, error: ProcrastinateException) -> DatabaseUnavailable:
    """Our error for theirs, in one line; an app that is not open has lost its database."""
    if isinstance(error, AppNotOpen):
        return DatabaseUnavailable(f"{what}: the queue is away")
    return DatabaseUnavailable(f"{what}: {' '.join(str(error).split())}")


def _shards_of(job: Job) -> set[int]:
    shard = job.task_kwargs.get("shard")
    return {shard} if isinstance(shard, int) else set()
