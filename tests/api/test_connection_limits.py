"""Unused connections are closed, and the number of connections is limited (U8)."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from headwater import logs
from headwater.api.connection_limits import ConnectionCounter, ConnectionLimits, connection_limits
from headwater.settings.configuration_keys import LimitSettings
from tests.api.conftest import OWN, Served, serving, settings_in
from tests.system.conftest import until

HALF = f"GET /api/health HTTP/1.1\r\nHost: {OWN}\r\nX: ".encode()
WHOLE = f"GET /api/health HTTP/1.1\r\nHost: {OWN}\r\n\r\n".encode()
HASTY = ConnectionLimits(head_seconds=1.0, stuck_seconds=1.0)


class Line:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def rest(self) -> bytes:
        """Everything received until the server closes the connection."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def health(self) -> int:
        self.writer.write(WHOLE)
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            await self.reader.readexactly(int(head.partition("content-length: ")[2].split()[0]))
        return int(head.split()[1])


async def connect(served: Served, *, address: str = OWN) -> Line:
    return Line(*await asyncio.open_connection(OWN, served.port, local_addr=(address, 0)))


@pytest.fixture
def log(lines: io.StringIO) -> io.StringIO:
    logs.configure("json", "info", stream=lines)
    return lines


@pytest.mark.parametrize("sent", [b"", b"G", HALF], ids=repr)
async def test_u8_a_connection_without_a_request_is_closed(tmp_path: Path, sent: bytes):
    async with serving(settings_in(tmp_path), connections=HASTY) as served:
        line = await connect(served)
        line.writer.write(sent)
        assert await line.rest() == b""
        line.writer.close()


async def test_u8_slow_header_bytes_do_not_extend_the_timeout(tmp_path: Path):
    async with serving(settings_in(tmp_path), connections=HASTY) as served:
        line = await connect(served)
        line.writer.write(HALF)
        ended = asyncio.create_task(line.rest())
        while not ended.done():
            line.writer.write(b"x")
            await asyncio.sleep(0.02)
        assert await ended == b""
        line.writer.close()


async def test_u8_the_timeout_restarts_with_every_response(tmp_path: Path):
    async with serving(settings_in(tmp_path), connections=HASTY) as served:
        line = await connect(served)
        assert [await line.health() for _ in range(3)] == [200] * 3
        line.writer.write(HALF)
        assert await line.rest() == b""
        line.writer.close()
        # leftover bytes of an answered request do not extend it either
        line = await connect(served)
        line.writer.write(WHOLE[:-2] + b"Content-Length: 1000\r\n\r\n")
        assert (await line.rest()).startswith(b"HTTP/1.1 200")
        line.writer.close()


async def test_u8_a_running_request_may_take_longer(tmp_path: Path):
    others_are_gone = asyncio.Event()

    def add(api: FastAPI, *_: Any) -> None:
        async def slow() -> str:
            await others_are_gone.wait()
            return "done"

        api.add_api_route("/api/slow", slow)

    async with serving(settings_in(tmp_path), connections=HASTY, add=add) as served:
        asked = asyncio.create_task(served.get("/api/slow"))
        await until(lambda: served.server.server_state.tasks)
        silent = await connect(served)  # sent later than the request, and finished before it
        assert await silent.rest() == b""
        silent.writer.close()
        others_are_gone.set()
        assert (await asked).json == "done"


async def test_u8_a_client_that_reads_nothing_is_disconnected(tmp_path: Path):
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536
            await asyncio.sleep(0)

    def add(api: FastAPI, *_: Any) -> None:
        api.add_api_route("/api/endless", lambda: StreamingResponse(endless()))

    async with serving(settings_in(tmp_path), connections=HASTY, add=add) as served:
        line = await connect(served)
        line.writer.write(WHOLE.replace(b"health", b"endless"))
        await until(lambda: served.server.server_state.tasks)
        await until(lambda: not served.server.server_state.connections)
        line.writer.close()


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        (ConnectionLimits(most=3), "app.limits.max-connections"),
        (ConnectionLimits(most_per_address=3), "app.limits.max-connections-per-address"),
    ],
    ids=["in all", "per address"],
)
async def test_u8_one_connection_too_many_is_refused_with_a_message(
    tmp_path: Path, log: io.StringIO, limits: ConnectionLimits, setting: str
):
    async with serving(settings_in(tmp_path), connections=limits) as served:
        lines = [await connect(served) for _ in range(3)]
        assert [await line.health() for line in lines] == [200] * 3
        for _ in range(3):
            refused = await connect(served)
            head, _, body = (await refused.rest()).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nretry-after: 10" in head.lower()
            assert json.loads(body)["status"] == 503
            refused.writer.close()
        assert [await line.health() for line in lines] == [200] * 3
        lines.pop().writer.close()
        await until(lambda: len(served.server.server_state.connections) == 2)
        lines.append(await connect(served))
        assert await lines[-1].health() == 200
        for line in lines:
            line.writer.close()
    (warning,) = [json.loads(one) for one in log.getvalue().splitlines() if "too many" in one]
    assert (warning["limit"], warning["most"], warning["address"]) == (setting, 3, OWN)


async def test_u8_one_address_cannot_use_all_connections(tmp_path: Path):
    limits = ConnectionLimits(most=10, most_per_address=2)
    async with (
        serving(settings_in(tmp_path), connections=limits) as served,
        AsyncExitStack() as end,
    ):
        for _ in range(5):
            line = await connect(served)
            end.callback(line.writer.close)
        assert (await line.rest()).startswith(b"HTTP/1.1 503 ")
        other = await connect(served, address="127.0.0.2")
        end.callback(other.writer.close)
        assert await other.health() == 200


def test_u8_a_network_counts_as_one_address_and_is_forgotten_afterwards():
    door = ConnectionCounter(ConnectionLimits(most=10, most_per_address=1))
    assert door.open("2001:db8::1", 0.0)
    assert not door.open("2001:db8::2", 0.0)
    assert door.open("2001:db8:0:1::1", 0.0)
    for address in ("2001:db8::1", "2001:db8:0:1::1"):
        door.close(address)
    assert door.open("2001:db8::2", 0.0)


def test_u8_refusals_are_logged_once_a_minute_with_their_count(log: io.StringIO):
    door = ConnectionCounter(ConnectionLimits(most=0))
    for moment in (0.0, 1.0, 59.9, 60.0, 61.0):
        assert not door.open(OWN, moment)
    reported = [json.loads(one)["refused"] for one in log.getvalue().splitlines()]
    assert reported == [1, 3]


def test_u8_half_of_the_descriptors_are_reserved_for_polling():
    wanted = LimitSettings(max_connections=10**9, max_connections_per_address=7)
    found = connection_limits(wanted)
    assert found.most < 10**9
    assert found.most_per_address == 7
    assert connection_limits(LimitSettings(max_connections=5)).most == 5
