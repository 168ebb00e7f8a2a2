"""Saving a source over real connections: added, polled, refused, and access."""

import asyncio
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest

from headwater.demo.demo_web import Reply, Request
from headwater.model import SourceType
from headwater.source_settings import FullText
from tests.api.conftest import settings_in
from tests.api.scripted_hosts import RSS, feed
from tests.api.stored_data import podcast_of, source_of
from tests.system.conftest import rss_of_links, until, web_of
from tests.web.conftest import Visited, visiting
from tests.web.test_add_source_page import (
    ADD,
    SAVE,
    SEARCH,
    TEXT,
    aged,
    field,
    page,
    sources_of,
    words,
)


async def test_saving_adds_the_source_and_polls_it_at_once(pages_by_each: Visited):
    pages = pages_by_each
    async with web_of(host=lambda _: aged(1, 2)) as web:
        fields = {
            "url": web.url("host"),
            "type": "rss",
            "label": "River",
            "interval": "90",
            "history": "yes",
        }
        answer = await pages.send(SAVE, fields)
        (source,) = await sources_of(pages)
        assert answer.status == 303
        page_url = f"/podcasts/default/sources/{source.id}?done=source-added"
        assert answer.headers["Location"] == page_url
        await until(lambda: _is_polled(pages, source.id))
        assert len(web.visits) == 1
    assert (source.type, source.label) == (SourceType.RSS, "River")
    assert (source.poll_interval_minutes, source.include_history) == (90, True)
    assert await pages.app.store.posts.count(source.id) == 2
    assert "It is being checked right now" in words(await pages.text(page_url))


async def _is_polled(pages: Visited, source_id: str) -> bool:
    return (await pages.app.store.sources.get(source_id)).first_poll_done


async def test_j3_an_existing_source_is_not_added_twice_without_confirmation(
    pages_by_each: Visited,
):
    pages = pages_by_each
    async with web_of(host=lambda _: feed()) as web:
        there = await source_of(pages, url=web.url("host"))
        answer = await pages.send(ADD, {"url": web.url("host")})
        saved = await pages.send(SAVE, {"url": web.url("host"), "type": "rss", "interval": "30"})
    page_url = f"/podcasts/default/sources/{there.id}"
    assert "has this address already" in words(answer)
    assert f'href="{page_url}"' in answer.body.decode()
    assert "Add it once more" in words(answer)
    assert saved.status == 409
    assert "has this address already" in words(saved)
    assert f'href="{page_url}"' in saved.body.decode()
    assert [source.id for source in await sources_of(pages)] == [there.id]


async def test_two_concurrent_saves_add_one_source(pages_by_each: Visited):
    pages = pages_by_each
    fields = {"url": "https://nowhere.invalid/feed", "type": "rss", "interval": "30"}
    answers = await asyncio.gather(*(pages.send(SAVE, fields) for _ in range(4)))
    assert sorted(answer.status for answer in answers) == [303, 409, 409, 409]
    assert len(await sources_of(pages)) == 1


async def test_j3_a_source_is_added_again_after_confirmation(pages: Visited):
    there = await source_of(pages, url="https://nowhere.invalid/feed")
    fields = {"url": there.url, "type": "rss", "interval": "30"}
    asked = await pages.send(SAVE, fields)
    assert field(asked, "again") == "yes"
    added = await pages.send(SAVE, fields | {"again": "yes"})
    assert added.status == 303
    assert [source.url for source in await sources_of(pages)] == [there.url] * 2


async def test_j2_the_response_of_the_preview_is_that_of_the_first_poll(pages_by_each: Visited):
    pages = pages_by_each
    async with web_of(host=lambda _: aged(1, 2)) as web:
        await pages.send(ADD, {"url": web.url("host")})
        fields = {"url": web.url("host"), "type": "rss", "interval": "30", "history": "yes"}
        answer = await pages.send(SAVE, fields)
        (source,) = await sources_of(pages)
        assert len(web.visits) == 1
    assert answer.headers["Location"].endswith(f"{source.id}?done=source-read")
    assert (source.first_poll_done, source.include_history) == (True, True)
    assert await pages.app.store.posts.count(source.id) == 2
    (poll,) = await pages.app.store.polls.newest(source.id, limit=2)
    ended_at = poll.started_at + timedelta(milliseconds=poll.duration_ms)
    assert source.last_polled is not None
    assert abs(source.last_polled - ended_at) <= timedelta(milliseconds=1)  # rounded
    assert source.last_success_at == source.last_polled


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"interval": "0"}, "The interval must be between 1 and 525600"),
        ({"interval": "9" * 40}, "The interval is a whole number of minutes"),
        ({"interval": "soon"}, "The interval is a whole number of minutes"),
        ({"label": "x" * 501}, "The label is longer than 500 characters"),
        ({"label": "a\x07b"}, "not one line"),
        ({"type": "podcast"}, "a feed, a web page or an X timeline"),
        ({"url": "ftp://a.org/"}, "URLs are not supported"),
    ],
)
async def test_invalid_settings_are_shown_at_their_field_and_the_input_is_kept(
    pages: Visited, changes: dict[str, str], reported: str
):
    fields = {"url": "https://a.example/", "type": "rss", "label": "Mine", "interval": "45"}
    answer = await pages.send(SAVE, fields | {"history": "yes"} | changes)
    assert answer.status == 422
    assert reported.lower() in words(answer).lower()
    html = unescape(answer.body.decode())
    assert 'aria-invalid="true"' in html
    for name, value in (fields | changes).items():
        assert name == "type" or f'value="{value}"' in html
    assert "checked" in html
    assert await sources_of(pages) == []


async def test_u8_sources_over_the_limit_are_refused(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-sources-per-user": 1})
    async for pages in visiting(settings):
        await source_of(pages, url="https://a.example/")
        fields = {"url": "https://b.example/", "type": "rss", "interval": "30"}
        answer = await pages.send(SAVE, fields)
        assert answer.status == 413
        assert "at most 1 sources" in words(answer)


# the settings of a source
PLAIN = {
    "url": "",
    "type": "rss",
    "poll_interval_minutes": "30",
    "aggregate": "auto",
    "full_text": "off",
}


async def test_j2_a_url_that_can_never_be_visited_is_refused_when_it_is_added(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": False})
    async for pages in visiting(settings):
        source = await source_of(pages, url="https://a.example/")
        for path, fields in (
            (SAVE, {"url": "http://10.0.0.1/feed", "interval": "30"}),
            (
                f"/podcasts/{source.podcast_id}/sources/{source.id}/settings",
                PLAIN | {"url": "http://10.0.0.1/feed"},
            ),
        ):
            answer = await pages.send(path, fields)
            assert answer.status == 422
            assert "10.0.0.1 is not a public address (private)" in words(answer)
        assert [source.url for source in await sources_of(pages)] == ["https://a.example/"]


async def test_opening_a_later_step_by_url_redirects_to_the_first(pages: Visited):
    for path in (SAVE, SEARCH):
        answer = await pages.get(path)
        assert (answer.status, answer.headers["Location"]) == (303, ADD)
    assert "Add a source" in words(await pages.text(ADD))


async def test_u2_podcasts_of_others_are_not_found_and_cannot_be_added_to(pages: Visited):
    ann, _ = await pages.person("ann"), await pages.person("bob")
    theirs = (await podcast_of(pages, "bob")).id
    own = (await podcast_of(pages, "ann")).id
    fields = {"url": "https://nowhere.invalid/", "type": "rss", "interval": "30"}
    for podcast in (theirs, "nobody"):
        path = f"/podcasts/{podcast}/add"
        assert (await pages.get(path, token=ann)).status == 404
        for step in ("", "/save", "/search"):
            assert (await pages.send(path + step, fields, token=ann)).status == 404
    assert await sources_of(pages, theirs) == []
    assert (await pages.send(f"/podcasts/{own}/add/save", fields, token=ann)).status == 303


async def test_u2_anonymous_users_are_redirected_to_the_login(pages: Visited):
    await pages.admin()
    answer = await pages.get(ADD)
    assert answer.status == 303
    assert answer.headers["Location"].startswith("/login?")
    for path in (ADD, SAVE, SEARCH):
        sent = await pages.send(path, {"url": "https://a.example/"})
        assert (sent.status, sent.headers["Location"][:6]) == (303, "/login")
    assert await sources_of(pages) == []


async def test_t4_a_preview_recommends_full_text_and_one_click_turns_it_on(pages: Visited):
    teaser = "The council approved the harbour bridge on Tuesday, said the mayor."

    def site(request: Request) -> Reply:
        links = {request.locate("news", f"/{n}"): f"{teaser} {n}" for n in range(3)}
        return Reply(200, rss_of_links(links), RSS)

    async with web_of(host=site, news=lambda r: page(text=f"{teaser} {r.path[1:]} {TEXT}")) as web:
        shown = await pages.send(ADD, {"url": web.url("host")})
        assert "Read the whole text on the pages recommended The pages have" in words(shown)
        fields = {"url": web.url("host"), "type": "rss", "interval": "30", "full_text": "yes"}
        await pages.send(SAVE, fields)
        (source,) = await sources_of(pages)
    assert source.full_text is FullText.ON
    assert await pages.app.store.page_visits.count() == 3
