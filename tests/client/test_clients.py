"""Both clients against a served API: results, pages, following, problems (V4)."""

import ast
import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_type

import pytest

from headwater.client import (
    Article,
    AsyncHeadwater,
    Event,
    Headwater,
    HeadwaterClientError,
    HeadwaterProblem,
    HeadwaterUnreachable,
    Page,
    Post,
)
from tests.api.conftest import Served
from tests.api.stored_data import articles_of, posts_of, source_of
from tests.api.test_search import searchable_posts
from tests.client.conftest import Driven
from tests.factories import a_post
from tests.store.store_data import with_posts

FEED = "https://example.org/feed"


async def with_named_posts(served: Served, source: Any, *names: str) -> None:
    now = served.app.clock.now()
    posts = [a_post(name, source_id=source.id, created_at=now) for name in names]
    await with_posts(served.app.store, source, *posts)


async def test_v4_results_are_typed(served: Served, client: Driven) -> None:
    await with_named_posts(served, await source_of(served), "a")
    (post,) = await client.all("posts", "default")
    assert (post.title, post.categories, post.score) == ("The a title", (), None)
    assert post.created_at.tzinfo is UTC
    assert isinstance(post.seq, int)
    assert await client.call("get_post", "default", post.id) == post
    scored = await client.call("annotate_post", "default", post.id, score=2, annotations={"a": 1})
    assert (scored.score, scored.annotations) == (2, {"a": 1})
    removed = await client.call("annotate_post", "default", post.id, score=None)
    assert (removed.score, removed.annotations) == (None, {"a": 1})


async def test_v4_lists_are_read_page_by_page(served: Served, client: Driven) -> None:
    names = [f"podcast {n:02}" for n in range(7)]
    for name in names:
        await client.call("create_podcast", name)
    names = ["default", *names]
    assert [one.name for one in await client.all("podcasts")] == names
    assert [one.name for one in await client.all("podcasts", limit=3)] == names[:3]
    page = await client.call("podcasts.page", limit=3)
    assert [one.name for one in page.items] == names[:3]
    rest = await client.all("podcasts", cursor=page.next_cursor)
    assert [one.name for one in rest] == names[3:]


async def test_v4_posts_are_read_by_number_to_the_last(served: Served, client: Driven) -> None:
    source = await source_of(served)
    names = [f"n{n:03}" for n in range(130)]  # three pages
    await with_named_posts(served, source, *names)
    posts = await client.all("posts", "default", after=0)
    assert [post.title for post in posts] == [f"The {name} title" for name in names]
    rest = await client.all("posts", "default", after=posts[99].seq)
    assert rest == posts[100:]
    assert await client.all("posts", "default", after=posts[-1].seq) == []
    assert await client.all("posts", "default", limit=120) == posts[:120]
    newest = await client.all("posts", "default", order="new", limit=2)
    assert {post.id for post in newest} <= {post.id for post in posts}
    changed = await client.call("posts.page", "default", changed_after=0)
    assert changed.items == ()
    assert changed.next_changed_after is not None


async def test_v4_following_continues_with_new_posts(served: Served, client: Driven) -> None:
    source = await source_of(served)
    await with_named_posts(served, source, "a", "b")
    titles = []
    async with asyncio.timeout(60), aclosing(
        client.items("follow", "default", poll_seconds=0.01)
    ) as posts:  # fmt: skip
        async for post in posts:
            titles.append(post.title)
            if len(titles) == 2:
                await with_named_posts(served, source, "c")
            if len(titles) == 3:
                await with_named_posts(served, source, *(f"d{n}" for n in range(60)))
            if len(titles) == 63:
                break
    assert titles[:3] == ["The a title", "The b title", "The c title"]
    assert len(set(titles)) == 63


async def test_v4_articles_are_followed_too(served: Served, client: Driven) -> None:
    source = await source_of(served)
    await posts_of(served, source, "a")
    await articles_of(served)
    async with asyncio.timeout(60), aclosing(
        client.items("follow_articles", "default", poll_seconds=0.01)
    ) as articles:  # fmt: skip
        first = await anext(articles)
        await posts_of(served, source, "b")
        await articles_of(served)
        second = await anext(articles)
    assert first.seq < second.seq
    assert {first.id, second.id} == {one.id for one in await client.all("articles", "default")}


async def test_v4_a_search_finds_posts(served: Served, client: Driven) -> None:
    await searchable_posts(served, ("A river", "it rose"), ("A bank", "it closed"))
    (found,) = await client.all("search", "default", "river")
    assert found.title == "A river"
    assert await client.all("search", "default", "river", order="rank", limit=5) == [found]
    with pytest.raises(HeadwaterProblem) as caught:
        await client.all("search", "default", '"unclosed')
    assert caught.value.status == 422
    assert isinstance(caught.value.document["position"], int)


async def test_v4_articles_are_marked_and_undone(served: Served, client: Driven) -> None:
    source = await source_of(served, aggregate=False)
    await posts_of(served, source, "a", "b", "c")
    plan = await client.call("aggregate", "default", dry_run=True)
    made = await client.call("aggregate", "default")
    assert (plan.created, made.created, made.linked_posts) == (3, 3, 3)
    ids = [article.id for article in await client.all("articles", "default", processed=False)]
    assert set(ids) == {article.id for article in made.items}
    marking = await client.call("mark_processed", "default", ids[:2], "episode 1")
    assert (marking.marked, marking.already, marking.missing) == (2, 0, ())
    (batch,) = await client.all("batches", "default")
    assert (batch.name, batch.articles) == ("episode 1", 2)
    assert [one.id for one in await client.all("articles", "default", processed=False)] == ids[2:]
    undone = await client.call("unprocess", "default", batch="episode 1")
    assert undone.unmarked == 2
    await client.call("mark_processed", "default", ids[:1], batch="episode 1")
    assert (await client.call("unprocess", "default", ids[:1])).unmarked == 1
    changes = [{"id": ids[0], "score": 1.5}, {"id": ids[1], "score": None}]
    assert (await client.call("annotate_articles", "default", changes)).changed == 2
    assert (await client.call("get_article", "default", ids[0])).score == 1.5
    assert await client.call("delete_article", "default", ids[0], posts="drop") is None


async def test_v4_a_source_is_added_changed_and_deleted(served: Served, client: Driven) -> None:
    added = await client.call("add_source", "default", FEED, type="rss", label="River")
    assert (added.label, added.type, added.duplicate_of) == ("River", "rss", None)
    source = await client.call("get_source", "default", added.id)
    assert source.etag == added.etag is not None
    changed = await client.call(
        "change_source", "default", source.id, if_match=source.etag, label=None, keep="river"
    )
    assert (changed.label, changed.keep) == (None, "river")
    with pytest.raises(HeadwaterProblem, match=r"^412 ") as caught:
        await client.call("delete_source", "default", source.id, if_match=source.etag)
    assert caught.value.type == "/api/problems/outdated"
    (listed,) = await client.all("sources", "default", type="rss", enabled=True)
    assert (listed.id, listed.etag) == (source.id, None)
    done = await client.call("change_sources", "default", "disable", filter={"all": True})
    assert (done.matched, done.changed) == (1, 1)
    opml = await client.call("export_opml", "default")
    assert FEED in opml
    assert await client.call("delete_source", "default", source.id) is None
    (imported,) = (await client.call("import_opml", "default", opml)).items
    assert imported.outcome == "added"


async def test_v4_a_poll_is_waited_for_or_requested(served: Served, client: Driven) -> None:
    unreachable = "http://127.0.0.1:9/"
    added = await client.call("add_source", "default", unreachable, type="rss", check=False)
    outcome = await client.call("poll_source", "default", added.id)
    assert (outcome.outcome, outcome.failure_type) == ("failed", "transient")
    requested = await client.call("poll_source", "default", added.id, wait=False)
    assert requested.requested is True
    (poll, *_) = await client.all("polls", "default", added.id)
    assert poll.error == outcome.error


async def test_v4_problems_have_their_document(served: Served, client: Driven) -> None:
    with pytest.raises(HeadwaterProblem) as missing:
        await client.call("get_podcast", "nowhere")
    assert missing.value.status == 404
    assert missing.value.document["detail"] == missing.value.detail
    assert "nowhere" in str(missing.value)
    assert missing.value.request_id
    with pytest.raises(HeadwaterProblem) as invalid:
        await client.call("create_podcast", "")
    assert invalid.value.status == 422
    (error,) = invalid.value.errors
    assert error.field == "name"
    assert "name" in str(invalid.value)
    await client.call("create_podcast", "evening")
    with pytest.raises(HeadwaterProblem) as taken:
        await client.call("create_podcast", "evening")
    assert taken.value.status == 409
    assert taken.value.retry_after is None


async def test_v4_a_repeated_request_is_done_once(served: Served, client: Driven) -> None:
    first = await client.call("create_podcast", "evening", idempotency_key="abc")
    again = await client.call("create_podcast", "evening", idempotency_key="abc")
    assert first == again
    with pytest.raises(HeadwaterProblem, match=r"^422 "):
        await client.call("create_podcast", "other", idempotency_key="abc")


async def test_v4_a_token_is_sent(served: Served, kind: Any) -> None:
    secret = await served.admin()
    for token, status in ((None, 401), ("hw_wrong", 401), (secret, None)):
        client = Driven(kind(served.url, token=token))
        if status is None:
            assert (await client.call("get_user", "default")).name == "default"
        else:
            with pytest.raises(HeadwaterProblem) as caught:
                await client.call("get_user", "default")
            assert caught.value.status == status
        await client.close()
    assert secret not in repr(vars(HeadwaterProblem))


async def test_v4_too_many_requests_say_when_to_come_back(served: Served, kind: Any) -> None:
    secret = await served.person("ann")
    client = Driven(kind(served.url, secret, user="ann"))
    source = await client.call("add_source", "ann", "http://127.0.0.1:9/", type="rss", check=False)
    await client.call("poll_source", "ann", source.id)
    with pytest.raises(HeadwaterProblem) as caught:
        await client.call("poll_source", "ann", source.id)
    assert caught.value.status == 429
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= 10
    await client.close()


async def test_v4_accounts_webhooks_and_the_service_have_calls(
    served: Served, client: Driven
) -> None:
    user = await client.call("create_user", "ann")
    assert (await client.call("rename_user", user.id, "anna")).name == "anna"
    expires = datetime(2100, 1, 1, tzinfo=UTC)
    hook = await client.call(
        "create_webhook", "default", "https://example.org/hook", events=["incident.opened"]
    )
    assert hook.secret.startswith("whsec_")
    (listed,) = await client.all("webhooks", "default")
    assert (listed.id, listed.events) == (hook.id, ("incident.opened",))
    assert await client.all("webhooks", None) == []
    assert await client.call("delete_webhook", "default", hook.id) is None
    saved = await client.call("save_search", "default", "rates", "title:rates")
    assert await client.all("saved_searches", "default") == [saved]
    effect = await client.call("preview_podcast_filters", "default", keep="river", block=None)
    assert effect.hidden == 0
    assert (await client.call("change_scheduler", paused=True)).paused
    assert (await client.call("get_health")).status == "ok"
    assert "headwater_" in await client.call("get_metrics")
    assert await client.all("incidents", open=True) == []
    assert (await client.all("audit", limit=1))[0].action
    token = await client.call("create_token", "x", "read", user="anna", expires_at=expires)
    assert token.expires_at == expires


async def test_v4_names_with_any_character_are_part_of_the_path(
    served: Served, client: Driven
) -> None:
    name = "Ärger? 100 % & mehr #1"
    podcast = await client.call("create_podcast", name)
    assert await client.call("get_podcast", name) == podcast
    for wrong in ("", ".", ".."):
        with pytest.raises(ValueError, match="not a name or id"):
            await client.call("get_podcast", wrong)
    with pytest.raises(HeadwaterProblem, match=r"^404 "):
        await client.call("get_post", "default", "../../../users")


async def types_of_results(client: Headwater, other: AsyncHeadwater) -> None:
    """Is not run: the type checker compares the types."""
    assert_type(client.get_post("default", "1"), Post)
    assert_type(await other.get_post("default", post_id="1"), Post)
    assert_type(client.posts("default", after=1, min_score=2), Iterator[Post])
    assert_type(other.posts("default"), AsyncIterator[Post])
    assert_type(client.articles.page("default", limit=1), Page[Article])
    assert_type(await other.articles.page("default", processed=False), Page[Article])
    assert_type(client.delete_source("default", "1"), None)
    assert_type(client.follow("default"), Iterator[Post])
    assert_type(other.events(), AsyncIterator[Event])
    client.get_post("default")  # type: ignore[call-arg]
    client.posts("default", min_score="2")  # type: ignore[arg-type]
    client.add_source("default", FEED, full_text="maybe")  # type: ignore[arg-type]
    client.change_source("default", "1", nothing=1)  # type: ignore[call-arg]


def test_v4_calls_have_signatures_and_help() -> None:
    for kind in (Headwater, AsyncHeadwater):
        client: Any = kind("http://localhost:1")
        assert client.get_post.__name__ == "get_post"
        assert client.posts.__doc__.startswith("The posts stored after")


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://localhost", "http://", "http://ann:pw@localhost", "http://a/?b"],
)
def test_v4_a_wrong_url_is_refused(kind: Any, url: str) -> None:
    with pytest.raises(ValueError, match="URL of a service"):
        kind(url)


@pytest.mark.parametrize("token", ["", "a\nb", "ä"])
def test_v4_a_token_that_cannot_be_sent_is_refused(kind: Any, token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        kind("http://localhost", token)


def test_v4_errors_of_the_client_have_one_base() -> None:
    assert issubclass(HeadwaterProblem, HeadwaterClientError)
    assert issubclass(HeadwaterUnreachable, HeadwaterClientError)


def test_v4_the_page_about_the_client_names_existing_calls() -> None:
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        compile(block, "client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = set(re.findall(r"\bclient\.(\w+)", "\n".join(blocks))) - {"results"}
    assert len(names) > 12
    for kind in (Headwater, AsyncHeadwater):
        assert [name for name in names if not hasattr(kind, name)] == []
