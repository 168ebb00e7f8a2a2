"""The webhooks page of a podcast (V2)."""

from tests.web.conftest import Visited
from tests.web.test_accounts_page import reported
from tests.web.test_hosts_page import EVIL, words

PATH = "/podcasts/default/webhooks"


async def test_v2_a_webhook_is_added_tested_and_removed(pages: Visited):
    assert PATH in await pages.text("/accounts")
    assert "None yet." in words(await pages.text(PATH))
    fields = {"url": "http://127.0.0.1:1/hook", "event": ["post.created"], "query": "title:river"}
    answer = await pages.send(PATH, fields)
    assert answer.status == 200
    store = pages.app.store
    (webhook,) = await store.webhooks.listed("default")
    sealed = (await store.database.fetch("SELECT ciphertext FROM webhooks"))[0][0]
    assert b"whsec_" in answer.body
    assert b"whsec_" not in bytes(sealed)
    shown = await pages.text(PATH)
    assert "whsec_" not in shown
    assert "title:river" in words(shown)

    tested = await pages.send(f"{PATH}/{webhook.id}/test")
    assert "A test message is on its way" in await reported(pages, tested)
    (message,) = await store.webhooks.deliveries(webhook.id, limit=10)
    assert "webhook.test" in words(await pages.text(PATH))
    again = await pages.send(f"{PATH}/{webhook.id}/deliveries/{message.id}/resend")
    assert "will be sent again" in await reported(pages, again)
    removed = await pages.send(f"{PATH}/{webhook.id}/delete", {"sure": "yes"})
    assert "The webhook is removed." in await reported(pages, removed)
    assert await store.webhooks.listed("default") == []


async def test_v2_a_wrong_address_or_query_is_explained_and_kept(pages: Visited):
    answer = await pages.send(PATH, {"url": "ftp://example.org", "event": ["post.created"]})
    assert answer.status == 422
    assert b'value="ftp://example.org"' in answer.body
    wrong = {"url": "https://example.org", "event": ["post.created"], "query": f"({EVIL}"}
    answer = await pages.send(PATH, wrong)
    assert answer.status == 422
    assert "Nothing was added" in words(answer.body.decode())
    assert EVIL.encode() not in answer.body
    assert (await pages.send(PATH, {"url": "https://example.org"})).status == 422  # no event
    assert await pages.app.store.webhooks.listed("default") == []
