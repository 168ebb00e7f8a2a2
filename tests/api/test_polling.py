"""Manual polls over the API."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
import pytest

from headwater.demo.demo_web import Reply, Request
from headwater.model import DueSource, Outcome
from headwater.operations.rate_limits import MOST_VISITS, VisitLimits
from tests.api.conftest import DEFAULT, Answer, Served
from tests.api.scripted_hosts import GatedHost, feed, watch
from tests.store.store_data import StoreClock
from tests.system.conftest import until, web_of


async def test_a_manual_poll_returns_its_outcome(served_by_each: Served):
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


async def test_a_poll_that_fails_is_an_outcome_and_no_api_error(served: Served):
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


async def test_p10_without_waiting_the_response_reports_the_request(served: Served):
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        source = await watch(served, web.url("slow"))
        asked = await served.post(f"{source}/poll?wait=false")
        await slow.asked.wait()
        slow.open.set()
        await until(lambda: _polls(served, source))
    assert asked.status == 202
    assert asked.json == {"outcome": None, "requested": True}
    assert (await served.get(source)).json["postCount"] == 1


async def test_p10_a_running_poll_is_joined_and_not_repeated(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    slow, lanes = GatedHost(), served.service.lanes
    joined = asyncio.Event()
    async with web_of(slow=slow) as web:
        source = await watch(served, web.url("slow"))
        first = asyncio.create_task(served.post(f"{source}/poll"))
        await slow.asked.wait()
        request = lanes.request

        def reported(due: DueSource) -> "asyncio.Future[Outcome | None]":
            joined.set()
            return request(due)

        monkeypatch.setattr(lanes, "request", reported)
        second = asyncio.create_task(served.post(f"{source}/poll"))
        await joined.wait()
        slow.open.set()
        answers = await asyncio.gather(first, second)
        assert len(web.visits) == 1
    assert [answer.json["newPosts"] for answer in answers] == [1, 1]


async def test_p10_a_source_on_hold_is_not_requested_and_nothing_is_recorded(served: Served):
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


async def test_s8_a_stopping_service_accepts_no_more_polls(served: Served):
    source = await watch(served, "http://127.80.9.9/")
    served.service.lanes.close()
    refused = await served.post(f"{source}/poll")
    assert refused.status == 503
    assert "stopping" in refused.json["detail"]
    subject = await served.app.store.sources.get(source.rpartition("/")[2])
    assert subject.requested_at is None


async def test_a_client_that_disconnects_does_not_cancel_the_poll(served: Served):
    slow = GatedHost()
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


async def test_u2_users_cannot_poll_or_explain_sources_of_others(served: Served):
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
async def test_unknown_parameters_are_refused(served: Served, query: str):
    source = await watch(served, "http://127.80.9.9/")
    assert (await served.post(f"{source}/poll?{query}")).status == 422


async def test_a_source_that_is_not_there_cannot_be_polled(served: Served):
    assert (await served.post(f"{DEFAULT}/sources/nobody/poll")).status == 404


async def _polled_while(served: Served, change: Callable[[str], Awaitable[Answer]]) -> Answer:
    """The response to a manual poll during which its source is changed."""
    slow = GatedHost()
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
async def test_d4_a_poll_of_an_edited_source_does_not_report_stored_posts(
    served: Served, edit: dict[str, object]
):
    answer = await _polled_while(served, lambda source: served.patch(source, edit))
    assert answer.status == 200
    assert (answer.json["outcome"], answer.json["newPosts"]) == ("failed", 0)
    assert answer.json["failureType"] == "transient"
    assert "changed or removed during the poll" in answer.json["error"]


async def test_d4_a_poll_of_a_deleted_source_is_not_found(served: Served):
    assert (await _polled_while(served, served.delete)).status == 404


async def _polls(served: Served, source: str) -> list[dict[str, object]]:
    """The history of a source."""
    found: list[dict[str, object]] = (await served.get(f"{source}/polls")).json["items"]
    return found


@dataclass
class CountingHost:
    """A feed that counts requests."""

    requests: int = 0

    def __call__(self, _: Request) -> Reply:
        self.requests += 1
        return feed()


async def test_y8_a_user_polls_a_source_once_in_ten_seconds_by_any_means(served_by_each: Served):
    served, host = served_by_each, CountingHost()
    served.app.visit_limits = VisitLimits(StoreClock())
    ann, admin = await served.person("ann"), await served.admin()
    place = "/api/users/ann/podcasts/ann"
    async with web_of(host=host) as web:
        source = await watch(served, web.url("host"), place=place, token=ann)
        batch = {"action": "poll", "ids": [source.rpartition("/")[2]]}
        assert (await served.post(f"{source}/poll", token=ann)).status == 200
        for path, body in (
            (f"{source}/poll", None),
            (f"{source}/poll?wait=false", None),
            (f"{place}/sources/batch", batch),
        ):
            refused = await served.post(path, body, token=ann)
            assert refused.status == 429, path
            assert refused.headers["Retry-After"] == "10"
        assert host.requests == 1
        assert (await served.post(f"{source}/poll", token=admin)).status == 200
        assert (await served.post(f"{place}/sources/batch", batch, token=admin)).status == 200


async def test_y8_edits_that_request_polls_are_limited_like_polls(served_by_each: Served):
    served, host = served_by_each, CountingHost()
    served.app.visit_limits = VisitLimits(StoreClock())
    ann, admin = await served.person("ann"), await served.admin()
    async with web_of(host=host) as web:
        place = "/api/users/ann/podcasts/ann"
        source = await watch(served, web.url("host"), place=place, token=ann)
        edits = [{"enabled": False}, {"enabled": True}, {"enabled": False}, {"enabled": True}]
        changed = [await served.patch(source, edit, token=ann) for edit in edits]
        assert [answer.status for answer in changed] == [200, 200, 200, 429]
        assert changed[-1].headers["Retry-After"] == "10"
        assert (await served.get(source, token=ann)).json["enabled"] is False
        assert (await served.post(f"{source}/poll", token=ann)).status == 429
        harmless = {"label": "News", "pollIntervalMinutes": 90}
        assert (await served.patch(source, harmless, token=ann)).status == 200
        for body in ({"enabled": True}, {"url": web.url("host", "/other")}):
            assert (await served.patch(source, body, token=admin)).status == 200
        refused = await served.patch(source, {"url": web.url("host", "/third")}, token=ann)
        assert refused.status == 429


async def test_y8_a_batch_that_enables_requests_polls_of_those_that_may_be_polled(served: Served):
    served.app.visit_limits = VisitLimits(StoreClock())
    ann, place = await served.person("ann"), "/api/users/ann/podcasts/ann"
    async with web_of(host=lambda _: feed()) as web:
        for number in range(2):
            await watch(served, web.url("host", f"/{number}"), place=place, token=ann)
        found = []
        for action in ("disable", "enable", "disable", "enable"):
            batch = {"action": action, "filter": {"all": True}}
            answer = await served.post(f"{place}/sources/batch", batch, token=ann)
            found.append((answer.json["changed"], answer.json["requested"]))
    assert found == [(2, 0), (2, 2), (2, 0), (2, 0)]


async def test_y8_a_batch_requests_polls_of_the_sources_that_may_be_polled(served: Served):
    served.app.visit_limits = VisitLimits(StoreClock())
    ann, place = await served.person("ann"), "/api/users/ann/podcasts/ann"
    batch = {"action": "poll", "filter": {"all": True}}
    assert (await served.post(f"{place}/sources/batch", batch, token=ann)).status == 200  # of none
    async with web_of(host=lambda _: feed()) as web:
        urls = [web.url("host", f"/{number}") for number in range(3)]
        first, *_ = [await watch(served, url, place=place, token=ann) for url in urls]
        assert (await served.post(f"{first}/poll", token=ann)).status == 200
        asked = [await served.post(f"{place}/sources/batch", batch, token=ann) for _ in range(2)]
    assert [answer.status for answer in asked] == [200, 429]
    assert asked[0].json == {"matched": 3, "changed": 2, "requested": 2}
    assert (await served.post(f"{first}/poll", token=ann)).status == 429


async def test_y8_new_sources_and_previews_do_not_lift_the_limit_of_a_host(served: Served):
    served.app.visit_limits = VisitLimits(StoreClock())
    host, ann, place = CountingHost(), await served.person("ann"), "/api/users/ann/podcasts/ann"
    async with web_of(host=host) as web:
        url = web.url("host")
        statuses = []
        for _ in range(MOST_VISITS):
            source = await watch(served, url, place=place, token=ann)
            statuses.append((await served.post(f"{source}/poll", token=ann)).status)
            preview = await served.post(f"{place}/sources/preview", {"url": url}, token=ann)
            statuses.append(preview.status)
            await served.delete(source, token=ann)
    assert statuses == [200] * MOST_VISITS + [429] * MOST_VISITS
    assert host.requests == MOST_VISITS


@pytest.mark.parametrize(
    "spellings",
    [
        ["https://host.invalid/feed", "host.invalid/feed", "feed:https://HOST.invalid/"],
        ["https://podcasts.apple.com/us/podcast/a-name/id1200361736"],  # is looked up
        ["@name@social.invalid", "https://social.invalid/@name"],
    ],
)
@pytest.mark.parametrize("call", ["sources?check=true", "sources/preview"])
async def test_y8_the_limit_of_a_host_holds_for_all_spellings_before_any_visit(
    served: Served, spellings: list[str], call: str
):
    served.app.visit_limits = VisitLimits(StoreClock())
    ann, path = await served.person("ann"), f"/api/users/ann/podcasts/ann/{call}"
    urls = [spellings[number % len(spellings)] for number in range(MOST_VISITS + 1)]
    answers = [await served.post(path, {"url": url}, token=ann) for url in urls]
    statuses = [answer.status for answer in answers]
    assert statuses == [422] * MOST_VISITS + [429], "no name is resolved after the limit"
