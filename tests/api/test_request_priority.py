"""Polls yield to requests that wait for a response (H3)."""

import asyncio
from typing import Any

import pytest
from starlette.types import ASGIApp

from headwater.api.middleware.request_priority import request_priority
from headwater.store.sqlite import SqliteDatabase
from tests.fakes import in_virtual_time


async def nothing(*_: Any) -> Any:
    return None


@pytest.mark.parametrize("breaks", [False, True])
def test_h3_a_request_counts_as_waiting_until_shortly_after_its_response(tmp_path, breaks):
    database = SqliteDatabase(tmp_path / "any.db")
    seen: list[int] = []

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(5)
        seen.append(database.interactive_requests)
        if breaks:
            raise ConnectionResetError

    async def ask(door: ASGIApp) -> None:
        try:
            await door({"type": "http", "path": "/api/hosts"}, nothing, nothing)
        except ConnectionResetError:
            assert breaks

    async def scenario() -> None:
        door = request_priority(answering, database)
        await asyncio.gather(ask(door), ask(door))
        await asyncio.sleep(0.9)
        seen.append(database.interactive_requests)
        await asyncio.sleep(0.2)
        seen.append(database.interactive_requests)

    in_virtual_time(scenario)
    assert seen == [2, 2, 2, 0]


def test_an_event_stream_delays_no_poll(tmp_path):
    database = SqliteDatabase(tmp_path / "any.db")
    seen: list[int] = []

    async def streaming(scope: Any, receive: Any, send: Any) -> None:
        seen.append(database.interactive_requests)

    async def scenario() -> None:
        door = request_priority(streaming, database)
        await door({"type": "http", "path": "/api/events"}, nothing, nothing)

    in_virtual_time(scenario)
    assert seen == [0]
