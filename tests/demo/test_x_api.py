"""The simulated X API responds as X does."""

from datetime import timedelta

from headwater.demo.x_api import XApi
from tests.demo.http_client import NOW, HandClock, a_web, get

FIELDS = "tweet.fields=created_at,note_tweet"


async def user_id(web, name):
    url = web.url("a.demo", f"/2/users/by/username/{name}")
    return (await get(url, Authorization="Bearer key")).json()["data"]["id"]


async def timeline(web, id_, query):
    url = web.url("a.demo", f"/2/users/{id_}/tweets?{query}")
    return await get(url, Authorization="Bearer key")


async def test_x2_a_name_is_resolved_and_its_timeline_read_page_by_page():
    async with a_web(XApi(["weirwatch"], posts=250)) as web:
        id_ = await user_id(web, "WeirWatch")
        query = f"max_results=100&{FIELDS}"
        pages = [(await timeline(web, id_, query)).json()]
        while token := pages[-1]["meta"].get("next_token"):
            pages.append((await timeline(web, id_, f"{query}&pagination_token={token}")).json())
    tweets = [tweet for page in pages for tweet in page["data"]]
    ids = [int(tweet["id"]) for tweet in tweets]
    assert len(ids) == len(set(ids)) == 250
    assert ids == sorted(ids, reverse=True)
    assert tweets[0]["created_at"] == "2026-02-16T08:00:00.000Z"
    assert len({tweet["text"] for tweet in tweets}) == 250
    long = [tweet for tweet in tweets if "note_tweet" in tweet]
    assert len(long) == 50
    assert all(len(tweet["note_tweet"]["text"]) > len(tweet["text"]) for tweet in long)


async def test_x2_only_posts_after_since_id_and_start_time_are_returned():
    clock = HandClock()
    async with a_web(XApi(["weirwatch"], every_seconds=60), clock=clock) as web:
        id_ = await user_id(web, "weirwatch")
        newest = (await timeline(web, id_, FIELDS)).json()["meta"]["newest_id"]
        nothing = (await timeline(web, id_, f"since_id={newest}")).json()
        clock.passed += 120
        two = (await timeline(web, id_, f"since_id={newest}")).json()
        since = (await timeline(web, id_, "start_time=2026-02-16T08:01:00Z")).json()
        wrong = await timeline(web, id_, "since_id=abc")
    assert nothing == {"meta": {"result_count": 0}}
    assert two["meta"]["result_count"] == since["meta"]["result_count"] == 2
    assert "created_at" not in two["data"][0]
    assert wrong.status == 400


async def test_x4_unknown_users_missing_keys_and_too_many_requests():
    async with a_web(XApi(["weirwatch"], requests=3, window_seconds=900)) as web:
        no_key = await get(web.url("a.demo", "/2/users/by/username/weirwatch"))
        unknown = await timeline(web, "42", "")
        url = web.url("a.demo", "/2/users/by/username/nobody")
        nobody = await get(url, Authorization="Bearer key")
        odd = await get(web.url("a.demo", "/2/tweets"), Authorization="Bearer key")
        limited = await get(url, Authorization="Bearer key")
    assert (no_key.status, unknown.status, nobody.status) == (401, 200, 200)
    assert (odd.status, limited.status) == (404, 429)
    assert unknown.json()["errors"][0]["type"].endswith("/resource-not-found")
    assert nobody.json()["errors"][0]["resource_id"] == "nobody"
    reset = NOW + timedelta(seconds=900)
    assert limited.headers["x-rate-limit-reset"] == str(int(reset.timestamp()))
