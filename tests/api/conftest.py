"""The API on a free port, with the service behind it, called over real connections."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn.server
from fastapi import FastAPI

from headwater.api.connection_limits import ConnectionLimits
from headwater.api.events.event_log import EventLimits
from headwater.api.events.event_stream import StreamLimits
from headwater.api.factory import create_api
from headwater.api.server import Server, listen, web_server
from headwater.app import App, open_app
from headwater.engine.local_service import LocalService
from headwater.operations.tokens import add_token
from headwater.operations.users_and_podcasts import add_podcast, add_user
from headwater.settings import Settings, load_settings

OWN = "127.0.0.1"
DEFAULT = "/api/users/default/podcasts/default"


class _FastPollingAsyncio:
    """Replaces `asyncio` in the web server's module, so that it checks for shutdown more often.

    Its 0.2 s per test would be most of the duration of many tests.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


setattr(uvicorn.server, "asyncio", _FastPollingAsyncio())  # noqa: B010 - types do not know the attribute


@dataclass
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A running API; requests are sent with `token`, or without one."""

    app: App
    service: LocalService
    port: int
    session: aiohttp.ClientSession
    api: FastAPI
    server: Server
    token: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{OWN}:{self.port}"

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; `body` is sent as JSON, `data` unchanged."""
        given = dict(self.headers) | dict(headers or {})
        token = token if token is not None else self.token
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        if body is not None:
            data = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        async with self.session.request(
            method, self.url + path, data=data, headers=given, allow_redirects=False
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def put(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("PUT", path, body, **options)

    async def patch(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("PATCH", path, body, **options)

    async def delete(self, path: str, **options: Any) -> Answer:
        return await self.call("DELETE", path, **options)

    async def person(self, name: str) -> str:
        """Add a user with a podcast of the same name; return the secret of a token of that user."""
        now = self.app.clock.now()
        user = await add_user(self.app.store, name, now)
        await add_podcast(self.app.store, user, name, now)
        return (await add_token(self.app.store, user, name, now)).secret

    async def admin(self) -> str:
        """The secret of a new administrator's token; from then on every request needs a token."""
        return (await add_token(self.app.store, None, "admin", self.app.clock.now())).secret


def settings_in(folder: Path, **options: Any) -> Settings:
    wanted = {
        "app.database-url": f"sqlite:///{folder / 'test.db'}",
        "app.fetch.allow-private-networks": True,
        **options,
    }
    return load_settings(options=wanted, environ={}, cwd=folder)


@asynccontextmanager
async def serving(
    settings: Settings,
    event_limits: EventLimits | None = None,
    stream_limits: StreamLimits | None = None,
    add: Callable[[FastAPI, App, LocalService], None] = lambda *_: None,
    connections: ConnectionLimits | None = None,
) -> AsyncIterator[Served]:
    async with open_app(settings) as app, app.service() as service:
        with listen(OWN, 0) as listener:
            api = create_api(app, service, event_limits=event_limits, stream_limits=stream_limits)
            add(api, app, service)
            server = web_server(api, connections, end_streams=api.state.event_log.close)
            task = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started:
                await asyncio.sleep(0.01)
            try:
                async with aiohttp.ClientSession() as session:
                    yield Served(app, service, listener.getsockname()[1], session, api, server)
            finally:
                server.should_exit = True
                await task


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """The API over an empty SQLite database, without tokens: open to loopback."""
    async with serving(settings_in(tmp_path)) as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def served_by_each(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    """The same, once over each kind of database."""
    options: dict[str, Any] = {}
    if request.param == "postgres":
        options["app.database-url"] = request.getfixturevalue("migrated_postgres_url")
    async with serving(settings_in(tmp_path, **options)) as running:
        yield running
