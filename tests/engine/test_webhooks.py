"""Messages are sent in order and again until they are accepted; endpoints are independent (V2)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from headwater.engine.hosts.access import HostAccess, HostLocker, HostVisit
from headwater.engine.hosts.gates import Gates
from headwater.engine.webhooks import DELIVER_SECONDS, Deliverer
from headwater.errors import BadRedirect, SecretError, TimedOut
from headwater.model import Hold, HostState, SealedSecret, Visit
from headwater.rules.policy import Policy
from headwater.rules.webhook_messages import secret_text
from headwater.store import Store, open_database
from headwater.store.webhooks import WebhookDelivery
from tests.engine.conftest import Engine, RunningEngine
from tests.fakes import FakeClock, in_virtual_time
from tests.store.test_webhooks import a_webhook

SECRET = secret_text(bytes(24))
HOUR = timedelta(hours=1)
Reply = int | Exception | Callable[[], Awaitable[int]]


@dataclass
class Posted:
    status: int


@dataclass
class Endpoints:
    """Scripted endpoints: replies by host, the last one repeated; and what they received."""

    clock: FakeClock
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    received: list[tuple[float, str, str]] = field(default_factory=list)  # time, host, id

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, visit: HostVisit | None
    ) -> Posted:
        assert body
        assert visit is not None
        visit.check()
        host = url.split("/")[2].split(".")[0]
        self.received.append((self.clock.monotonic(), host, headers["webhook-id"]))
        script = self.replies.get(host, [204])
        reply = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(reply, Exception):
            raise reply
        return Posted(reply if isinstance(reply, int) else await reply())

    def ids(self, host: str = "w") -> list[str]:
        return [id_ for _, name, id_ in self.received if name == host]


class Scene:
    """A deliverer over a real database, on virtual time."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self.endpoints = Endpoints(clock)
        self.hosts = HostAccess(Gates((), clock), store.hosts, Policy())
        self.may_send = True
        self.deliverer = self.restarted()

    def restarted(
        self, secret: Callable[[SealedSecret, str], str] = lambda *_: SECRET
    ) -> Deliverer:
        post = self.endpoints.post
        self.deliverer = Deliverer(
            self.store, self.clock, Random(7), post, secret, self.hosts, lambda: self.may_send
        )
        return self.deliverer

    async def webhook(self, id_: str = "w", messages: int = 0) -> list[str]:
        """Add an endpoint with messages, and return their ids in order."""
        webhook = a_webhook(id_, None)
        await self.store.webhooks.add(webhook, SealedSecret("k", b"n", b"c"))
        now = self.clock.now()
        return [
            await self.store.webhooks.add_test(webhook, "webhook.test", str(n), now)
            for n in range(messages)
        ]

    async def run(self, seconds: float) -> None:
        for _ in range(round(seconds / DELIVER_SECONDS)):
            await self.deliverer.run()
            await self.clock.sleep(DELIVER_SECONDS)

    async def delivery(self, id_: str, webhook_id: str = "w") -> WebhookDelivery:
        return await self.store.webhooks.delivery(webhook_id, id_)


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    """Runs a scenario in virtual time."""

    def run(scenario: Callable[[Scene], Awaitable[None]]) -> None:
        async def scene() -> None:
            clock = FakeClock()
            async with Store(open_database(f"sqlite:///{tmp_path / 'test.db'}"), clock) as store:
                await store.prepare()
                await scenario(Scene(store, clock))

        in_virtual_time(scene)

    return run


def test_v2_messages_are_sent_once_in_order(play):
    async def scenario(scene: Scene) -> None:
        ids = await scene.webhook(messages=50)
        await scene.run(5)
        assert scene.endpoints.ids() == ids
        done = await scene.delivery(ids[0])
        assert (done.attempts, done.status, done.next_attempt_at) == (1, 204, None)
        assert done.delivered_at is not None
        await scene.run(5)
        assert scene.endpoints.ids() == ids

    play(scenario)


def test_v2_a_failed_message_is_retried_by_its_schedule_and_given_up(play):
    async def scenario(scene: Scene) -> None:
        (id_,) = await scene.webhook(messages=1)
        scene.endpoints.replies["w"] = [500]
        await scene.run(10)
        assert scene.endpoints.ids() == [id_] * 2
        for hours in (0.1, 0.6, 2.3, 5.6, 11.1, 15.5, 22.1, 26.5):
            scene.clock.set_by(timedelta(hours=hours))
            await scene.run(400)  # the endpoint pauses for at most 300 s
        assert scene.endpoints.ids() == [id_] * 10
        given_up = await scene.delivery(id_)
        assert (given_up.attempts, given_up.next_attempt_at) == (10, None)
        assert (given_up.delivered_at, given_up.error) == (None, "HTTP 500")

    play(scenario)


@pytest.mark.parametrize("reply", [500, 301, 429, TimedOut("too slow"), BadRedirect("redirects")])
def test_v2_whatever_is_not_2xx_is_a_failure(play, reply):
    async def scenario(scene: Scene) -> None:
        (id_,) = await scene.webhook(messages=1)
        scene.endpoints.replies["w"] = [reply, 200]
        await scene.run(3)
        failed = await scene.delivery(id_)
        assert failed.delivered_at is None
        assert failed.error == (f"HTTP {reply}" if isinstance(reply, int) else str(reply))
        await scene.run(10)
        assert (await scene.delivery(id_)).delivered_at is not None
        assert scene.endpoints.ids() == [id_, id_]

    play(scenario)


def test_v2_an_endpoint_that_is_down_gets_few_requests_and_loses_nothing(play):
    async def scenario(scene: Scene) -> None:
        ids = await scene.webhook(messages=100)
        scene.endpoints.replies["w"] = [503]
        await scene.run(600)
        assert len(scene.endpoints.received) < 12
        scene.endpoints.replies["w"] = [204]
        await scene.run(700)
        delivered = scene.endpoints.received
        assert {id_ for _, _, id_ in delivered} == set(ids)
        left = [id_ for id_ in ids if (await scene.delivery(id_)).delivered_at is None]
        assert left == []

    play(scenario)


def test_v2_410_disables_an_endpoint(play):
    async def scenario(scene: Scene) -> None:
        ids = await scene.webhook(messages=2)
        scene.endpoints.replies["w"] = [410]
        await scene.run(1000)
        assert scene.endpoints.ids() == ids[:1]
        (webhook,) = await scene.store.webhooks.listed(None)
        assert (webhook.enabled, webhook.disabled_reason) == (
            False,
            "the endpoint responded with 410 Gone",
        )

    play(scenario)


def test_v2_a_slow_endpoint_delays_no_other(play):
    async def scenario(scene: Scene) -> None:
        async def slow() -> int:
            await asyncio.sleep(14)
            return 200

        await scene.webhook("slow", messages=5)
        ids = await scene.webhook("quick", messages=30)
        scene.endpoints.replies["slow"] = [slow]
        await scene.run(3)
        assert scene.endpoints.ids("quick") == ids
        assert len(scene.endpoints.ids("slow")) == 1
        await scene.run(80)
        assert len(scene.endpoints.ids("slow")) == 5

    play(scenario)


def test_v2_a_message_in_flight_is_sent_again_after_a_kill(play):
    async def scenario(scene: Scene) -> None:
        async def never() -> int:
            await asyncio.sleep(10_000)
            return 200

        ids = await scene.webhook(messages=3)
        scene.endpoints.replies["w"] = [204, never, 204]
        await scene.run(2)
        await scene.deliverer.stop()
        scene.restarted()
        await scene.run(2)
        assert scene.endpoints.ids() in (
            [ids[0], ids[1], ids[1], ids[2]],  # the result of the first one was stored
            [ids[0], ids[1], ids[0], ids[1], ids[2]],
        )

    play(scenario)


def test_v2_a_process_that_may_not_send_any_more_stops_after_the_current_message(play):
    async def scenario(scene: Scene) -> None:
        async def last() -> int:
            scene.may_send = False
            return 204

        ids = await scene.webhook(messages=5)
        scene.endpoints.replies["w"] = [204, last, 204]
        await scene.run(30)
        assert scene.endpoints.ids() == ids[:2]
        assert (await scene.delivery(ids[1])).delivered_at is not None
        scene.may_send = True
        await scene.run(3)
        assert scene.endpoints.ids() == ids

    play(scenario)


class SharedLocks(HostLocker):
    """Locks that several processes share."""

    def __init__(self) -> None:
        self.held: set[str] = set()

    async def lock(self, lane: str, *_: object) -> HostState | None:
        if lane in self.held:
            return None
        self.held.add(lane)
        return HostState(lane)

    async def unlock(self, lane: str, visit: Visit | None) -> None:
        assert visit is None, "a message causes no delay"
        self.held.remove(lane)


def test_v2_a_second_process_sends_nothing_that_the_first_is_sending(play):
    async def scenario(scene: Scene) -> None:
        async def slow() -> int:
            await asyncio.sleep(10)
            return 204

        ids = await scene.webhook(messages=3)
        scene.endpoints.replies["w"] = [slow, 204]
        scene.hosts = replace(scene.hosts, locker=SharedLocks())
        first = scene.restarted()
        await first.run()
        await scene.clock.sleep(1)
        second = scene.restarted()
        assert second is not first
        await scene.run(8)
        assert scene.endpoints.ids() == ids[:1]
        await scene.run(5)
        assert scene.endpoints.ids() == ids

    play(scenario)


def test_v2_p3_messages_neither_wait_for_the_polls_of_their_host_nor_delay_them(play):
    async def scenario(scene: Scene) -> None:
        gates = scene.hosts.gates
        ids = await scene.webhook(messages=3)
        gates.hold("w.example.org", Hold(scene.clock.now() + HOUR, scene.clock.now(), "429"))
        await scene.run(2)
        assert scene.endpoints.ids() == ids
        gates.prune()
        assert gates.names() == ["w.example.org"]
        assert [state.lane for state in await scene.store.hosts.all()] == []

    play(scenario)


def test_v2_o4_a_tick_corrects_messages_of_a_clock_that_was_ahead(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[list[str]]:
        webhook, store, clock = a_webhook("w", None), env.store.webhooks, env.clock
        await store.add(webhook, SealedSecret("k", b"n", b"c"))
        await store.add_test(webhook, "webhook.test", "1", clock.now() + timedelta(hours=5))
        before = await store.with_due(clock.now())
        await env.service.tick()
        return [before, await store.with_due(clock.now())]

    assert engine.play(scenario) == [[[], ["w"]]]


def test_v2_an_endpoint_whose_secret_cannot_be_read_delays_no_other(play):
    async def scenario(scene: Scene) -> None:
        def secret(_sealed: SealedSecret, webhook_id: str) -> str:
            if webhook_id == "broken":
                raise SecretError("another master key")
            return SECRET

        await scene.webhook("broken", messages=2)
        ids = await scene.webhook("w", messages=2)
        scene.restarted(secret)
        await scene.run(20)
        assert scene.endpoints.ids() == ids
        assert scene.endpoints.ids("broken") == []

    play(scenario)
