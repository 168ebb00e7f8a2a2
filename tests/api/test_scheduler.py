"""Pausing and resuming the scheduler over the API (G2)."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.model import Source
from tests.api.conftest import Served
from tests.api.scripted_hosts import GatedHost, feed, running, watch
from tests.store.store_data import a_success, stored
from tests.system.conftest import until, web_of


async def test_g2_the_scheduler_shows_running_polls(served: Served):
    idle = await served.get("/api/scheduler")
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        paths = [await watch(served, web.url("slow", f"/{n}")) for n in range(2)]
        polls = [asyncio.create_task(served.post(f"{path}/poll")) for path in paths]
        await slow.asked.wait()
        await until(lambda: served.service.lanes.waiting())
        busy = await served.get("/api/scheduler")
        slow.open.set()
        await asyncio.gather(*polls)
    assert idle.json == {
        "paused": False,
        "lastTickAt": None,
        "laneCount": 0,
        "waiting": 0,
        "inFlight": 0,
        "outage": None,
        "outageSince": None,
        "cleanupPausedUntil": None,
    }
    assert busy.json == idle.json | {"laneCount": 1, "waiting": 1, "inFlight": 1}


async def test_g2_pausing_takes_effect_at_once_and_is_stored(served_by_each: Served):
    served = served_by_each
    async with web_of(host=lambda _: feed()) as web, running(served):
        switched = await served.put("/api/scheduler", {"paused": True})
        assert (switched.status, switched.json["paused"]) == (200, True)
        assert await served.app.store.key_values.get("paused") == "paused while configured running"
        source = await watch(served, web.url("host"))
        by_hand = await served.post(f"{source}/poll")
        assert by_hand.json["outcome"] == "stored"
        await served.app.store.sources.edit(source.rpartition("/")[2], _long_due)
        await served.service.tick()
        await asyncio.sleep(0.1)
        assert len(web.visits) == 1

        on = await served.put("/api/scheduler", {"paused": False})
        assert on.json["paused"] is False
        await until(lambda: len(web.visits) == 2)
    assert await served.app.store.key_values.get("paused") == "running while configured running"


async def test_the_body_of_get_is_accepted_by_put(served: Served):
    shown = (await served.get("/api/scheduler")).json
    assert (await served.put("/api/scheduler", shown | {"paused": True})).status == 200
    assert (await served.get("/api/scheduler")).json["paused"] is True


async def test_pausing_needs_an_administrator_and_a_valid_body(served: Served):
    ann, admin = await served.person("ann"), await served.admin()
    assert (await served.get("/api/scheduler", token=ann)).status == 200
    refused = await served.put("/api/scheduler", {"paused": True}, token=ann)
    assert refused.status == 403
    for body in ({}, {"paused": "yes"}, {"paused": True, "colour": "red"}, {"paused": None}):
        assert (await served.put("/api/scheduler", body, token=admin)).status == 422
    assert (await served.get("/api/scheduler", token=admin)).json["paused"] is False
    assert (await served.put("/api/scheduler", {"paused": True}, token=admin)).status == 200


async def test_s8_a_stopping_service_cannot_be_paused(served: Served):
    served.service.lanes.close()
    assert (await served.put("/api/scheduler", {"paused": True})).status == 503


def _long_due(source: Source) -> Source:
    assert source.last_polled is not None
    return replace(source, last_polled=source.last_polled - timedelta(days=2))


async def test_c3_o4_a_pause_of_cleanup_is_shown(served_by_each: Served):
    served = served_by_each
    source = await stored(served.app.store)
    now = served.app.clock.now()
    await served.app.store.record(a_success(source, started_at=now - timedelta(days=30)))
    await served.service.ticker.cleanup.check_start()
    await served.service.tick()
    until = datetime.fromisoformat((await served.get("/api/scheduler")).json["cleanupPausedUntil"])
    assert timedelta(hours=1) <= until - now < timedelta(hours=2)
