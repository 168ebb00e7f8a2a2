"""The demo command: Headwater polls a small simulated web."""

import asyncio
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from headwater import logs
from headwater.app import App, open_app
from headwater.cli import output, terminal
from headwater.cli.cli_context import run
from headwater.cli.demo_view import DemoEvents, DemoView, show_summary
from headwater.cli.serve import raise_file_limit, serving_web, stop_on_signals
from headwater.clock import SystemClock
from headwater.demo.demo_hosts import demo_hosts
from headwater.demo.demo_web import DemoWeb
from headwater.model import FailureType
from headwater.operations.sources import add_source
from headwater.operations.users_and_podcasts import set_key
from headwater.settings import Settings, load_settings
from headwater.source_settings import SETTINGS
from headwater.store.sources import SourceFilter

commands = typer.Typer()
_FRAME_SECONDS = 0.5
_REQUEST_SECONDS = 12.0  # intervals are a minute or longer: too long to watch
_MAX_SOURCES = 1000


@commands.command(epilog="Example: headwater demo --seconds 60")
def demo(
    seconds: Annotated[float | None, typer.Option(min=1, help="End after this time.")] = None,
    port: Annotated[int, typer.Option(help="Port of the dashboard; 0 takes a free one.")] = 0,
) -> None:
    """Watch Headwater poll a small simulated web on this machine."""
    drawn = output.on_terminal()
    # log lines would damage the drawing; in a pipe they are the output
    logs.configure("text", "error" if drawn else "info", stream=None if drawn else sys.stdout)
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder:
        run(_demo(Path(folder), port, seconds, drawn=drawn))


async def _demo(folder: Path, port: int, seconds: float | None, *, drawn: bool) -> None:
    stop = stop_on_signals(signal.SIGHUP)  # a terminal window that is closed ends it too
    clock = SystemClock()
    async with (
        DemoWeb(demo_hosts(), clock=clock) as web,
        open_app(_settings(folder, port, web), clock=clock) as app,
        app.service() as service,
        serving_web(app, service) as (url, _, _),
    ):
        events = DemoEvents(await _add_sources(app, web), service.events, clock)
        work = [service.run(stop), _keep_requesting(app)]
        if drawn:
            work.append(_draw(app, DemoView(web.hosts, events, service, app.policy, url)))
        else:
            logs.get_logger().info("the dashboard of this demo", url=url)
        tasks = [asyncio.create_task(one) for one in work]
        try:
            await asyncio.wait(
                [asyncio.create_task(stop.wait()), *tasks],
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stop.set()
            for task in tasks[1:]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        sources = await app.store.sources.find(SourceFilter(), limit=_MAX_SOURCES)
    show_summary(events, sources)


def _settings(folder: Path, port: int, web: DemoWeb) -> Settings:
    """Return settings that allow loopback, where the simulated web is, and read no file."""
    options: dict[str, object] = {
        "app.database-url": f"sqlite:///{folder / 'demo.db'}",
        "app.server.port": port,
        "app.shutdown-seconds": 1,
        "app.source.tick-seconds": 1,
        "app.fetch.allow-private-networks": True,
        "app.fetch.connect-timeout-seconds": 5,
        "app.fetch.read-timeout-seconds": 15,
        "app.x.base-url": web.url("x.demo", ""),
    }
    return load_settings(options=options, environ={}, cwd=folder)


async def _add_sources(app: App, web: DemoWeb) -> dict[str, str]:
    """Add the sources of all hosts and request them; return the host name of each source id."""
    now = app.clock.now()
    user = await app.store.accounts.user("default")
    await set_key(app.store, app.vault, user, "x", "demo-key", now)
    most = app.settings.limits.max_sources_per_user
    hosts: dict[str, str] = {}
    for host in web.hosts:
        for planned in host.sources:
            settings = {k: v for k, v in asdict(planned).items() if k in SETTINGS}
            settings["url"] = web.source_url(host, planned)
            added = await add_source(app.store, "default", settings, now, most=most, allowed=True)
            hosts[added.id] = host.name
    await app.store.sources.request(list(hosts), now)
    return hosts


async def _keep_requesting(app: App) -> None:
    """Request polls of sources that work, and of those that will soon be disabled."""
    while True:
        await app.clock.sleep(_REQUEST_SECONDS)
        found = await app.store.sources.find(SourceFilter(enabled=True), limit=_MAX_SOURCES)
        wanted = [
            source.id
            for source in found
            if source.requested_at is None
            and source.poll_interval_minutes == 1
            and (
                not source.consecutive_failures or source.last_failure_type is FailureType.PERMANENT
            )
        ]
        await app.store.sources.request(wanted, app.clock.now())


async def _draw(app: App, view: DemoView) -> None:
    """Draw a frame twice a second on the alternate screen."""
    console = terminal.console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            sources = await app.store.sources.find(SourceFilter(), limit=_MAX_SOURCES)
            live.update(view.frame(sources, app.clock.now(), console.size), refresh=True)
            await app.clock.sleep(_FRAME_SECONDS)
