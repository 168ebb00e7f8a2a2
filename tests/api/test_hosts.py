"""Hosts over the API: their sources and the current state of their lanes."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.demo.demo_web import Reply
from headwater.model import Hold, SourceType
from headwater.store.hosts import names
from headwater.store.sqlite import SqliteDatabase
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.api.scripted_hosts import GatedHost, feed, watch
from tests.factories import a_source
from tests.system.conftest import web_of

ANN, BOB = "/api/users/ann/podcasts/ann", "/api/users/bob/podcasts/bob"


async def listed(served: Served, query: str = "", **options: Any) -> list[dict[str, Any]]:
    answer = await served.get(f"/api/hosts{query}", **options)
    assert answer.status == 200, answer.json
    found: list[dict[str, Any]] = answer.json["items"]
    return found


async def test_a_host_reports_its_sources_and_the_state_of_its_lane(served_by_each: Served):
    served = served_by_each
    await watch(served, "https://a.example/one", pollDelaySeconds=7)
    await watch(served, "https://a.example/two", enabled=False)
    [host] = await listed(served)
    assert host == {
        "host": "a.example",
        "sources": 2,
        "enabled": 1,
        "failing": 0,
        "laneLength": 0,
        "pagesPending": 0,
        "sharedRequests": 0,
        "inFlight": None,
        "delaySeconds": 7.0,
        "delayOrigin": "the source's own pollDelaySeconds",
        "hold": None,
        "nextAllowedAt": None,
        "lastSuccessAt": None,
    }


async def test_hosts_are_paged_by_name_and_new_hosts_do_not_disturb_pages(served_by_each: Served):
    served = served_by_each
    for name in ("d", "b", "a", "b"):
        await watch(served, f"https://{name}.example/{name}")
    first = (await served.get("/api/hosts?limit=2")).json
    await watch(served, "https://c.example/")
    second = (await served.get(f"/api/hosts?limit=2&cursor={first['nextCursor']}")).json
    shown = [[host["host"] for host in page["items"]] for page in (first, second)]
    assert shown == [["a.example", "b.example"], ["c.example", "d.example"]]
    assert second["nextCursor"] is None
    assert [host["sources"] for host in first["items"]] == [1, 2]
    assert (await served.get("/api/hosts?cursor=nonsense")).status == 422


async def test_u2_a_user_sees_the_hosts_of_their_own_sources(served_by_each: Served):
    served = served_by_each
    ann, bob, admin = await served.person("ann"), await served.person("bob"), await served.admin()
    await watch(served, "https://shared.example/a", place=ANN, token=ann)
    await watch(served, "https://ann.example/", place=ANN, token=ann)
    for n in range(2):
        await watch(served, f"https://shared.example/b{n}", place=BOB, token=bob)
    assert [host["host"] for host in await listed(served, token=bob)] == ["shared.example"]
    assert [host["sources"] for host in await listed(served, token=ann)] == [1, 1]
    assert [host["sources"] for host in await listed(served, token=admin)] == [1, 3]
    statuses = [
        (await served.get("/api/hosts/ann.example", token=token)).status
        for token in (ann, bob, admin)
    ]
    assert statuses == [200, 404, 200]
    unknown = await served.get("/api/hosts/nobody.example", token=bob)
    foreign = await served.get("/api/hosts/ann.example", token=bob)
    assert unknown.json | {"detail": ""} == foreign.json | {"detail": ""}


async def test_a_host_shows_the_last_responses_to_own_sources(served_by_each: Served):
    served = served_by_each
    ann, bob = await served.person("ann"), await served.person("bob")
    admin = await served.admin()
    async with web_of(host=lambda r: feed() if r.path == "/good" else Reply(404)) as web:
        good = await watch(served, web.url("host", "/good"), place=ANN, token=ann)
        bad = await watch(served, web.url("host", "/bad"), place=ANN, token=ann)
        his = await watch(served, web.url("host", "/his"), place=BOB, token=bob)
        for source in (good, bad, his, good):
            await served.post(f"{source}/poll", token=admin)
        card = await served.get(f"/api/hosts/{web.address('host')}", token=ann)
    assert card.status == 200
    host = card.json
    answers = host.pop("lastAnswers")
    assert host == (await listed(served, token=ann))[0]
    assert (host["sources"], host["failing"]) == (2, 1)
    assert host["lastSuccessAt"] is not None
    good_id, bad_id = (source.rpartition("/")[2] for source in (good, bad))
    reported = [(answer["sourceId"], answer["outcome"], answer["status"]) for answer in answers]
    assert reported == [
        (good_id, "unchanged", 200),
        (bad_id, "failed", 404),
        (good_id, "stored", 200),
    ]
    assert set(answers[1]) == {
        "sourceId", "startedAt", "outcome", "status", "failureType", "failureKind", "error",
    }  # fmt: skip
    assert "404" in answers[1]["error"]


async def test_a_poll_in_flight_is_shown_to_its_owner_only(served: Served):
    ann, bob = await served.person("ann"), await served.person("bob")
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        url = web.url("slow", "/secret")
        hers = await watch(served, url, place=ANN, token=ann)
        his = await watch(served, web.url("slow", "/his"), place=BOB, token=bob)
        polls = [asyncio.create_task(served.post(f"{hers}/poll", token=ann))]
        await slow.asked.wait()
        await served.post(f"{his}/poll?wait=false", token=bob)
        [seen_by_ann] = await listed(served, token=ann)
        [seen_by_bob] = await listed(served, token=bob)
        slow.open.set()
        await asyncio.gather(*polls)
    assert seen_by_ann["inFlight"] == {"sourceId": hers.rpartition("/")[2], "url": url}
    assert seen_by_bob["inFlight"] == {"sourceId": None, "url": None}
    assert seen_by_ann["laneLength"] == seen_by_bob["laneLength"] == 2


async def test_u6_a_hold_is_reported_without_the_url_that_caused_it(served: Served):
    ann, bob = await served.person("ann"), await served.person("bob")
    limited = Reply(429, headers={"Retry-After": "600"})
    async with web_of(limited=lambda _: limited) as web:
        hers = await watch(served, web.url("limited", "/private/path"), place=ANN, token=ann)
        his = await watch(served, web.url("limited", "/his"), place=BOB, token=bob)
        await served.post(f"{hers}/poll", token=ann)
        [host] = await listed(served, token=bob)
        refused = await served.post(f"{his}/poll", token=bob)
        explained = await served.get(f"{his}/explain", token=bob)
    assert host["hold"]["reason"] == f"HTTP 429 from {web.address('limited')}"
    assert host["hold"]["until"] == host["nextAllowedAt"]
    assert b"private" not in refused.body + explained.body


async def test_p2_the_longest_delay_and_its_origin_are_reported(tmp_path: Path):
    options = {
        "app.source.poll-delay-seconds": {"rss": 3, "website": 2},
        "app.source.host-overrides": {"slow.example": {"poll-delay-seconds": 9}},
    }
    async with serving(settings_in(tmp_path, **options)) as served:
        await watch(served, "https://a.example/", type="website")
        await watch(served, "https://a.example/feed")
        await watch(served, "https://b.example/feed", pollDelaySeconds=0)
        await watch(served, "https://slow.example/feed")
        found = {h["host"]: (h["delaySeconds"], h["delayOrigin"]) for h in await listed(served)}
    assert found == {
        "a.example": (3, "poll-delay-seconds.rss"),
        "b.example": (0, "the source's own pollDelaySeconds"),
        "slow.example": (9, "host-overrides for slow.example"),
    }


async def test_p1_x_shows_the_own_lane_and_to_an_administrator_the_sum(served: Served):
    ann, bob, admin = await served.person("ann"), await served.person("bob"), await served.admin()
    for place, token in ((ANN, ann), (BOB, bob)):
        await watch(served, "@jack", type="twitter", place=place, token=token)
    now = served.app.clock.now()
    user = await served.app.store.accounts.user("ann")
    hold = Hold(now + timedelta(minutes=5), now, "X asks for fewer requests")
    served.service.gates.hold(f"x.com/{user.id}", hold)
    holds = [(await listed(served, token=token))[0]["hold"] for token in (ann, bob, admin)]
    assert [hold and hold["reason"] for hold in holds] == [hold.reason, None, hold.reason]
    sources = [(await listed(served, token=token))[0]["sources"] for token in (ann, bob, admin)]
    assert sources == [1, 1, 2]


@pytest.mark.parametrize("name", ["A.EXAMPLE", "a.example.", "a%2Eexample"])
async def test_p1_a_host_is_found_by_every_spelling(served: Served, name: str):
    await watch(served, "https://a.example/")
    assert (await served.get(f"/api/hosts/{name}")).json["host"] == "a.example"


@pytest.mark.parametrize("name", ["-", "a b", "%00", "x" * 301, "[::1", "%F0%9F%8C%8A", "127.1"])
async def test_odd_host_names_are_not_found(served: Served, name: str):
    await watch(served, "https://a.example/")
    assert (await served.get(f"/api/hosts/{name.replace(' ', '%20')}")).status in (404, 422)


async def test_hosts_of_many_sources_among_others_are_found_in_the_same_order(
    served_by_each: Served,
):
    served = served_by_each
    token = await served.person("ann")
    store = served.app.store
    hers = await store.accounts.podcast((await store.accounts.user("ann")).id, "ann")
    many = [
        replace(
            a_source(url=f"https://h{n % 700:03}.example/{n}", host=f"h{n % 700:03}.example"),
            id=f"s{n}",
            podcast_id=hers.id if n % 2 == 0 else "default",
            type=SourceType.RSS,
        )
        for n in range(11_000)
    ]
    await store.sources.add_many(many)
    first = (await served.get("/api/hosts?limit=300", token=token)).json
    rest = (
        await served.get(f"/api/hosts?limit=300&cursor={first['nextCursor']}", token=token)
    ).json
    shown = [host["host"] for host in first["items"] + rest["items"]]
    assert shown == [f"h{n:03}.example" for n in range(0, 700, 2)]
    assert rest["nextCursor"] is None
    assert {host["sources"] for host in first["items"]} <= {15, 16}


async def test_s5_a_page_of_hosts_uses_the_index(served: Served):
    database = served.app.store.database
    assert isinstance(database, SqliteDatabase)
    seen: list[str] = []

    class RecordingDatabase:
        def __init__(self, session: Any) -> None:
            self._session = session

        def fetch(self, sql: str, params: Any) -> Any:
            if "RECURSIVE" in sql:
                rows = self._session.fetch(f"EXPLAIN QUERY PLAN {sql}", params)
                seen.extend(str(row[-1]) for row in rows)
            found = self._session.fetch(sql, params)
            return [(10**6,)] if "count(*)" in sql else found  # as if there were many

    for owner in (None, "default"):
        await database.read(
            lambda s, o=owner: names(RecordingDatabase(s), owner=o, after="", limit=50)  # type: ignore[misc,arg-type]
        )
    steps = [step for step in seen if " s " in f"{step} "]
    assert len(steps) == 4
    assert all("INDEX sources_host (host>?)" in step for step in steps), steps


async def test_a_source_without_a_host_is_not_listed(served: Served):
    broken = replace(a_source(url="no url at all", host=None), id="broken")
    await served.app.store.sources.add_many([broken])
    assert await listed(served) == []
    assert (await served.get(f"{DEFAULT}/sources/broken/explain")).status == 200
