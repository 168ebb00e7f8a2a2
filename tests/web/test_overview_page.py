"""The overview: the start page, with the user's own sources only."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from markupsafe import escape

from headwater.demo.demo_web import Reply, Request
from headwater.model import Hold
from headwater.operations.tokens import add_token
from headwater.operations.users_and_podcasts import add_podcast, add_user
from tests.api.scripted_hosts import GatedHost, feed, running, watch
from tests.api.stored_data import source_of
from tests.store.store_data import a_post_of, a_success, stored
from tests.system.conftest import web_of
from tests.web.conftest import Visited

ANN = "/api/users/ann/podcasts/ann"
EVIL = "<script>alert('x')</script>"
_KEPT_SECONDS = 0.6  # for which numbers are kept


def part(html: str, id_: str) -> str:
    """The text of one part of the page."""
    inside = html[html.index(f'id="{id_}"') :]
    end = re.search(r'<section|<div class="grid|</main>', inside)
    text = re.sub(r"<[^>]+>", " ", inside[: end.start() if end else None].partition(">")[2])
    return " ".join(unescape(text).split())


def tiles(html: str) -> dict[str, str]:
    """The numbers of the tiles, by their labels."""
    found = re.findall(r"<b>([^<]*)</b> <span>(?:<span[^>]*></span>)?([^<,]*)", html)
    return {words.strip(): number for number, words in found}


def one(status: int, **headers: str) -> Any:
    """A host that always sends the same response."""
    return lambda _: Reply(status, headers=headers)


async def test_the_first_start_explains_what_to_do(pages: Visited):
    html = await pages.text("/")
    assert "There are no sources yet" in html
    assert 'action="/podcasts/default/add"' in html
    assert 'href="/podcasts/default/import"' in html
    assert "<code>headwater demo</code>" in html
    assert 'id="tiles"' not in html


async def test_a_user_without_a_podcast_is_sent_to_where_one_is_created(pages: Visited):
    now = pages.app.clock.now()
    user = await add_user(pages.app.store, "carol", now)
    token = (await add_token(pages.app.store, user, "carol", now)).secret
    html = await pages.text("/", token=token)
    assert "there is none yet" in html
    assert 'href="/accounts">Make a podcast' in html


async def test_sources_are_counted_by_health_and_each_number_links_to_its_list(
    pages_by_each: Visited,
):
    pages, now = pages_by_each, pages_by_each.app.clock.now()
    await source_of(pages, last_success_at=now, last_polled=now)
    await source_of(pages, consecutive_failures=2, last_polled=now)
    await source_of(pages, last_polled=now)
    await source_of(pages, enabled=False)
    html = await pages.text("/")
    seen = tiles(html)
    assert [seen[word] for word in ("fine", "failing", "new", "disabled")] == ["1"] * 4
    assert 'href="/podcasts/default/sources?health=failing"' in html
    linked = 'href="/podcasts/default/sources?health=failing">1 of 4 sources is failing</a>.'
    assert linked in html
    assert html.index("Sources that fail now") < html.index("Checks per minute")
    assert (seen["due now"], seen["overdue"]) == ("0", "0")


async def test_without_problems_the_page_says_so(pages: Visited):
    now = pages.app.clock.now()
    await source_of(pages, last_success_at=now, last_polled=now)
    html = await pages.text("/")
    assert "Everything is fine" in part(html, "summary")
    assert "No check has failed recently." in html
    assert "No site asked for a pause." in html
    assert "Nothing right now." in html


@pytest.mark.parametrize(
    ("state", "words"),
    [({"enabled": False}, "Every source is disabled"), ({}, "No check has succeeded yet")],
)
async def test_empty_states_are_reported_as_such(pages: Visited, state: dict[str, Any], words: str):
    await source_of(pages, **{"last_polled": pages.app.clock.now()} | state)
    assert words in part(await pages.text("/"), "summary")


async def test_overdue_sources_are_counted_with_the_oldest(pages: Visited):
    now = pages.app.clock.now()
    for hours in (2, 5):
        await source_of(pages, last_polled=now - timedelta(hours=hours), last_success_at=now)
    html = await pages.text("/")
    assert (tiles(html)["due now"], tiles(html)["overdue"]) == ("2", "2")
    assert "oldest 4 h" in part(html, "tiles")
    assert "2 are overdue." in part(html, "summary")


async def test_polls_and_posts_are_drawn_over_the_last_hour_and_day(pages: Visited):
    async with web_of(good=lambda _: feed("one", "two"), gone=one(404)) as web:
        for name in ("good", "gone"):
            await pages.post(f"{await watch(pages, web.url(name))}/poll")
    hour, day = await pages.text("/"), await pages.text("/?span=day")
    for html, span in ((hour, "hour"), (day, "day")):
        assert f"Checks over the last {span}</title>" in html
        assert "2 checks: 1 with new posts, 0 without, 1 failed" in html
        assert f"2 in the last {span}" in part(html, "charts")
    assert "Checks per minute" in hour
    assert "Checks per 15 minutes" in day
    assert hour.count('class="column"') == 2 * 60
    assert day.count('class="column"') == 2 * 96
    assert await pages.text("/?span=<script>") is not None


async def test_failures_are_grouped_by_cause_with_the_hold_of_their_host(pages: Visited):
    async with web_of(limited=one(429, **{"Retry-After": "600"}), gone=one(404)) as web:
        await pages.post(f"{await watch(pages, web.url('gone'), label='The lost one')}/poll")
        held = [await watch(pages, web.url("gone", f"/{n}")) for n in range(3)]
        for source in held:
            await pages.post(f"{source}/poll")
        await pages.post(f"{await watch(pages, web.url('limited'))}/poll")
    html = await pages.text("/")
    failures, on_hold = part(html, "failures"), part(html, "held")
    assert "4 sources on 127" in failures
    assert "HTTP 404" in failures
    assert "The lost one" in failures or "and 1 more" in failures
    assert re.search(r"too many requests \(429\) paused, free in 9 min", failures)
    assert re.search(r"free in 9 min .*1 source waits", on_hold)
    assert re.search(r'href="/podcasts/default/sources\?health=failing&amp;host=127', html)
    assert 'href="/hosts/127' in html


async def test_recovered_or_deleted_sources_are_no_longer_listed_as_problems(pages: Visited):
    answers = {"status": 404}

    def moody(_: Request) -> Reply:
        return feed("one") if answers["status"] == 200 else Reply(answers["status"])

    async with web_of(moody=moody, gone=one(404)) as web:
        mended, removed = await watch(pages, web.url("moody")), await watch(pages, web.url("gone"))
        edited = await watch(pages, web.url("gone", "/edited"), label="The edited one")
        for source in (mended, removed, edited):
            await pages.post(f"{source}/poll")
        assert "HTTP 404" in part(await pages.text("/"), "failures")
        answers["status"] = 200
        await pages.post(f"{mended}/poll")
        await pages.delete(removed)
        await pages.patch(edited, {"url": "https://elsewhere.example/feed"})
    assert "No check has failed recently." in part(await pages.text("/"), "failures")


async def test_a_disabled_source_is_still_reported(pages: Visited):
    async with web_of(gone=one(410)) as web:
        source = await watch(pages, web.url("gone"), label="The lost one", maxFailures=1)
        await pages.post(f"{source}/poll")
    failures = part(await pages.text("/"), "failures")
    assert failures.startswith("The lost one gone for good (410) disabled")


async def test_running_polls_are_shown(pages: Visited):
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        source = await watch(pages, web.url("slow"), label="The slow one")
        poll = asyncio.create_task(pages.post(f"{source}/poll"))
        await slow.asked.wait()
        during = part(await pages.text("/"), "polled")
        slow.open.set()
        await poll
    assert "The slow one began" in during
    assert "Nothing right now." in part(await pages.text("/"), "polled")


async def test_u2_users_see_the_figures_of_their_own_podcasts_only(pages: Visited):
    ann, bob, admin = await pages.person("ann"), await pages.person("bob"), await pages.admin()
    slow = GatedHost()
    async with web_of(slow=slow, gone=one(404), limited=one(429)) as web:
        for name in ("gone", "limited"):
            url = web.url(name, "/hers")
            await pages.post(
                f"{await watch(pages, url, place=ANN, token=ann, label=f'Her {name}')}/poll",
                token=ann,
            )
        url = web.url("slow", "/hers")
        source = await watch(pages, url, place=ANN, token=ann, label="Her slow one")
        poll = asyncio.create_task(pages.post(f"{source}/poll", token=ann))
        await slow.asked.wait()
        assert "There are no sources yet" in await pages.text("/", token=bob)
        await source_of(pages, "bob", label="His own", last_polled=pages.app.clock.now())
        await asyncio.sleep(_KEPT_SECONDS)
        his, hers, all_ = [await pages.text("/", token=token) for token in (bob, ann, admin)]
        slow.open.set()
        await poll
    for secret in ("Her ", "HTTP 404", "HTTP 429", "/hers"):
        assert secret not in his
        assert secret in hers
        assert secret in all_
    assert tiles(his)["failing"] == "0"
    assert tiles(hers)["failing"] == tiles(all_)["failing"] == "2"
    assert "no checks" in part(his, "charts")
    assert "2 checks" in part(hers, "charts")
    assert "No site asked for a pause." in part(his, "held")


async def test_u2_a_hold_is_shown_to_users_who_wait_for_it(pages: Visited):
    ann, bob = await pages.person("ann"), await pages.person("bob")
    now = pages.app.clock.now()
    await source_of(pages, "ann", host="a.example", last_polled=now)
    await source_of(pages, "bob", host="b.example", last_polled=now)
    hold = Hold(now + timedelta(minutes=9), now, "asked for a pause")
    for lane in ("a.example", "x.com/nobody"):
        pages.service.gates.hold(lane, hold)
    assert "a.example free in 8 min" in part(await pages.text("/", token=ann), "held")
    assert "No site asked for a pause" in part(await pages.text("/", token=bob), "held")
    seen = part(await pages.text("/", token=await pages.admin()), "held")
    assert "a.example" in seen
    assert "x.com" in seen


async def test_several_podcasts_are_listed_by_severity(pages: Visited):
    user = await pages.app.store.accounts.user("default")
    now, evil = pages.app.clock.now(), "<script>alert('x')<script>"  # names have no slash
    second = await add_podcast(pages.app.store, user, f"Second {evil}", now)
    await source_of(pages, last_polled=now)
    await stored(pages.app.store, podcast_id=second.id, consecutive_failures=1, last_polled=now)
    html = await pages.text("/")
    rows = part(html, "podcasts")
    assert rows.index("Second") < rows.index("default")
    assert f'href="/podcasts/{second.id}/sources?health=failing">1<' in html
    assert 'id="tile-failing" href="#podcasts"' in html
    assert evil not in html
    assert escape(evil) in html


async def test_u4_foreign_labels_addresses_and_errors_are_escaped(pages: Visited):
    async with web_of(odd=lambda _: Reply(200, EVIL.encode(), "text/plain")) as web:
        for n in range(2):
            url = web.url("odd", f"/{n}?{EVIL}")
            await pages.post(f"{await watch(pages, url, label=f'{EVIL} {n}')}/poll")
    pages.service.gates.hold(
        "x.com/default",
        Hold(pages.app.clock.now() + timedelta(hours=1), pages.app.clock.now(), EVIL),
    )
    html = await pages.text("/")
    assert "<script>" not in html
    assert escape(EVIL) in html
    assert "style=" not in html


async def test_u2_access_needs_a_token_once_there_are_tokens(pages: Visited):
    await pages.admin()
    answer = await pages.get("/")
    assert (answer.status, answer.headers["Location"]) == (303, "/login?next=%2F")
    await pages.send("/scheduler", {"switch": "pause"})
    assert not pages.service.paused


async def test_g2_an_administrator_pauses_and_resumes_polling(pages: Visited):
    await source_of(pages, last_polled=pages.app.clock.now())
    assert "Pause checking" in await pages.text("/")
    answer = await pages.send("/scheduler", {"switch": "pause"})
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert pages.service.paused
    html = await pages.text("/")
    assert "Resume checking" in html
    assert html.count("Checking is paused") == 1
    await pages.send("/scheduler", {"switch": "resume"})
    assert not pages.service.paused


@pytest.mark.parametrize("switch", ["", "sideways"])
async def test_g2_an_invalid_pause_form_changes_nothing(pages: Visited, switch: str):
    answer = await pages.send("/scheduler", {"switch": switch})
    assert answer.status == 422
    assert not pages.service.paused


async def test_g2_pausing_is_for_administrators(pages: Visited):
    ann = await pages.person("ann")
    await source_of(pages, "ann", last_polled=pages.app.clock.now())
    assert "Pause checking" not in await pages.text("/", token=ann)
    answer = await pages.send("/scheduler", {"switch": "pause"}, token=ann)
    assert answer.status == 403
    assert not pages.service.paused
    assert (await pages.get("/scheduler", token=ann)).status in (404, 405)


async def test_charts_state_since_when_they_count(pages: Visited):
    await source_of(pages, last_polled=pages.app.clock.now())
    assert "Counted since" in await pages.text("/")
    async with pages.service.timeline.filling(pages.app.store.polls), running(pages):
        while pages.service.timeline.known_since is not None:
            await asyncio.sleep(0.01)
        assert "Counted since" not in await pages.text("/")


async def test_pages_without_a_podcast_link_back_to_the_last_one(pages: Visited):
    first, store = await pages.podcast(), pages.app.store
    owner = await store.accounts.user("default")
    second = await add_podcast(store, owner, "second", pages.app.clock.now())
    for path in ("/", "/hosts"):
        assert f'href="/podcasts/{first.id}/posts"' in await pages.text(path)
    answer = await pages.get(f"/podcasts/{second.id}/sources")
    kept = answer.headers["Set-Cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    headers = {"Cookie": kept.partition(";")[0]}
    for path in ("/", "/hosts", "/accounts"):
        assert f'href="/podcasts/{second.id}/posts"' in await pages.text(path, headers=headers)
    stranger = {"Cookie": "headwater-podcast=of-somebody-else"}
    assert f'href="/podcasts/{first.id}/posts"' in await pages.text("/", headers=stranger)


async def test_c3_o4_a_pause_of_cleanup_is_shown_on_every_page(pages: Visited):
    assert "nothing is deleted until" not in await pages.text("/")
    pages.service.cleanup_paused_until = pages.app.clock.now() + timedelta(hours=1)
    assert "nothing is deleted until" in await pages.text("/")


async def test_y2_open_incidents_come_first_with_what_to_do(pages: Visited):
    now = pages.app.clock.now()
    source = await source_of(
        pages,
        label="Rivers",
        enabled=False,
        consecutive_failures=5,
        failing_since=now,
        disabled_reason="Auto-disabled after 5 consecutive 404 errors",
    )
    await pages.service.incident_watch.check()
    await source_of(pages, consecutive_failures=1, failing_since=now)  # no incident yet
    html = await pages.text("/")
    assert "1 problem needs your attention. 1 of 2 sources is failing" in part(html, "summary")
    shown = part(html, "attention")
    assert "Headwater has given up on “Rivers”" in shown
    assert "What to do:" in shown
    assert f'href="/podcasts/default/sources/{source.id}"' in html
    assert "Get a message about problems" in shown
    channels = {"channels": [{"kind": "ntfy", "url": "http://127.0.0.1:1/rivers"}]}
    assert (await pages.put("/api/users/default/notices", channels)).status == 200
    assert "Get a message about problems" not in await pages.text("/")
    await pages.app.store.sources.remove(source.id)
    await source_of(pages)
    await pages.service.incident_watch.check()
    assert "What needs your attention" not in await pages.text("/")


async def test_y2_a_source_that_a_person_disabled_is_no_problem(pages: Visited):
    now = pages.app.clock.now()
    await source_of(pages, enabled=False, consecutive_failures=5, failing_since=now)
    await source_of(pages, last_success_at=now, last_polled=now)
    await pages.service.incident_watch.check()
    assert "No source is failing" in part(await pages.text("/"), "summary")


async def test_y2_the_newest_posts_and_the_pace_of_sources_are_shown(pages: Visited):
    now = pages.app.clock.now()
    source = await source_of(pages, label="Rivers")
    posts = [
        a_post_of(
            source,
            f"body {n}",
            title=f"News <{n}>",
            created_at=now - timedelta(minutes=n),
            published_at=now - timedelta(days=n + 3),
        )
        for n in range(12)
    ]
    await pages.app.store.record(
        replace(a_success(source, posts), source=replace(source, last_polled=now))
    )
    html = await pages.text("/")
    came_in = part(html, "incoming")
    assert "News <0>" in came_in
    assert f'href="/podcasts/default/posts?source={source.id}"' in html
    assert "usually 1 a day, nothing for 3 days" in part(html, "pace")


async def test_g2_while_paused_the_overview_promises_no_check(pages: Visited):
    await source_of(pages, last_polled=pages.app.clock.now(), consecutive_failures=1)
    text = part(await pages.text("/"), "summary")
    assert "is failing . Headwater keeps trying." in text
    await pages.service.pause(paused=True)
    text = part(await pages.text("/"), "summary")
    assert "is failing ." in text
    assert "keeps trying" not in text


@pytest.mark.parametrize("also_disabled", [False, True])
async def test_g2_while_paused_the_overview_does_not_say_that_all_is_fine(
    pages: Visited, also_disabled: bool
):
    now = pages.app.clock.now()
    await source_of(pages, last_success_at=now, last_polled=now)
    if also_disabled:
        await source_of(pages, enabled=False)
    await pages.service.pause(paused=True)
    html = await pages.text("/")
    assert 'class="summary quiet"' in html
    assert "No source is failing" in part(html, "summary")
    assert "overdue" not in part(html, "summary")
