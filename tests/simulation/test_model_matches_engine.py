"""The in-memory store behaves like the real one."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.engine.engine import Pace
from headwater.engine.local_service import LocalService
from headwater.errors import BadStatus, TimedOut
from headwater.model import Answer, DueSource, Outcome, Source, SourceType, Visit
from headwater.rules.admission import Known, NewByDate
from headwater.rules.failure_kinds import classify
from headwater.rules.incidents import IncidentChanges
from headwater.rules.outcome import edited, failed, succeeded
from headwater.rules.policy import HostOverride, Policy
from headwater.rules.schedule import first_contact
from headwater.simulation.memory_store import MemoryStore
from headwater.simulation.message_checks import MessageChecks
from headwater.simulation.search_checks import SearchChecks
from headwater.simulation.state_checks import StateChecks
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


class NoSearchChecks(SearchChecks):
    """Ignores searches."""

    def __init__(self) -> None: ...

    def started(self, source_id: str, now: datetime) -> None: ...


class NoMessageChecks(MessageChecks):
    """Ignores messages."""

    def __init__(self) -> None: ...

    def stored(self, receiver: str, id_: str, event: str, subject: str, due: datetime) -> None: ...


class NoChecks(StateChecks):
    """Ignores all writes."""

    def __init__(self) -> None:
        self.searches, self.messages = NoSearchChecks(), NoMessageChecks()

    def recorded(self, outcome: Outcome, after: Source) -> None: ...

    def discarded(self, outcome: Outcome) -> None: ...

    def rewritten(self, before: Source, after: Source, why: str) -> None: ...

    def storm_began(self, host: str, now: datetime) -> None: ...

    def storm_ended(self, host: str) -> None: ...

    def incidents_changed(self, changes: IncidentChanges) -> None: ...


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
    store = MemoryStore(POLICY, NoChecks(), lambda _: "default")
    store.sources.add(known)
    return store


def by_id(due: list[DueSource]) -> list[DueSource]:
    return sorted(due, key=lambda one: one.id)


@pytest.mark.parametrize("seed", range(4))
async def test_the_same_steps_leave_the_same_state(seed: int, tmp_path: Path) -> None:
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
            left = [await snapshot(store, now) for store in both]
            assert left[0] == left[1], step.__name__


async def snapshot(store: Any, now: datetime) -> tuple[object, ...]:
    """Return all state that the engine can query."""
    found = await store.sources.find(EVERYTHING, limit=100) if isinstance(store, Store) else None
    states = found if found is not None else list(store.sources.all())
    return (
        sorted_by_id(states),
        by_id(await store.sources.due(now, POLICY)),
        by_id(await store.sources.requested(now, POLICY)),
        by_id(await store.sources.requested(now, POLICY, since=now - timedelta(seconds=10))),
        sorted(source.id for source in await store.sources.without_contact(100)),
        sorted(await store.hosts.all(), key=lambda state: state.lane),
        await evidence(store, now),
        [await store.feed_searches.pending(source.id) for source in sorted_by_id(states)],
    )


def sorted_by_id(found: Iterable[Source]) -> list[Source]:
    return sorted(found, key=lambda source: source.id)


async def evidence(store: Any, now: datetime) -> tuple[object, ...]:
    """Return what the rules of incidents and storms read (Y1, Y6)."""
    found = await store.incidents.evidence(now, failing_hours=2)
    storms = store.storms
    return (
        sorted(found.sources, key=lambda state: state.id),
        found.working,
        found.storms,
        [await storms.lasting(f"host{n}.example") for n in range(5)],
        [await storms.others_polled(f"host{n}.example", now, ["x"], limit=9) for n in range(5)],
    )


async def contact(store: Any, now: datetime, rng: Random) -> int:
    never_polled = sorted(await store.sources.without_contact(100), key=lambda source: source.id)
    await store.sources.set_contact([first_contact(source, now, rng) for source in never_polled])
    return len(never_polled)


async def clamp_future_polls(store: Any, now: datetime, _: Random) -> int:
    return int(await store.sources.clamp_future_polls(now))


async def request(store: Any, now: datetime, rng: Random) -> None:
    await store.sources.request([f"source{rng.randrange(20):02}"], now)


async def enable(store: Any, now: datetime, rng: Random) -> Source:
    on = rng.random() < 0.7
    id_ = f"source{rng.randrange(20):02}"
    change = lambda source: edited(source, replace(source, enabled=on), now)  # noqa: E731
    return await store.sources.edit(id_, change)


async def poll(store: Any, now: datetime, rng: Random) -> list[Outcome]:
    due = by_id(await store.sources.due(now, POLICY))[:6]
    stored = []
    for one in due:
        subject = await store.sources.subject_for_poll(one.id)
        outcome = _outcome(subject, now, rng)
        visit = Visit(one.lane or "", now, now + timedelta(seconds=one.delay_seconds))
        outcome = replace(outcome, visits=(replace(visit, succeeded=True, resolved=True),))
        if rng.random() < 0.2:  # the failures of an outage are reverted during the poll (O2)
            await store.sources.edit(one.id, lambda s: replace(s, consecutive_failures=0))
        if rng.random() < 0.2:  # the source is edited during the poll (D4)
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
            subject, answer, NewByDate((), 0), Known(), started_at=began, now=now, policy=POLICY
        )
    return failed(subject, classify(error), started_at=began, now=now, policy=POLICY)


async def key_values(store: Any, now: datetime, rng: Random) -> tuple[str | None, str | None]:
    before = await store.key_values.set("poller", rng.choice((None, now.isoformat())))
    return before, await store.key_values.get("poller")


async def storm(store: Any, now: datetime, rng: Random) -> None:
    await store.storms.begin(f"host{rng.randrange(5)}.example", "404", now)


async def finish_storms(store: Any, now: datetime, _: Random) -> tuple[bool, list[str]]:
    return await store.storms.is_any_over(now), sorted(await store.storms.finish(now))


STEPS = (
    storm,
    finish_storms,
    contact,
    clamp_future_polls,
    request,
    enable,
    poll,
    poll,
    poll,
    key_values,
)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_engine_does_the_same_on_both(kind: str, tmp_path: Path) -> None:
    """With one source per host, both stores give the same polls at the same times and states."""
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
        await _run_twice(store, fetch, clock)
        return sorted(fetch.visits), sorted(store.sources.all(), key=lambda s: s.id)
    async with Store(open_database(f"sqlite:///{folder / 'run.db'}"), clock) as real:
        await real.prepare()
        await real.sources.add_many(known)
        await _run_twice(real, fetch, clock)
        found = await real.sources.find(EVERYTHING, limit=100)
        return sorted(fetch.visits), sorted(found, key=lambda s: s.id)


_REPLIES = (
    Answer(200, (an_entry(),)),
    Answer(304, unchanged=True),
    BadStatus(404, "HTTP 404"),
    TimedOut("too slow"),
    BadStatus(429, "HTTP 429", hold_seconds=1800),
)


async def _run_twice(store: Any, fetch: ScriptedFetch, clock: FakeClock) -> None:
    """Run, stop cleanly, set the clock back, run again."""

    async def no_key(_: object) -> str | None:
        return None

    for _ in range(2):
        service = LocalService(
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
