"""A source that has moved permanently is suggested its new URL, and only then (Y4)."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headwater.demo.demo_web import Reply, Request, conditional
from headwater.errors import UsageError
from headwater.model import OutcomeKind, SourceType, SuggestionKind
from headwater.operations import suggestions
from tests.self_healing.conftest import (
    DAY,
    HOUR,
    RunningService,
    Script,
    feed,
    html,
    redirect,
    rss,
    running,
)
from tests.system.conftest import web_of

NOW = datetime.now(UTC)
STORY = "The council approved the harbour bridge on Tuesday, said the mayor of the town. " * 5
PARKED = "This domain is for sale. Buy it now from the leading marketplace of names! " * 5


def moved_in_two_steps(status: int = 301, second: int = 308) -> Script:
    """Every path of a host redirects through `/moved` to the feed on another host."""

    def site(request: Request) -> Reply:
        if request.path == "/feed":
            return redirect(status, "/moved")
        return redirect(second, request.locate("new", "/feed.xml"))

    return site


def constant_feed(*names: str) -> Script:
    body = feed(*names, at=NOW)
    return lambda request: conditional(request, rss(body), modified_at=NOW)


async def poll_daily(env: RunningService, source_id: str, times: int) -> list[bool]:
    """Poll at once and then every day; return after which polls a move was suggested."""
    found = []
    for number in range(times):
        await env.poll(source_id, after=DAY if number else 0 * DAY)
        found.append((await env.view(source_id)).moved_to is not None)
    return found


async def test_y4_a_permanent_chain_is_suggested_after_five_polls_over_three_days(url: str):
    async with (
        web_of(old=moved_in_two_steps(), new=constant_feed("a", "b")) as web,
        running(url) as env,
    ):
        id_ = await env.add(web.url("old", "/feed"))
        for _ in range(6):  # six polls within an hour are not enough
            outcome = await env.poll(id_, after=HOUR / 10)
        assert outcome.status == 304  # and count, as do all others
        assert (await env.view(id_)).suggestions == ()
        followed = (await env.source(id_)).redirect
        assert followed is not None
        assert followed.polls == 6
        await env.poll(id_, after=3 * DAY)

        view = await env.view(id_)
        (suggestion,) = view.suggestions
        target = web.url("new", "/feed.xml")
        assert (view.moved_to, suggestion.kind) == (target, SuggestionKind.MOVE)
        assert suggestion.detail["url"] == target
        assert suggestion.detail["polls"] == 7
        assert env.clock.now() - suggestion.detail["since"] > 3 * DAY
        assert suggestion.detail["duplicate_of"] is None
        assert view.source.url == web.url("old", "/feed")


async def test_y4_four_polls_are_not_enough_however_long_they_take(url: str):
    async with (
        web_of(old=moved_in_two_steps(), new=constant_feed("a")) as web,
        running(url) as env,
    ):
        id_ = await env.add(web.url("old", "/feed"))
        assert await poll_daily(env, id_, 5) == [False, False, False, False, True]


async def test_y4_f5_d1_accepting_keeps_what_was_read_and_can_be_undone(url: str):
    names = ["c", "b", "a"]  # a and b are older than the source

    def new(request: Request) -> Reply:
        body = feed(*names, at=NOW)
        return conditional(request, rss(body), modified_at=NOW)

    async with web_of(old=moved_in_two_steps(), new=new) as web, running(url) as env:
        id_ = await env.add(web.url("old", "/feed"), label="mine")
        assert await poll_daily(env, id_, 5) == [*[False] * 4, True]
        before = await env.source(id_)
        posts = await env.posts()
        (suggestion,) = (await env.view(id_)).suggestions

        accepted = await suggestions.accept(env.app.store, before, suggestion.id, env.clock.now())
        assert accepted.url == web.url("new", "/feed.xml")
        assert accepted.requested_at is not None
        assert accepted.host != before.host
        assert (accepted.label, accepted.title) == ("mine", "River News")
        assert accepted.last_seen_id == before.last_seen_id
        visits = len(web.visits_to("old"))
        outcome = await env.poll(id_)
        assert (outcome.kind, outcome.status) == (OutcomeKind.UNCHANGED, 304)
        names.insert(0, "d")
        outcome = await env.poll(id_)
        assert len(web.visits_to("old")) == visits  # the old host is not asked any more
        assert len(await env.posts()) == len(posts) + 1  # nothing is imported again
        assert [post.title for post in outcome.posts] == ["d"]
        view = await env.view(id_)
        assert (view.moved_to, view.suggestions) == (None, ())
        assert view.moved_from is not None
        assert view.moved_from.url == before.url

        again = await suggestions.accept(env.app.store, view.source, suggestion.id, env.clock.now())
        assert again.url == accepted.url  # accepting twice changes nothing
        undone = await suggestions.undo(env.app.store, view.source, suggestion.id, env.clock.now())
        assert undone.url == before.url
        assert (await poll_daily(env, id_, 6)) == [False] * 6  # stays dismissed
        assert len(await env.posts()) <= len(posts) + 1
        with pytest.raises(UsageError, match="can be undone"):
            await suggestions.undo(env.app.store, undone, suggestion.id, env.clock.now())


def always(reply: Reply) -> Script:
    return lambda _: reply


def loop(request: Request) -> Reply:
    return redirect(301, "/feed" if request.path == "/other" else "/other")


NEVER: dict[str, tuple[SourceType, Script, Script]] = {
    "302": (SourceType.RSS, moved_in_two_steps(302, 302), constant_feed("a")),
    "307": (SourceType.RSS, moved_in_two_steps(307, 307), constant_feed("a")),
    "301 then 302": (SourceType.RSS, moved_in_two_steps(301, 302), constant_feed("a")),
    "307 then 308": (SourceType.RSS, moved_in_two_steps(307, 308), constant_feed("a")),
    "a loop": (SourceType.RSS, loop, constant_feed("a")),
    "a parked domain": (SourceType.RSS, moved_in_two_steps(), always(html(PARKED))),
    "a login page": (
        SourceType.RSS,
        moved_in_two_steps(),
        always(html("Please sign in", head='<input type="password">')),
    ),
    "a missing target": (SourceType.RSS, moved_in_two_steps(), always(Reply(404))),
}


@pytest.mark.parametrize("case", NEVER)
async def test_y4_other_redirects_are_never_suggested_or_adopted(url: str, case: str):
    type_, old, new = NEVER[case]
    async with web_of(old=old, new=new) as web, running(url, adopt_moves=True) as env:
        id_ = await env.add(web.url("old", "/feed"), type_, max_failures=100)
        assert await poll_daily(env, id_, 8) == [False] * 8
        assert (await env.source(id_)).url == web.url("old", "/feed")


def page_then_redirect(days: list[int], to: str) -> Script:
    def site(request: Request) -> Reply:
        days.append(1)
        if len(days) == 1:
            return html(STORY)
        return redirect(301, request.locate("new", to))

    return site


@pytest.mark.parametrize(
    ("to", "text", "is_suggested"),
    [
        ("/page", STORY, True),
        ("/page", STORY + " One more sentence.", True),
        ("/page", PARKED, False),
        ("/page", "Please log in to continue", False),
        ("/account/login", STORY, False),
    ],
)
async def test_y4_a_page_moves_only_to_the_same_page(
    url: str, to: str, text: str, is_suggested: bool
):
    old = page_then_redirect([], to)
    async with web_of(old=old, new=always(html(text))) as web, running(url) as env:
        id_ = await env.add(web.url("old", "/page"), SourceType.WEBSITE)
        assert await poll_daily(env, id_, 7) == [*[False] * 5, *[is_suggested] * 2]


async def test_y4_another_target_or_a_poll_without_redirect_starts_again(url: str):
    status, path = [301], ["/feed.xml"]

    def old(request: Request) -> Reply:
        if not status[0]:
            return rss(feed("a", at=NOW))
        return redirect(status[0], request.locate("new", path[0]))

    async with web_of(old=old, new=constant_feed("a")) as web, running(url) as env:
        id_ = await env.add(web.url("old", "/feed"))
        assert await poll_daily(env, id_, 5) == [*[False] * 4, True]
        path[0] = "/other.xml"
        assert await poll_daily(env, id_, 5) == [*[False] * 4, True]
        assert (await env.view(id_)).moved_to == web.url("new", "/other.xml")
        status[0] = 302
        assert await poll_daily(env, id_, 1) == [False]
        assert (await env.source(id_)).redirect is None
        status[0] = 301
        assert await poll_daily(env, id_, 4) == [False] * 4
        status[0] = 0
        assert await poll_daily(env, id_, 1) == [False]
        status[0] = 301
        assert await poll_daily(env, id_, 5) == [*[False] * 4, True]


async def test_y4_a_move_is_adopted_automatically_only_if_that_is_configured(url: str):
    async with (
        web_of(old=moved_in_two_steps(), new=constant_feed("a")) as web,
        running(url, adopt_moves=True) as env,
    ):
        id_ = await env.add(web.url("old", "/feed"))
        assert await poll_daily(env, id_, 5) == [False] * 5
        source, view = await env.source(id_), await env.view(id_)
        assert source.url == web.url("new", "/feed.xml")
        assert source.requested_at is not None
        assert view.moved_from is not None
        undone = await suggestions.undo(env.app.store, source, view.moved_from.id, env.clock.now())
        assert await poll_daily(env, id_, 6) == [False] * 6
        assert (await env.source(id_)).url == undone.url == web.url("old", "/feed")


async def test_y4_a_dismissed_move_stays_dismissed(url: str):
    async with (
        web_of(old=moved_in_two_steps(), new=constant_feed("a")) as web,
        running(url) as env,
    ):
        id_ = await env.add(web.url("old", "/feed"))
        assert (await poll_daily(env, id_, 5))[-1]
        source = await env.source(id_)
        (suggestion,) = (await env.view(id_)).suggestions
        await suggestions.dismiss(env.app.store, source, suggestion.id)
        assert await poll_daily(env, id_, 3) == [False] * 3
        with pytest.raises(UsageError, match="dismissed"):
            await suggestions.accept(env.app.store, source, suggestion.id, env.clock.now())


async def test_y4_a_target_that_another_source_has_is_shown_as_a_duplicate(url: str):
    async with (
        web_of(old=moved_in_two_steps(), new=constant_feed("a")) as web,
        running(url) as env,
    ):
        other = await env.add(web.url("new", "/feed.xml"))
        id_ = await env.add(web.url("old", "/feed"))
        assert (await poll_daily(env, id_, 5))[-1]
        (suggestion,) = (await env.view(id_)).suggestions
        assert suggestion.detail["duplicate_of"] == other
        assert f"source {other} of the podcast has this URL" in suggestions.summary(suggestion)


async def test_y4_n6_credentials_are_kept_on_their_own_origin_only(url: str):
    def secret(request: Request) -> Reply:
        assert request.headers.get("authorization")
        return redirect(301, "/b") if request.path == "/a" else rss(feed("a", at=NOW))

    make: Callable[[str], str] = lambda address: address.replace("http://", "http://ann:pw@")  # noqa: E731
    async with web_of(old=secret) as web, running(url) as env:
        id_ = await env.add(make(web.url("old", "/a")))
        assert (await poll_daily(env, id_, 5))[-1]
        assert (await env.view(id_)).moved_to == make(web.url("old", "/b"))
