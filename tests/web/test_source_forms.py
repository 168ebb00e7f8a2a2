"""What can be done with a source on its page, without script."""

import asyncio
import json
import re
from html import unescape
from typing import Any

import pytest

from headwater.demo import Reply
from headwater.engine import service
from headwater.model import Source, SourceType
from headwater.operations import polling
from tests.api.filling import source_of
from tests.api.watching import Doorman, feed, watch
from tests.system.conftest import web_of
from tests.web.conftest import Fields, Visited
from tests.web.test_source import EVIL, page_of, words

URL = "https://feeds.example.org/news.xml"
PLAIN: Fields = {
    "label": "River news",
    "url": URL,
    "type": "rss",
    "poll_interval_minutes": "30",
    "poll_delay_seconds": "",
    "max_failures": "",
    "max_backoff_hours": "",
    "late_entry_hours": "",
    "aggregate": "auto",
}


async def current(pages: Visited, source: str) -> Source:
    return await pages.app.store.sources.get(source.rpartition("/")[2])


async def test_settings_are_saved(pages_by_each: Visited):
    pages = pages_by_each
    source = await watch(pages, URL)
    wanted = PLAIN | {
        "poll_interval_minutes": "60",
        "poll_delay_seconds": "0",
        "max_failures": "7",
        "max_backoff_hours": "12",
        "late_entry_hours": "48",
        "aggregate": "always",
        "include_history": "yes",
        "type": "website",
    }
    answer = await pages.send(f"{page_of(source)}/settings", wanted)
    assert answer.status == 303
    assert answer.headers["Location"] == f"{page_of(source)}?done=source-saved#top"
    found = await current(pages, source)
    assert (found.label, found.type, found.poll_interval_minutes) == (
        "River news", SourceType.WEBSITE, 60
    )  # fmt: skip
    assert (found.poll_delay_seconds, found.max_failures, found.max_backoff_hours) == (0, 7, 12)
    assert (found.late_entry_hours, found.aggregate, found.include_history) == (48, True, True)
    assert "The settings are saved." in await pages.text(f"{page_of(source)}?done=source-saved")


async def test_an_empty_field_takes_a_setting_back_to_its_default(pages: Visited):
    source = await watch(pages, URL, label="x", maxFailures=3, aggregate=False, includeHistory=True)
    await pages.send(f"{page_of(source)}/settings", PLAIN | {"label": ""})
    found = await current(pages, source)
    assert (found.label, found.max_failures) == (None, None)
    assert (found.aggregate, found.include_history) == (None, False)


async def test_f5_another_address_starts_anew(pages: Visited):
    async with web_of(gone=lambda _: Reply(404)) as web:
        source = await watch(pages, web.url("gone"))
        await pages.post(f"{source}/poll")
    await pages.send(f"{page_of(source)}/settings", PLAIN)
    found = await current(pages, source)
    assert (found.consecutive_failures, found.last_error) == (0, None)
    assert found.requested_at is not None


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("poll_interval_minutes", "0", "It must be between 1 and 525,600."),
        ("poll_interval_minutes", "", "Write a whole number from 1 to 525,600."),
        ("poll_interval_minutes", "soon", "Write a whole number from 1 to 525,600."),
        ("poll_interval_minutes", "9" * 5000, "Write a whole number from 1 to 525,600."),
        ("poll_delay_seconds", "86401", "It must be between 0 and 86,400."),
        ("poll_delay_seconds", "-1", "Write a whole number from 0 to 86,400."),
        ("max_failures", "0", "It must be between 1 and 1,000,000."),
        ("max_backoff_hours", "1.5", "Write a whole number from 1 to 1,000,000."),
        ("late_entry_hours", "٣", "Write a whole number from 0 to 1,000,000."),
        ("url", "", "A source needs an address."),
        ("url", "ftp://example.org/", "Ftp: URLs are not supported; use http:// or https://."),
        ("url", "https://a.org/?a=\x85b", "The address is not one line of text."),
        ("label", "x" * 501, "The label is longer than 500 characters."),
        ("label", "two\nlines", "The label is not one line of text."),
        ("type", "gopher", "Choose one of the three."),
        ("aggregate", "perhaps", "Choose one of the three."),
    ],
)
async def test_a_wrong_value_is_told_at_its_field_and_nothing_is_lost(
    pages: Visited, field: str, value: str, complaint: str
):
    source = await watch(pages, URL)
    before = await current(pages, source)
    kept = {"label": "What I wrote", "max_failures": "17"}
    wanted = PLAIN | kept | {field: value}
    answer = await pages.send(f"{page_of(source)}/settings", wanted)
    assert answer.status == 422
    html = answer.body.decode()
    assert f'<p class="error" id="h-{field}">{complaint}</p>' in html
    assert html.count('aria-invalid="true"') == 1
    assert "Nothing was saved: one field needs another value." in html
    for name, text in kept.items():
        if name != field:
            assert f'name="{name}" type="{"number" if name != "label" else "text"}"' in html
            assert f'value="{text}"' in html
    assert await current(pages, source) == before


async def test_all_wrong_numbers_are_told_at_once(pages: Visited):
    source = await watch(pages, URL)
    wanted = PLAIN | {"poll_interval_minutes": "0", "max_failures": "x"}
    answer = await pages.send(f"{page_of(source)}/settings", wanted)
    assert "Nothing was saved: 2 fields need another value." in answer.body.decode()
    assert re.search(r'<details class="more-settings" open>', answer.body.decode())


async def test_u4_a_hostile_value_comes_back_as_text(pages: Visited):
    source = await watch(pages, URL)
    wanted = PLAIN | {"url": EVIL, "label": EVIL, "max_failures": EVIL}
    answer = await pages.send(f"{page_of(source)}/settings", wanted)
    assert answer.status == 422
    html = answer.body.decode()
    assert "<script>alert" not in html
    assert unescape(html).count(EVIL) >= 3


async def test_somebody_who_reloads_a_refused_form_comes_back_to_the_page(pages: Visited):
    source = await watch(pages, URL)
    answer = await pages.get(f"{page_of(source)}/settings")
    assert (answer.status, answer.headers["Location"]) == (303, page_of(source))


async def test_a_form_that_is_none_is_refused(pages: Visited):
    source = await watch(pages, URL)
    answer = await pages.post(f"{page_of(source)}/settings", {"url": "x"})
    assert answer.status == 422
    assert "A form is sent as" in answer.body.decode()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (lambda _: feed("one"), "Polled: 1 new post."),
        (lambda _: feed("one", "two"), "Polled: 2 new posts."),
        (lambda _: Reply(500), "The poll failed."),
    ],
)
async def test_poll_now_says_what_came_of_it(pages: Visited, reply: Any, told: str):
    async with web_of(host=reply) as web:
        source = await watch(pages, web.url("host"))
        answer = await pages.send(f"{page_of(source)}/poll")
    assert answer.status == 303
    assert told in words(await pages.text(answer.headers["Location"]))


async def test_poll_now_says_when_there_was_nothing_new(pages: Visited):
    async with web_of(host=lambda _: feed("one")) as web:
        source = await watch(pages, web.url("host"))
        await pages.send(f"{page_of(source)}/poll")
        answer = await pages.send(f"{page_of(source)}/poll")
    assert "Polled: nothing new." in await pages.text(answer.headers["Location"])


async def test_p10_a_host_on_hold_is_not_asked_and_the_page_says_so(pages: Visited):
    limited = Reply(429, headers={"Retry-After": "600"})
    async with web_of(limited=lambda _: limited) as web:
        source = await watch(pages, web.url("limited"))
        await pages.send(f"{page_of(source)}/poll")
        answer = await pages.send(f"{page_of(source)}/poll")
        assert len(web.visits) == 1
    assert answer.headers["Location"].endswith("?done=poll-held")


async def test_p10_a_poll_that_waits_too_long_goes_on_without_the_page(
    pages: Visited, monkeypatch: pytest.MonkeyPatch
):
    assert service.MANUAL_WAIT_SECONDS == 60
    monkeypatch.setattr(polling, "MANUAL_WAIT_SECONDS", 0.05)
    slow = Doorman()
    async with web_of(slow=slow) as web:
        source = await watch(pages, web.url("slow"))
        answer = await pages.send(f"{page_of(source)}/poll")
        assert answer.headers["Location"].endswith("?done=poll-waits")
        shown = words(await pages.text(answer.headers["Location"]))
        slow.open.set()
        await pages.post(f"{source}/poll")
    assert "The poll waits for its host's turn" in shown
    assert (await current(pages, source)).last_success_at is not None


async def test_a_script_is_told_the_outcome_in_words(pages: Visited):
    async with web_of(host=lambda _: feed("one")) as web:
        source = await watch(pages, web.url("host"))
        accept = {"Accept": "application/json"}
        answer = await pages.call("POST", f"{page_of(source)}/poll", headers=accept)
    assert answer.headers["Content-Type"] == "application/json"
    told = json.loads(answer.body)
    assert told["tone"] == "good"
    assert told["text"].startswith("Polled: 1 new post. It took ")


async def test_f5_a_source_is_switched_off_and_on(pages: Visited):
    async with web_of(gone=lambda _: Reply(404)) as web:
        source = await watch(pages, web.url("gone"), maxFailures=1)
        await pages.post(f"{source}/poll")
    assert not (await current(pages, source)).enabled
    answer = await pages.send(f"{page_of(source)}/enable")
    assert answer.headers["Location"].endswith("?done=source-enabled")
    found = await current(pages, source)
    assert (found.enabled, found.consecutive_failures, found.disabled_reason) == (True, 0, None)
    assert found.requested_at is not None
    answer = await pages.send(f"{page_of(source)}/disable")
    assert answer.headers["Location"].endswith("?done=source-disabled")
    assert not (await current(pages, source)).enabled


async def test_a_source_is_deleted(pages: Visited):
    source = await watch(pages, URL)
    answer = await pages.send(f"{page_of(source)}/delete")
    assert answer.headers["Location"] == "/podcasts/default/sources?done=source-deleted"
    await pages.text(page_of(source), status=404)


@pytest.mark.parametrize("action", ["settings", "poll", "enable", "disable", "delete"])
async def test_what_was_removed_meanwhile_is_not_found(pages: Visited, action: str):
    source = await watch(pages, URL)
    await pages.delete(source)
    answer = await pages.send(f"{page_of(source)}/{action}", PLAIN)
    assert answer.status == 404
    assert "There is nothing here" in answer.body.decode()


async def test_a_source_removed_while_it_is_polled_is_not_found(pages: Visited):
    slow = Doorman()
    async with web_of(slow=slow) as web:
        source = await watch(pages, web.url("slow"))
        poll = asyncio.create_task(pages.send(f"{page_of(source)}/poll"))
        await slow.asked.wait()
        await pages.delete(source)
        slow.open.set()
        assert (await poll).status == 404


@pytest.mark.parametrize("action", ["settings", "poll", "enable", "disable", "delete"])
async def test_u2_nobody_touches_what_is_somebody_elses(pages: Visited, action: str):
    await pages.person("ann")
    bob = await pages.person("bob")
    source = await source_of(pages, "ann")
    before = await pages.app.store.sources.get(source.id)
    his = (await pages.podcast("bob", "bob")).id
    for podcast in (source.podcast_id, his):
        path = f"/podcasts/{podcast}/sources/{source.id}/{action}"
        assert (await pages.send(path, PLAIN, token=bob)).status == 404
        unknown = await pages.send(path, PLAIN)
        assert (unknown.status, unknown.headers["Location"]) == (303, "/login")
    assert await pages.app.store.sources.get(source.id) == before


@pytest.mark.parametrize("action", ["poll", "enable", "disable", "delete"])
async def test_u3_following_a_link_does_nothing(pages: Visited, action: str):
    source = await watch(pages, URL)
    assert (await pages.get(f"{page_of(source)}/{action}")).status == 405
    assert (await current(pages, source)).enabled


async def test_u3_another_site_cannot_send_the_forms(pages: Visited):
    source = await watch(pages, URL)
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = await pages.call("POST", f"{page_of(source)}/delete", headers=headers)
    assert answer.status == 403
    assert (await current(pages, source)).enabled
