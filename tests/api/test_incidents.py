"""Incidents over the API: who sees which, the feed, and events (Y1-Y3)."""

from datetime import timedelta
from typing import Any

import feedparser

from headwater.model import Source
from tests.api.conftest import DEFAULT, Served
from tests.api.event_stream_client import event_stream
from tests.api.stored_data import failed, polled, source_of

INCIDENTS = "/api/incidents"
FEED = f"{INCIDENTS}/feed.atom"
FIELDS = "id kind severity title advice host sourceIds openedAt closedAt".split()


async def failing_source(served: Served, name: str = "default", **changes: Any) -> Source:
    """A source that has failed for two days."""
    source = await source_of(served, name, **changes)
    await failed(served, source)
    since = served.app.clock.now() - timedelta(days=2)

    def longer(current: Source) -> Source:
        values = vars(current) | {"failing_since": since, "consecutive_failures": 9}
        return Source(**values)

    return await served.app.store.sources.edit(source.id, longer)


async def listed(served: Served, query: str = "", **options: Any) -> list[dict[str, Any]]:
    answer = await served.get(f"{INCIDENTS}{query}", **options)
    assert answer.status == 200
    found: list[dict[str, Any]] = answer.json["items"]
    return found


async def test_y1_an_incident_is_listed_while_open_and_afterwards(served_by_each: Served):
    served = served_by_each
    assert await listed(served) == []
    source = await failing_source(served, label="Rivers")
    await served.service.incident_watch.check()
    (incident,) = await listed(served, "?open=true")
    assert list(incident) == FIELDS
    assert (incident["kind"], incident["severity"]) == ("failing", "error")
    assert (incident["host"], incident["sourceIds"]) == (source.host, [source.id])
    assert "“Rivers” has failed since" in incident["title"]
    assert incident["closedAt"] is None
    await polled(served, source)
    await served.patch(f"{DEFAULT}/sources/{source.id}", {"enabled": False})
    await served.service.incident_watch.check()
    assert await listed(served, "?open=true") == []
    (closed,) = await listed(served, "?open=false")
    assert closed["id"] == incident["id"]
    assert closed["closedAt"] is not None
    assert await listed(served) == [closed]


async def test_y1_users_see_the_incidents_of_their_own_sources(served: Served):
    anna, bert = await served.person("anna"), await served.person("bert")
    admin = await served.admin()
    hers = await failing_source(served, "anna")
    his = await failing_source(served, "bert", url=hers.url, host=hers.host)
    await served.service.incident_watch.check()
    assert [one["sourceIds"] for one in await listed(served, token=anna)] == [[hers.id]]
    assert [one["sourceIds"] for one in await listed(served, token=bert)] == [[his.id]]
    assert len(await listed(served, token=admin)) == 2
    feed = (await served.get(FEED, token=anna)).body.decode()
    assert feed.count("<entry>") == 1


async def test_y2_a_list_has_pages(served: Served):
    for _ in range(3):
        await failing_source(served)
    await served.service.incident_watch.check()
    everything = await listed(served)
    assert len(everything) == 3
    first = await served.get(f"{INCIDENTS}?limit=2")
    rest = await listed(served, f"?limit=2&cursor={first.json['nextCursor']}")
    assert [*first.json["items"], *rest] == everything


async def test_y3_the_feed_has_an_entry_per_incident_and_needs_a_token_where_tokens_are_used(
    served: Served,
):
    source = await failing_source(served, label="Rivers & <Lakes>")
    await served.service.incident_watch.check()
    answer = await served.get(FEED)
    parsed = feedparser.parse(answer.body)
    assert not parsed.bozo
    (entry,) = parsed.entries
    assert entry.title.startswith("“Rivers & <Lakes>” has failed since")
    assert "browser" in entry.summary
    unchanged = await served.get(FEED, headers={"If-None-Match": answer.headers["ETag"]})
    assert unchanged.status == 304
    await served.app.store.sources.remove(source.id)
    await served.service.incident_watch.check()
    (after,) = feedparser.parse((await served.get(FEED)).body).entries
    assert after.title.startswith("Over: ")
    assert (after.id, after.published) == (entry.id, entry.published)
    admin = await served.admin()
    assert (await served.get(FEED)).status == 401
    assert (await served.get(f"{FEED}?token=wrong")).status == 401
    assert (await served.get(f"{FEED}?token={admin}")).status == 200
    assert (await served.get(f"{INCIDENTS}?token={admin}")).status == 401


async def test_y1_events_report_the_beginning_and_the_end(served: Served):
    source = await failing_source(served)
    async with event_stream(served, "?types=incident.opened,incident.closed") as stream:
        await served.service.incident_watch.check()
        await served.app.store.sources.remove(source.id)
        await served.service.incident_watch.check()
        opened, closed = await stream.take(2)
    assert (opened.kind, closed.kind) == ("incident.opened", "incident.closed")
    assert opened.data["sourceIds"] == [source.id]
    assert opened.data["id"] == closed.data["id"]
    assert closed.data["closedAt"] is not None


async def test_y1_metrics_count_incidents(served: Served):
    await failing_source(served)
    await served.service.incident_watch.check()
    text = (await served.get("/metrics")).body.decode()
    assert 'headwater_incidents_open{severity="error"} 1' in text
    assert 'headwater_incidents_opened_total{kind="failing"} 1' in text
