"""Processing articles over the API: undo, dry runs, scores, expiry (E1, E2, E4, E5)."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from headwater.rules.annotations import MAX_BYTES
from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import articles_of, posts_of, refusal, source_of, walked
from tests.factories import a_post
from tests.store.store_data import a_post_of, with_posts

ARTICLES = f"{DEFAULT}/articles"


async def listed(served: Served, query: str = "") -> list[str]:
    """The ids of articles."""
    (page,) = await walked(served, f"{ARTICLES}{query}")
    return [article["id"] for article in page]


async def test_e1_a_batch_is_marked_listed_and_undone(served_by_each: Served):
    served = served_by_each
    digesting, single = await source_of(served, aggregate=True), await source_of(served)
    await posts_of(served, digesting, "a", "b")
    await posts_of(served, single, "c")
    ids = await articles_of(served)

    body = {"ids": ids, "batch": "episode 12"}
    assert (await served.post(f"{ARTICLES}/processed", body)).json["marked"] == 2
    (batch,) = (await walked(served, f"{DEFAULT}/batches"))[0]
    assert batch | {"processedAt": None} == {
        "name": "episode 12",
        "articles": 2,
        "processedAt": None,
    }
    (article, *_) = (await served.get(f"{ARTICLES}?processed=true")).json["items"]
    assert article["batch"] == "episode 12"

    undone = await served.post(f"{ARTICLES}/unprocessed", {"batch": "episode 12"})
    assert undone.json == {"unmarked": 2, "already": 0, "deletedDigests": 1, "freedPosts": 2}
    assert await walked(served, f"{DEFAULT}/batches") == [[]]
    (kept,) = await listed(served, "?processed=false")
    assert kept in ids
    assert (await served.post(f"{ARTICLES}/aggregate")).json["linkedPosts"] == 2
    assert await listed(served, "?processed=true") == []


async def test_e1_articles_of_one_batch_are_listed_in_each_order_and_searched(
    served_by_each: Served,
):
    served = served_by_each
    await posts_of(served, await source_of(served), *(f"river {n}" for n in range(4)))
    ids = await articles_of(served)
    name = "Épisode 1 & more"
    batches = {name: [ids[0], ids[2]], "episode 12": ids[1:2]}
    for batch, some in batches.items():
        await served.post(f"{ARTICLES}/processed", {"ids": some, "batch": batch})
    await served.app.followers.catch_up()

    wanted = f"?batch={quote(name)}"
    pages = await walked(served, f"{ARTICLES}{wanted}&limit=1")
    assert [article["id"] for page in pages for article in page] == batches[name]
    assert await listed(served, f"{wanted}&order=oldest") == batches[name][::-1]
    assert sorted(await listed(served, f"{wanted}&q=river")) == sorted(batches[name])
    assert await listed(served, f"{wanted}&stories=true") == batches[name]
    assert await listed(served, f"{wanted}&processed=false") == []
    assert await listed(served, "?batch=episode%201") == []
    numbered = (await served.get(f"{ARTICLES}{wanted}&after=0")).json["items"]
    assert sorted(article["id"] for article in numbered) == sorted(batches[name])
    refused = await served.get(f"{DEFAULT}/posts{wanted}")
    assert refused.status == 422
    assert refused.json["errors"][0]["field"] == "batch"


async def test_e1_batches_come_in_pages(served: Served):
    await posts_of(served, await source_of(served), *"abc")
    for number, id_ in enumerate(await articles_of(served)):
        body = {"ids": [id_], "batch": f"Épisode {number} \U0001f980"}
        assert (await served.post(f"{ARTICLES}/processed", body)).status == 200
    pages = await walked(served, f"{DEFAULT}/batches?limit=2")
    assert [len(page) for page in pages] == [2, 1]
    assert len({batch["name"] for page in pages for batch in page}) == 3


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"batch": "episode 13"}, 404, "batch"),
        ({"ids": ["unknown"]}, 404, "ids"),
        ({}, 422, "ids"),
        ({"ids": [], "batch": "episode 12"}, 422, "ids"),
        ({"batch": ""}, 422, "batch"),
        ({"batch": "a\nb"}, 422, "batch"),
        ({"name": "episode 12"}, 422, "name"),
    ],
)
async def test_e1_a_wrong_undo_names_the_field_and_changes_nothing(
    served: Served, body: Any, status: int, field: str
):
    await posts_of(served, await source_of(served), "a")
    ids = await articles_of(served)
    await served.post(f"{ARTICLES}/processed", {"ids": ids, "batch": "episode 12"})

    answer = await served.post(f"{ARTICLES}/unprocessed", body)

    assert (answer.status, answer.json["errors"][0]["field"]) == (status, field), answer.json
    assert await listed(served, "?processed=true") == ids


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\nb", " a"])
async def test_e1_the_name_of_a_batch_is_one_line(served: Served, name: str):
    await posts_of(served, await source_of(served), "a")
    ids = await articles_of(served)
    answer = await served.post(f"{ARTICLES}/processed", {"ids": ids, "batch": name})
    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "batch")
    assert await listed(served, "?processed=false") == ids


@pytest.mark.parametrize(("query", "linked"), [("", 2), ("?posts=free", 2), ("?posts=drop", 0)])
async def test_e2_a_deleted_article_frees_its_posts_or_drops_them(
    served_by_each: Served, query: str, linked: int
):
    served = served_by_each
    await posts_of(served, await source_of(served, aggregate=True), "a", "b")
    (digest,) = await articles_of(served)
    path = f"{ARTICLES}/{digest}{query}"
    assert (await served.delete(path)).status == 204
    assert refusal(await served.delete(path)) == (404, f"there is no article {digest}")
    assert (await served.post(f"{ARTICLES}/aggregate")).json["linkedPosts"] == linked
    (left,) = await walked(served, f"{DEFAULT}/posts")
    assert len(left) == linked
    assert (await served.delete(f"{ARTICLES}/{digest}?posts=all")).status == 422


async def test_e4_scores_and_annotations_are_set_kept_and_removed(served_by_each: Served):
    served = served_by_each
    (post,) = await posts_of(served, await source_of(served), "a")
    (article,) = await articles_of(served)
    annotations = {"topic": "rivers", "tags": ["é", None, 1.5], "nested": {"deep": [True]}}
    for path in (f"{ARTICLES}/{article}", f"{DEFAULT}/posts/{post.id}"):
        before = (await served.get(path)).json
        assert (before["score"], before["annotations"]) == (None, None)
        answer = await served.patch(path, {"score": 0.75, "annotations": annotations})
        assert answer.json == before | {"score": 0.75, "annotations": annotations}
        assert (await served.get(path)).json == answer.json
        kept = await served.patch(path, {"score": -3})
        assert (kept.json["score"], kept.json["annotations"]) == (-3, annotations)
        assert (await served.patch(path, {})).json == kept.json
        removed = await served.patch(path, {"score": None, "annotations": None})
        assert removed.json == before


async def test_b3_both_lists_are_limited_to_processed_and_to_filtered_items(
    served_by_each: Served,
):
    served = served_by_each
    source = await source_of(served)
    at = served.app.clock.now()
    dated = {"source_id": source.id, "created_at": at, "published_at": at}
    new = (a_post(name, **dated) for name in "abc")
    await with_posts(served.app.store, source, *new)
    ids = await articles_of(served)
    article = (await served.post(f"{ARTICLES}/{ids[1]}/processed")).json

    async def listed_posts(query: str) -> list[str]:
        return [post["id"] for post in (await served.get(f"{DEFAULT}/posts?{query}")).json["items"]]

    await served.app.followers.catch_up()
    others = {post for post in await listed_posts("") if post not in article["postIds"]}
    assert len(others) == 2
    for way in ("", "&after=0", "&q=type:rss"):
        assert await listed_posts(f"processed=true{way}") == article["postIds"]
        assert set(await listed_posts(f"processed=false{way}")) == others
    assert await listed_posts("processed=false&filtered=true") == []
    assert await listed(served, "?filtered=any") == await listed(served) == ids
    assert await listed(served, "?filtered=true") == []  # none is made of hidden posts


async def test_e4_min_score_selects_posts_and_articles(served_by_each: Served):
    served = served_by_each
    source = await source_of(served)
    posts = await posts_of(served, source, *"abcd")
    ids = await articles_of(served)
    for n, (post, article) in enumerate(zip(posts[:3], ids[:3], strict=True)):
        assert (await served.patch(f"{DEFAULT}/posts/{post.id}", {"score": n})).status == 200
        assert (await served.patch(f"{ARTICLES}/{article}", {"score": n})).status == 200

    assert await listed(served, "?minScore=1") == ids[1:3]
    assert await listed(served, "?minScore=-9.5&processed=false") == ids[:3]
    assert await listed(served, "?minScore=2.5") == []
    for path in (f"{DEFAULT}/posts", f"{DEFAULT}/sources/{source.id}/posts"):
        pages = await walked(served, f"{path}?minScore=1&limit=1")
        assert [post["id"] for page in pages for post in page] == [p.id for p in posts[1:3]]
    wrong = await served.get(f"{ARTICLES}?minScore=many")
    assert refusal(wrong) == (422, "wrong input: minScore: must be a number")


async def test_e4_many_articles_are_annotated_at_once(served_by_each: Served):
    served = served_by_each
    await posts_of(served, await source_of(served), *"abc")
    ids = await articles_of(served)
    await served.patch(f"{ARTICLES}/{ids[2]}", {"annotations": {"kept": True}})
    body = [
        {"id": ids[0], "score": 1},
        {"id": ids[1], "annotations": {"n": 1}},
        {"id": ids[2], "score": 3.5},
    ]
    answer = await served.patch(ARTICLES, body)
    assert (answer.status, answer.json) == (200, {"changed": 3})
    items = (await served.get(ARTICLES)).json["items"]
    assert [(item["score"], item["annotations"]) for item in items] == [
        (1, None),
        (None, {"n": 1}),
        (3.5, {"kept": True}),
    ]


def _too_large() -> dict[str, str]:
    """Annotations of one byte more than allowed."""
    return {"a": "x" * (MAX_BYTES + 1 - len('{"a":""}'))}


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        ({"id": "unknown", "score": 1}, 404, "1.id"),
        ({"score": 1}, 422, "1.id"),
        ({"id": "first", "score": 2}, 422, "1.id"),
        ({"id": "second", "annotations": _too_large()}, 422, "1.annotations"),
        ({"id": "second", "annotations": [1]}, 422, "1.annotations"),
        ({"id": "second", "score": "high"}, 422, "1.score"),
        ({"id": "second", "score": True}, 422, "1.score"),
        ({"id": "second", "rating": 1}, 422, "1.rating"),
    ],
)
async def test_e4_one_wrong_change_of_many_is_named_and_none_is_applied(
    served: Served, wrong: dict[str, Any], status: int, field: str
):
    await posts_of(served, await source_of(served), "a", "b")
    first, second = await articles_of(served)
    if wrong.get("id") in ("first", "second"):
        wrong = wrong | {"id": {"first": first, "second": second}[wrong["id"]]}
    before = (await served.get(ARTICLES)).json

    answer = await served.patch(ARTICLES, [{"id": first, "score": 1}, wrong])

    assert (answer.status, answer.json["errors"][0]["field"]) == (status, field), answer.json
    assert (await served.get(ARTICLES)).json == before


async def test_e4_16_kb_of_annotations_are_stored_and_one_byte_more_is_refused(served: Served):
    (post,) = await posts_of(served, await source_of(served), "a")
    path = f"{DEFAULT}/posts/{post.id}"
    too_large = _too_large()
    answer = await served.patch(path, {"score": 1, "annotations": too_large})
    assert refusal(answer) == (
        422,
        "wrong input: annotations: must have at most 16,384 bytes as compact JSON, has 16,385",
    )
    assert (await served.get(path)).json["score"] is None
    largest = {"a": too_large["a"][:-1]}
    assert (await served.patch(path, {"annotations": largest})).json["annotations"] == largest


@pytest.mark.parametrize(
    "text",
    [
        '{"score": NaN}',
        '{"score": 1e999}',
        '{"score": 1' + "0" * 400 + "}",
        '{"annotations": {"a": Infinity}}',
        '{"annotations": {"a": "\\ud800"}}',
        '{"annotations": {"a": ' + "[" * 500 + "]" * 500 + "}}",
        '{"annotations": {"a": ' + "[" * 20_000 + "]" * 20_000 + "}}",
    ],
)
async def test_e4_what_cannot_be_stored_is_refused(served: Served, text: str):
    (post,) = await posts_of(served, await source_of(served), "a")
    path = f"{DEFAULT}/posts/{post.id}"
    async with served.session.patch(
        served.url + path, data=text, headers={"Content-Type": "application/json"}
    ) as found:
        assert found.status == 422, await found.text()
    assert json.loads((await served.get(path)).body)["annotations"] is None


async def test_e2_a_dry_run_reports_and_stores_nothing(served_by_each: Served):
    served = served_by_each
    await posts_of(served, await source_of(served, aggregate=True), "a", "b")
    await posts_of(served, await source_of(served), *map(str, range(120)))
    planned = (await served.post(f"{ARTICLES}/aggregate?dryRun=true")).json
    assert (planned["created"], planned["linkedPosts"], len(planned["items"])) == (121, 122, 100)
    assert await walked(served, ARTICLES) == [[]]
    assert (await served.get(DEFAULT)).json["pendingPosts"] == 122

    made = (await served.post(f"{ARTICLES}/aggregate")).json
    assert (made["created"], made["linkedPosts"]) == (121, 122)
    sources = {article["id"]: article["source"] for article in made["items"]}
    assert None not in sources.values()
    for article in planned["items"]:
        assert article["source"] == sources[article["id"]]
    assert (await served.get(DEFAULT)).json["pendingPosts"] == 0
    again = (await served.post(f"{ARTICLES}/aggregate?dryRun=true")).json
    assert again == {"created": 0, "linkedPosts": 0, "items": []}


async def test_e2_pending_posts_are_in_lists_of_podcasts(served_by_each: Served):
    served = served_by_each
    await posts_of(served, await source_of(served), "a", "b")
    for path in ("/api/podcasts", "/api/users/default/podcasts"):
        (podcast,) = (await served.get(path)).json["items"]
        assert podcast["pendingPosts"] == 2
    etag = (await served.get(DEFAULT)).headers["ETag"]
    await articles_of(served)
    assert (await served.get(DEFAULT)).headers["ETag"] == etag  # settings only


async def test_e2_automatic_aggregation_is_a_setting_of_a_podcast(served: Served):
    body = {"name": "default", "aggregateAutomatically": True}
    assert (await served.put(DEFAULT, body)).json["aggregateAutomatically"] is True
    assert (await served.put(DEFAULT, {"name": "default"})).json["aggregateAutomatically"] is False


async def test_e5_expires_at_is_shown_and_what_expires_soon_is_listed(served_by_each: Served):
    served = served_by_each
    now = served.app.clock.now().replace(microsecond=0)
    source = await source_of(served)
    old, young = (
        replace(post, created_at=now - age)
        for post, age in zip(
            [a_post_of(source, "old"), a_post_of(source, "young")],
            [timedelta(days=6, hours=1), timedelta(days=5)],
            strict=True,
        )
    )
    await with_posts(served.app.store, source, old, young)

    (listed_posts,) = await walked(served, f"{DEFAULT}/posts?expiring=true")
    assert [post["id"] for post in listed_posts] == [old.id]
    expected = now + timedelta(hours=23)
    assert listed_posts[0]["expiresAt"] == f"{expected:%Y-%m-%dT%H:%M:%S}.000Z"

    await articles_of(served)
    (posts,) = await walked(served, f"{DEFAULT}/posts")
    assert {post["expiresAt"] for post in posts} == {None}  # they are in articles
    articles = (await served.get(ARTICLES)).json["items"]
    assert all(article["expiresAt"] is not None for article in articles)
    await served.post(f"{ARTICLES}/{articles[0]['id']}/processed")
    processed = (await served.get(f"{ARTICLES}/{articles[0]['id']}")).json
    assert processed["expiresAt"] is None


async def test_e5_a_lower_age_limit_that_deletes_something_has_to_be_confirmed(
    served_by_each: Served,
):
    served = served_by_each
    now = served.app.clock.now()
    source = await source_of(served)
    ages = [timedelta(days=1), timedelta(days=3), timedelta(days=5), timedelta(days=6)]
    posts = [
        a_post_of(source, str(age), created_at=now - age, published_at=now - age) for age in ages
    ]
    await with_posts(served.app.store, source, *posts[:3])
    await articles_of(served)
    await with_posts(served.app.store, source, posts[3])
    before = (await served.get(DEFAULT)).json

    body = {"name": "default", "maxArticleAgeDays": 2}
    answer = await served.put(DEFAULT, body)
    assert (answer.status, answer.json["wouldDelete"]) == (409, {"articles": 2, "posts": 1})
    assert answer.json["type"] == "/api/problems/confirmation-needed"
    assert answer.json["errors"][0]["field"] == "maxArticleAgeDays"
    assert (await served.get(DEFAULT)).json == before

    assert (await served.put(DEFAULT, body | {"maxArticleAgeDays": 30})).status == 200
    assert (await served.put(f"{DEFAULT}?confirm=true", body)).status == 200
    # nothing more would be deleted by the same limit, or by a higher one
    for days in (2, 3):
        assert (await served.put(DEFAULT, body | {"maxArticleAgeDays": days})).status == 200
