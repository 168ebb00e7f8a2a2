"""Articles over the API: created, listed, consumed and marked."""

from typing import Any

import pytest

from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import articles_of, posts_of, refusal, source_of, walked

ARTICLES = f"{DEFAULT}/articles"


async def test_a1_aggregation_returns_the_new_articles(served_by_each: Served):
    served = served_by_each
    digesting, single = await source_of(served, aggregate=True), await source_of(served)
    posts = await posts_of(served, digesting, "a", "b", "c")
    (only,) = await posts_of(served, single, "d")

    answer = await served.post(f"{ARTICLES}/aggregate")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    made = answer.json
    assert set(made) == {"created", "linkedPosts", "items"}
    assert (made["created"], made["linkedPosts"]) == (2, 4)
    digest, article = made["items"]
    assert digest["postIds"] == [post.id for post in reversed(posts)]
    assert digest["body"] == "c\n\n---\n\nb\n\n---\n\na"
    assert [line for line in digest["markdown"].split("\n") if line.startswith("## [")] == [
        f"## [{post.title}]({post.url})" for post in reversed(posts)
    ]  # T1
    assert article == (await served.get(f"{ARTICLES}/{article['id']}")).json
    assert article == {
        "id": article["id"],
        "sourceId": single.id,
        "title": only.title,
        "body": "d",
        "markdown": None,
        "url": only.url,
        "publishedAt": None,
        "author": "Ada",
        "contentHash": only.content_hash,
        "createdAt": article["createdAt"],
        "seq": article["seq"],
        "source": {"id": single.id, "label": None, "type": "rss", "url": single.url},  # V1
        "isProcessed": False,
        "batch": None,
        "expiresAt": article["expiresAt"],
        "score": None,
        "annotations": None,
        "alsoFrom": [],
        "postIds": [only.id],
        "followUpOf": None,
    }

    again = await served.post(f"{ARTICLES}/aggregate")
    assert again.json == {"created": 0, "linkedPosts": 0, "items": []}


async def test_h2_thousands_of_articles_are_returned_in_one_response(served: Served):
    source = await source_of(served)
    await posts_of(served, source, *(f"{n} Grüße \U0001f980 \\ \"'" for n in range(3000)))
    made = (await served.post(f"{ARTICLES}/aggregate")).json
    assert (made["created"], made["linkedPosts"], len(made["items"])) == (3000, 3000, 3000)
    assert len({article["id"] for article in made["items"]}) == 3000


async def test_articles_are_listed_in_either_order_and_by_state(served_by_each: Served):
    served = served_by_each
    await posts_of(served, await source_of(served), *"abcde")
    ids = await articles_of(served)
    await served.post(f"{ARTICLES}/{ids[1]}/processed")

    async def listed(query: str) -> list[list[Any]]:
        pages = await walked(served, f"{ARTICLES}?limit=2{query}")
        return [[article["id"] for article in page] for page in pages]

    assert await listed("") == [ids[:2], ids[2:4], ids[4:]]
    assert await listed("&order=oldest") == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    assert await listed("&processed=false") == [[ids[0], ids[2]], ids[3:]]
    assert await listed("&processed=false&order=oldest") == [ids[:2:-1], [ids[2], ids[0]]]
    assert await listed("&processed=true") == [[ids[1]]]


async def test_a3_marking_one_article_shows_it_and_can_be_repeated(served_by_each: Served):
    served = served_by_each
    await posts_of(served, await source_of(served), "a", "b")
    ids = await articles_of(served)

    first = await served.post(f"{ARTICLES}/{ids[0]}/processed")
    second = await served.post(f"{ARTICLES}/{ids[0]}/processed")
    assert first.status == second.status == 200
    assert first.json == second.json
    assert (first.json["id"], first.json["isProcessed"]) == (ids[0], True)
    (open_,) = await walked(served, f"{ARTICLES}?processed=false")
    assert [article["id"] for article in open_] == [ids[1]]


async def test_a3_marking_many_counts_those_that_were_marked_before(served_by_each: Served):
    served = served_by_each
    await posts_of(served, await source_of(served), "a", "b", "c")
    ids = await articles_of(served)
    path = f"{ARTICLES}/processed"

    answers = [(await served.post(path, {"ids": some})).json for some in (ids[:2], ids, ids, [])]
    assert [(answer["marked"], answer["already"]) for answer in answers] == [
        (2, 0),
        (1, 2),
        (0, 3),
        (0, 0),
    ]
    twice = await served.post(path, {"ids": [ids[0], ids[0]]})
    assert twice.json == {"marked": 0, "already": 1, "missing": []}


async def test_a3_deleted_articles_can_be_skipped_and_are_reported(served_by_each: Served):
    served = served_by_each
    await served.person("bob")
    await posts_of(served, await source_of(served, "bob"), "theirs")
    (theirs,) = await articles_of(served, "bob")
    await posts_of(served, await source_of(served), "a", "b")
    served.token = await served.admin()
    first, second = await articles_of(served)
    path = f"{ARTICLES}/processed"

    for reported in ({"marked": 2, "already": 0}, {"marked": 0, "already": 2}):
        body = {"ids": [first, "gone", theirs, second, "gone"], "skipMissing": True}
        answer = await served.post(path, body)
        assert answer.json == reported | {
            "missing": ["gone", theirs]
        }  # foreign ids are treated the same (U2)
    strict = await served.post(path, {"ids": [first, "gone"], "skipMissing": False})
    assert refusal(strict) == (404, "there is no article gone")
    foreign = "/api/users/bob/podcasts/bob/articles?processed=false"
    assert [a["id"] for page in await walked(served, foreign) for a in page] == [theirs]


async def test_a3_a_consumer_that_crashes_loses_nothing_and_gets_nothing_twice(
    served_by_each: Served,
):
    served = served_by_each
    source = await source_of(served)
    await posts_of(served, source, *(f"old {n}" for n in range(7)))
    await articles_of(served)
    worked_off: list[str] = []

    async def consume(*, dies_after: int) -> None:
        """Read open articles and mark them page by page; crash between reading and marking."""
        path = f"{ARTICLES}?processed=false&limit=2"
        cursor = ""
        for number in range(dies_after + 1):
            page = (await served.get(path + cursor)).json
            if number == dies_after or not page["items"]:
                return
            ids = [article["id"] for article in page["items"]]
            assert (await served.post(f"{ARTICLES}/processed", {"ids": ids})).status == 200
            worked_off.extend(ids)
            await posts_of(served, source, f"new {len(worked_off)}")  # polls continue
            await served.post(f"{ARTICLES}/aggregate")
            if page["nextCursor"] is None:
                return
            cursor = f"&cursor={page['nextCursor']}"

    await consume(dies_after=2)
    assert len(worked_off) == 4
    await consume(dies_after=1)
    while (await served.get(f"{ARTICLES}?processed=false&limit=1")).json["items"]:
        assert len(worked_off) < 30
        ids = [a["id"] for a in (await served.get(f"{ARTICLES}?processed=false")).json["items"]]
        await served.post(f"{ARTICLES}/processed", {"ids": ids})
        worked_off.extend(ids)

    everything = [a["id"] for page in await walked(served, ARTICLES) for a in page]
    assert len(worked_off) == len(set(worked_off))
    assert set(worked_off) == set(everything)
    assert len(everything) == 7 + 3


async def test_paging_continues_at_its_position_while_articles_are_marked_and_created(
    served_by_each: Served,
):
    served = served_by_each
    source = await source_of(served)
    await posts_of(served, source, *"abcdef")
    ids = await articles_of(served)
    path = f"{ARTICLES}?processed=false&limit=2"

    first = (await served.get(path)).json
    await served.post(f"{ARTICLES}/processed", {"ids": ids[:3]})  # the next one is among them
    await posts_of(served, source, "new")
    await articles_of(served)
    second = (await served.get(f"{path}&cursor={first['nextCursor']}")).json
    third = (await served.get(f"{path}&cursor={second['nextCursor']}")).json

    pages = [[article["id"] for article in page["items"]] for page in (first, second, third)]
    assert pages == [ids[:2], ids[3:5], ids[5:]]
    assert third["nextCursor"] is None


async def test_u2_a_foreign_article_is_not_found_and_nothing_is_marked(
    served_by_each: Served,
):
    served = served_by_each
    ann, bob = await served.person("ann"), await served.person("bob")
    for name in ("ann", "bob"):
        await posts_of(served, await source_of(served, name), name)
    (mine,), (theirs,) = await articles_of(served, "ann"), await articles_of(served, "bob")
    own = "/api/users/ann/podcasts/ann/articles"

    for wrong in (theirs, "nobody", mine.upper()):
        reported = (404, f"there is no article {wrong}")
        assert refusal(await served.get(f"{own}/{wrong}", token=ann)) == reported
        assert refusal(await served.post(f"{own}/{wrong}/processed", token=ann)) == reported
        bulk = await served.post(f"{own}/processed", {"ids": [mine, wrong]}, token=ann)
        assert refusal(bulk) == reported
    for name, token in (("ann", ann), ("bob", bob)):
        path = f"/api/users/{name}/podcasts/{name}/articles?processed=false"
        (page,) = await walked(served, path, token=token)
        assert len(page) == 1
    assert (await served.get("/api/users/bob/podcasts/bob/articles", token=ann)).status == 404
    foreign = "/api/users/bob/podcasts/bob/articles/aggregate"
    assert (await served.post(foreign, token=ann)).status == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": "all"}, "ids"),
        ({"ids": [1]}, "ids.0"),
        ({"ids": [""]}, "ids.0"),
        ({"ids": ["a\x00b"]}, "ids.0"),
        ({"ids": ["x" * 201]}, "ids.0"),
        ({"ids": ["x"] * 10_001}, "ids"),
        ({"ids": [], "all": True}, "all"),
    ],
)
async def test_u8_wrong_or_too_many_ids_are_refused(served: Served, body: Any, field: str):
    answer = await served.post(f"{ARTICLES}/processed", body)
    assert refusal(answer)[0] == 422
    assert answer.json["errors"][0]["field"] == field


@pytest.mark.parametrize(
    "query",
    ["processed=maybe", "order=random", "limit=501", "colour=red", "batch=", f"batch={'x' * 201}"],
)
async def test_wrong_filters_are_refused_with_their_name(served: Served, query: str):
    answer = await served.get(f"{ARTICLES}?{query}")
    assert refusal(answer)[0] == 422
    assert answer.json["errors"][0]["field"] == query.partition("=")[0]
