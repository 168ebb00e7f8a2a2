"""The site of a feed that is gone is searched for another one, politely and once a week (Y5)."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headwater.demo.demo_web import DemoWeb, Reply, Request
from headwater.model import OutcomeKind, Suggestion, SuggestionKind
from headwater.operations import suggestions
from headwater.operations.incidents import checked_incidents
from headwater.operations.source_views import explanation_of
from headwater.operations.sources import edit_source
from tests.self_healing.conftest import (
    DAY,
    HOUR,
    RunningService,
    feed,
    html,
    link_to,
    rss,
    running,
)
from tests.system.conftest import web_of

NOW = datetime.now(UTC)
GOOD = rss(feed("a", at=NOW))
# newer than any source of these tests, however long ago this module was imported; the rest older
OTHER = rss(feed("c", "a", "b", at=NOW + DAY, title="Other feed", apart=DAY))
Site = dict[str, Reply]


def site_of(pages: Site) -> Callable[[Request], Reply]:
    return lambda request: pages.get(request.path, html("Nothing is here.", status=404))


async def lost(env: RunningService, web: DemoWeb, pages: Site, *, now: Reply) -> str:
    """A source whose feed worked once, then answers with `now`; return its id."""
    pages["/feed"] = GOOD
    id_ = await env.add(web.url("site", "/feed"))
    assert (await env.poll(id_)).failure is None
    web.visits.clear()
    pages["/feed"] = now
    assert (await env.poll(id_)).kind is OutcomeKind.FAILED
    return id_


async def search_result(env: RunningService, id_: str) -> str:
    found = await explanation_of(env.app.store, id_, env.clock.now(), env.app.policy)
    return next(step.detail for step in found.steps if step.what == "feed search")


async def open_suggestions(env: RunningService, id_: str) -> list[Suggestion]:
    return [one for one in (await env.view(id_)).suggestions if one.kind is SuggestionKind.FEED]


@pytest.mark.parametrize(
    ("status", "visited"),
    [(200, ["/feed", "/feed", "/new.xml"]), (404, ["/feed", "/feed", "/new.xml"])],
)
async def test_y5_a_feed_linked_from_the_page_at_its_url_is_suggested(
    url: str, status: int, visited: list[str]
):
    pages: Site = {"/new.xml": OTHER, "/": html("Front page")}
    gone = html("We have moved.", head=link_to("/new.xml"), status=status)
    async with web_of(site=site_of(pages)) as web, running(url) as env:
        id_ = await lost(env, web, pages, now=gone)
        await env.tick()
        assert [visit.path for visit in web.visits] == visited
        (found,) = await open_suggestions(env, id_)
        assert found.detail["url"] == web.url("site", "/new.xml")
        assert found.detail["title"] == "Other feed"
        assert found.detail["found_on"] == web.url("site", "/feed")
        assert await search_result(env, id_) == f"found 1 feed on {web.url('site', '/feed')}"

        source = await env.source(id_)
        accepted = await suggestions.accept(env.app.store, source, found.id, env.clock.now())
        assert (accepted.url, accepted.consecutive_failures) == (found.detail["url"], 0)
        outcome = await env.poll(id_)
        assert [post.title for post in outcome.posts] == ["c"]  # the others are older
        undone = await suggestions.undo(env.app.store, accepted, found.id, env.clock.now())
        assert undone.url == source.url


async def test_y5_the_front_page_is_searched_if_the_page_at_the_url_has_no_feed(url: str):
    links = "".join(
        link_to(path, title)
        for path, title in [
            ("/comments.xml", "Comments"), ("/broken.xml", "Broken"), ("/feed", "The old one"),
            ("/new.xml", "News"), ("/4.xml", "Fourth"), ("/5.xml", "Fifth"),
        ]
    )  # fmt: skip
    pages: Site = {
        "/": html("Front page", head=links),
        "/broken.xml": html("no feed"),
        "/new.xml": OTHER,
        "/4.xml": GOOD,
        "/5.xml": GOOD,
        "/comments.xml": GOOD,
    }
    async with web_of(site=site_of(pages)) as web, running(url) as env:
        id_ = await lost(env, web, pages, now=Reply(410))
        await env.tick()
        # two pages and three candidates at most; feeds of comments last, the lost one never
        visited = [visit.path for visit in web.visits][1:]
        assert visited == ["/feed", "/", "/broken.xml", "/new.xml", "/4.xml"]
        found = await open_suggestions(env, id_)
        wanted = {web.url("site", "/new.xml"), web.url("site", "/4.xml")}
        assert {one.detail["url"] for one in found} == wanted
        assert "found 2 feeds" in await search_result(env, id_)


async def test_y5_a_search_without_a_result_is_made_once_a_week(url: str):
    pages: Site = {"/": html("Front page", head=link_to("/no.xml")), "/no.xml": Reply(500)}
    async with web_of(site=site_of(pages)) as web, running(url) as env:
        id_ = await lost(env, web, pages, now=Reply(404))
        await env.tick()
        assert [visit.path for visit in web.visits][1:] == ["/feed", "/", "/no.xml"]
        assert await open_suggestions(env, id_) == []
        assert "linked from the page at its URL and the front page" in await search_result(env, id_)
        for _ in range(3):
            web.visits.clear()
            await env.poll(id_, after=2 * DAY)
            await env.tick()
            assert [visit.path for visit in web.visits] == ["/feed"]
        web.visits.clear()
        await env.poll(id_, after=2 * DAY)  # the fifth failure disables it, the eighth day
        await env.tick()
        assert [visit.path for visit in web.visits] == ["/feed", "/feed", "/", "/no.xml"]
        assert not (await env.source(id_)).enabled


async def test_y5_an_auto_disabled_source_gets_its_suggestion_as_advice(url: str):
    pages: Site = {"/": html("Front page", head=link_to("/new.xml")), "/new.xml": OTHER}
    async with web_of(site=site_of(pages)) as web, running(url, max_failures=1) as env:
        id_ = await lost(env, web, pages, now=Reply(404))
        assert not (await env.source(id_)).enabled
        await env.tick()
        (found,) = await open_suggestions(env, id_)
        (incident,) = await checked_incidents(env.app.store, env.app.policy, env.clock.now(), None)
        assert incident.kind == "disabled"
        assert incident.advice.endswith(f"found for it: {web.url('site', '/new.xml')}")
        source = await env.source(id_)
        accepted = await suggestions.accept(env.app.store, source, found.id, env.clock.now())
        assert accepted.enabled
        assert accepted.disabled_reason is None
        await env.poll(id_)
        assert await checked_incidents(env.app.store, env.app.policy, env.clock.now(), None) == []


async def test_y5_a_feed_that_works_again_is_neither_searched_nor_suggested(url: str):
    pages: Site = {"/": html("Front page", head=link_to("/new.xml")), "/new.xml": OTHER}
    async with web_of(site=site_of(pages)) as web, running(url) as env:
        id_ = await lost(env, web, pages, now=Reply(404))
        pages["/feed"] = GOOD
        await env.poll(id_)
        web.visits.clear()
        await env.tick()
        assert web.visits == []
        pages["/feed"] = Reply(404)
        await env.poll(id_, after=HOUR)  # a search without a visit does not count
        await env.tick()
        assert len(await open_suggestions(env, id_)) == 1
        pages["/feed"] = GOOD
        await env.poll(id_)
        assert await open_suggestions(env, id_) == []


async def test_y5_y6_no_search_runs_during_a_storm(url: str):
    pages: Site = {"/": html("Front page", head=link_to("/new.xml")), "/new.xml": OTHER}
    async with web_of(site=site_of(pages)) as web, running(url) as env:
        ids = []
        for number in range(3):
            pages[f"/{number}"] = GOOD
            ids.append(await env.add(web.url("site", f"/{number}")))
            await env.poll(ids[-1])
        for number, id_ in enumerate(ids):
            pages[f"/{number}"] = Reply(404)
            await env.poll(id_)
        web.visits.clear()
        for _ in range(3):
            await env.tick(after=2 * HOUR)
        assert web.visits == []
        pages["/0"] = GOOD
        await env.poll(ids[0])  # ends the storm
        await env.poll(ids[1])  # it is the source's own failure now
        web.visits.clear()
        await env.tick(after=2 * HOUR)
        # "/2" is polled because its storm is over
        assert {visit.path for visit in web.visits} == {"/1", "/2", "/", "/new.xml"}


async def test_y5_candidates_on_other_hosts_are_visited_in_their_lanes(url: str):
    pages: Site = {}
    async with (
        web_of(site=site_of(pages), other=site_of({"/new.xml": OTHER})) as web,
        running(url) as env,
    ):
        pages["/"] = html("Front page", head=link_to(web.url("other", "/new.xml")))
        id_ = await lost(env, web, pages, now=Reply(404))
        await env.tick()
        (found,) = await open_suggestions(env, id_)
        assert found.detail["url"] == web.url("other", "/new.xml")
        assert len(web.visits_to("other")) == 1


async def test_y5_an_edit_of_the_url_ends_a_search(url: str):
    pages: Site = {"/": html("Front page", head=link_to("/new.xml")), "/new.xml": OTHER}
    async with web_of(site=site_of(pages)) as web, running(url) as env:
        id_ = await lost(env, web, pages, now=Reply(404))
        await edit_source(
            env.app.store, id_, {"url": web.url("site", "/new.xml")}, env.clock.now(), allowed=True
        )
        web.visits.clear()
        await env.tick()
        assert [visit.path for visit in web.visits] == ["/new.xml"]


async def test_f1_a_feed_that_leads_to_a_login_is_named_so_and_searched_for(url: str):
    login = html('<form>Log in: <input type="password"></form>')
    async with web_of(site=site_of(pages := {"/": html("Front page")})) as web, running(url) as env:
        id_ = await lost(env, web, pages, now=login)
        source = (await env.view(id_)).source
        assert source.last_error == f"{web.url('site', '/feed')} asks for a login"
        await env.tick()
        assert "/" in [visit.path for visit in web.visits]  # it has become a page (Y5)
