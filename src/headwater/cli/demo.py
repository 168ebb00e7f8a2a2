"""The command that shows Headwater at work on a small simulated web."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from headwater import logs
from headwater.app import App, open_app
from headwater.cli import output
from headwater.cli.demo_story import Stage, Story
from headwater.cli.demo_view import picture, summary
from headwater.cli.invocation import run
from headwater.cli.serving import raise_file_limit, stop_on_signals, web_door
from headwater.clock import SystemClock
from headwater.demo import DemoSource, DemoWeb, demo_hosts
from headwater.engine.service import Service
from headwater.model import FailureType, Source
from headwater.operations.people import set_key
from headwater.operations.sources import SourceSettings, add_source
from headwater.settings import Settings, load_settings
from headwater.store.sources import SourceFilter

commands = typer.Typer()
_FRAME_SECONDS = 0.5
_ASK_SECONDS = 12.0  # sources rest for a minute at least: too long for somebody who watches


@commands.command(rich_help_panel="Polling", epilog="Example: headwater demo --seconds 60")
def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="End by itself after so long.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the dashboard; 0 takes a free one.")] = 0,
) -> None:
    """Watch Headwater poll a small simulated web on this machine."""
    watched = output.on_terminal()
    # lines would tear the picture apart; in a pipe they are what there is to see
    logs.configure("text", "error" if watched else "info", stream=None if watched else sys.stdout)
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder:
        run(_demo(Path(folder), port, seconds, watched=watched))


async def _demo(folder: Path, port: int, seconds: float | None, *, watched: bool) -> None:
    stop = stop_on_signals(signal.SIGHUP)  # a window that is closed ends it too
    clock = SystemClock()
    async with (
        DemoWeb(demo_hosts(), clock=clock) as web,
        open_app(_settings(folder, port, web), clock=clock) as app,
        app.service() as service,
        web_door(app, service) as door,
    ):
        _announce(door.url, watched=watched)
        stage = Stage(web, await _sources(app, web))
        story = Story(stage, service.events, clock)
        tasks = [
            asyncio.create_task(service.run(stop)),
            asyncio.create_task(_keep_asking(app)),
        ]
        if watched:
            tasks.append(asyncio.create_task(_draw(app, service, story, door.url)))
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
        sources = await app.store.sources.find(SourceFilter(), limit=1000)
    _show_summary(story, sources)


def _announce(url: str, *, watched: bool) -> None:
    if not watched:  # the picture has it
        logs.get_logger().info("the dashboard of this demo", url=url)


def _settings(folder: Path, port: int, web: DemoWeb) -> Settings:
    """Settings of this process alone: it may visit loopback, where the simulated web is."""
    options: Mapping[str, object] = {
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


async def _sources(app: App, web: DemoWeb) -> dict[str, str]:
    """Create the sources of all hosts, requested so that they start at once; id to host."""
    user = await app.store.people.user("default")
    await set_key(app.store, app.vault, user, "x", "demo-key", app.clock.now())
    now = app.clock.now()
    most = app.settings.limits.max_sources_per_user
    homes: dict[str, str] = {}
    for host in web.hosts:
        for planned in host.sources:
            wanted = _wanted(planned, web.source_url(host, planned))
            added = await add_source(app.store, "default", wanted, now, most=most)
            homes[added.id] = host.name
    await app.store.sources.request(list(homes), now)
    return homes


def _wanted(planned: DemoSource, url: str) -> SourceSettings:
    return SourceSettings(
        type=planned.type,
        url=url,
        label=planned.label,
        poll_interval_minutes=planned.poll_interval_minutes,
        poll_delay_seconds=planned.poll_delay_seconds,
        max_failures=planned.max_failures,
        include_history=planned.include_history,
    )


async def _keep_asking(app: App) -> None:
    """Ask again for sources that do well, and for those that are about to be disabled."""
    while True:
        await app.clock.sleep(_ASK_SECONDS)
        found = await app.store.sources.find(SourceFilter(enabled=True), limit=1000)
        wanted = [s.id for s in found if s.requested_at is None and _is_worth_asking(s)]
        await app.store.sources.request(wanted, app.clock.now())


def _is_worth_asking(source: Source) -> bool:
    if source.poll_interval_minutes > 1:
        return False
    failing = source.consecutive_failures > 0
    return not failing or source.last_failure_type is FailureType.PERMANENT


async def _draw(app: App, service: Service, story: Story, url: str) -> None:
    """Draw the picture twice a second, on a screen of its own."""
    console = output.console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            sources = await app.store.sources.find(SourceFilter(), limit=1000)
            now, policy = app.clock.now(), app.policy
            shown = picture(story, service, sources, now, policy, console.size, url=url)
            live.update(shown, refresh=True)
            await app.clock.sleep(_FRAME_SECONDS)


def _show_summary(story: Story, sources: Sequence[Source]) -> None:
    columns, rows = summary(story, sources)
    output.show_table(columns, rows, empty="", title="What came of it")
    output.say(story.totals())
