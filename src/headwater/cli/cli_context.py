"""The global options of a call, and how a command gets an open app from them."""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import typer

from headwater.errors import NotFound

# Help and completion must not wait for these: they are imported by the functions that use them.
if TYPE_CHECKING:
    from datetime import datetime

    from headwater.app import App
    from headwater.model import Podcast, User
    from headwater.settings import Settings

T = TypeVar("T")
LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass
class CliContext:
    """The global options, with the settings and the app that they lead to."""

    config_file: Path | None
    database_url: str | None
    user: str
    podcast: str
    log_level: LogLevel | None
    command: str = ""

    @cached_property
    def settings(self) -> "Settings":
        """The settings, global options included."""
        return self.settings_with({})

    def settings_with(self, options: dict[str, object]) -> "Settings":
        """Return the settings with the global options and those of a command."""
        from headwater.settings import load_settings

        own = {"app.database-url": self.database_url, "app.log.level": self.log_level}
        return load_settings(config_file=self.config_file, options=own | options)

    def log_errors(self) -> None:
        """Log errors only, unless --log-level is given: a command prints its result itself."""
        from headwater import logs

        logs.configure(self.settings.log.format, self.log_level or "error")

    def do(
        self,
        work: Callable[["App"], Awaitable[T]],
        *,
        creates: bool = False,
        needs_none: bool = False,
    ) -> T:
        """Open the app, run `work` with it, close the app, and return the result.

        `creates`: the command may be the first one, and creates a missing database.
        `needs_none`: it stores nothing, and uses an empty database where there is none.
        """
        from tempfile import TemporaryDirectory

        from headwater.app import open_app
        from headwater.store.audit import COMMAND_LINE

        self.log_errors()

        async def opened(settings: "Settings", *, creates: bool) -> T:
            program = f"headwater {self.command}"
            async with (
                open_app(settings, program=program, creates=creates) as app,
                app.store.audit.acting(COMMAND_LINE),
            ):
                return await work(app)

        file = self.settings.database_file
        if not needs_none or file is None or file.exists():
            return run(opened(self.settings, creates=creates))
        with TemporaryDirectory(prefix="headwater-") as folder:
            url = f"sqlite:///{folder}/headwater.db"
            return run(opened(self.settings_with({"app.database-url": url}), creates=True))

    def do_for_user(
        self,
        work: Callable[["App", "User"], Awaitable[T]],
        *,
        creates: bool = False,
        needs_none: bool = False,
    ) -> T:
        """Open the app and run `work` with it and the user that --user names."""

        async def found(app: "App") -> T:
            return await work(app, await app.store.accounts.user(self.user))

        return self.do(found, creates=creates, needs_none=needs_none)

    def do_in_podcast(
        self, work: Callable[["App", "Podcast"], Awaitable[T]], *, creates: bool = False
    ) -> T:
        """Open the app and run `work` with it and the podcast that --podcast names."""

        async def found(app: "App") -> T:
            _, podcast = await self.user_and_podcast(app)
            return await work(app, podcast)

        return self.do(found, creates=creates)

    @property
    def now(self) -> "datetime":
        """The time."""
        from headwater.clock import SystemClock

        return SystemClock().now()

    async def user_and_podcast(self, app: "App") -> "tuple[User, Podcast]":
        """Return the user and the podcast that --user and --podcast name."""
        user = await app.store.accounts.user(self.user)
        try:
            return user, await app.store.accounts.podcast(user.id, self.podcast)
        except NotFound as error:
            if await app.store.accounts.podcasts(user.id):
                raise
            hint = f"`headwater --user {user.name} podcasts add NAME` makes one"
            raise NotFound(f"{user.name} has no podcast yet; {hint}") from error


def invocation(ctx: typer.Context) -> CliContext:
    """Return the global options of the call that a command belongs to."""
    return cast(CliContext, ctx.find_root().obj)


def is_given(ctx: typer.Context, name: str) -> bool:
    """Return whether a global option was given in the call."""
    source = ctx.find_root().get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, on uvloop where that is installed."""
    import asyncio

    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ImportError):
        import uvloop  # not available on every system

        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(work)
    except asyncio.CancelledError:  # may follow a second Ctrl-C
        raise KeyboardInterrupt from None
