"""Search over the API: queries, orders, pages, errors, saved searches and their feeds (B1, B3)."""

from urllib.parse import quote

import pytest

from headwater.engine.followers import Followers, all_followers
from headwater.errors import SearchTooSlow
from headwater.rules.text_checks import is_one_line
from headwater.store.database import TOO_SLOW
from headwater.store.search import SearchRequest
from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import articles_of, refusal, source_of, walked
from tests.factories import a_post
from tests.query.test_parser import INVALID
from tests.store.store_data import a_success

SEARCHES = f"{DEFAULT}/searches"


async def searchable_posts(served: Served, *texts: tuple[str, str]) -> list[str]:
    """Store posts with these titles and bodies in this order, index them, and return their ids."""
    store, now = served.app.store, served.app.clock.now().replace(microsecond=0)
    source = await source_of(served)
    ids: list[str] = []
    for title, body in texts:
        post = a_post(source_id=source.id, title=title, body=body, created_at=now)
        outcome = a_success(await store.sources.get(source.id), [post])
        ids += [post.id for post in (await store.record(outcome)).posts]
    await index(served)
    return ids


async def index(served: Served) -> None:
    """Index what was stored."""
    await Followers(served.app.store, served.app.clock, all_followers()).catch_up()


async def test_b3_posts_and_articles_are_searched_in_pages(served_by_each: Served):
    served = served_by_each
    texts = [(f"river {n}" if n % 2 else f"news {n}", f"water of the river {n}") for n in range(5)]
    ids = await searchable_posts(served, *texts)
    await articles_of(served)
    await index(served)
    for kind in ("posts", "articles"):
        pages = await walked(served, f"{DEFAULT}/{kind}?q=river&limit=2")
        titles = [[item["title"] for item in page] for page in pages]
        assert titles == [["news 4", "river 3"], ["news 2", "river 1"], ["news 0"]]
        pages = await walked(served, f"{DEFAULT}/{kind}?q=river&limit=2&order=rank")
        titles = [[item["title"] for item in page] for page in pages]
        assert titles == [["river 3", "river 1"], ["news 4", "news 2"], ["news 0"]]
    query = quote('"the river" -title:news')
    (page,) = await walked(served, f"{DEFAULT}/posts?q={query}")
    assert [post["id"] for post in page] == [ids[3], ids[1]]
    (page,) = await walked(served, f"{DEFAULT}/articles?q=water&processed=true")
    assert page == []


async def test_b3_the_position_of_results_is_stable_while_posts_arrive(served: Served):
    ids = await searchable_posts(served, *((f"river {n}", f"text {n}") for n in range(4)))
    first = (await served.get(f"{DEFAULT}/posts?q=river&limit=2")).json
    await searchable_posts(served, ("river new", "text"))
    rest = await served.get(f"{DEFAULT}/posts?q=river&limit=2&cursor={first['nextCursor']}")
    assert [p["id"] for p in [*first["items"], *rest.json["items"]]] == ids[::-1]


async def test_b1_invalid_queries_are_refused_with_the_position(served: Served):
    assert len(INVALID) >= 60
    for text, position, _ in INVALID:
        if "\ud800" in text:  # no URL can contain it
            continue
        for path in (f"{DEFAULT}/posts", f"{DEFAULT}/articles"):
            answer = await served.get(f"{path}?q={quote(text, errors='replace')}")
            assert answer.status == 422, text
            assert answer.json["errors"][0]["field"] == "q", text
            if is_one_line(text):  # else the first control character is reported
                assert answer.json["position"] == position, text
            assert isinstance(answer.json["position"], int), text
        answer = await served.post(SEARCHES, {"name": "n", "query": text})
        assert answer.status == 422, text


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("posts?order=rank", "order=rank needs a query, `q`"),
        ("articles?order=rank", "order=rank needs a query, `q`"),
        ("articles?q=a&order=oldest", "search results have no order=oldest"),
        ("posts?q=a&after=0", "after cannot be combined with q"),
        ("posts?q=a&cursor=WzFd", "the cursor is not valid; start without one"),
    ],
)
async def test_b3_what_a_search_cannot_be_combined_with(served: Served, query: str, detail: str):
    assert refusal(await served.get(f"{DEFAULT}/{query}")) == (422, detail)


async def test_b3_a_cancelled_search_says_so(served: Served, monkeypatch: pytest.MonkeyPatch):
    async def slow(_request: SearchRequest) -> None:
        raise SearchTooSlow(TOO_SLOW)

    monkeypatch.setattr(served.app.store.search, "posts", slow)
    answer = await served.get(f"{DEFAULT}/posts?q=river")
    assert (answer.status, answer.json["type"]) == (422, "/api/problems/search-too-slow")


async def test_b3_searches_are_saved_changed_and_deleted(served_by_each: Served):
    served = served_by_each
    made = await served.post(SEARCHES, {"name": "my rivers", "query": "river"})
    assert made.status == 201
    path = f"{SEARCHES}/my%20rivers"
    assert made.headers["Location"].endswith("/searches/my%20rivers")
    assert made.json["feedToken"].startswith("hwf_")
    assert (await served.get(path)).json == made.json
    assert (await served.get(SEARCHES)).json["items"] == [made.json]

    again = await served.post(SEARCHES, {"name": "my rivers", "query": "sea"})
    assert refusal(again) == (409, "there is a search 'my rivers' already")
    changed = await served.put(path, {"name": "rivers", "query": "river -sea"})
    assert changed.json == made.json | {"name": "rivers", "query": "river -sea"}
    assert (await served.get(path)).status == 404
    for name in ("a/b", ".."):
        refused = await served.post(SEARCHES, {"name": name, "query": "sea"})
        assert refused.status == 422, name

    assert (await served.delete(f"{SEARCHES}/rivers")).status == 204
    assert (await served.get(SEARCHES)).json["items"] == []


async def test_b3_the_token_of_a_feed_opens_that_feed_only(served: Served):
    await served.person("ann")
    admin = await served.admin()
    served.token = admin
    await searchable_posts(served, ("river", "water"), ("sea", "salt"))
    tokens = [
        (await served.post(SEARCHES, {"name": name, "query": name})).json["feedToken"]
        for name in ("river", "sea")
    ]
    feed = f"{SEARCHES}/river/feed.json"
    with_token = await served.get(f"{feed}?limit=5")
    assert [item["title"] for item in with_token.json["items"]] == ["river"]

    served.token = None
    answer = await served.get(f"{feed}?token={tokens[0]}")
    assert answer.status == 200
    assert [item["title"] for item in answer.json["items"]] == ["river"]
    assert tokens[0] not in answer.body.decode()
    atom = await served.get(f"{SEARCHES}/river/feed.atom?token={tokens[0]}")
    assert b"<title>river \xc2\xb7 default</title>" in atom.body
    refused = {
        f"{feed}?token={tokens[1]}": 404,  # of another search
        f"{feed}?token=hwf_wrong": 401,
        f"{feed}?token=": 401,
        feed: 401,
        f"{SEARCHES}/sea/feed.json?token={tokens[0]}": 404,
        f"{SEARCHES}?token={tokens[0]}": 401,
        f"{SEARCHES}/river?token={tokens[0]}": 401,
        f"{DEFAULT}/posts?token={tokens[0]}": 401,
        f"{DEFAULT}/feed.json?token={tokens[0]}": 401,
    }
    for path, status in refused.items():
        assert (await served.get(path)).status == status, path
    served.token = tokens[0]
    assert (await served.get(f"{DEFAULT}/posts")).status == 401
    served.token = admin
    assert (await served.delete(f"{SEARCHES}/river")).status == 204
    served.token = None
    assert (await served.get(f"{feed}?token={tokens[0]}")).status == 401


async def test_b2_the_feed_of_a_search_leaves_out_what_a_filter_hides(served: Served):
    await searchable_posts(served, ("river", "water"))
    await served.app.store.database.execute("UPDATE posts SET filtered_by = 'podcast.block'")
    await searchable_posts(served, ("river again", "more water"))
    await served.post(SEARCHES, {"name": "river", "query": "river"})
    feed = (await served.get(f"{SEARCHES}/river/feed.json")).json
    assert [item["title"] for item in feed["items"]] == ["river again"]
