"""Filters over the API: settings, previews, statistics, lists and events (B2)."""

from functools import partial
from itertools import count

import pytest

from headwater.errors import QueryError, SearchTooSlow
from headwater.query.parser import parse_query
from headwater.store import postgres, sqlite
from headwater.store.filter_changes import MAX_PREVIEWED
from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import posts_of, source_of
from tests.query.test_parser import INVALID

PREVIEW = f"{DEFAULT}/filters/preview"


async def bodies(served: Served, path: str) -> list[str]:
    return sorted(post["body"] for post in (await served.get(path)).json["items"])


async def test_b2_a_filter_of_a_source_hides_stored_posts_at_once(served_by_each: Served):
    served = served_by_each
    source = await source_of(served)
    await posts_of(served, source, "bank", "fish", "ship")
    path = f"{DEFAULT}/sources/{source.id}"
    changed = await served.patch(path, {"block": "bank OR fish"})
    assert (changed.status, changed.json["block"], changed.json["keep"]) == (
        200,
        "bank OR fish",
        None,
    )
    for posts in (f"{DEFAULT}/posts", f"{path}/posts"):
        assert await bodies(served, posts) == ["ship"]
        assert await bodies(served, f"{posts}?filtered=true") == ["bank", "fish"]
        assert await bodies(served, f"{posts}?filtered=any") == ["bank", "fish", "ship"]
        assert (await served.get(f"{posts}?filtered=maybe")).status == 422
    hidden = (await served.get(f"{DEFAULT}/posts?filtered=true")).json["items"][0]
    assert hidden["filteredBy"] == "source.block"

    made = (await served.post(f"{DEFAULT}/articles/aggregate")).json
    assert (made["linkedPosts"], made["items"][0]["body"]) == (1, "ship")
    await served.patch(path, {"block": None})
    assert await bodies(served, f"{DEFAULT}/posts") == ["bank", "fish", "ship"]


async def test_b2_a_filter_of_a_podcast_is_changed_by_put(served_by_each: Served):
    served = served_by_each
    await posts_of(served, await source_of(served), "bank", "fish")
    changed = await served.put(DEFAULT, {"name": "default", "keep": "fish"})
    assert changed.json["filterStats"] == {
        "keep": {
            "matched": 1,
            "lastTitle": "The first title",
            "lastAt": changed.json["filterStats"]["keep"]["lastAt"],
        },
        "block": None,
    }
    assert (await served.get(DEFAULT)).json == changed.json
    assert await bodies(served, f"{DEFAULT}/posts") == ["fish"]
    await served.put(DEFAULT, {"name": "default"})  # a setting that is not given is reset
    assert await bodies(served, f"{DEFAULT}/posts") == ["bank", "fish"]


async def test_b2_filters_of_many_sources_are_changed_at_once(served: Served):
    for _ in range(2):
        await posts_of(served, await source_of(served), "bank", "fish")
    change = {"action": "update", "filter": {"all": True}, "set": {"block": "bank"}}
    assert (await served.post(f"{DEFAULT}/sources/batch", change)).json["changed"] == 2
    assert await bodies(served, f"{DEFAULT}/posts") == ["fish", "fish"]
    listed = (await served.get(f"{DEFAULT}/sources")).json["items"]
    assert [one["filterStats"]["block"]["matched"] for one in listed] == [1, 1]


async def test_b2_a_preview_changes_nothing(served_by_each: Served):
    served = served_by_each
    source, other = await source_of(served, block="ship"), await source_of(served)
    await posts_of(served, source, "bank", "fish", title="A title")
    await posts_of(served, other, "bank of another source")
    await served.patch(f"{DEFAULT}/sources/{source.id}", {"block": "fish"})
    before = (await served.get(f"{DEFAULT}/posts?filtered=any")).json

    effect = (await served.post(PREVIEW, {"block": "bank"})).json
    assert effect == {
        "hidden": 2,
        "shown": 0,
        "titles": effect["titles"],
        "checked": 3,
        "isComplete": True,
    }
    assert sorted(effect["titles"]) == ["A title", "The first title"]
    of_source = f"{DEFAULT}/sources/{source.id}/filters/preview"
    effect = (await served.post(of_source, {"block": "bank"})).json
    assert (effect["hidden"], effect["shown"], effect["checked"]) == (1, 1, 2)
    # one that is not given stays as it is, null removes it
    assert (await served.post(of_source, {"keep": "bank"})).json["shown"] == 0
    assert (await served.post(of_source, {"block": None})).json["shown"] == 1
    assert (await served.post(of_source, {})).json["hidden"] == 0
    assert (await served.get(f"{DEFAULT}/posts?filtered=any")).json == before


async def test_b2_a_preview_of_many_posts_is_bounded(served: Served):
    source = await source_of(served)
    await posts_of(served, source, *(f"bank {n}" for n in range(MAX_PREVIEWED + 600)))
    effect = (await served.post(PREVIEW, {"block": "bank"})).json
    assert effect["isComplete"] is False
    assert effect["hidden"] == effect["checked"]
    assert effect["checked"] == MAX_PREVIEWED
    assert len(effect["titles"]) == 10


async def test_b2_a_preview_that_takes_too_long_says_what_it_has_evaluated(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch
):
    served = served_by_each
    await posts_of(served, await source_of(served), "bank", "fish")
    for module in (sqlite, postgres):  # an hour passes from one look at the clock to the next
        monkeypatch.setattr(module, "monotonic", partial(next, count(step=3600)))
    served.app.store.search.seconds = 600
    effect = (await served.post(PREVIEW, {"block": "bank OR fish"})).json
    assert (effect["isComplete"], effect["checked"], effect["hidden"]) == (False, 1, 1)


async def test_b2_a_cancelled_preview_says_so(served: Served, monkeypatch: pytest.MonkeyPatch):
    async def slow(*_: object) -> None:
        raise SearchTooSlow("this preview takes too long")

    monkeypatch.setattr(served.app.store.search, "filter_effect", slow)
    answer = await served.post(PREVIEW, {"block": "bank"})
    assert (answer.status, answer.json["type"]) == (422, "/api/problems/search-too-slow")
    assert answer.json["detail"] == "this preview takes too long"


# what JSON cannot contain is left out
SENT = [one for one in INVALID if "\ud800" not in one[0]]


@pytest.mark.parametrize(("text", "position", "expected"), SENT, ids=range(len(SENT)))
async def test_b1_b2_an_invalid_filter_is_422_with_the_position(
    served: Served, text: str, position: int, expected: str
):
    try:
        parse_query(text)
    except QueryError as error:
        message = str(error)
    refused = await served.post(PREVIEW, {"block": text})
    assert (refused.status, refused.json["position"]) == (422, position)
    if "after is:" not in message:  # filters know fewer states
        assert refused.json["errors"] == [{"field": "block", "message": message}]


@pytest.mark.parametrize("filter_", ["keep", "block"])
async def test_b2_invalid_filters_are_not_stored(served: Served, filter_: str):
    source = await source_of(served)
    path = f"{DEFAULT}/sources/{source.id}"
    for refused in (
        await served.patch(path, {filter_: "a OR"}),
        await served.put(path, {"type": "rss", "url": source.url, filter_: "a OR"}),
        await served.put(DEFAULT, {"name": "default", filter_: "a OR"}),
        await served.post(DEFAULT.removesuffix("/default"), {"name": "new", filter_: "a OR"}),
    ):
        assert (refused.status, refused.json["position"]) == (422, 4), refused.json
        assert refused.json["errors"][0]["field"] == filter_
    assert (await served.get(path)).json[filter_] is None
    is_filtered = await served.patch(path, {filter_: "a is:filtered"})
    assert (is_filtered.status, is_filtered.json["position"]) == (422, 5)
