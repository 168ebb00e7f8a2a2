"""The store in memory and the real one tell the same story."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.engine.service import Pace, Service
from headwater.errors import BadStatus, TimedOut
from headwater.model import Answer, DueSource, Outcome, Source, SourceType, Visit
from headwater.rules.admission import NO_ENTRIES, NOTHING
from headwater.rules.failure import classify
from headwater.rules.outcome import edited, failed, succeeded
from headwater.rules.policy import HostOverride, Policy
from headwater.rules.schedule import first_contact
from headwater.simulation.memory_store import MemoryStore
from headwater.store import Store, open_database
from headwater.store.sources import SourceFilter
from tests.factories import a_source, an_entry
from tests.fakes import START, FakeClock, ScriptedFetch, in_virtual_time

POLICY = Policy(
    max_failures=3,
    type_delay_seconds={SourceType.WEBSITE: 2},
    host_overrides={"*.example": HostOverride(1)},
)
EVERYTHING = SourceFilter()


class Nobody:
    """Watches nothing."""

    def recorded(self, outcome: Outcome, after: Source) -> None: ...

    def discarded(self, outcome: Outcome) -> None: ...

    def rewritten(self, before: Source, after: Source, why: str) -> None: ...


def sources(count: int, rng: Random) -> list[Source]:
    return [
        a_source(
            id=f"source{number:02}",
            url=f"https://host{number % 5}.example/{number}",
            host=f"host{number % 5}.example",
            type=rng.choice((SourceType.RSS, SourceType.WEBSITE)),
            created_at=START + timedelta(milliseconds=number),
            poll_interval_minutes=rng.choice((1, 5, 30, 1440)),
            poll_delay_seconds=rng.choice((None, 0, 7)),
            max_backoff_hours=rng.choice((None, 1)),
            enabled=rng.random() < 0.9,
        )
        for number in range(count)
    ]


def in_memory(known: list[Source]) -> MemoryStore:
    store = MemoryStore(POLICY, Nobody(), lambda _: "default")
    store.add(known)
    return store


def lined_up(due: list[DueSource]) -> list[DueSource]:
    return sorted(due, key=lambda one: one.id)


@pytest.mark.parametrize("seed", range(4))
async def test_the_same_steps_leave_the_same_behind(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    known = sources(20, rng)
    async with Store(open_database(f"sqlite:///{tmp_path / 'tie.db'}"), FakeClock()) as real:
        await real.prepare()
        await real.sources.add_many(known)
        both: tuple[Any, Any] = (real, in_memory(known))
        now = START
        for _ in range(60):
            now += timedelta(milliseconds=rng.choice((1, 60_000, 600_000, 7_200_000, -9_000_000)))
            step, chance = rng.choice(STEPS), rng.getrandbits(32)
            one, other = [await step(store, now, Random(chance)) for store in both]
            assert one == other, step.__name__
            left = [await picture(store, now) for store in both]
            assert left[0] == left[1], step.__name__


async def picture(store: Any, now: datetime) -> tuple[object, ...]:
    """Everything that the engine could ask for."""
    found = await store.sources.find(EVERYTHING, limit=100) if isinstance(store, Store) else None
    states = found if found is not None else list(store.sources.all())
    return (
        sorted(states, key=lambda source: source.id),
        lined_up(await store.sources.due(now, POLICY)),
        lined_up(await store.sources.requested(now, POLICY)),
        lined_up(await store.sources.requested(now, POLICY, since=now - timedelta(seconds=10))),
        sorted(source.id for source in await store.sources.without_contact(100)),
        sorted(await store.hosts.all(), key=lambda state: state.lane),
    )


async def contact(store: Any, now: datetime, rng: Random) -> int:
    strangers = sorted(await store.sources.without_contact(100), key=lambda source: source.id)
    await store.sources.set_contact([first_contact(source, now, rng) for source in strangers])
    return len(strangers)


async def bring_back(store: Any, now: datetime, _: Random) -> int:
    return int(await store.sources.bring_back(now))


async def request(store: Any, now: datetime, rng: Random) -> None:
    await store.sources.request([f"source{rng.randrange(20):02}"], now)


async def enable(store: Any, now: datetime, rng: Random) -> Source:
    on = rng.random() < 0.7
    id_ = f"source{rng.randrange(20):02}"
    change = lambda source: edited(source, replace(source, enabled=on), now)  # noqa: E731
    return await store.sources.edit(id_, change)


async def poll(store: Any, now: datetime, rng: Random) -> list[Outcome]:
    due = lined_up(await store.sources.due(now, POLICY))[:6]
    stored = []
    for one in due:
        subject = await store.sources.subject_for_poll(one.id)
        outcome = _outcome(subject, now, rng)
        visit = Visit(one.lane or "", now, now + timedelta(seconds=one.delay_seconds))
        outcome = replace(outcome, visits=(replace(visit, succeeded=True, resolved=True),))
        if rng.random() < 0.2:  # the failures of an outage are given back meanwhile (O2)
            await store.sources.edit(one.id, lambda s: replace(s, consecutive_failures=0))
        if rng.random() < 0.2:  # somebody edits the source meanwhile (D4)
            await store.sources.edit(one.id, lambda s: replace(s, generation=s.generation + 1))
        stored.append(await store.record(outcome))
    return stored


def _outcome(subject: Any, now: datetime, rng: Random) -> Outcome:
    began = now - timedelta(seconds=1)
    host, held = subject.source.host, rng.uniform(1, 999)
    limited = BadStatus(429, "HTTP 429", host=host, hold_seconds=held)
    error = rng.choice((None, None, TimedOut("late"), BadStatus(404, "HTTP 404"), limited))
    if error is None:
        answer = Answer(304, unchanged=True)
        return succeeded(
            subject, answer, NO_ENTRIES, NOTHING, started_at=began, now=now, policy=POLICY
        )
    return failed(subject, classify(error), started_at=began, now=now, policy=POLICY)


async def facts(store: Any, now: datetime, rng: Random) -> tuple[str | None, str | None]:
    before = await store.facts.set("poller", rng.choice((None, now.isoformat())))
    return before, await store.facts.get("poller")


STEPS = (contact, bring_back, request, enable, poll, poll, poll, facts)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_engine_does_the_same_on_both(kind: str, tmp_path: Path) -> None:
    """Hosts answer alike, one source each: the same polls at the same moments, the same states."""
    visits, states = in_virtual_time(lambda: _run(kind, tmp_path))
    assert len(visits) > 50
    if kind == "memory":
        return
    other_visits, other_states = in_virtual_time(lambda: _run("memory", tmp_path))
    assert visits == other_visits
    assert states == other_states


async def _run(kind: str, folder: Path) -> tuple[list[tuple[str, float, float]], list[Source]]:
    clock = FakeClock()
    known = [
        a_source(
            id=f"source{number}",
            url=f"https://host{number}.example/",
            host=f"host{number}.example",
            created_at=START + timedelta(milliseconds=number),
            poll_interval_minutes=5 + number,
            last_polled=START - timedelta(hours=1),
        )
        for number in range(8)
    ]
    fetch = ScriptedFetch(clock)
    for number, source in enumerate(known):
        fetch.on(source.url, _REPLIES[number % len(_REPLIES)], seconds=1)
    if kind == "memory":
        store: Any = in_memory(known)
        await _play(store, fetch, clock)
        return sorted(fetch.visits), sorted(store.sources.all(), key=lambda s: s.id)
    async with Store(open_database(f"sqlite:///{folder / 'run.db'}"), clock) as real:
        await real.prepare()
        await real.sources.add_many(known)
        await _play(real, fetch, clock)
        found = await real.sources.find(EVERYTHING, limit=100)
        return sorted(fetch.visits), sorted(found, key=lambda s: s.id)


_REPLIES = (
    Answer(200, (an_entry(),)),
    Answer(304, unchanged=True),
    BadStatus(404, "HTTP 404"),
    TimedOut("too slow"),
    BadStatus(429, "HTTP 429", hold_seconds=1800),
)


async def _play(store: Any, fetch: ScriptedFetch, clock: FakeClock) -> None:
    """Run, end cleanly, have the clock set back, run again."""

    async def no_key(_: object) -> str | None:
        return None

    for _ in range(2):
        service = Service(
            store=store,
            fetch=fetch,
            key_for=no_key,
            clock=clock,
            policy=POLICY,
            pace=Pace(),
            rng=Random(7),
        )
        async with service:
            stop = asyncio.Event()
            running = asyncio.create_task(service.run(stop))
            await asyncio.sleep(3590)
            stop.set()
            await running
        clock.set_by(timedelta(hours=-3))
