"""Saving a source over real connections: added, polled, refused, and by whom."""

import asyncio
from html import unescape
from pathlib import Path

import pytest

from headwater.model import SourceType
from tests.api.conftest import settings_in
from tests.api.filling import podcast_of, source_of
from tests.api.watching import feed
from tests.system.conftest import until, web_of
from tests.web.conftest import Visited, visiting
from tests.web.test_adding import ADD, SAVE, SEARCH, aged, sources_of, words


async def test_saving_adds_the_source_and_polls_it_right_away(pages_by_each: Visited):
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
    assert "It is being polled right now" in words(await pages.text(page_url))


async def _is_polled(pages: Visited, source_id: str) -> bool:
    return (await pages.app.store.sources.get(source_id)).first_poll_done


async def test_what_is_watched_already_exists_and_is_not_added_twice(pages_by_each: Visited):
    pages = pages_by_each
    async with web_of(host=lambda _: feed()) as web:
        there = await source_of(pages, url=web.url("host"))
        answer = await pages.send(ADD, {"url": web.url("host")})
        saved = await pages.send(SAVE, {"url": web.url("host"), "type": "rss", "interval": "30"})
    page_url = f"/podcasts/default/sources/{there.id}"
    assert "watches this address already" in words(answer)
    assert f'href="{page_url}"' in answer.body.decode()
    assert "Add and poll now" not in words(answer)
    assert (saved.status, saved.headers["Location"]) == (303, f"{page_url}?done=source-exists")
    assert [source.id for source in await sources_of(pages)] == [there.id]


async def test_two_that_save_the_same_at_once_add_one(pages_by_each: Visited):
    pages = pages_by_each
    fields = {"url": "https://nowhere.invalid/feed", "type": "rss", "interval": "30"}
    answers = await asyncio.gather(*(pages.send(SAVE, fields) for _ in range(4)))
    assert {answer.status for answer in answers} == {303}
    assert len({answer.headers["Location"].partition("?")[0] for answer in answers}) == 1
    assert len(await sources_of(pages)) == 1


@pytest.mark.parametrize(
    ("changes", "told"),
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
async def test_wrong_settings_are_shown_at_their_field_with_all_that_was_written(
    pages: Visited, changes: dict[str, str], told: str
):
    fields = {"url": "https://a.example/", "type": "rss", "label": "Mine", "interval": "45"}
    answer = await pages.send(SAVE, fields | {"history": "yes"} | changes)
    assert answer.status == 422
    assert told.lower() in words(answer).lower()
    html = unescape(answer.body.decode())
    assert 'aria-invalid="true"' in html
    for name, value in (fields | changes).items():
        assert name == "type" or f'value="{value}"' in html
    assert "checked" in html
    assert await sources_of(pages) == []


async def test_u8_one_source_more_than_allowed_is_refused(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-sources-per-user": 1})
    async for pages in visiting(settings):
        await source_of(pages, url="https://a.example/")
        answer = await pages.send(SAVE, {"url": "https://b.example/", "interval": "30"})
        assert answer.status == 413
        assert "at most 1 sources" in words(answer)


async def test_steps_that_are_opened_by_their_address_lead_to_the_first(pages: Visited):
    for path in (SAVE, SEARCH):
        answer = await pages.get(path)
        assert (answer.status, answer.headers["Location"]) == (303, ADD)
    assert "Add a source" in words(await pages.text(ADD))


async def test_u2_podcasts_of_others_are_not_found_and_nobody_adds_to_them(pages: Visited):
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


async def test_u2_strangers_are_led_to_the_login(pages: Visited):
    await pages.admin()
    answer = await pages.get(ADD)
    assert answer.status == 303
    assert answer.headers["Location"].startswith("/login?")
    for path in (ADD, SAVE, SEARCH):
        sent = await pages.send(path, {"url": "https://a.example/"})
        assert (sent.status, sent.headers["Location"][:6]) == (303, "/login")
    assert await sources_of(pages) == []
