"""Lifetime of event streams: limits, slow clients, heartbeats, revoked tokens, shutdown."""

import asyncio
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.api.events.event_log import EventLimits
from headwater.api.events.event_stream import StreamLimits
from headwater.api.server import ServerConnection
from headwater.engine.events import EventKind
from headwater.model import Outcome, OutcomeKind
from headwater.operations.tokens import revoke_token
from tests.api.conftest import OWN, Served, serving, settings_in
from tests.api.event_stream_client import event_stream, no_stream_is_open, streams_of
from tests.factories import a_post, a_subject

BRISK = StreamLimits(heartbeat_seconds=0.05, token_check_seconds=0.05, send_seconds=1.0)
LONG_URL = "https://example.org/" + "x" * 8000


def emit_posts(served: Served, count: int, url: str = LONG_URL) -> None:
    source = a_subject().source
    posts = tuple(a_post(str(n), url=url) for n in range(count))
    outcome = Outcome(source, source, OutcomeKind.STORED, served.app.clock.now(), posts)
    served.service.events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome)


async def stuck_client(port: int) -> socket.socket:
    """A client that requests events and never reads one."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (OWN, port))
    await loop.sock_sendall(client, f"GET /api/events HTTP/1.1\r\nHost: {OWN}\r\n\r\n".encode())
    return client


async def until_stuck(served: Served) -> None:
    """Wait until the server is blocked by a client that does not read."""
    connections = served.server.server_state.connections
    async with asyncio.timeout(60):
        while not any(isinstance(c, ServerConnection) and c.flow.write_paused for c in connections):
            await asyncio.sleep(0.01)


async def how_it_ended(client: socket.socket) -> str:
    """Read the rest; return whether the stream ended properly or was cut off."""
    loop, tail = asyncio.get_running_loop(), b""
    async with asyncio.timeout(60):
        with client, suppress(ConnectionResetError):
            while piece := await loop.sock_recv(client, 65_536):
                tail = (tail + piece)[-5:]
    return "ended" if tail == b"0\r\n\r\n" else "cut off"


async def a_stream_is_open(served: Served, count: int = 1) -> None:
    async with asyncio.timeout(60):
        while streams_of(served).total() < count:
            await asyncio.sleep(0.01)


async def test_u8_one_stream_too_many_is_429(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-event-streams-per-user": 2})
    async with serving(settings) as served:
        ada, bob, admin = await served.person("a"), await served.person("b"), await served.admin()
        async with event_stream(served, token=ada):
            async with event_stream(served, token=ada):
                refused = await served.get("/api/events", token=ada)
                assert refused.status == 429
                assert refused.headers["Content-Type"] == "application/problem+json"
                assert "max-event-streams-per-user" in refused.json["detail"]
                assert int(refused.headers["Retry-After"]) > 0
                async with event_stream(served, token=bob), event_stream(served, token=admin):
                    pass
            async with asyncio.timeout(60):
                while streams_of(served).total() > 1:
                    await asyncio.sleep(0.01)
            async with event_stream(served, token=ada):
                pass
        await no_stream_is_open(served)


async def test_a_client_that_disconnects_leaves_no_stream_or_task(served: Served):
    tasks, listeners = len(asyncio.all_tasks()), served.service.events.listeners
    for _ in range(3):
        async with event_stream(served), event_stream(served) as stream:
            emit_posts(served, 3)
            await stream.take(3)
            assert served.service.events.listeners == listeners
    await no_stream_is_open(served)
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.01)
    assert served.service.events.listeners == listeners


async def test_a_client_that_disconnects_during_a_write_leaves_no_stream_or_task(served: Served):
    client = await stuck_client(served.port)
    await a_stream_is_open(served)
    client.close()
    await no_stream_is_open(served)


async def test_a_stuck_client_is_cut_off_and_others_continue(tmp_path: Path):
    async with serving(
        settings_in(tmp_path), stream_limits=StreamLimits(send_seconds=1.0)
    ) as served:
        client = await stuck_client(served.port)
        await a_stream_is_open(served)
        async with event_stream(served) as stream:
            for _ in range(20):
                emit_posts(served, 50)
                await stream.take(50)
            async with asyncio.timeout(60):
                while streams_of(served).total() > 1:
                    await asyncio.sleep(0.01)
            emit_posts(served, 1)
            await stream.take(1)
        assert await how_it_ended(client) == "cut off"


async def test_a_stream_that_fell_behind_ends_and_its_client_gets_a_reset(tmp_path: Path):
    async with serving(settings_in(tmp_path), EventLimits(most_events=200)) as served:
        async with event_stream(served) as stream:
            emit_posts(served, 1, url="https://example.org/")
            first = (await stream.take(1))[0]
            emit_posts(
                served, 1000, url="https://example.org/"
            )  # all at once, before the client can read
            assert await stream.rest() == []
        async with event_stream(served, last_id=first.id) as stream:
            assert (await stream.take(1))[0].kind == "reset"


async def test_a_stream_without_events_sends_heartbeats_with_the_current_id(tmp_path: Path):
    async with serving(settings_in(tmp_path), stream_limits=BRISK) as served:
        async with event_stream(served, "?types=tick") as stream:
            place = stream.last_id
            emit_posts(served, 3)
            await asyncio.sleep(0)
            async with asyncio.timeout(60):
                while stream.last_id == place:
                    line = (await stream.answer.content.readline()).decode().strip()
                    assert line in ("", ": still here") or line.startswith("id: ")
                    stream.last_id = line.removeprefix("id: ") if "id: " in line else place
        assert stream.last_id.endswith("-3")


async def test_u1_a_stream_ends_when_its_token_is_revoked(tmp_path: Path):
    async with serving(settings_in(tmp_path), stream_limits=BRISK) as served:
        ada, admin = await served.person("Ada"), await served.admin()
        async with (
            event_stream(served, token=ada) as hers,
            event_stream(served, token=admin) as other,
        ):
            (token,) = [t for t in await served.app.store.tokens.all() if t.name == "Ada"]
            await revoke_token(served.app.store, token.id)
            async with asyncio.timeout(60):
                await hers.rest()
            served.service.events.emit(EventKind.TICK, text="1")
            assert [event.kind for event in await other.take(1)] == ["tick"]


async def test_u1_a_stream_ends_when_its_token_expires(tmp_path: Path):
    async with serving(settings_in(tmp_path), stream_limits=BRISK) as served:
        await served.admin()
        ada = await served.person("Ada")
        async with event_stream(served, token=ada) as stream:
            sql = "UPDATE tokens SET expires_at = :now WHERE name = 'Ada'"
            now = round(served.app.clock.now().timestamp() * 1000)
            await served.app.store.database.execute(sql, {"now": now})
            async with asyncio.timeout(60):
                await stream.rest()


async def test_u1_the_first_token_ends_streams_without_a_token(tmp_path: Path):
    async with (
        serving(settings_in(tmp_path), stream_limits=BRISK) as served,
        event_stream(served) as stream,
    ):
        await served.admin()
        async with asyncio.timeout(60):
            await stream.rest()


async def test_u1_a_deleted_users_stream_ends(tmp_path: Path):
    async with serving(settings_in(tmp_path), stream_limits=BRISK) as served:
        ada, admin = await served.person("Ada"), await served.admin()
        async with event_stream(served, token=ada) as stream:
            assert (await served.delete("/api/users/Ada", token=admin)).status == 204
            async with asyncio.timeout(60):
                await stream.rest()


@pytest.mark.parametrize("stuck", [False, True])
async def test_k4_streams_end_as_soon_as_the_server_stops(tmp_path: Path, *, stuck: bool):
    async with serving(settings_in(tmp_path)) as served:
        client = await stuck_client(served.port)
        await a_stream_is_open(served)
        if stuck:
            emit_posts(served, 1500)
            await until_stuck(served)
        served.server.config.timeout_graceful_shutdown = 100
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 60  # a server that waited would take at least 100 s
    assert await how_it_ended(client) == ("cut off" if stuck else "ended")
