"""Polls by hand over the API."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from headwater.demo import Reply
from headwater.model import DueSource, Outcome
from tests.api.conftest import DEFAULT, Answer, Served
from tests.api.watching import Doorman, feed, watch
from tests.system.conftest import until, web_of


async def test_a_poll_by_hand_answers_with_its_outcome(served_by_each: Served):
    async with web_of(host=lambda _: feed("one", "two")) as web:
        source = await watch(served_by_each, web.url("host"))
        polled = await served_by_each.post(f"{source}/poll")
        again = await served_by_each.post(f"{source}/poll")
    assert polled.status == again.status == 200
    assert polled.json == {
        "outcome": "stored",
        "newPosts": 2,
        "skipped": {
            "alreadySeen": 0,
            "duplicate": 0,
            "tooOld": 0,
            "beforeCreation": 0,
            "empty": 0,
        },
        "status": 200,
        "failureType": None,
        "failureKind": None,
        "error": None,
        "durationMs": polled.json["durationMs"],
    }
    assert again.json["outcome"] == "unchanged"


async def test_a_poll_that_fails_is_an_outcome_and_no_error_of_ours(served: Served):
    async with web_of(gone=lambda _: Reply(404)) as web:
        source = await watch(served, web.url("gone"))
        polled = await served.post(f"{source}/poll")
        (host,) = (await served.get("/api/hosts")).json["items"]
        card = (await served.get(f"/api/hosts/{host['host']}")).json
    (kept,) = await _polls(served, source)
    kinds = [shown["failureKind"] for shown in (polled.json, kept, *card["lastAnswers"])]
    assert kinds == ["404", "404", "404"]
    assert polled.status == 200
    assert (polled.json["outcome"], polled.json["status"]) == ("failed", 404)
    assert polled.json["failureType"] == "permanent"
    assert "404" in polled.json["error"]


async def test_p10_who_does_not_wait_is_told_that_the_poll_is_requested(served: Served):
    slow = Doorman()
    async with web_of(slow=slow) as web:
        source = await watch(served, web.url("slow"))
        asked = await served.post(f"{source}/poll?wait=false")
        await slow.asked.wait()
        slow.open.set()
        await until(lambda: _polls(served, source))
    assert asked.status == 202
    assert asked.json == {"outcome": None, "requested": True}
    assert (await served.get(source)).json["postCount"] == 1


async def test_p10_a_poll_under_way_is_joined_and_not_repeated(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    slow, lanes = Doorman(), served.service.lanes
    joined = asyncio.Event()
    async with web_of(slow=slow) as web:
        source = await watch(served, web.url("slow"))
        first = asyncio.create_task(served.post(f"{source}/poll"))
        await slow.asked.wait()
        request = lanes.request

        def told(due: DueSource) -> "asyncio.Future[Outcome | None]":
            joined.set()
            return request(due)

        monkeypatch.setattr(lanes, "request", told)
        second = asyncio.create_task(served.post(f"{source}/poll"))
        await joined.wait()
        slow.open.set()
        answers = await asyncio.gather(first, second)
        assert len(web.visits) == 1
    assert [answer.json["newPosts"] for answer in answers] == [1, 1]


async def test_p10_a_source_on_hold_is_not_asked_and_nothing_is_recorded(served: Served):
    limited = Reply(429, headers={"Retry-After": "600"})
    async with web_of(limited=lambda _: limited) as web:
        first = await watch(served, web.url("limited", "/one"))
        second = await watch(served, web.url("limited", "/two"))
        await served.post(f"{first}/poll")
        refused = await served.post(f"{second}/poll")
        unasked = await served.post(f"{second}/poll?wait=false")
        assert len(web.visits) == 1
    for answer in (refused, unasked):
        assert answer.status == 200
        assert (answer.json["outcome"], answer.json["failureType"]) == ("failed", "transient")
        assert answer.json["failureKind"] == "hold"
        assert answer.json["error"].startswith("on hold until ")
    source = (await served.get(second)).json
    assert (source["lastPolled"], source["consecutiveFailures"]) == (None, 0)
    assert not await _polls(served, second)


async def test_s4_a_disabled_source_can_be_polled_and_stays_disabled(served: Served):
    async with web_of(host=lambda _: feed()) as web:
        source = await watch(served, web.url("host"), enabled=False)
        polled = await served.post(f"{source}/poll")
    assert polled.json["outcome"] == "stored"
    assert (await served.get(source)).json["enabled"] is False


async def test_s8_a_service_that_stops_takes_no_more_polls(served: Served):
    source = await watch(served, "http://127.80.9.9/")
    served.service.lanes.close()
    refused = await served.post(f"{source}/poll")
    assert refused.status == 503
    assert "stopping" in refused.json["detail"]
    subject = await served.app.store.sources.get(source.rpartition("/")[2])
    assert subject.requested_at is None


async def test_a_client_that_hangs_up_does_not_cancel_the_poll(served: Served):
    slow = Doorman()
    async with web_of(slow=slow) as web:
        source = await watch(served, web.url("slow"))
        async with aiohttp.ClientSession() as session:
            asking = asyncio.create_task(session.post(f"{served.url}{source}/poll"))
            await slow.asked.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        slow.open.set()
        await until(lambda: _polls(served, source))
    [poll] = await _polls(served, source)
    assert (poll["outcome"], poll["newPosts"]) == ("stored", 1)


async def test_u2_nobody_polls_or_explains_what_is_somebody_elses(served: Served):
    ann, bob = await served.person("ann"), await served.person("bob")
    hers, his = "/api/users/ann/podcasts/ann", "/api/users/bob/podcasts/bob"
    source = await watch(served, "http://127.80.9.9/", place=hers, token=ann)
    id_ = source.rpartition("/")[2]
    for place in (hers, his):
        assert (await served.post(f"{place}/sources/{id_}/poll", token=bob)).status == 404
        assert (await served.get(f"{place}/sources/{id_}/explain", token=bob)).status == 404
    preview = await served.post(f"{hers}/sources/preview", {"url": "http://a.org"}, token=bob)
    assert preview.status == 404


@pytest.mark.parametrize("query", ["wait=perhaps", "wait=", "colour=red"])
async def test_parameters_that_nobody_knows_are_refused(served: Served, query: str):
    source = await watch(served, "http://127.80.9.9/")
    assert (await served.post(f"{source}/poll?{query}")).status == 422


async def test_a_source_that_is_not_there_cannot_be_polled(served: Served):
    assert (await served.post(f"{DEFAULT}/sources/nobody/poll")).status == 404


async def _polled_while(served: Served, change: Callable[[str], Awaitable[Answer]]) -> Answer:
    """The answer of a poll by hand during which something is done to its source."""
    slow = Doorman()
    async with web_of(slow=slow) as web:
        source = await watch(served, web.url("slow"))
        asked = asyncio.create_task(served.post(f"{source}/poll"))
        await slow.asked.wait()
        assert (await change(source)).status < 300
        slow.open.set()
        answer = await asked
        assert (await served.get(f"{DEFAULT}/posts")).json["items"] == []
    return answer


@pytest.mark.parametrize("edit", [{"enabled": False}, {"url": "http://127.80.9.9/other"}])
async def test_d4_a_poll_whose_source_was_edited_meanwhile_does_not_claim_to_have_stored(
    served: Served, edit: dict[str, object]
):
    answer = await _polled_while(served, lambda source: served.patch(source, edit))
    assert answer.status == 200
    assert (answer.json["outcome"], answer.json["newPosts"]) == ("failed", 0)
    assert answer.json["failureType"] == "transient"
    assert "edited or removed meanwhile" in answer.json["error"]


async def test_d4_a_poll_whose_source_was_removed_meanwhile_finds_nothing(served: Served):
    assert (await _polled_while(served, served.delete)).status == 404


async def _polls(served: Served, source: str) -> list[dict[str, object]]:
    """The history of a source."""
    found: list[dict[str, object]] = (await served.get(f"{source}/polls")).json["items"]
    return found
