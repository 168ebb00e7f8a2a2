"""Markdown of posts over the API (T1)."""

from datetime import UTC, datetime, timedelta

from headwater.demo.demo_web import Reply, Request
from tests.api.conftest import Served
from tests.api.scripted_hosts import RSS, running, watch
from tests.system.conftest import rss, web_of


async def test_t1_r2_new_entries_of_a_later_poll_have_markdown_too(served: Served):
    now = datetime.now(UTC)
    entries = [("one", "&lt;p&gt;The &lt;b&gt;first&lt;/b&gt;", now - timedelta(hours=2))]

    def site(request: Request) -> Reply:
        return Reply(200, rss("demo.invalid", *entries), RSS)

    async with web_of(feed=site) as web, running(served):
        source = await watch(served, web.url("feed"), includeHistory=True)
        polled = [(await served.post(f"{source}/poll")).json]
        entries.append(("two", "&lt;p&gt;The &lt;b&gt;second&lt;/b&gt;", now - timedelta(hours=1)))
        polled.append((await served.post(f"{source}/poll")).json)
        posts = (await served.get(f"{source}/posts")).json["items"]
    assert [poll["newPosts"] for poll in polled] == [1, 1]
    assert [post["markdown"] for post in posts] == ["The **second**", "The **first**"]
