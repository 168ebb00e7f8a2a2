"""The notifications page of a user, without JavaScript (Y3)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.api.conftest import settings_in
from tests.api.test_notices import an_incident, mail_settings
from tests.smtp_receiver import SmtpReceiver, receiving
from tests.web.conftest import Visited, visiting
from tests.web.test_accounts_page import reported
from tests.web.test_hosts_page import EVIL, words

PATH = "/users/default/notices"
MAIL = {"kind": "email", "target": "ann@example.org", "when": "now", "hour": "8"}
TOPIC = {"kind": "ntfy", "target": "http://ann:secret-word@127.0.0.1:1/topic", "when": "digest"}


@pytest_asyncio.fixture(loop_scope="module")
async def mail() -> AsyncIterator[SmtpReceiver]:
    async with receiving() as receiver:
        yield receiver


@pytest_asyncio.fixture(loop_scope="module")
async def mailing(tmp_path: Path, mail: SmtpReceiver) -> AsyncIterator[Visited]:
    """A dashboard with a mail server."""
    async for running in visiting(settings_in(tmp_path, **mail_settings(mail))):
        yield running


async def test_y3_a_channel_is_added_tested_changed_and_removed(
    mailing: Visited, mail: SmtpReceiver
):
    assert PATH in await mailing.text("/accounts")
    assert "Nowhere yet" in words(await mailing.text(PATH))
    added = await mailing.send(PATH, MAIL)
    assert "Saved." in await reported(mailing, added)
    tested = await mailing.send(f"{PATH}/test")
    shown = await reported(mailing, tested)
    assert "Test messages were sent" in shown
    assert "delivered Test message" in shown
    assert [message["To"] for message in mail.messages] == ["ann@example.org"]
    (channel,) = await mailing.app.store.channels.listed("default")
    changed = await mailing.send(PATH, MAIL | {"target": channel.id, "when": "digest"})
    assert "one message a day at 08:00 UTC" in await reported(mailing, changed)
    (same,) = await mailing.app.store.channels.listed("default")
    assert (same.id, same.is_digest) == (channel.id, True)
    removed = await mailing.send(f"{PATH}/remove", {"target": channel.id})
    assert "Removed" in await reported(mailing, removed)
    assert await mailing.app.store.channels.listed("default") == []


async def test_y3_errors_are_shown_at_the_form_and_nothing_is_changed(mailing: Visited):
    answer = await mailing.send(PATH, MAIL | {"target": f"{EVIL}@example.org"})
    assert answer.status == 422
    assert "Nothing was changed: must be an e-mail address" in words(answer.body.decode())
    assert EVIL.encode() not in answer.body
    for wrong in ({"kind": "apprise"}, {"hour": "24"}, {"hour": "x"}, {"when": ""}, {"kind": ""}):
        assert (await mailing.send(PATH, MAIL | wrong)).status == 422
    assert (await mailing.send(f"{PATH}/test")).status == 422
    assert (await mailing.send(f"{PATH}/remove", {"target": "x"})).status == 404
    assert await mailing.app.store.channels.listed("default") == []


async def test_y3_u6_the_page_shows_no_secret_of_a_topic(pages: Visited):
    await pages.send(PATH, TOPIC)
    shown = await pages.text(PATH)
    assert "127.0.0.1:1/topic" in shown
    assert "secret-word" not in shown
    assert "app.mail.host" in shown  # no mail server is configured


async def test_y3_the_overview_leads_from_a_problem_to_the_page(pages: Visited):
    body = {"type": "rss", "url": "http://127.0.0.1:1/feed"}
    await pages.post("/api/users/default/podcasts/default/sources", body)
    assert "Get a message about problems" not in await pages.text("/")
    await an_incident(pages)
    shown = await pages.text("/")
    assert "Get a message about problems" in shown
    assert PATH in shown


async def test_y3_users_see_their_own_page_only(pages: Visited):
    token = await pages.person("bee")
    shown = words(await pages.text("/users/bee/notices", token=token))
    assert "You get messages about problems" in shown
    await pages.text(PATH, status=404, token=token)


async def test_y3_without_a_webhook_the_page_links_to_where_one_is_added(pages: Visited):
    html = await pages.text(PATH)
    assert "Webhook, for a program: add one first" in words(html)
    assert 'href="/podcasts/default/webhooks"' in html
    hooks = "/api/users/default/podcasts/default/webhooks"
    answer = await pages.post(hooks, {"url": "http://127.0.0.1:1/hook"})
    assert answer.status == 201
    assert "add one first" not in await pages.text(PATH)
