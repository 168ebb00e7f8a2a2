"""Pages of new posts are visited in the lanes of their hosts, and their text is stored (T4)."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from headwater.errors import BadStatus, NameUnresolved, TimedOut
from headwater.model import Answer, Completeness, Entry, Post, TextFrom
from headwater.rules.policy import HostOverride
from headwater.source_settings import FullText
from tests.engine.conftest import RunningEngine
from tests.engine.test_service import FEED, polled
from tests.fakes import START
from tests.store.test_filter_changes import evaluate_all

MINUTE, HOUR = 60.0, 3600.0
TEASER = "The council approved the harbour bridge on Tuesday, said the mayor."
STORY = f"{TEASER} Opponents had asked for a tunnel, which is three times as expensive."
BLOCKED = "Sorry, you have been blocked. This website uses a security service. " * 3


def page_url(number: int, host: str = "pages.org") -> str:
    return f"https://{host}/{number}"


def teasers(count: int, host: str = "pages.org") -> Answer:
    """A feed of teasers, newest first."""
    entries = [
        Entry(
            id=f"{number}",
            title=f"Title {number}",
            url=page_url(number, host),
            published_at=START - timedelta(minutes=count - number),
            author=None,
            body=f"{TEASER} {number}",
            markdown=f"{TEASER} {number}",
        )
        for number in reversed(range(count))
    ]
    return Answer(200, tuple(entries))


def page(text: str = STORY) -> Answer:
    entry = Entry(None, "Page", None, None, None, text, markdown=f"# Page\n\n{text}")
    return Answer(200, (entry,))


def reader(**settings: Any) -> Any:
    return polled(full_text=FullText.ON, include_history=True, **settings)


async def posts_of(env: RunningEngine) -> dict[str, Post]:
    found = await env.store.posts.page(podcast_id="default", limit=100)
    return {post.url: post for post in found.items}


def test_t4_the_text_of_the_page_is_stored_beside_the_body(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(2))
        env.fetch.on(page_url(0), page())
        env.fetch.on(page_url(1), page(BLOCKED))
        await env.store.sources.add_many([reader()])
        await env.run(3 * MINUTE)
        posts = await posts_of(env)
        used, kept = posts[page_url(0)], posts[page_url(1)]
        assert (used.body, used.page_text) == (f"{TEASER} 0", STORY)
        assert (used.markdown, used.text_from) == (f"# Page\n\n{STORY}", TextFrom.PAGE)
        assert (used.completeness, used.full_text_error) == (Completeness.FULL, None)
        assert (kept.markdown, kept.page_text, kept.text_from) == (
            f"{TEASER} 1",
            None,
            TextFrom.FEED,
        )
        assert "something else" in (kept.full_text_error or "")
        assert await env.store.page_visits.count() == 0
        counts = env.service.metrics.page_visits
        assert counts == {"used": 1, "rejected": 1, "retried": 0, "failed": 0}
        await env.run(2 * HOUR)
        assert len(env.fetch.times(page_url(0))) == 1

    engine.play(scenario)


def test_t4_nothing_is_visited_unless_full_text_is_on(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(2))
        await env.store.sources.add_many([polled(include_history=True)])
        await env.run(5 * MINUTE)
        assert {url for url, _, _ in env.fetch.visits} == {FEED}
        assert len(await posts_of(env)) == 2

    engine.play(scenario)


def test_t4_p2_p3_pages_keep_the_delay_of_their_host_and_wait_for_polls(engine):
    override = {"pages.org": HostOverride(5)}

    async def scenario(env: RunningEngine) -> None:
        other = "https://pages.org/feed"
        env.fetch.on(FEED, teasers(25))
        env.fetch.on(other, Answer(304, unchanged=True), seconds=1)
        for number in range(25):
            env.fetch.on(page_url(number), page(), seconds=2)
        feed = polled("s2", other, poll_interval_minutes=1)
        await env.store.sources.add_many([reader(), feed])
        await env.run(6 * MINUTE)
        lane = sorted(v[1:] + v[:1] for v in env.fetch.visits if v[0] != FEED)
        gaps = [later[0] - earlier[1] for earlier, later in pairwise(lane)]
        assert min(gaps) >= 5
        visited = [url for _, _, url in lane if url != other]
        assert sorted(visited) == sorted(page_url(n) for n in range(5, 25))  # the newest 20
        polls = [began for began, _, url in lane if url == other]
        assert len(polls) > 2
        # behind its tick a poll waits for one page and its delay at most
        assert all((at - 1000) % 60 <= 7 for at in polls)
        assert env.fetch.most_open["pages.org"] == 1

    engine.with_policy(host_overrides=override).play(scenario)


def test_t4_pages_on_the_host_of_the_feed_have_the_delay_of_the_source(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(3, "example.org"))
        for number in range(3):
            env.fetch.on(page_url(number, "example.org"), page())
        await env.store.sources.add_many([reader(poll_delay_seconds=7)])
        await env.run(3 * MINUTE)
        times = sorted((began, ended) for _, began, ended in env.fetch.visits)
        assert len(times) == 4
        assert all(b[0] - a[1] >= 7 for a, b in pairwise(times))

    engine.play(scenario)


def test_t4_a_failing_page_is_tried_three_times_and_the_reason_is_kept(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(2))
        env.fetch.on(page_url(0), TimedOut("no response within 10 s"))
        env.fetch.on(page_url(1), BadStatus(404, "HTTP 404"))
        await env.store.sources.add_many([reader()])
        await env.run(7 * HOUR)
        assert len(env.fetch.times(page_url(0))) == 3
        assert len(env.fetch.times(page_url(1))) == 1
        posts = await posts_of(env)
        assert "no response within 10 s" in (posts[page_url(0)].full_text_error or "")
        assert "HTTP 404" in (posts[page_url(1)].full_text_error or "")
        assert await env.store.page_visits.count() == 0
        source = await env.source("s1")
        assert (source.consecutive_failures, source.url, source.last_error) == (0, FEED, None)

    engine.play(scenario)


def test_t4_p9_a_429_of_a_page_holds_its_host(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(2))
        limited = BadStatus(429, "HTTP 429", host="pages.org", hold_seconds=3600)
        for number in range(2):
            env.fetch.on(page_url(number), limited)
        await env.store.sources.add_many([reader()])
        await env.run(50 * MINUTE)
        assert len(env.fetch.visits) - len(env.fetch.times(FEED)) == 1
        state = await env.store.hosts.get("pages.org")
        assert state.hold is not None
        for number in range(2):
            env.fetch.on(page_url(number), page())
        await env.run(HOUR)
        assert all(post.page_text == STORY for post in (await posts_of(env)).values())

    engine.play(scenario)


@pytest.mark.parametrize("killed", [False, True])
def test_t4_s8_pending_visits_survive_a_restart_and_finished_ones_are_not_repeated(engine, killed):
    async def first(env: RunningEngine) -> list[str]:
        env.fetch.on(FEED, teasers(10))
        for number in range(10):
            env.fetch.on(page_url(number), page(), seconds=20)
        await env.store.sources.add_many([reader()])
        await env.run(MINUTE + 70)
        done = await posts_of(env)
        assert await env.store.page_visits.count() == 10 - sum(
            1 for post in done.values() if post.page_text
        )
        return [url for url, post in done.items() if post.page_text]

    async def second(env: RunningEngine) -> list[str]:
        for number in range(10):
            env.fetch.on(page_url(number), page())
        await env.run(5 * MINUTE)
        posts = await posts_of(env)
        assert all(post.page_text == STORY for post in posts.values())
        return [url for url, _, _ in env.fetch.visits if url != FEED]

    done, visited = engine.play(first, second, killed=killed)
    assert 0 < len(done) < 10
    assert 0 < len(visited) == len(set(visited))
    assert set(done).isdisjoint(visited)


def test_t4_turning_full_text_off_removes_pending_visits(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(4))
        await env.store.sources.add_many([reader()])
        await env.run(1)
        assert await env.store.page_visits.count() == 4
        await env.store.sources.edit("s1", lambda s: replace(s, full_text=FullText.OFF))
        assert await env.store.page_visits.count() == 0
        await env.run(5 * MINUTE)
        assert {url for url, _, _ in env.fetch.visits} == {FEED}

    engine.play(scenario)


def test_t4_b2_pages_of_posts_that_a_filter_hides_meanwhile_are_not_visited(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(4))
        env.fetch.on(page_url(3), page())
        await env.store.sources.add_many([reader()])
        await env.run(1)
        assert await env.store.page_visits.count() == 4
        block = "title:0 OR title:1 OR title:2"
        await env.store.sources.edit("s1", lambda s: replace(s, block=block))
        await evaluate_all(env.store, START)
        await env.run(5 * MINUTE)
        assert {url for url, _, _ in env.fetch.visits} == {FEED, page_url(3)}
        assert await env.store.page_visits.count() == 0

    engine.play(scenario)


def test_t4_s4_pages_of_a_disabled_source_wait(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(2))
        await env.store.sources.add_many([reader()])
        await env.run(1)
        await env.store.sources.edit("s1", lambda s: replace(s, enabled=False))
        await env.run(5 * MINUTE)
        assert {url for url, _, _ in env.fetch.visits} == {FEED}
        assert await env.store.page_visits.count() == 2

    engine.play(scenario)


def test_t4_g2_pages_wait_while_polling_is_paused(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(2))
        for number in range(2):
            env.fetch.on(page_url(number), page())
        await env.store.sources.add_many([reader()])
        await env.run(1)
        await env.service.pause(paused=True)
        await env.run(5 * MINUTE)
        assert {url for url, _, _ in env.fetch.visits} == {FEED}
        await env.service.pause(paused=False)
        await env.run(2 * MINUTE)
        assert await env.store.page_visits.count() == 0

    engine.play(scenario)


def test_t4_f6_an_outage_on_our_side_costs_no_attempt(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, teasers(1))
        env.fetch.on(page_url(0), NameUnresolved("no name server answered", name="pages.org"))
        others = [
            polled(f"o{n}", f"https://other{n}.org/", poll_interval_minutes=5) for n in range(20)
        ]
        await env.store.sources.add_many([reader(), *others])
        await env.run(30)
        for other in others:
            error = NameUnresolved("no name server answered", name=other.host)
            env.fetch.on(other.url, error)
        env.fetch.on(FEED, NameUnresolved("no name server answered", name="example.org"))
        await env.run(3 * HOUR)
        assert env.service.guard.lasts
        visit = await env.store.page_visits.pending(next(iter((await posts_of(env)).values())).id)
        assert visit is not None
        assert visit.attempts <= 1  # the one before the outage was detected
        for other in others:
            env.fetch.on(other.url, Answer(304, unchanged=True))
        env.fetch.on(page_url(0), page())
        await env.run(HOUR)
        assert (await posts_of(env))[page_url(0)].page_text == STORY

    engine.play(scenario)
