"""Actions on a source on its page, without script."""

import asyncio
import json
import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from headwater.demo.demo_web import Reply
from headwater.engine import service
from headwater.model import Source, SourceType
from headwater.operations import manual_polls
from headwater.operations.rate_limits import MOST_VISITS, VisitLimits
from tests.api.scripted_hosts import GatedHost, feed, watch
from tests.api.stored_data import source_of
from tests.store.store_data import StoreClock, a_failure
from tests.system.conftest import until, web_of
from tests.web.conftest import Fields, Visited
from tests.web.test_source_page import EVIL, page_of, words

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


async def test_an_empty_field_resets_a_setting_to_its_default(pages: Visited):
    source = await watch(pages, URL, label="x", maxFailures=3, aggregate=False, includeHistory=True)
    await pages.send(f"{page_of(source)}/settings", PLAIN | {"label": ""})
    found = await current(pages, source)
    assert (found.label, found.max_failures) == (None, None)
    assert (found.aggregate, found.include_history) == (None, False)


@pytest.mark.parametrize(
    ("url", "by_failures", "is_enabled"),
    [
        ("https://feeds.example.org/new.xml", True, True),
        ("https://feeds.example.org/new.xml", False, False),
        (URL, True, False),
    ],
    ids=["new address of a lost source", "new address of one switched off", "another label"],
)
async def test_y2_a_corrected_address_enables_what_headwater_gave_up(
    pages: Visited, url: str, by_failures: bool, is_enabled: bool
):
    source = await watch(pages, URL, maxFailures=1)
    if by_failures:
        found = await current(pages, source)
        failed = replace(found, enabled=False, disabled_reason="Auto-disabled after 1 404 error")
        await pages.app.store.record(replace(a_failure(found), source=failed))
    else:
        await pages.send(f"{page_of(source)}/disable")
    answer = await pages.send(f"{page_of(source)}/settings", PLAIN | {"url": url})
    found = await current(pages, source)
    assert found.enabled is is_enabled
    notice = "source-corrected" if is_enabled else "source-saved"
    assert answer.headers["Location"] == f"{page_of(source)}?done={notice}#top"
    assert (found.disabled_reason is None) is (url != URL or not by_failures)


async def test_f5_another_url_resets_the_state(pages: Visited):
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
        ("url", "", "Address must not be empty."),
        ("url", "ftp://example.org/", "Ftp: URLs are not supported; use http:// or https://."),
        ("url", "https://a.org/?a=\x85b", "The address is not one line of text."),
        ("label", "x" * 501, "The label is longer than 500 characters."),
        ("label", "two\nlines", "The label is not one line of text."),
        ("type", "gopher", "Choose one of the options."),
        ("aggregate", "perhaps", "Choose one of the options."),
    ],
)
async def test_an_invalid_value_is_reported_at_its_field_and_the_input_is_kept(
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


async def test_all_invalid_numbers_are_reported_together(pages: Visited):
    source = await watch(pages, URL)
    wanted = PLAIN | {"poll_interval_minutes": "0", "max_failures": "x"}
    answer = await pages.send(f"{page_of(source)}/settings", wanted)
    assert "Nothing was saved: 2 fields need another value." in answer.body.decode()
    assert re.search(r'<details class="more-settings" open>', answer.body.decode())


async def test_u4_a_hostile_value_is_escaped(pages: Visited):
    source = await watch(pages, URL)
    wanted = PLAIN | {"url": EVIL, "label": EVIL, "max_failures": EVIL}
    answer = await pages.send(f"{page_of(source)}/settings", wanted)
    assert answer.status == 422
    html = answer.body.decode()
    assert "<script>alert" not in html
    assert unescape(html).count(EVIL) >= 3


async def test_reloading_a_refused_form_returns_to_the_page(pages: Visited):
    source = await watch(pages, URL)
    answer = await pages.get(f"{page_of(source)}/settings")
    assert (answer.status, answer.headers["Location"]) == (303, page_of(source))


async def test_an_invalid_form_is_refused(pages: Visited):
    source = await watch(pages, URL)
    answer = await pages.post(f"{page_of(source)}/settings", {"url": "x"})
    assert answer.status == 422
    assert "A form is sent as" in answer.body.decode()


@pytest.mark.parametrize(
    ("reply", "reported"),
    [
        (lambda _: feed("one"), "Checked: 1 new post."),
        (lambda _: feed("one", "two"), "Checked: 2 new posts."),
        (lambda _: Reply(500), "The check failed."),
    ],
)
async def test_poll_now_reports_the_outcome(pages: Visited, reply: Any, reported: str):
    async with web_of(host=reply) as web:
        source = await watch(pages, web.url("host"))
        answer = await pages.send(f"{page_of(source)}/poll")
    assert answer.status == 303
    assert reported in words(await pages.text(answer.headers["Location"]))


async def test_poll_now_reports_that_nothing_is_new(pages: Visited):
    async with web_of(host=lambda _: feed("one")) as web:
        source = await watch(pages, web.url("host"))
        await pages.send(f"{page_of(source)}/poll")
        answer = await pages.send(f"{page_of(source)}/poll")
    assert "Checked: nothing new." in await pages.text(answer.headers["Location"])


async def test_p10_a_host_on_hold_is_not_requested_and_the_page_reports_it(pages: Visited):
    limited = Reply(429, headers={"Retry-After": "600"})
    async with web_of(limited=lambda _: limited) as web:
        source = await watch(pages, web.url("limited"))
        await pages.send(f"{page_of(source)}/poll")
        answer = await pages.send(f"{page_of(source)}/poll")
        assert len(web.visits) == 1
    assert answer.headers["Location"].endswith("?done=poll-held")


async def test_p10_a_poll_that_waits_too_long_continues_without_the_page(
    pages: Visited, monkeypatch: pytest.MonkeyPatch
):
    assert service.MANUAL_WAIT_SECONDS == 60
    monkeypatch.setattr(manual_polls, "MANUAL_WAIT_SECONDS", 0.05)
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        source = await watch(pages, web.url("slow"))
        answer = await pages.send(f"{page_of(source)}/poll")
        assert answer.headers["Location"].endswith("?done=poll-waits")
        shown = words(await pages.text(answer.headers["Location"]))
        slow.open.set()

        async def is_polled() -> bool:
            return (await current(pages, source)).last_success_at is not None

        await until(is_polled)
    assert "The check waits for its site" in shown


async def test_a_script_gets_the_outcome_as_text(pages: Visited):
    async with web_of(host=lambda _: feed("one")) as web:
        source = await watch(pages, web.url("host"))
        accept = {"Accept": "application/json"}
        answer = await pages.call("POST", f"{page_of(source)}/poll", headers=accept)
    assert answer.headers["Content-Type"] == "application/json"
    reported = json.loads(answer.body)
    assert reported["tone"] == "good"
    assert reported["text"].startswith("Checked: 1 new post. It took ")


async def test_f5_a_source_is_disabled_and_enabled(pages: Visited):
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
async def test_a_deleted_source_is_not_found(pages: Visited, action: str):
    source = await watch(pages, URL)
    await pages.delete(source)
    answer = await pages.send(f"{page_of(source)}/{action}", PLAIN)
    assert answer.status == 404
    assert "There is nothing here" in answer.body.decode()


async def test_a_source_deleted_during_its_poll_is_not_found(pages: Visited):
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        source = await watch(pages, web.url("slow"))
        poll = asyncio.create_task(pages.send(f"{page_of(source)}/poll"))
        await slow.asked.wait()
        await pages.delete(source)
        slow.open.set()
        assert (await poll).status == 404


@pytest.mark.parametrize("action", ["settings", "poll", "enable", "disable", "delete"])
async def test_u2_users_cannot_change_sources_of_others(pages: Visited, action: str):
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


async def test_y8_a_user_polls_a_source_once_in_ten_seconds_by_any_button(pages: Visited):
    pages.app.visit_limits = VisitLimits(StoreClock())
    ann = await pages.person("ann")
    source = await source_of(pages, "ann", url="http://host.invalid/feed")
    listed = f"/podcasts/{source.podcast_id}/sources"
    bulk: Fields = {"action": "poll", "id": source.id}
    assert (await pages.send(listed, bulk, token=ann)).status == 303
    pressed = await pages.send(f"{listed}/{source.id}/poll", token=ann)
    again = await pages.send(listed, bulk, token=ann)
    assert (pressed.status, pressed.headers["Retry-After"], again.status) == (429, "10", 429)
    for page in (pressed, again):
        assert "A source can be polled manually once in 10 seconds" in words(page.body.decode())
    by_script = await pages.call(
        "POST",
        f"{listed}/{source.id}/poll",
        token=ann,
        headers={"Accept": "application/json"},
    )
    assert (by_script.status, by_script.headers["Retry-After"]) == (429, "10")
    assert by_script.json["tone"] == "warn"


async def test_y8_the_first_poll_of_a_source_added_on_the_dashboard_is_a_manual_one(
    pages: Visited,
):
    pages.app.visit_limits = VisitLimits(StoreClock())
    ann = await pages.person("ann")
    add = f"/podcasts/{(await pages.podcast('ann', 'ann')).id}/add/save"
    form: Fields = {"url": "http://host.invalid/", "type": "rss", "interval": "30"}
    added = await pages.send(add, form, token=ann)
    assert added.status == 303
    path = added.headers["Location"].partition("?")[0]
    assert (await pages.send(f"{path}/poll", token=ann)).status == 429


async def test_y8_previews_searches_and_added_sources_of_a_host_are_limited(pages: Visited):
    pages.app.visit_limits = VisitLimits(StoreClock())
    ann = await pages.person("ann")
    add = f"/podcasts/{(await pages.podcast('ann', 'ann')).id}/add"
    form: Fields = {"url": "http://host.invalid/", "type": "rss", "interval": "30"}
    paths = [add, f"{add}/search", f"{add}/save"]
    for number in range(MOST_VISITS):
        assert (await pages.send(paths[number % 3], form, token=ann)).status in (303, 409, 422)
    for path in paths:
        refused = await pages.send(path, form, token=ann)
        assert refused.status == 429
        assert "10 manual polls, previews and test messages are possible for a host" in words(
            refused.body.decode()
        )


@pytest.mark.parametrize("action", ["poll", "enable", "disable", "delete"])
async def test_u3_a_get_request_changes_nothing(pages: Visited, action: str):
    source = await watch(pages, URL)
    assert (await pages.get(f"{page_of(source)}/{action}")).status == 405
    assert (await current(pages, source)).enabled


async def test_u3_another_site_cannot_send_the_forms(pages: Visited):
    source = await watch(pages, URL)
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = await pages.call("POST", f"{page_of(source)}/delete", headers=headers)
    assert answer.status == 403
    assert (await current(pages, source)).enabled
