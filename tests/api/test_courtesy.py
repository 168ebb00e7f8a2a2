"""Polls make way for whoever waits for an answer (H3)."""

import asyncio
from typing import Any

import pytest

from headwater.api.courtesy import Courtesy
from headwater.store.sqlite import SqliteDatabase
from tests.fakes import in_virtual_time


async def nothing(*_: Any) -> Any:
    return None


@pytest.mark.parametrize("breaks", [False, True])
def test_h3_somebody_waits_until_a_moment_after_the_answer(tmp_path, breaks):
    database = SqliteDatabase(tmp_path / "any.db")
    seen: list[int] = []

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(5)
        seen.append(database.people_waiting)
        if breaks:
            raise ConnectionResetError

    async def ask(door: Courtesy) -> None:
        try:
            await door({"type": "http", "path": "/api/hosts"}, nothing, nothing)
        except ConnectionResetError:
            assert breaks

    async def story() -> None:
        door = Courtesy(answering, database)
        await asyncio.gather(ask(door), ask(door))
        await asyncio.sleep(0.9)
        seen.append(database.people_waiting)
        await asyncio.sleep(0.2)
        seen.append(database.people_waiting)

    in_virtual_time(story)
    assert seen == [2, 2, 2, 0]


def test_whoever_follows_events_keeps_no_poll_waiting(tmp_path):
    database = SqliteDatabase(tmp_path / "any.db")
    seen: list[int] = []

    async def streaming(scope: Any, receive: Any, send: Any) -> None:
        seen.append(database.people_waiting)

    async def story() -> None:
        door = Courtesy(streaming, database)
        await door({"type": "http", "path": "/api/events"}, nothing, nothing)
        await door({"type": "lifespan"}, nothing, nothing)

    in_virtual_time(story)
    assert seen == [0, 0]
