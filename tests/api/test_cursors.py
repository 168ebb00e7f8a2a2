"""Posts and articles are read by number over the API (V1)."""

from typing import Any

import pytest

from headwater.store import sequence_numbers
from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import articles_of, refusal, source_of
from tests.factories import a_post
from tests.store.store_data import with_posts


async def titles(served: Served, path: str) -> tuple[list[str], Any]:
    """The titles of a response, and the number to continue after."""
    answer = await served.get(path)
    assert answer.status == 200, answer.body
    page = answer.json
    assert page["nextCursor"] is None
    name = "nextChangedAfter" if "changedAfter" in path else "nextAfter"
    other = {"nextChangedAfter", "nextAfter"} - {name}
    assert page[other.pop()] is None
    return [item["title"] for item in page["items"]], page[name]


async def test_v1_posts_are_read_by_number(served_by_each: Served):
    served = served_by_each
    source = await source_of(served)
    store = served.app.store
    await with_posts(store, source, *(a_post(n, source_id=source.id) for n in "abc"))

    found, after = await titles(served, f"{DEFAULT}/posts?after=0&limit=2")
    assert found == ["The a title", "The b title"]
    found, after = await titles(served, f"{DEFAULT}/posts?after={after}&limit=2")
    assert found == ["The c title"]
    assert await titles(served, f"{DEFAULT}/posts?after={after}") == ([], after)
    await with_posts(store, source, a_post("d", source_id=source.id))
    assert (await titles(served, f"{DEFAULT}/posts?after={after}"))[0] == ["The d title"]

    assert (await titles(served, f"{DEFAULT}/posts?changedAfter=0"))[0] == []
    changed = (await store.posts.after("default", 0, 10)).items[1].id
    await store.database.write(lambda s: sequence_numbers.mark_changed(s, "posts", [changed]))
    found, after = await titles(served, f"{DEFAULT}/posts?changedAfter=0")
    assert found == ["The b title"]
    assert (await titles(served, f"{DEFAULT}/posts?changedAfter={after}"))[0] == []


async def test_v1_articles_are_read_by_number(served_by_each: Served):
    served = served_by_each
    source = await source_of(served)
    now = served.app.clock.now()
    posts = [a_post(n, source_id=source.id, created_at=now) for n in "ab"]
    await with_posts(served.app.store, source, *posts)
    ids = await articles_of(served)
    found, after = await titles(served, f"{DEFAULT}/articles?after=0")
    assert found == ["The a title", "The b title"]
    assert (await titles(served, f"{DEFAULT}/articles?after={after}"))[0] == []
    await served.post(f"{DEFAULT}/articles/{ids[0]}/processed")
    for kind, expected in {"articles": ["The a title"], "posts": []}.items():  # it is old
        assert (await titles(served, f"{DEFAULT}/{kind}?after=0&expiring=true"))[0] == expected
    found, _ = await titles(served, f"{DEFAULT}/articles?after=0&processed=false")
    assert found == ["The a title"]
    assert (await titles(served, f"{DEFAULT}/articles?changedAfter=0"))[0] == []


async def test_v1_lists_without_a_number_have_none_to_continue_after(served: Served):
    page = (await served.get(f"{DEFAULT}/posts")).json
    assert page == {"items": [], "nextCursor": None, "nextAfter": None, "nextChangedAfter": None}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("posts?after=0&cursor=WyJhIl0", "after cannot be combined with cursor"),
        ("posts?after=0&changedAfter=0", "after cannot be combined with changedAfter"),
        ("articles?changedAfter=0&order=oldest", "changedAfter cannot be combined with order"),
    ],
)
async def test_v1_one_order_at_a_time(served: Served, path: str, message: str):
    assert refusal(await served.get(f"{DEFAULT}/{path}")) == (422, message)


@pytest.mark.parametrize("number", ["-1", "x", "9223372036854775808", "1.5"])
async def test_v1_a_number_is_a_whole_number(served: Served, number: str):
    answer = await served.get(f"{DEFAULT}/posts?after={number}")
    assert answer.status == 422
    assert "after" in answer.json["detail"]
