"""Podcasts over the API."""

import asyncio
from dataclasses import replace

from headwater.model import Podcast
from headwater.operations.sources import new_source
from headwater.operations.users_and_podcasts import add_podcast
from tests.api.conftest import Served

PODCASTS = "/api/users/default/podcasts"


async def test_podcasts_are_created_shown_changed_and_deleted(served_by_each: Served):
    served = served_by_each
    made = await served.post(PODCASTS, {"name": "Daily", "maxArticleAgeDays": 3})
    assert made.status == 201
    podcast = made.json
    assert made.headers["Location"] == f"{PODCASTS}/{podcast['id']}"
    assert podcast == {
        "id": podcast["id"],
        "userId": "default",
        "name": "Daily",
        "maxArticleAgeDays": 3,
        "dedupeAcrossSources": False,
        "stories": True,
        "keep": None,
        "block": None,
        "filterStats": {"keep": None, "block": None},
        "aggregateAutomatically": False,
        "pendingPosts": 0,
        "createdAt": podcast["createdAt"],
    }
    assert (await served.get(f"{PODCASTS}/Daily")).json == podcast

    edited = podcast | {"name": "Weekly", "dedupeAcrossSources": True}
    changed = await served.put(f"{PODCASTS}/{podcast['id']}", edited)
    assert (changed.status, changed.json) == (200, edited)
    assert (await served.get(f"{PODCASTS}/Daily")).status == 404

    assert (await served.delete(f"{PODCASTS}/Weekly")).status == 204
    assert (await served.delete(f"{PODCASTS}/{podcast['id']}")).status == 404
    assert (await served.get(f"{PODCASTS}/{podcast['id']}")).status == 404


async def test_put_resets_omitted_fields_to_their_defaults(served_by_each: Served):
    wanted = {"name": "Daily", "maxArticleAgeDays": 3, "dedupeAcrossSources": True}
    await served_by_each.post(PODCASTS, wanted)
    changed = (await served_by_each.put(f"{PODCASTS}/Daily", {"name": "Daily"})).json
    assert (changed["maxArticleAgeDays"], changed["dedupeAcrossSources"]) == (None, False)


async def test_the_podcast_default_cannot_be_deleted(served: Served):
    refused = await served.delete(f"{PODCASTS}/default")
    assert refused.status == 422
    assert "'default' cannot be removed" in refused.json["detail"]
    assert (await served.get(f"{PODCASTS}/default")).status == 200


async def test_a_name_is_unique_per_user(served_by_each: Served):
    served = served_by_each
    await served.post("/api/users", {"name": "Ada"})
    assert (await served.post(PODCASTS, {"name": "Daily"})).status == 201
    taken = await served.post(PODCASTS, {"name": "Daily"})
    assert (taken.status, taken.json["errors"][0]["field"]) == (409, "name")
    renamed = await served.put(f"{PODCASTS}/default", {"name": "Daily"})
    assert (renamed.status, renamed.json["errors"][0]["field"]) == (409, "name")
    assert (await served.post("/api/users/Ada/podcasts", {"name": "Daily"})).status == 201


async def test_an_invalid_podcast_is_422_and_names_the_field(served: Served):
    cases = [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": " "}, "name"),
        ({"name": "a" * 201}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"name": None}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "."}, "name"),
        ({"name": " .. "}, "name"),
        ({"name": "a", "maxArticleAgeDays": 0}, "maxArticleAgeDays"),
        ({"name": "a", "maxArticleAgeDays": "3"}, "maxArticleAgeDays"),
        ({"name": "a", "maxArticleAgeDays": 10**30}, "maxArticleAgeDays"),
        ({"name": "a", "dedupeAcrossSources": None}, "dedupeAcrossSources"),
        ({"name": "a", "dedupeAcrossSources": 1}, "dedupeAcrossSources"),
        ({"name": "a", "dedupe_across_sources": True}, "dedupe_across_sources"),
        ({"name": "a", "colour": "red"}, "colour"),
    ]
    for body, field in cases:
        for answer in (
            await served.post(PODCASTS, body),
            await served.put(f"{PODCASTS}/default", body),
        ):
            assert answer.status == 422, body
            assert answer.json["errors"][0]["field"] == field, body


async def test_an_existing_name_that_fits_no_path_stays_valid(served: Served):
    store = served.app.store
    user = replace(await store.accounts.user("default"), id="u-1", name="a/b")
    podcast = replace(await store.accounts.podcast("default", "default"), id="p-1", name="..")
    await store.accounts.add_user(user)
    await store.accounts.save_podcast(replace(podcast, user_id="u-1"))
    for path in ("/api/users/u-1", "/api/users/u-1/podcasts/p-1"):
        whole = (await served.get(path)).json
        assert (await served.put(path, whole)).json == whole
        assert (await served.put(path, whole | {"name": "c/d"})).status == 422


async def test_a_lone_surrogate_in_a_field_name_is_an_ordinary_error(served: Served):
    answer = await served.post(PODCASTS, {"name": "a", "\ud800": 1})
    assert (answer.status, answer.json["status"]) == (422, 422)


async def test_podcasts_are_paged_and_new_ones_do_not_disturb_pages(
    served_by_each: Served,
):
    served = served_by_each
    for name in ("a", "b", "c"):
        await served.post(PODCASTS, {"name": name})
    first = (await served.get(f"{PODCASTS}?limit=2")).json
    await served.post(PODCASTS, {"name": "d"})
    await served.delete(f"{PODCASTS}/a")
    second = (await served.get(f"{PODCASTS}?limit=2&cursor={first['nextCursor']}")).json
    third = (await served.get(f"{PODCASTS}?limit=2&cursor={second['nextCursor']}")).json
    names = [[podcast["name"] for podcast in page["items"]] for page in (first, second, third)]
    assert names == [["default", "a"], ["b", "c"], ["d"]]
    assert third["nextCursor"] is None


async def test_u2_podcasts_of_others_are_not_found(served_by_each: Served):
    served = served_by_each
    ada, bob = await served.person("ada"), await served.person("bob")
    theirs = (await served.get("/api/users/ada/podcasts/ada", token=ada)).json
    unknown = await served.get("/api/users/bob/podcasts/nobody", token=bob)
    for path in (
        f"/api/users/bob/podcasts/{theirs['id']}",
        "/api/users/bob/podcasts/ada",
        f"/api/users/ada/podcasts/{theirs['id']}",
        f"/api/users/{theirs['userId']}/podcasts/ada",
    ):
        for answer in (
            await served.get(path, token=bob),
            await served.put(path, {"name": "mine"}, token=bob),
            await served.delete(path, token=bob),
        ):
            assert answer.status == 404
            assert set(answer.json) == set(unknown.json)
    assert (await served.post("/api/users/ada/podcasts", {"name": "x"}, token=bob)).status == 404
    assert (await served.get("/api/users/ada/podcasts/ada", token=ada)).json == theirs


async def test_a_podcast_deleted_during_an_edit_is_not_recreated(
    served_by_each: Served,
):
    served, store = served_by_each, served_by_each.app.store
    await served.post(PODCASTS, {"name": "Daily"})
    url = f"{PODCASTS}/{(await served.get(f'{PODCASTS}/Daily')).json['id']}"
    answers = await asyncio.gather(
        *(served.put(url, {"name": f"Daily {n}"}) for n in range(5)),
        served.delete(url),
        *(served.put(url, {"name": f"Daily {n}"}) for n in range(5, 10)),
    )
    assert {answer.status for answer in answers} <= {200, 204, 404}
    assert [podcast.id for podcast in await store.accounts.podcasts("default")] == ["default"]


async def test_a_podcast_for_a_user_deleted_at_the_same_time_is_not_found(served_by_each: Served):
    store, now = served_by_each.app.store, served_by_each.app.clock.now()
    ada = await served_by_each.post("/api/users", {"name": "Ada"})
    user = await store.accounts.user(ada.json["id"])
    await served_by_each.delete(f"/api/users/{user.id}")
    try:
        await add_podcast(store, user, "Daily", now)
    except Exception as error:
        assert str(error) == f"there is no user {user.id!r}"
    else:
        raise AssertionError("the podcast has no owner")


async def test_deleting_a_podcast_or_a_user_deletes_every_source(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    await served.person("ada")
    for path in ("/api/users/ada/podcasts/ada", "/api/users/ada"):
        user = await store.accounts.user("ada")
        podcast = await _podcast(served, user.id)
        now = served.app.clock.now()
        wanted = [{"url": f"https://example.org/{n}"} for n in range(120)]
        await store.sources.add_many([new_source(podcast.id, one, now) for one in wanted])
        token = await served.admin()
        assert (await served.delete(path, token=token)).status == 204
        assert not await store.source_counts.any_sources(None)


async def _podcast(served: Served, user_id: str) -> Podcast:
    """A user's podcast, created again if it was deleted."""
    store = served.app.store
    found = await store.accounts.podcasts(user_id)
    if found:
        return found[0]
    user = await store.accounts.user(user_id)
    return await add_podcast(store, user, "ada", served.app.clock.now())
