"""When a source is polled next, and why, as reported by the running service."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from headwater.demo.demo_web import Reply
from headwater.model import Hold
from tests.api.conftest import Served, serving, settings_in
from tests.api.scripted_hosts import GatedHost, feed, watch
from tests.system.conftest import until, web_of


async def explained(served: Served, source: str) -> tuple[str | None, dict[str, dict[str, Any]]]:
    """The next poll, and the steps by name."""
    answer = await served.get(f"{source}/explain")
    assert answer.status == 200, answer.json
    assert set(answer.json) == {"nextPollAt", "steps"}
    return answer.json["nextPollAt"], {step["what"]: step for step in answer.json["steps"]}


def moment(text: str | None) -> datetime:
    assert text is not None
    return datetime.fromisoformat(text)


async def test_a_polled_source_is_explained_by_its_interval(served: Served):
    async with web_of(host=lambda _: feed()) as web:
        source = await watch(served, web.url("host"), pollIntervalMinutes=60)
        await served.post(f"{source}/poll")
        next_at, steps = await explained(served, source)
    assert steps["interval"]["detail"] == "every 1 h"
    hour = timedelta(hours=1)
    assert (
        moment(next_at) == moment(steps["last polled"]["at"]) + hour == moment(steps["due"]["at"])
    )
    assert not {"backoff", "hold", "paused", "outage", "lane position"} & steps.keys()


async def test_failures_backoff_and_cap_are_reported(served: Served):
    async with web_of(host=lambda _: Reply(500)) as web:
        source = await watch(served, web.url("host"), maxBackoffHours=1)
        for _ in range(2):
            await served.post(f"{source}/poll")
        _, steps = await explained(served, source)
    reported = "failed 2 times in a row: 30 min doubled each time is 1 h, at most 1 h"
    assert steps["backoff"]["detail"] == reported


async def test_the_position_in_the_lane_is_reported(served: Served):
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        paths = [await watch(served, web.url("slow", f"/{n}")) for n in range(3)]
        polls = [asyncio.create_task(served.post(f"{paths[0]}/poll"))]
        await slow.asked.wait()
        for path in paths[1:]:
            polls.append(asyncio.create_task(served.post(f"{path}/poll")))
            await until(partial(_waits, served, len(polls) - 1))
        stories = [(await explained(served, path))[1] for path in paths]
        slow.open.set()
        await asyncio.gather(*polls)
    assert stories[0]["in flight"]["detail"] == "it is being polled right now"
    assert [story["lane position"]["detail"] for story in stories[1:]] == [
        "next in its lane, one is being polled right now",
        "1 source waits before it, one is being polled right now",
    ]


def _waits(served: Served, count: int) -> bool:
    return served.service.lanes.waiting() == count


async def test_p9_a_hold_known_only_to_the_service_is_reported(served: Served):
    source = await watch(served, "https://feeds.example.org/news.xml")
    now = served.app.clock.now()
    hold = Hold(now + timedelta(hours=2), now, "HTTP 429 from feeds.example.org")
    served.service.gates.hold("feeds.example.org", hold)
    await served.app.store.sources.request([source.rpartition("/")[2]], now)
    next_at, steps = await explained(served, source)
    assert steps["hold"]["detail"] == hold.reason
    assert abs(moment(next_at) - hold.until) < timedelta(seconds=5)


async def test_p2_the_delay_its_origin_and_its_end_are_reported(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.source.poll-delay-seconds": {"rss": 500}})
    async with serving(settings) as served, web_of(host=lambda _: feed()) as web:
        source = await watch(served, web.url("host"))
        await served.post(f"{source}/poll")
        _, steps = await explained(served, source)
    assert steps["lane"]["detail"].endswith("500 s between polls (poll-delay-seconds.rss)")
    assert moment(steps["next allowed"]["at"]) > moment(steps["last polled"]["at"])


async def test_g2_a_paused_scheduler_is_a_reason(served: Served):
    async with web_of(host=lambda _: feed()) as web:
        source = await watch(served, web.url("host"))
        await served.post(f"{source}/poll")
        await served.put("/api/scheduler", {"paused": True})
        next_at, steps = await explained(served, source)
    assert next_at is None
    assert "the scheduler is paused" in steps["paused"]["detail"]


async def test_o2_an_outage_is_a_reason(served: Served):
    source = await watch(served, "https://feeds.example.org/news.xml")
    served.service.guard.kind = "DNS"
    _, steps = await explained(served, source)
    assert "DNS" in steps["outage"]["detail"]


async def test_explaining_changes_nothing(served: Served):
    source = await watch(served, "https://feeds.example.org/news.xml")
    before = (await served.get(source)).json
    await explained(served, source)
    assert (await served.get(source)).json == before
    assert not served.service.lanes.names()
    assert not served.service.gates.names()
