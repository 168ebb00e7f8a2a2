"""The transports of MCP: standard input and output of this process, and HTTP requests."""

from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from headwater.api.middleware.authentication import Caller
from headwater.mcp_server.api_calls import InProcessApi
from headwater.mcp_server.http_endpoint import Respond
from headwater.mcp_server.server import Access, Context, create_mcp_server
from headwater.model import TokenScope

_WRITING = (TokenScope.ADMIN, TokenScope.USER)


async def serve_stdio(access: Access) -> None:
    """Serve one client until it closes standard input."""
    server = create_mcp_server(lambda _: access)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def http_responder() -> Respond:
    """Responds to each HTTP request on its own: there are no sessions to keep or to steal."""
    server = create_mcp_server(_access_of)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return respond


def _access_of(context: Context) -> Access:
    """What the caller of an HTTP request may use."""
    assert context.request is not None
    scope: Scope = context.request.scope
    caller: Caller = scope["caller"]
    api = InProcessApi(
        scope["app"],
        caller,
        scope["caller_name"],
        client=scope["client"] or ("", 0),
        request_id=scope["request_id"],
    )
    return Access(api, may_write=caller.scope in _WRITING)
