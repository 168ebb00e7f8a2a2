"""Sources with the same address share requests; each is decided and stored for itself (Y7)."""

import asyncio
import gc
from dataclasses import replace
from weakref import ref

from headwater.engine.events import Event, EventKind
from headwater.errors import BadStatus
from headwater.model import Answer, Entry, Outcome, Validators
from headwater.store.sources import SourceFilter
from tests.engine.conftest import RunningEngine
from tests.engine.test_service import FEED, polled

MINUTE = 60.0


def feed(*texts: str, etag: str) -> Answer:
    entries = tuple(Entry(text, text, f"{FEED}/{text}", None, None, text) for text in texts)
    return Answer(200, entries, validators=Validators(etag), body_hash=etag)


async def counts(env: RunningEngine) -> list[int]:
    found = await env.store.sources.find(SourceFilter(podcast_id="default"), limit=100)
    return [await env.store.posts.count(one.id) for one in sorted(found, key=lambda s: s.id)]


def test_y7_ten_sources_with_one_address_cause_one_request_per_interval(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, feed("one", "two", etag="1"))
        sources = [polled(f"s{n}", poll_interval_minutes=30) for n in range(10)]
        await env.store.sources.add_many(sources)
        await env.run(5 * MINUTE)
        assert len(env.fetch.times(FEED)) == 1
        assert await counts(env) == [2] * 10
        env.fetch.on(FEED, feed("one", "two", "three", etag="2"))
        await env.run(120 * MINUTE)
        assert 4 <= len(env.fetch.times(FEED)) <= 5
        assert await counts(env) == [3] * 10
        shared = await env.store.hosts.shared_requests(["example.org"])
        assert shared["example.org"] == 9 * len(env.fetch.times(FEED))

    engine.play(scenario)


def test_y7_f2_failures_are_counted_for_each_source_by_its_own_settings(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, BadStatus(404, "HTTP 404"))
        strict, patient = polled("s1", max_failures=1), polled("s2", consecutive_failures=2)
        await env.store.sources.add_many([strict, patient])
        await env.run(1)
        assert len(env.fetch.times(FEED)) == 1
        one, two = await env.source("s1"), await env.source("s2")
        assert (one.enabled, one.consecutive_failures) == (False, 1)
        assert (two.enabled, two.consecutive_failures) == (True, 3)

    engine.play(scenario)


def test_y7_d4_an_edit_of_one_source_discards_only_its_own_outcome(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, feed("one", etag="1"), seconds=10)
        await env.store.sources.add_many([polled("s1"), polled("s2")])
        await env.run(5)
        await env.store.sources.edit("s1", lambda s: replace(s, generation=s.generation + 1))
        await env.run(10)
        assert await counts(env) == [0, 1]

    engine.play(scenario)


def test_y7_p6_a_new_source_becomes_due_together_with_one_of_the_same_address(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, feed("one", etag="1"))
        await env.store.sources.add_many([polled("s1", poll_interval_minutes=30)])
        await env.run(5 * MINUTE)
        new = [replace(polled(f"n{n}"), last_polled=None) for n in range(3)]
        await env.store.sources.add_many(new)
        await env.run(120 * MINUTE)
        assert len(env.fetch.times(FEED)) <= 5
        assert await counts(env) == [1] * 4

    engine.play(scenario)


def test_y7_h1_outcomes_with_many_posts_are_recorded_one_after_the_other(engine):
    async def scenario(env: RunningEngine) -> None:
        env.fetch.on(FEED, feed(*(f"e{n}" for n in range(600)), etag="1"))
        await env.store.sources.add_many([polled(f"s{n}", include_history=True) for n in range(5)])
        alive: list[int] = []
        known: list[ref[Outcome]] = []

        def note(event: Event) -> None:
            gc.collect()
            outcomes = [outcome for one in known if (outcome := one()) is not None]
            alive.append(sum(len(outcome.posts) > 0 for outcome in outcomes))
            if event.outcome is not None:
                known.append(ref(event.outcome))

        env.service.events.listen(note, (EventKind.POLL_FINISHED,))
        await env.run(60)
        assert len(env.fetch.times(FEED)) == 1
        assert await counts(env) == [600] * 5
        assert len(alive) == 5
        assert max(alive) <= 1

    engine.play(scenario)


def test_y7_a_manual_poll_of_a_shared_request_reports_its_posts(engine):
    async def scenario(env: RunningEngine) -> list[int]:
        env.fetch.on(FEED, feed("one", "two", etag="1"), seconds=5)
        await env.store.sources.add_many([polled(f"s{n}") for n in range(3)])
        found = await asyncio.gather(*(env.service.poll_now(f"s{n}") for n in range(3)))
        assert len(env.fetch.times(FEED)) <= 2
        return [len(outcome.posts) for outcome in found if outcome is not None]

    assert engine.play(scenario) == [[2, 2, 2]]
