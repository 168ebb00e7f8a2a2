"""Threads over the API, from a feed as Nitter serves it (E3)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from html import escape

from headwater.demo.demo_web import Reply, Request
from tests.api.conftest import DEFAULT, Served
from tests.api.scripted_hosts import RSS, watch
from tests.system.conftest import web_of

ARTICLES = f"{DEFAULT}/articles"
START = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=50)


class NitterFeed:
    """The feed of @ada: titles with Nitter's markers, and minutes; newest first."""

    def __init__(self) -> None:
        self.tweets: list[tuple[str, int]] = []

    def add(self, *tweets: tuple[str, int]) -> None:
        self.tweets += tweets

    def __call__(self, request: Request) -> Reply:
        items = [self._item(request.base_url, *tweet) for tweet in reversed(self.tweets)]
        return Reply(200, _document(items), RSS)

    def _item(self, base_url: str, title: str, minute: int) -> str:
        link = f"{base_url}/ada/status/{1000 + minute}#m"
        text = title.rpartition(": ")[2]
        html = f'<p>{text} <a href="{base_url}/bob">@bob</a></p>'
        date = format_datetime(START + timedelta(minutes=minute))
        return (
            f"<item><title>{title}</title><dc:creator>@ada</dc:creator>"
            f"<description>{escape(html)}</description><pubDate>{date}</pubDate>"
            f'<guid isPermaLink="true">{link}</guid><link>{link}</link></item>'
        )


def _document(items: Sequence[str]) -> bytes:
    head = '<rss xmlns:dc="http://purl.org/dc/elements/1.1/" version="2.0"><channel>'
    title = "<title>Ada / @ada</title><link>https://nitter.example/ada</link>"
    return f"{head}{title}{''.join(items)}</channel></rss>".encode()


async def test_e3_a_thread_on_nitter_is_one_article_and_a_late_reply_follows_up(
    served_by_each: Served,
):
    served, nitter = served_by_each, NitterFeed()
    nitter.add(("One", 0), ("R to @bob: Thanks", 1), ("R to @ada: Two", 2), ("R to @ada: Three", 2))
    async with web_of(nitter=nitter) as web:
        url = web.url("nitter", "/ada/rss")
        source = await watch(served, url, includeHistory=True, aggregateBy="thread")
        assert (await served.get(source)).json["aggregateBy"] == "thread"
        await served.post(f"{source}/poll")
        plan = (await served.post(f"{ARTICLES}/aggregate?dryRun=true")).json
        made = (await served.post(f"{ARTICLES}/aggregate")).json
        assert (plan["created"], plan["linkedPosts"]) == (made["created"], made["linkedPosts"])
        assert (made["created"], made["linkedPosts"]) == (2, 4)
        thread, reply = sorted(made["items"], key=lambda one: -len(one["postIds"]))
        assert (thread["title"], thread["url"]) == ("One", "https://x.com/ada/status/1000")
        assert thread["body"] == "One @bob\n\nTwo @bob\n\nThree @bob"
        assert thread["markdown"] == "\n\n".join(
            f"{text} [@bob](https://x.com/bob)" for text in ("One", "Two", "Three")
        )
        assert (thread["followUpOf"], thread["author"]) == (None, "@ada")
        assert (reply["title"], len(reply["postIds"])) == ("R to @bob: Thanks", 1)

        await served.post(f"{ARTICLES}/{thread['id']}/processed")
        nitter.add(("R to @ada: Four", 40))
        await served.post(f"{source}/poll")
        made = (await served.post(f"{ARTICLES}/aggregate")).json
    (late,) = made["items"]
    assert (late["followUpOf"], late["url"]) == (thread["id"], "https://x.com/ada/status/1040")
    assert (await served.get(f"{ARTICLES}/{late['id']}")).json == late
    feed = (await served.get(f"{DEFAULT}/feed.json")).json
    assert feed["items"][0]["_headwater"] == {"follow_up_of": f"urn:uuid:{thread['id']}"}

    await served.delete(f"{ARTICLES}/{thread['id']}")
    assert (await served.get(f"{ARTICLES}/{late['id']}")).json["followUpOf"] is None
