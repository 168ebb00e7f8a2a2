"""The serve command: scheduler, API and dashboard in one process."""

import asyncio
import resource
import signal
import sys
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from headwater import __version__, logs
from headwater.app import App, open_app
from headwater.cli import output
from headwater.cli.cli_context import CliContext, invocation, run
from headwater.cli.columns import Styled
from headwater.clock import SharedClock, SystemClock
from headwater.errors import ConfigError
from headwater.garbage_collection import collect_garbage_rarely
from headwater.rules.url_secrets import masked
from headwater.settings import Settings

# The web framework takes a while to import: the functions that start the server import it.
if TYPE_CHECKING:
    from headwater.api.server import Server
    from headwater.engine.service import Service

commands = typer.Typer()
log = logs.get_logger()
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@commands.command(epilog="Example: headwater serve --port 8420")
def serve(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    scheduler: Annotated[
        bool, typer.Option("--scheduler/--no-scheduler", help="Poll here, or leave it to workers.")
    ] = True,
) -> None:
    """Poll sources when they are due, and serve the API."""
    settings = set_up(invocation(ctx), {"app.server.host": host, "app.server.port": port})
    run(_serve(settings, polls=scheduler))


async def _serve(settings: Settings, *, polls: bool) -> None:
    from headwater.rules.addresses import is_loopback

    host = settings.server.host
    stop = stop_on_signals()
    clock = SystemClock() if polls else SharedClock()
    opened = open_app(settings, clock=clock, program="headwater serve", upgrades=True)
    async with opened as app:
        if not is_loopback(host) and not await app.store.tokens.exist():
            raise ConfigError(
                f"app.server.host: {host} can be reached by others, and there are no access "
                "tokens yet; `headwater tokens add NAME --admin` makes one",
                field="app.server.host",
            )
        app.serves_dashboard = True
        await _serve_app(app, stop, polls=polls)
    log.info("stopped")


async def _serve_app(app: App, stop: asyncio.Event, *, polls: bool) -> None:
    async with (
        app.service() if polls else app.remote_service() as service,
        service.timeline.filling(app.store.polls),
        serving_web(app, service) as (url, server, serving),
    ):
        database = masked(app.settings.database_url)
        if output.on_terminal():
            output.say(
                Styled("Headwater ", "bold cyan"),
                Styled(__version__, "cyan"),
                Styled(f"  {url}", "bold"),
                Styled(f"  {database}  Ctrl-C stops", "dim"),
            )
        log.info("serving", url=url, version=__version__, database=database)
        polling = asyncio.create_task(service.run(stop))
        await asyncio.wait([serving, polling], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        service.close()  # no new polls while open requests end (S8)
        server.should_exit = True  # accept nothing more, and end open requests
        await asyncio.gather(serving, polling)


def serving_web(
    app: App, service: "Service"
) -> "AbstractAsyncContextManager[tuple[str, Server, asyncio.Task[None]]]":
    """Serve API and dashboard; yield their URL, the server, and the task that serves."""
    from headwater.api.server import serving

    def create_server() -> "Server":
        from headwater.api.connection_limits import connection_limits
        from headwater.api.factory import create_api
        from headwater.api.server import web_server
        from headwater.mcp_server.http_endpoint import add_mcp
        from headwater.web.factory import add_pages

        api = create_api(app, service)
        add_pages(api, app, service)
        add_mcp(api)
        limits = connection_limits(app.settings.limits)
        return web_server(api, limits, end_streams=api.state.event_log.close)

    return serving(create_server, app.settings.server.host, app.settings.server.port)


def set_up(call: CliContext, options: dict[str, object]) -> Settings:
    """Configure logs and the process for a service, and return its settings."""
    settings = call.settings_with(options)
    logs.configure(settings.log.format, settings.log.level, colours=sys.stderr.isatty())
    raise_file_limit()
    collect_garbage_rarely()
    shorten_thread_switches()
    return settings


def raise_file_limit() -> None:
    """Allow as many open files as the system permits: every lane may have a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems report more than they permit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shorten_thread_switches() -> None:
    """Shorten how long a database thread waits for the interpreter: requests wait for it."""
    sys.setswitchinterval(0.0001)


def stop_on_signals(*more: signal.Signals) -> asyncio.Event:
    """Return an event that the first signal sets; a second signal ends the process (K4).

    SIGHUP is ignored unless given: a service outlives the terminal that it was started from.
    """
    numbers = (*_SIGNALS, *more)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def first(number: int) -> None:
        stop.set()
        for other in numbers:
            loop.remove_signal_handler(other)
            signal.signal(other, signal.SIG_DFL)
        log.info("stopping; a second signal ends at once", signal=signal.Signals(number).name)

    text = "SIGHUP is ignored; restart to apply a changed configuration"
    loop.add_signal_handler(signal.SIGHUP, log.info, text)
    for number in numbers:
        loop.add_signal_handler(number, first, number)
    return stop
