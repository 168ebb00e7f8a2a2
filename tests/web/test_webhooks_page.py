"""The webhooks of a podcast and of all podcasts on the dashboard (V2)."""

import re

import pytest

from headwater.model import TokenScope
from headwater.operations.tokens import add_token
from headwater.operations.webhooks import WebhookSettings, add_webhook, send_test
from headwater.store.webhooks import Webhook
from tests.api.stored_data import posts_of, source_of
from tests.web.conftest import Fields, Visited
from tests.web.test_accounts_page import reported
from tests.web.test_hosts_page import EVIL, words

OF_PODCAST, OF_ALL = "/podcasts/default/webhooks", "/webhooks"
OWNERS = {OF_PODCAST: "default", OF_ALL: None}
URL = "http://127.0.0.1:1/hook"
of_each = pytest.mark.parametrize("path", OWNERS)


async def add(pages: Visited, path: str) -> Webhook:
    """Add a webhook as the page does."""
    app = pages.app
    now, given = app.clock.now(), WebhookSettings(URL)
    made = await add_webhook(app.store, app.vault, OWNERS[path], given, now, allowed=True)
    return made.webhook


@of_each
async def test_v2_a_webhook_is_added_tested_and_removed(pages: Visited, path: str):
    assert f'href="{path}"' in await pages.text("/accounts")
    assert "Add a webhook" in words(await pages.text(path))
    fields = {"url": URL, "event": ["post.created"], "query": "title:river", "enabled": "yes"}
    answer = await pages.send(path, fields)
    assert answer.status == 200
    store = pages.app.store
    (webhook,) = await store.webhooks.listed(OWNERS[path])
    assert webhook.podcast_id == OWNERS[path]
    assert webhook.enabled
    sealed = (await store.database.fetch("SELECT ciphertext FROM webhooks"))[0][0]
    assert b"whsec_" in answer.body
    assert b"whsec_" not in bytes(sealed)
    shown = words(await pages.text(path))
    assert "title:river" in shown
    assert not re.search(r"whsec_\w", shown)

    own = f"{path}/{webhook.id}"
    assert own in await pages.text(path)
    tested = await pages.send(f"{own}/test")
    assert "A test message is on its way" in await reported(pages, tested)
    (message,) = await store.webhooks.deliveries(webhook.id, limit=10)
    assert f"webhook-id: {message.id}" in await pages.text(own)
    again = await pages.send(f"{own}/deliveries/{message.id}/resend")
    assert "will be sent again" in await reported(pages, again)
    removed = await pages.send(f"{own}/delete", {"sure": "yes"})
    assert "The webhook is removed." in await reported(pages, removed)
    assert await store.webhooks.listed(OWNERS[path]) == []


@of_each
async def test_v2_a_webhook_is_edited_disabled_and_enabled(pages: Visited, path: str):
    store, before = pages.app.store, await add(pages, path)
    await send_test(store, before, pages.app.clock.now())
    own = f"{path}/{before.id}"
    fields = {"url": f"{URL}/new", "event": ["source.disabled", "articles.expiring"]}
    saved = await pages.send(own, fields)
    assert "The settings are saved." in await reported(pages, saved)
    after = await store.webhooks.get(before.id, OWNERS[path])
    assert (after.url, after.events, after.query) == (f"{URL}/new", tuple(fields["event"]), None)
    assert not after.enabled
    shown = await pages.text(own)
    assert "Nothing is sent until it is enabled" in words(shown)
    # nothing can be sent
    assert re.findall(rf'action="{own}([^"]*)"', shown) == ["", "/delete"]

    await store.webhooks.disable(before.id, "the endpoint is gone (410)")
    for at in (path, own):
        assert "disabled because the endpoint is gone (410)" in words(await pages.text(at))
    await pages.send(own, fields | {"enabled": "yes"})
    enabled = await store.webhooks.get(before.id, OWNERS[path])
    assert (enabled.enabled, enabled.disabled_reason) == (True, None)


@of_each
async def test_v2_a_wrong_address_or_query_is_explained_and_kept(pages: Visited, path: str):
    answer = await pages.send(path, {"url": "ftp://example.org", "event": ["post.created"]})
    assert answer.status == 422
    assert b'value="ftp://example.org"' in answer.body
    wrong = {"url": "https://example.org", "event": ["post.created"], "query": f"({EVIL}"}
    answer = await pages.send(path, wrong)
    assert answer.status == 422
    assert "Nothing was added" in words(answer.body.decode())
    assert EVIL.encode() not in answer.body
    assert (await pages.send(path, {"url": "https://example.org"})).status == 422  # no event
    assert await pages.app.store.webhooks.listed(OWNERS[path]) == []


@of_each
async def test_v2_a_wrong_edit_changes_nothing_and_shows_no_secret(pages: Visited, path: str):
    before = await add(pages, path)
    secret = "whsec_dG9vIHNob3J0"
    fields: Fields = {"url": f"{URL}/kept", "event": ["post.created"], "secret": secret}
    answer = await pages.send(f"{path}/{before.id}", fields)
    shown = answer.body.decode()
    assert answer.status == 422
    assert "Nothing was changed: a secret has 24 to 64 bytes, this one has 9" in words(shown)
    assert f'value="{URL}/kept"' in shown
    assert secret not in shown
    assert await pages.app.store.webhooks.get(before.id, OWNERS[path]) == before


@of_each
async def test_v2_all_messages_can_be_reached(pages: Visited, path: str):
    store, webhook = pages.app.store, await add(pages, path)
    sent = [(await send_test(store, webhook, pages.app.clock.now())).id for _ in range(45)]
    found: list[str] = []
    url: str | None = f"{path}/{webhook.id}"
    while url is not None:
        html = await pages.text(url)
        found += re.findall(r"webhook-id: (\S+)", html)
        following = re.search(r'href="([^"]+)" rel="next"', html)
        url = following[1].replace("&amp;", "&") if following else None
    assert found == sent[::-1]


@of_each
async def test_v2_a_message_names_its_post_as_text(pages: Visited, path: str):
    webhook, source = await add(pages, path), await source_of(pages, enabled=False)
    await posts_of(pages, source, "body", title=EVIL)
    html = await pages.text(f"{path}/{webhook.id}")
    assert f"post.created {EVIL}" in words(html)
    assert EVIL not in html


async def test_v2_u2_only_administrators_reach_webhooks_of_all_podcasts(pages: Visited):
    store, now = pages.app.store, pages.app.clock.now()
    webhook = await add(pages, OF_ALL)
    message = await send_test(store, webhook, now)
    own = f"{OF_ALL}/{webhook.id}"
    forms = (OF_ALL, own, f"{own}/test", f"{own}/deliveries/{message.id}/resend", f"{own}/delete")
    admin, anna = await pages.admin(), await pages.person("anna")
    reader = (await add_token(store, None, "reader", now, scope=TokenScope.READ)).secret
    for path in (OF_ALL, own):
        assert (await pages.get(path, token=anna)).status == 403
        for token in (admin, reader):
            assert webhook.id in await pages.text(path, token=token)
    fields = {"url": URL, "event": ["post.created"], "enabled": "yes"}
    for token in (anna, reader):
        assert [(await pages.send(path, fields, token=token)).status for path in forms] == [403] * 5
    assert await store.webhooks.listed(None) == [webhook]
    assert 'href="/webhooks"' not in await pages.text("/accounts", token=anna)
    for path, status in zip(forms, (200, 303, 303, 303, 303), strict=True):
        assert (await pages.send(path, fields, token=admin)).status == status, path
    assert webhook.id not in [one.id for one in await store.webhooks.listed(None)]


async def test_v2_u2_a_webhook_of_a_podcast_is_not_one_of_all_podcasts(pages: Visited):
    of_podcast, of_all = await add(pages, OF_PODCAST), await add(pages, OF_ALL)
    assert (await pages.get(f"{OF_ALL}/{of_podcast.id}")).status == 404
    assert (await pages.get(f"{OF_PODCAST}/{of_all.id}")).status == 404
    assert of_all.id not in await pages.text(OF_PODCAST)
