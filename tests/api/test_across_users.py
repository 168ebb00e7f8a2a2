"""Lists across users: all for administrators, own ones for users (U2)."""

from typing import Any

from headwater.operations.users_and_podcasts import add_podcast
from tests.api.conftest import DEFAULT, Served
from tests.store.store_data import a_polled_source

SOURCES, PODCASTS = "/api/sources", "/api/podcasts"


async def ids(served: Served, path: str, **options: Any) -> list[str]:
    """The ids of all items, page by page."""
    found, cursor = list[str](), ""
    while True:
        mark = "&" if "?" in path else "?"
        answer = await served.get(f"{path}{mark}limit=2{cursor}", **options)
        assert answer.status == 200, answer.body
        found += [item["id"] for item in answer.json["items"]]
        if answer.json["nextCursor"] is None:
            return found
        cursor = f"&cursor={answer.json['nextCursor']}"


async def test_u2_sources_and_podcasts_of_all_users_are_listed(served_by_each: Served):
    served = served_by_each
    store = served.app.store
    admin, anna = await served.admin(), await served.person("anna")
    user = await store.accounts.user("anna")
    second = await add_podcast(store, user, "second", served.app.clock.now())
    podcasts = [p.id for p in await store.accounts.podcasts(None)]
    sources = [a_polled_source(podcast_id=id_, host="a.example") for id_ in podcasts * 3]
    await store.sources.add_many(sources)
    everything = {source.id for source in sources}
    hers = {source.id for source in sources if source.podcast_id != "default"}

    listed = await ids(served, SOURCES, token=admin)
    assert (len(listed), set(listed)) == (9, everything)
    order = {source.id: source.podcast_id for source in sources}
    assert [order[one] for one in listed] == sorted(order[one] for one in listed)
    assert set(await ids(served, f"{SOURCES}?user=anna", token=admin)) == hers
    assert set(await ids(served, f"{SOURCES}?user={user.id}&host=A.example", token=admin)) == hers
    assert await ids(served, f"{SOURCES}?host=b.example", token=admin) == []
    assert await ids(served, PODCASTS, token=admin) == podcasts
    assert len(await ids(served, f"{PODCASTS}?user=anna", token=admin)) == 2
    assert (await served.get(f"{SOURCES}?user=nobody", token=admin)).status == 404

    assert set(await ids(served, SOURCES, token=anna)) == hers
    assert second.id in await ids(served, PODCASTS, token=anna)
    assert "default" not in await ids(served, PODCASTS, token=anna)
    for path in (SOURCES, PODCASTS):
        assert (await served.get(f"{path}?user=default", token=anna)).status == 404


async def test_a_source_in_a_list_across_users_names_its_owner(served: Served):
    source = {"type": "rss", "url": "http://127.0.0.1:9/a", "enabled": False}
    made = (await served.post(f"{DEFAULT}/sources", source)).json
    (item,) = (await served.get(f"{SOURCES}?health=disabled&q=127&type=rss")).json["items"]
    assert (item["id"], item["userId"], item["user"]) == (made["id"], "default", "default")
    assert item["podcastId"] == "default"
    assert (await served.get(f"{SOURCES}?enabled=true")).json["items"] == []
