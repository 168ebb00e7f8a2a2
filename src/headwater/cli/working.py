"""The command that polls beside others: one worker of a cluster."""

import asyncio
import logging
import re
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from headwater import __version__, logs
from headwater.app import open_app
from headwater.cli.invocation import invocation, run
from headwater.cli.serving import (
    collect_garbage_rarely,
    raise_file_limit,
    stop_on_signals,
    take_short_turns,
)
from headwater.clock import SharedClock
from headwater.errors import DatabaseUnavailable
from headwater.rules.urls import masked
from headwater.settings import Settings, load_settings

commands = typer.Typer()
log = logs.get_logger()
# what a server says to a wrong name or password, not while it starts
_REFUSED = re.compile(r"(database|role) .* does not exist|authentication failed|pg_hba")
_AGAIN_SECONDS = 5.0
_TOGETHER_SECONDS = 1.0  # in which what happens at once is told in one line


@commands.command(
    rich_help_panel="Polling",
    epilog="Example: headwater --database-url postgresql://db/headwater worker",
)
def worker(
    ctx: typer.Context,
    concurrency: Annotated[
        int | None, typer.Option(help="How many of the 256 shards to poll at once.")
    ] = None,
) -> None:
    """Poll sources as they fall due, beside other workers.

    All of them share one PostgreSQL database.
    """
    call = invocation(ctx)
    settings = load_settings(
        config_file=call.config_file,
        options=call.options | {"app.cluster.concurrency": concurrency},
    )
    logs.configure(settings.log.format, settings.log.level, colours=sys.stderr.isatty())
    raise_file_limit()
    collect_garbage_rarely()
    take_short_turns()
    _tell_no_tales()
    run(_work(settings))


async def _work(settings: Settings) -> None:
    stop = stop_on_signals()
    asyncio.get_running_loop().set_exception_handler(LostEnds().note)
    began = False
    while not stop.is_set():
        try:
            await _work_until(stop, settings)
        except DatabaseUnavailable as error:
            if not began and _REFUSED.search(str(error)):
                raise  # nothing that waiting helps against
            began = True
            log.warning("[Cluster] the database is away; trying again", error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _AGAIN_SECONDS)
    log.info("stopped")


async def _work_until(stop: asyncio.Event, settings: Settings) -> None:
    async with open_app(settings, clock=SharedClock()) as app, app.worker() as working:
        database = masked(settings.database_url)
        log.info("working", worker=working.id, version=__version__, database=database)
        await working.run(stop)


def _tell_no_tales() -> None:
    """Keep the libraries beneath from telling at length what we tell in a line."""
    for name in ("procrastinate", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class LostEnds:
    """Jobs whose end could not be noted are found stalled and ended by whoever looks next.

    A worker that slept or lost its database has many of them at once: one line tells of all.
    """

    def __init__(self) -> None:
        self._count = 0

    def note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what nobody awaited; anything but a job's lost end is told as ever."""
        from procrastinate.exceptions import ConnectorException

        if not isinstance(context.get("exception"), ConnectorException):
            loop.default_exception_handler(context)
            return
        if not self._count:
            loop.call_later(_TOGETHER_SECONDS, self._tell)
        self._count += 1

    def _tell(self) -> None:
        log.info("[Cluster] the ends of jobs could not be noted", jobs=self._count)
        self._count = 0
