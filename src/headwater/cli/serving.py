"""The command that runs everything: scheduler and API in one process."""

import asyncio
import gc
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater import __version__, logs
from headwater.app import App, open_app
from headwater.cli import output
from headwater.cli.invocation import invocation, run
from headwater.clock import SharedClock, SystemClock
from headwater.engine.service import Service
from headwater.errors import ConfigError
from headwater.rules.urls import masked
from headwater.settings import Settings, load_settings

if TYPE_CHECKING:
    from headwater.api.server import Server

commands = typer.Typer()
log = logs.get_logger()
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@commands.command(rich_help_panel="Polling", epilog="Example: headwater serve --port 8420")
def serve(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    scheduler: Annotated[
        bool, typer.Option("--scheduler/--no-scheduler", help="Poll here, or leave it to workers.")
    ] = True,
) -> None:
    """Poll sources as they fall due and serve the API."""
    call = invocation(ctx)
    settings = load_settings(
        config_file=call.config_file,
        options=call.options | {"app.server.host": host, "app.server.port": port},
    )
    logs.configure(settings.log.format, settings.log.level, colours=sys.stderr.isatty())
    raise_file_limit()
    collect_garbage_rarely()
    take_short_turns()
    run(_serve(settings, polls=scheduler))


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us: every lane may hold a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems promise more than they give
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def take_short_turns() -> None:
    """Let database threads wait for the interpreter for a moment only: requests wait for them."""
    sys.setswitchinterval(0.0001)


def collect_garbage_rarely() -> None:
    """Look for garbage cycles once in many polls: Python's own pace costs a quarter of the CPU."""
    gc.freeze()  # what is loaded by now stays
    gc.set_threshold(20_000, 20, 50)


def stop_on_signals(*more: signal.Signals) -> asyncio.Event:
    """An event that the first signal sets; a second one ends the process at once (K4)."""
    numbers = (*_SIGNALS, *more)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def first(number: int) -> None:
        stop.set()
        for other in numbers:
            loop.remove_signal_handler(other)
            signal.signal(other, signal.SIG_DFL)
        log.info("stopping; a second signal ends at once", signal=signal.Signals(number).name)

    for number in numbers:
        loop.add_signal_handler(number, first, number)
    return stop


async def _serve(settings: Settings, *, polls: bool) -> None:
    # the web framework takes a while to import, and no other command needs it
    from headwater.api.server import is_loopback

    server = settings.server
    stop = stop_on_signals()
    clock = SystemClock() if polls else SharedClock()
    async with open_app(settings, clock=clock) as app:
        if not is_loopback(server.host) and not await app.store.tokens.exist():
            raise ConfigError(
                f"app.server.host: {server.host} can be reached by others, and there are no access "
                "tokens yet; `headwater tokens add NAME --admin` makes one",
                field="app.server.host",
            )
        await _serve_app(app, stop, polls=polls)
    log.info("stopped")


async def _serve_app(app: App, stop: asyncio.Event, *, polls: bool) -> None:
    async with (
        app.service() if polls else app.onlooker() as service,
        service.timeline.filling(app.store.polls),
        web_door(app, service) as door,
    ):
        _announce(app.settings, door.url)
        polling = asyncio.create_task(service.run(stop))
        await asyncio.wait([door.serving, polling], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        service.lanes.close()  # no new polls while the web server says goodbye (S8)
        door.close()
        await asyncio.gather(door.serving, polling)


@dataclass(frozen=True, slots=True)
class WebDoor:
    """API and dashboard while they are served."""

    url: str
    serving: "asyncio.Task[None]"
    close: Callable[[], None]  # say goodbye to those who are still there


@asynccontextmanager
async def web_door(app: App, service: Service) -> AsyncIterator[WebDoor]:
    """Serve API and dashboard of a service where the settings say."""
    # the web framework takes a while to import, and no other command needs it
    from headwater.api.server import listen

    host = app.settings.server.host
    with listen(host, app.settings.server.port) as listener:
        web = await asyncio.to_thread(_web_server, app, service)  # it takes longer than H2 allows
        port = listener.getsockname()[1]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

        def close() -> None:
            web.should_exit = True

        serving = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            yield WebDoor(url, serving, close)
        finally:
            close()
            await serving


def _web_server(app: App, service: Service) -> "Server":
    from headwater.api.connections import connection_limits
    from headwater.api.factory import create_api
    from headwater.api.server import web_server
    from headwater.web.factory import add_pages

    api = create_api(app, service)
    add_pages(api, app, service)
    return web_server(api, connection_limits(app.settings.limits))


def _announce(settings: Settings, url: str) -> None:
    database = masked(settings.database_url)
    if output.on_terminal():
        banner = Text("Headwater ", style="bold cyan").append(__version__, style="cyan")
        banner.append(f"  {url}", style="bold").append(f"  {database}", style="dim")
        output.say(banner.append("  Ctrl-C stops", style="dim"))
    log.info("serving", url=url, version=__version__, database=database)
