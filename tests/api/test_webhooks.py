"""Webhooks over the API, with real endpoints on loopback (V2)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from headwater.operations.key_rotation import rotate_master_key
from tests.api.conftest import DEFAULT, OWN, Served, serving, settings_in
from tests.api.stored_data import refusal, source_of
from tests.factories import a_post
from tests.store.store_data import a_success

WEBHOOKS = f"{DEFAULT}/webhooks"


@dataclass
class Receiver:
    """An endpoint, and the requests that it received."""

    port: int = 0
    status: int = 204
    location: str | None = None
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{OWN}:{self.port}/hook"

    @property
    def messages(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((dict(request.headers), await request.read()))
        headers = {} if self.location is None else {"Location": self.location}
        return web.Response(status=self.status, headers=headers)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    application = web.Application()
    application.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, OWN, 0)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def polling(served: Served) -> AsyncIterator[None]:
    """The service runs, and with it the delivery of messages."""
    stop = asyncio.Event()
    running = asyncio.create_task(served.service.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.05)


async def test_v2_new_posts_are_delivered_and_can_be_verified(served_by_each: Served):
    served = served_by_each
    package = pytest.importorskip("standardwebhooks")
    async with receiving() as receiver:
        answer = await served.post(WEBHOOKS, {"url": receiver.url, "events": ["post.created"]})
        assert answer.status == 201
        assert answer.headers["Cache-Control"] == "no-store"
        made = answer.json
        assert answer.headers["Location"] == f"{WEBHOOKS}/{made['id']}"
        source = await source_of(served, enabled=False)  # no poll of it starts
        posts = [a_post(name, source_id=source.id) for name in "abc"]
        await served.app.store.record(a_success(source, posts, started_at=served.app.clock.now()))
        async with polling(served):
            await until(lambda: len(receiver.requests) == 3)
    assert [message["data"]["title"] for message in receiver.messages] == [
        "The a title",
        "The b title",
        "The c title",
    ]
    for headers, body in receiver.requests:
        assert headers["Content-Type"] == "application/json"
        verified = package.Webhook(made["secret"]).verify(body, headers)
        assert verified["type"] == "post.created"
        with pytest.raises(package.WebhookVerificationError):
            package.Webhook(made["secret"]).verify(body + b" ", headers)

    listed = (await served.get(f"{WEBHOOKS}/{made['id']}/deliveries?limit=2")).json
    newest = listed["items"][0]
    assert json.loads(newest["payload"])["data"]["title"] == "The c title"
    assert (newest["attempts"], newest["status"], newest["error"]) == (1, 204, None)
    cursor = listed["nextCursor"]
    rest = (await served.get(f"{WEBHOOKS}/{made['id']}/deliveries?cursor={cursor}")).json
    assert len(rest["items"]) == 1


async def test_v2_a_webhook_is_listed_replaced_and_deleted_without_its_secret(served: Served):
    made = (await served.post(WEBHOOKS, {"url": "https://example.org/hook"})).json
    assert made["secret"].startswith("whsec_")
    shown = (await served.get(f"{WEBHOOKS}/{made['id']}")).json
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert (await served.get(WEBHOOKS)).json["items"] == [shown]
    changed = shown | {"query": "title:river", "events": ["source.disabled"], "enabled": False}
    answer = await served.put(f"{WEBHOOKS}/{made['id']}", changed)
    assert answer.json == changed
    assert (await served.delete(f"{WEBHOOKS}/{made['id']}")).status == 204
    assert (await served.get(f"{WEBHOOKS}/{made['id']}")).status == 404
    entries = await served.app.store.audit.newest(limit=10)
    assert [entry.action for entry in reversed(entries)] == [
        "webhook.add",
        "webhook.edit",
        "webhook.remove",
    ]
    assert not any(made["secret"] in entry.detail for entry in entries)


async def test_v2_a_test_message_is_sent_and_resent_with_the_same_id(served: Served):
    async with receiving() as receiver, polling(served):
        made = (await served.post("/api/webhooks", {"url": receiver.url})).json
        assert made["podcastId"] is None
        answer = await served.post(f"/api/webhooks/{made['id']}/test")
        assert answer.status == 202
        await until(lambda: len(receiver.requests) == 1)
        again = f"/api/webhooks/{made['id']}/deliveries/{answer.json['id']}/resend"
        assert (await served.post(again)).status == 202
        await until(lambda: len(receiver.requests) == 2)
        assert (await served.post(again.replace("msg_", "msg_0"))).status == 404
    ids = [headers["webhook-id"] for headers, _ in receiver.requests]
    assert ids == [answer.json["id"]] * 2
    assert [message["type"] for message in receiver.messages] == ["webhook.test"] * 2


async def test_y8_v2_a_user_cannot_flood_a_host_with_test_messages(served: Served):
    secret = await served.person("ann")
    path = "/api/users/ann/podcasts/ann/webhooks"
    new = {"url": "http://127.0.0.1:1/hook", "events": ["post.created"]}
    hook = (await served.post(path, new, token=secret)).json["id"]
    sent = [await served.post(f"{path}/{hook}/test", token=secret) for _ in range(10)]
    assert {answer.status for answer in sent} == {202}
    refused = await served.post(f"{path}/{hook}/test", token=secret)
    assert (refused.status, "retry-after" in refused.headers) == (429, True)
    delivery = sent[0].json["id"]
    again = await served.post(f"{path}/{hook}/deliveries/{delivery}/resend", token=secret)
    assert again.status == 429


async def test_v2_redirects_are_not_followed_and_410_disables(served: Served):
    async with receiving() as receiver, receiving() as other, polling(served):
        receiver.status, receiver.location = 307, other.url
        made = (await served.post(WEBHOOKS, {"url": receiver.url})).json
        test = (await served.post(f"{WEBHOOKS}/{made['id']}/test")).json
        await until(lambda: len(receiver.requests) == 1)
        receiver.status, receiver.location = 410, None
        await until(lambda: len(receiver.requests) == 2)  # after 5 seconds

        async def disabled() -> Any:
            return (await served.get(f"{WEBHOOKS}/{made['id']}")).json["disabledReason"]

        async with asyncio.timeout(30):
            while await disabled() is None:
                await asyncio.sleep(0.05)
        assert other.requests == []
        listed = (await served.get(f"{WEBHOOKS}/{made['id']}/deliveries")).json["items"]
        assert [(one["id"], one["attempts"], one["status"]) for one in listed] == [
            (test["id"], 2, 410)
        ]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"url": "http://10.0.0.1/hook"}, "url", "not a public address"),
        ({"url": "http://localhost/hook"}, "url", "localhost"),
        ({"url": "ftp://example.org/hook"}, "url", "http"),
        ({"url": "https://example.org", "events": ["post.removed"]}, "events", "no event"),
        ({"url": "https://example.org", "events": []}, "events", "at least one"),
        ({"url": "https://example.org", "secret": "whsec_c2hvcnQ="}, "secret", "24 to 64 bytes"),
        ({"url": "https://example.org", "secret": "short"}, "secret", "whsec_"),
        ({"url": "https://example.org", "query": "title:"}, "query", ""),
    ],
)
async def test_v2_bad_input_is_refused_with_its_place(
    tmp_path: Any, body: dict[str, Any], field: str, message: str
):
    settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": False})
    async with serving(settings) as served:
        answer = await served.post(WEBHOOKS, body)
        assert message in refusal(answer)[1]
        assert answer.status == 422
        assert [error["field"] for error in answer.json["errors"]] == [field]
        assert (await served.get(WEBHOOKS)).json["items"] == []


async def test_v2_an_internal_endpoint_is_refused_when_it_is_sent_to(tmp_path: Any):
    """A name may lead to another address than when it was added: each connection is checked."""
    async with receiving() as receiver:
        async with serving(settings_in(tmp_path)) as served:
            made = (await served.post(WEBHOOKS, {"url": receiver.url})).json
            await served.post(f"{WEBHOOKS}/{made['id']}/test")
        settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": False})
        async with serving(settings) as served, polling(served):
            async with asyncio.timeout(30):
                listed: list[Any] = []
                while not (listed and listed[0]["attempts"]):
                    await asyncio.sleep(0.05)
                    path = f"{WEBHOOKS}/{made['id']}/deliveries"
                    listed = (await served.get(path)).json["items"]
        assert "not a public address" in listed[0]["error"]
        assert receiver.requests == []


async def test_u5_v2_secrets_are_rotated_with_the_master_key(served: Served):
    package = pytest.importorskip("standardwebhooks")
    async with receiving() as receiver:
        made = (await served.post(WEBHOOKS, {"url": receiver.url})).json
        rotation = await rotate_master_key(served.app.store, served.app.master_keys)
        assert (rotation.resealed, rotation.unread, rotation.forgotten) == (1, [], 1)
        await served.post(f"{WEBHOOKS}/{made['id']}/test")
        async with polling(served):
            await until(lambda: len(receiver.requests) == 1)
    headers, body = receiver.requests[0]
    assert package.Webhook(made["secret"]).verify(body, headers)["type"] == "webhook.test"


async def test_a_path_with_an_invalid_podcast_is_refused(served: Served) -> None:
    """Neither an error of the service, nor the webhook of all podcasts with this id."""
    made = await served.post("/api/webhooks", {"url": "https://example.org/hook"})
    podcast = f"/api/users/default/podcasts/{'0' * 201}/webhooks"
    assert (await served.get(podcast)).status == 422
    answer = await served.get(f"{podcast}/{made.json['id']}")
    assert answer.status == 404, answer.body
