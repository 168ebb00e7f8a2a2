"""One call of the program: its global options, and the way from there to an open app."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import typer

from headwater import logs
from headwater.app import App, open_app
from headwater.errors import NotFound
from headwater.model import Podcast, User
from headwater.settings import LogLevel, Settings, load_settings

T = TypeVar("T")


@dataclass
class Invocation:
    """The global options, and what they lead to."""

    config_file: Path | None
    database_url: str | None
    user: str
    podcast: str
    log_level: LogLevel | None

    @property
    def options(self) -> dict[str, object]:
        """The settings that were given as options."""
        return {"app.database-url": self.database_url, "app.log.level": self.log_level}

    @cached_property
    def settings(self) -> Settings:
        """The settings, options included."""
        return load_settings(config_file=self.config_file, options=self.options)

    def do(self, work: Callable[[App], Awaitable[T]]) -> T:
        """Open the app, do some work with it, close it again, and answer what came of it."""
        settings = self.settings
        # what a command has to say it shows; log lines are for those who ask
        level = LogLevel.ERROR if self.log_level is None else self.log_level
        logs.configure(settings.log.format, level)

        async def opened() -> T:
            async with open_app(settings) as app:
                return await work(app)

        return run(opened())

    async def place(self, app: App) -> tuple[User, Podcast]:
        """The user and the podcast that a command is about."""
        user = await app.store.people.user(self.user)
        try:
            return user, await app.store.people.podcast(user.id, self.podcast)
        except NotFound as error:
            if await app.store.people.podcasts(user.id):
                raise
            hint = f"`headwater --user {user.name} podcasts add NAME` makes one"
            raise NotFound(f"{user.name} has no podcast yet; {hint}") from error


def invocation(ctx: typer.Context) -> Invocation:
    """The call that a command belongs to."""
    return cast(Invocation, ctx.find_root().obj)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run on the fastest event loop there is."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ImportError):
        import uvloop  # not on every system

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)
