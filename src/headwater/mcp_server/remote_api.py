"""Calls of the REST API by tools, to a running service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headwater.client.clients import AsyncHeadwater
from headwater.client.errors import HeadwaterClientError, HeadwaterProblem
from headwater.client.operation import ApiRequest
from headwater.errors import CallFailed, UsageError
from headwater.mcp_server.api_calls import Query, call_failed


@asynccontextmanager
async def remote_api(url: str, token: str | None) -> AsyncIterator["RemoteApi"]:
    """The API of the service at a URL; its connections are closed at the end."""
    try:
        client = AsyncHeadwater(url, token)
    except ValueError as error:
        raise UsageError(str(error)) from error
    async with client:
        yield RemoteApi(client)


@dataclass(frozen=True, slots=True)
class RemoteApi:
    """Calls a service over HTTP; its token decides what is permitted."""

    client: AsyncHeadwater

    async def call(self, method: str, path: str, query: Query, body: Any = None) -> Any:
        """The JSON of a response; CallFailed if the service refuses or does not respond."""
        try:
            return await self.client.send(ApiRequest(method, path, dict, query, body))
        except HeadwaterProblem as error:
            raise call_failed(error.document) from error
        except HeadwaterClientError as error:
            raise CallFailed(str(error)) from error
