"""Stories over the API (I2, I3)."""

from typing import Any

from headwater.engine.followers import STORIES, handle_batch
from headwater.model import Source
from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import articles_of, refusal, source_of
from tests.factories import a_post
from tests.store.store_data import with_posts
from tests.story_texts import TextGenerator

TEXT = TextGenerator(1).text(80)


async def story_of(served: Served) -> tuple[Source, Source]:
    """Store two copies of a text, the second of them longer, and group them."""
    one, two = await source_of(served, label="First paper"), await source_of(served)
    now = served.app.clock.now().replace(microsecond=0)
    for source, text in ((one, TEXT), (two, f"{TEXT} More.")):
        url = f"{source.url}/story"
        post = a_post(source_id=source.id, body=text, url=url, created_at=now, published_at=now)
        await with_posts(served.app.store, source, post)
    await handle_batch(served.app.store, STORIES)
    return one, two


async def items(served: Served, path: str) -> list[Any]:
    answer = await served.get(f"{DEFAULT}/{path}")
    assert answer.status == 200
    return list(answer.json["items"])


async def test_i2_posts_name_the_other_sources_of_their_story(served_by_each: Served):
    served = served_by_each
    one, two = await story_of(served)
    by_source = {post["sourceId"]: post for post in await items(served, "posts")}
    first, second = by_source[one.id], by_source[two.id]
    assert first["storyId"] == second["storyId"] is not None
    assert second["alsoFrom"] == [
        {
            "postId": first["id"],
            "source": {"id": one.id, "label": "First paper", "type": "rss", "url": one.url},
            "link": first["url"],
            "timestamp": first["publishedAt"],
        }
    ]
    assert (await served.get(f"{DEFAULT}/posts/{first['id']}")).json == first


async def test_i2_a_list_can_show_a_story_once(served_by_each: Served):
    served = served_by_each
    _, two = await story_of(served)
    assert [post["sourceId"] for post in await items(served, "posts?stories=true")] == [two.id]
    assert len(await items(served, "posts?stories=false")) == 2
    assert len(await items(served, "posts?after=0")) == 2  # copies are in this stream (V1)
    await articles_of(served)
    for query in ("articles", "articles?stories=true"):
        (article,) = await items(served, query)
        assert article["sourceId"] == two.id
        assert len(article["alsoFrom"]) == 1
    assert refusal(await served.get(f"{DEFAULT}/posts?stories=x"))[0] == 422


async def test_i2_a_search_that_shows_stories_once_finds_each_of_their_posts(
    served_by_each: Served,
):
    served = served_by_each
    one, two = await story_of(served)
    await served.app.followers.catch_up()
    word = TEXT.split()[0]

    async def sources(query: str) -> list[str]:
        return [post["sourceId"] for post in await items(served, f"posts?stories=true&{query}")]

    assert await sources(f"q={word}") == [two.id]
    assert await sources(f"q={word}+-more") == [one.id]
    assert await sources(f"q={word}&source={one.id}") == [one.id]
    assert await sources(f"source={one.id}") == [one.id]


async def test_i2_the_setting_of_the_podcast_decides_about_articles(served: Served):
    podcast = (await served.get(DEFAULT)).json
    assert podcast["stories"] is True
    answer = await served.put(DEFAULT, {"name": "default", "stories": False})
    assert (answer.status, answer.json["stories"]) == (200, False)
    await story_of(served)
    assert len(await articles_of(served)) == 2
    assert len(await items(served, "articles?stories=true")) == 1


async def test_i3_a_post_is_removed_from_its_story_for_good(served_by_each: Served):
    served = served_by_each
    await story_of(served)
    post = (await items(served, "posts"))[0]
    for _ in range(2):
        assert (await served.delete(f"{DEFAULT}/posts/{post['id']}/story")).status == 204
    await handle_batch(served.app.store, STORIES)
    assert [(post["storyId"], post["alsoFrom"]) for post in await items(served, "posts")] == [
        (None, []),
        (None, []),
    ]
    assert refusal(await served.delete(f"{DEFAULT}/posts/nothing/story"))[0] == 404
