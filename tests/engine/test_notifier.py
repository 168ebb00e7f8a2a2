"""Channels are told about incidents at once or once a day, and again until they accept it (Y3)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from headwater.engine.hosts.access import HostAccess, HostVisit
from headwater.engine.hosts.gates import Gates
from headwater.engine.notifier import Notifier
from headwater.engine.webhooks import DELIVER_SECONDS, Deliverer
from headwater.errors import NotSent, TimedOut
from headwater.fetch.net.smtp import MailServer
from headwater.rules.channels import Channel, ChannelChoice, ChannelKind
from headwater.rules.incidents import Incident, IncidentChanges, IncidentKind, Severity
from headwater.rules.notice_messages import Notice
from headwater.rules.policy import Policy
from headwater.rules.webhook_messages import WebhookEvent, secret_text
from headwater.store import Store, open_database
from tests.fakes import FakeClock, in_virtual_time
from tests.store.test_webhooks import SEALED, a_webhook

MAIL = ChannelChoice(ChannelKind.EMAIL, "ann@example.org")
TOPIC = ChannelChoice(ChannelKind.NTFY, "https://ntfy.sh/topic")
SECRET = secret_text(bytes(24))


@dataclass
class Posted:
    status: int


@dataclass
class Receivers:
    """A mail server, an ntfy server and an endpoint, which can be down; and what they received."""

    clock: FakeClock
    is_down: bool = False
    hangs: bool = False
    mails: list[EmailMessage] = field(default_factory=list)
    posts: list[tuple[datetime, str, bytes, Mapping[str, str]]] = field(default_factory=list)
    attempts: int = 0
    server: MailServer = field(
        default_factory=lambda: MailServer("mail.example", "headwater@example.org")
    )
    sent_at: list[datetime] = field(default_factory=list)
    hashes: tuple[str, ...] = ()
    notices: list[tuple[str, Notice]] = field(default_factory=list)  # of Apprise

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, visit: HostVisit | None
    ) -> Posted:
        assert visit is not None
        visit.check()
        self.attempts += 1
        if self.is_down:
            raise TimedOut("too slow")
        self.posts.append((self.clock.now(), url, body, headers))
        return Posted(200)

    async def send(self, *message: Any) -> None:
        self.attempts += 1
        if self.hangs:
            await asyncio.sleep(10_000)
        if self.is_down:
            raise NotSent("the mail server did not respond in time")
        if isinstance(message[0], EmailMessage):
            self.mails.append(message[0])
            self.sent_at.append(self.clock.now())
        else:
            self.notices.append((message[0], message[1]))

    @property
    def subjects(self) -> list[str]:
        return [mail["Subject"].removeprefix("Headwater: ") for mail in self.mails]


class Scene:
    """A deliverer over a real database, on virtual time."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self.receivers = Receivers(clock)
        self.hosts = HostAccess(Gates((), clock), store.hosts, Policy())
        self.deliverer = self.restarted()

    def restarted(self) -> Deliverer:
        receivers: Any = self.receivers
        apprise = receivers if receivers.hashes else None
        notifier = Notifier(
            self.store, self.clock, receivers.post, lambda *_: SECRET, receivers, apprise,
            dashboard="https://hw.example.org",
        )  # fmt: skip
        self.deliverer = Deliverer(
            self.store, self.clock, Random(7), receivers.post, lambda *_: SECRET, self.hosts,
            lambda: True, notifier=notifier,
        )  # fmt: skip
        return self.deliverer

    async def channels(self, *choices: ChannelChoice) -> list[Channel]:
        await self.store.channels.replace("default", choices, self.clock.now())
        return await self.store.channels.listed("default")

    async def opened(self, id_: str = "river") -> Incident:
        incident = Incident(
            id_, IncidentKind.FAILING, Severity.ERROR, "default", f"{id_}.example",
            f"{id_} fails", "Look at it.", self.clock.now(),
        )  # fmt: skip
        await self.store.incidents.apply(IncidentChanges(opened=[incident]))
        return incident

    async def closed(self, incident: Incident) -> None:
        over = replace(incident, closed_at=self.clock.now())
        await self.store.incidents.apply(IncidentChanges(closed=[over]))

    async def run(self, seconds: float) -> None:
        for _ in range(round(seconds / DELIVER_SECONDS)):
            await self.deliverer.run()
            await self.clock.sleep(DELIVER_SECONDS)


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs a scenario in virtual time."""

    def run(scenario: Callable[[Scene], Awaitable[None]]) -> None:
        async def scene() -> None:
            clock = FakeClock()
            async with Store(open_database(f"sqlite:///{tmp_path / 'test.db'}"), clock) as store:
                await store.prepare()
                await scenario(Scene(store, clock))

        in_virtual_time(scene)

    return run


def test_y3_beginning_and_end_are_one_message_each(play: Play):
    async def scenario(scene: Scene) -> None:
        await scene.channels(MAIL, TOPIC)
        incident = await scene.opened()
        await scene.run(3)
        await scene.closed(incident)
        await scene.run(3)
        await scene.run(60)
        assert scene.receivers.subjects == ["river fails", "resolved: river fails"]
        assert [url for _, url, _, _ in scene.receivers.posts] == [TOPIC.target] * 2

    play(scenario)


def test_y3_a_mail_has_text_html_and_safe_headers(play: Play):
    async def scenario(scene: Scene) -> None:
        await scene.channels(MAIL)
        await scene.opened("flüsse\r\nBcc: eve@example.org")
        await scene.run(2)
        (mail,) = scene.receivers.mails
        assert mail["To"] == "ann@example.org"
        assert mail["From"] == "Headwater <headwater@example.org>"
        assert mail["Bcc"] is None
        assert mail["Auto-Submitted"] == "auto-generated"
        assert mail["Message-ID"].endswith("@example.org>")
        text, html = (part.get_content() for part in mail.iter_parts())
        assert "flüsse Bcc: eve@example.org fails" in text
        assert "<b>flüsse" in html
        assert b"\nBcc" not in bytes(mail)

    play(scenario)


def test_y3_an_ntfy_message_has_a_title_and_a_priority(play: Play):
    async def scenario(scene: Scene) -> None:
        await scene.channels(TOPIC)
        incident = await scene.opened("flüsse")
        await scene.run(2)
        await scene.closed(incident)
        await scene.run(2)
        (_, _, body, begun), (_, _, _, ended) = scene.receivers.posts
        assert b"Look at it." in body
        assert begun["Title"].isascii()
        assert begun["Title"].startswith("=?utf-8?")
        assert (begun["Priority"], begun["Tags"]) == ("default", "warning")
        assert begun["Click"] == f"https://hw.example.org/#incident-{quote(incident.id)}"
        assert ended["Click"] == "https://hw.example.org/"
        assert ended["Tags"] == "white_check_mark"

    play(scenario)


def test_y3_a_digest_is_one_message_when_its_hour_begins(play: Play):
    async def scenario(scene: Scene) -> None:
        at = scene.clock.now()
        hour = (at.hour + 3) % 24
        await scene.channels(replace(MAIL, is_digest=True, hour=hour))
        over = await scene.opened("lake")
        await scene.opened("river")
        await scene.run(60)
        await scene.closed(over)
        assert scene.receivers.mails == []
        due = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=3)
        scene.clock.set_by(due - scene.clock.now() - timedelta(seconds=5))
        await scene.run(3)
        assert scene.receivers.mails == []
        await scene.run(10)
        assert scene.receivers.subjects == ["1 problem, 1 resolved"]
        assert scene.receivers.sent_at[0] >= due
        scene.clock.set_by(timedelta(days=1))
        await scene.run(10)
        assert len(scene.receivers.mails) == 1

    play(scenario)


def test_y3_what_happens_after_the_hour_is_in_the_next_digest(play: Play):
    async def scenario(scene: Scene) -> None:
        hour = scene.clock.now().hour
        await scene.channels(replace(TOPIC, is_digest=True, hour=hour))
        for day in range(3):
            await scene.opened(f"day{day}")
            scene.clock.set_by(timedelta(days=1))
            await scene.run(3)
        assert len(scene.receivers.posts) == 3
        assert [f"day{day}".encode() in scene.receivers.posts[day][2] for day in range(3)] == [
            True, True, True,
        ]  # fmt: skip

    play(scenario)


def test_y3_a_receiver_that_was_down_gets_one_message_about_all(play: Play):
    async def scenario(scene: Scene) -> None:
        await scene.channels(MAIL, TOPIC)
        scene.receivers.is_down = True
        first = await scene.opened("lake")
        await scene.run(20)
        await scene.opened("river")
        await scene.closed(first)
        await scene.run(3600)
        assert scene.receivers.attempts < 80
        assert scene.receivers.mails == []
        scene.receivers.is_down = False
        scene.clock.set_by(timedelta(hours=3))
        await scene.run(400)
        assert scene.receivers.subjects == ["1 problem, 1 resolved"]
        assert len(scene.receivers.posts) == 1
        await scene.run(400)
        assert len(scene.receivers.mails) == 1

    play(scenario)


def test_y3_a_restart_between_event_and_message_loses_nothing(play: Play):
    async def scenario(scene: Scene) -> None:
        await scene.channels(MAIL)
        await scene.opened()
        scene.receivers.hangs = True
        await scene.run(2)  # being sent
        await scene.deliverer.stop()
        scene.receivers.hangs = False
        scene.restarted()
        await scene.run(2)
        assert scene.receivers.subjects == ["river fails"]
        scene.restarted()
        await scene.run(5)
        assert len(scene.receivers.mails) == 1

    play(scenario)


def test_y3_a_message_is_given_up_after_the_last_attempt(play: Play):
    async def scenario(scene: Scene) -> None:
        (channel,) = await scene.channels(MAIL)
        scene.receivers.is_down = True
        await scene.opened()
        for hours in (0, 0.1, 0.6, 2.3, 5.6, 11.1, 15.5, 22.1, 26.5, 30):
            scene.clock.set_by(timedelta(hours=hours))
            await scene.run(400)
        assert scene.receivers.attempts == 10
        assert await scene.store.channels.pending(channel.id) is None
        (last,) = (await scene.store.channels.last_results("default")).values()
        assert last.error == "the mail server did not respond in time"

    play(scenario)


def test_y3_many_problems_do_not_use_up_the_attempts_of_a_message(play: Play):
    async def scenario(scene: Scene) -> None:
        await scene.channels(MAIL)
        scene.receivers.is_down = True
        for number in range(15):  # one every seven minutes while the mail server is down
            await scene.opened(f"river{number}")
            await scene.run(420)
        scene.receivers.is_down = False
        await scene.run(900)
        assert scene.receivers.subjects == ["15 problems"]

    play(scenario)


def test_y3_a_webhook_gets_signed_messages(play: Play):
    async def scenario(scene: Scene) -> None:
        hook = a_webhook("w", None, events=(WebhookEvent.POST_CREATED,))
        await scene.store.webhooks.add(hook, SEALED)
        await scene.channels(ChannelChoice(ChannelKind.WEBHOOK, "w"))
        await scene.opened()
        await scene.run(2)
        ((_, url, body, headers),) = scene.receivers.posts
        assert url == hook.url
        assert b'"type":"incident.opened"' in body
        assert headers["webhook-signature"].startswith("v1,")

    play(scenario)


def test_y3_targets_of_the_configuration_follow_it(play: Play):
    async def scenario(scene: Scene) -> None:
        scene.receivers.hashes = ("one", "two")
        scene.restarted()
        await scene.run(1)
        await scene.opened()
        await scene.run(2)
        assert {target for target, _ in scene.receivers.notices} == {"one", "two"}
        scene.receivers.hashes = ("two",)
        scene.restarted()
        await scene.run(1)
        await scene.opened("lake")
        await scene.run(2)
        assert [target for target, _ in scene.receivers.notices][2:] == ["two"]

    play(scenario)


def test_y3_without_a_mail_server_the_error_says_so(play: Play):
    async def scenario(scene: Scene) -> None:
        post: Any = scene.receivers.post
        notifier = Notifier(scene.store, scene.clock, post, lambda *_: SECRET)
        (channel,) = await scene.channels(MAIL)
        with pytest.raises(NotSent, match=r"app\.mail\.host is not set"):
            await notifier.send(channel, Notice("n", "s", "t", "h", "{}"))

    play(scenario)
