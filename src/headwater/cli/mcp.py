"""The mcp command: tools for language models, over standard input and output."""

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.app import open_app
from headwater.cli.cli_context import invocation, run
from headwater.cli.error_report import report
from headwater.errors import ConfigError
from headwater.settings import Settings, service_token
from headwater.store.audit import COMMAND_LINE

# The protocol and the web framework take seconds to import: the functions below import them.
if TYPE_CHECKING:
    from headwater.engine.service import Service

commands = typer.Typer()


@commands.command(epilog="Example: headwater mcp --write")
def mcp(
    ctx: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(help="Use the service at this address, with the token in HEADWATER_TOKEN."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Also offer tools that change something.")
    ] = False,
) -> None:
    """Serve the Model Context Protocol: tools for language models.

    A program with a language model starts this command, and talks to it over standard input and
    output. Without --url it opens the database directly, whether a service runs or not.
    """
    call = invocation(ctx)
    call.log_errors()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread that reads the input cannot be stopped
    _require_package()
    if url is None:
        run(_serve_database(call.settings_with({"app.server.access-log": "off"}), write=write))
    else:
        run(_serve_remotely(url, service_token(), write=write))


def _require_package() -> None:
    try:
        import headwater.mcp_server.transports  # noqa: F401
    except ModuleNotFoundError as error:
        from headwater.mcp_server.http_endpoint import HOW_TO_INSTALL

        raise ConfigError(HOW_TO_INSTALL) from error


async def _serve_database(settings: Settings, *, write: bool) -> None:
    """Serve from the database, through the API within this process."""
    from headwater.api.factory import create_api
    from headwater.api.middleware.authentication import Caller
    from headwater.mcp_server.api_calls import InProcessApi
    from headwater.mcp_server.server import Access
    from headwater.mcp_server.transports import serve_stdio

    opened = open_app(settings, program="headwater mcp", creates=False)
    async with opened as app, app.visitor_service() as service:
        monitoring = asyncio.create_task(_monitor(service))
        api = InProcessApi(create_api(app, service), Caller(None), COMMAND_LINE)
        await serve_stdio(Access(api, may_write=write))
        monitoring.cancel()


async def _serve_remotely(url: str, token: str | None, *, write: bool) -> None:
    """Serve from a running service."""
    from headwater.mcp_server.remote_api import remote_api
    from headwater.mcp_server.server import Access
    from headwater.mcp_server.transports import serve_stdio

    async with remote_api(url, token) as api:
        await serve_stdio(Access(api, may_write=write))


async def _monitor(service: "Service") -> None:
    """Run the service; end the process if it cannot continue, as after an upgrade of the schema."""
    try:
        await service.run(asyncio.Event())
    except Exception as error:  # noqa: BLE001 - whatever it is, a process that waits for input ends
        os._exit(report(error))
