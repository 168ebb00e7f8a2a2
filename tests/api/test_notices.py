"""Notices over the API, with a real mail server and real HTTP receivers on loopback (Y3)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.rules.incidents import Incident, IncidentChanges, IncidentKind, Severity
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.api.test_incidents import failing_source
from tests.api.test_webhooks import polling, receiving, until
from tests.smtp_receiver import SmtpReceiver
from tests.smtp_receiver import receiving as receiving_mail

NOTICES = "/api/users/default/notices"
MAIL = {"kind": "email", "address": "ann@example.org"}


def mail_settings(receiver: SmtpReceiver, **options: Any) -> dict[str, Any]:
    return {
        "app.mail.host": "127.0.0.1",
        "app.mail.port": receiver.port,
        "app.mail.from": "headwater@example.org",
        "app.mail.tls": "none",
        **options,
    }


async def an_incident(served: Served, user_id: str | None = "default") -> Incident:
    now = served.app.clock.now()
    host = "river.example"
    incident = Incident(
        f"incident-{user_id}", IncidentKind.DISK if user_id is None else IncidentKind.FAILING,
        Severity.ERROR, user_id, host, f"{host} fails for {user_id}", "Look at it.", now,
    )  # fmt: skip
    await served.app.store.incidents.apply(IncidentChanges(opened=[incident]))
    return incident


async def test_y3_channels_are_stored_and_can_be_sent_back(served_by_each: Served):
    served = served_by_each
    assert (await served.get(NOTICES)).json == {"channels": []}
    hook = (await served.post(f"{DEFAULT}/webhooks", {"url": "http://127.0.0.1:1/hook"})).json["id"]
    body: dict[str, list[dict[str, Any]]] = {
        "channels": [
            MAIL,
            {"kind": "ntfy", "url": "http://127.0.0.1:1/topic", "when": "now", "hour": 7},
            {"kind": "webhook", "id": hook, "when": "digest", "hour": 0},
            {"kind": "email", "address": "bee@EXAMPLE.org", "when": "digest"},
        ]
    }
    answer = await served.put(NOTICES, body)
    assert answer.status == 200, answer.body
    assert answer.json["channels"] == [
        {**MAIL, "when": "now", "hour": None, "last": None},
        {**body["channels"][1], "last": None},
        {**body["channels"][2], "last": None},
        {"kind": "email", "address": "bee@example.org", "when": "digest", "hour": 8, "last": None},
    ]
    shown = await served.get(NOTICES)
    assert shown.json == answer.json
    assert (await served.put(NOTICES, shown.json)).json == shown.json
    assert (await served.put(NOTICES, {"channels": []})).json == {"channels": []}


@pytest.mark.parametrize(
    "channel",
    [
        {"kind": "email", "address": "ann"},
        {"kind": "email", "address": "ann@example.org\r\nBcc: eve@example.org"},
        {"kind": "email", "address": "ann@example.org", "url": "https://ntfy.sh/x"},
        {"kind": "email"},
        {"kind": "ntfy", "url": "ftp://example.org/x"},
        {"kind": "ntfy", "url": "https://ntfy.sh"},
        {"kind": "webhook", "id": "unknown"},
        {"kind": "apprise", "url": "json://127.0.0.1"},
        {"kind": "smoke signal"},
        {**MAIL, "when": "tomorrow"},
        {**MAIL, "when": "digest", "hour": 24},
        {**MAIL, "when": "digest", "hour": -1},
        {**MAIL, "hour": 8.5},
    ],
)
async def test_y3_a_wrong_channel_changes_nothing(served: Served, channel: dict[str, Any]):
    await served.put(NOTICES, {"channels": [MAIL]})
    answer = await served.put(NOTICES, {"channels": [MAIL, channel]})
    assert answer.status == 422, answer.body
    assert len((await served.get(NOTICES)).json["channels"]) == 1


async def test_y3_there_are_few_channels_and_each_once(served: Served):
    many = [{"kind": "email", "address": f"a{n}@example.org"} for n in range(11)]
    assert (await served.put(NOTICES, {"channels": many})).status == 422
    assert (await served.put(NOTICES, {"channels": [MAIL, MAIL]})).status == 422


async def test_y3_n3_a_private_topic_is_refused_unless_allowed(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": False})
    async with serving(settings) as served:
        for url in ("http://127.0.0.1:1/topic", "http://localhost/t", "http://10.0.0.1/t"):
            answer = await served.put(NOTICES, {"channels": [{"kind": "ntfy", "url": url}]})
            assert answer.status == 422
            assert "private" in answer.json["detail"] or "public" in answer.json["detail"]


async def test_y3_a_test_reaches_every_channel_and_says_what_failed(tmp_path: Path):
    async with receiving_mail() as mail, receiving() as topic, receiving() as broken:
        broken.status = 500
        async with serving(settings_in(tmp_path, **mail_settings(mail))) as served:
            hook = await served.post(f"{DEFAULT}/webhooks", {"url": topic.url})
            channels = [
                MAIL,
                {"kind": "ntfy", "url": topic.url},
                {"kind": "webhook", "id": hook.json["id"], "when": "digest"},
                {"kind": "ntfy", "url": broken.url},
            ]
            assert (await served.put(NOTICES, {"channels": channels})).status == 200
            answer = await served.post(f"{NOTICES}/test")
            assert answer.status == 200, answer.body
            last = [one["last"] for one in answer.json["channels"]]
            assert [one["delivered"] for one in last] == [True, True, True, False]
            assert [one["error"] for one in last] == [None, None, None, "HTTP 500"]
            assert {one["event"] for one in last} == {"notice.test"}
            assert (await served.get(NOTICES)).json == answer.json
    (message,) = mail.messages
    assert message["Subject"] == "Headwater: test message"
    (quiet, _), (signed, _) = topic.requests
    assert quiet["Priority"] == "min"
    assert "webhook-signature" in signed
    assert len(broken.requests) == 1  # a test is not tried again


async def test_y3_without_channels_there_is_nothing_to_test(served: Served):
    assert (await served.post(f"{NOTICES}/test")).status == 422


async def test_y3_users_test_seldom_and_see_only_their_own(served: Served):
    secret = await served.person("bee")
    path = "/api/users/bee/notices"
    channel = {"kind": "ntfy", "url": "http://127.0.0.1:1/topic"}
    assert (await served.put(path, {"channels": [channel]}, token=secret)).status == 200
    first = await served.post(f"{path}/test", token=secret)
    assert first.json["channels"][0]["last"]["delivered"] is False
    again = await served.post(f"{path}/test", token=secret)
    assert again.status == 429
    assert int(again.headers["Retry-After"]) <= 10
    assert (await served.get(NOTICES, token=secret)).status == 404


async def test_y3_incidents_reach_mail_and_topic_once_begun_and_once_over(tmp_path: Path):
    async with (
        receiving_mail() as mail,
        receiving() as topic,
        serving(settings_in(tmp_path, **mail_settings(mail))) as served,
    ):
        await served.put(NOTICES, {"channels": [MAIL, {"kind": "ntfy", "url": topic.url}]})
        source = await failing_source(served, label="Rivers")
        async with polling(served):
            await until(lambda: len(mail.messages) == 1 and len(topic.requests) == 1)
            await served.patch(f"{DEFAULT}/sources/{source.id}", {"enabled": False})
            await until(lambda: len(mail.messages) == 2 and len(topic.requests) == 2)
        last = [one["last"] for one in (await served.get(NOTICES)).json["channels"]]
        assert [one["event"] for one in last] == ["incident.closed"] * 2
    begun, over = (message["Subject"] for message in mail.messages)
    assert begun.startswith("Headwater: “Rivers” has failed since")
    assert over.startswith("Headwater: resolved: “Rivers”")
    assert mail.messages[0].get_body(("html",)) is not None
    assert b"Rivers" in topic.requests[0][1]


async def test_y3_a_failure_shorter_than_the_window_sends_nothing(tmp_path: Path):
    """The rules of incidents wait; a source that fails for some hours is none."""
    async with (
        receiving_mail() as mail,
        serving(settings_in(tmp_path, **mail_settings(mail))) as served,
    ):
        await served.put(NOTICES, {"channels": [MAIL]})
        body = {"type": "rss", "url": "http://127.0.0.1:1/feed"}
        source = f"{DEFAULT}/sources/{(await served.post(f'{DEFAULT}/sources', body)).json['id']}"
        async with polling(served):
            await served.post(f"{source}/poll")
        assert (await served.get(source)).json["consecutiveFailures"] > 0
        await served.service.incident_watch.check()
        await served.delete(source)
        await served.service.incident_watch.check()
        later = served.app.clock.now() + timedelta(days=2)
        assert await served.app.store.channels.with_due(later) == []
    assert mail.messages == []


async def test_y3_u6_the_password_of_the_mail_server_is_in_no_answer_and_no_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    login = {"app.mail.username": "ann", "app.mail.password": "wrong-horse-battery"}
    async with (
        receiving_mail(SmtpReceiver(login=("ann", "right"))) as mail,
        serving(settings_in(tmp_path, **mail_settings(mail, **login))) as served,
    ):
        await served.put(NOTICES, {"channels": [MAIL]})
        answer = await served.post(f"{NOTICES}/test")
        async with polling(served):
            await an_incident(served)
            await until(lambda: mail.commands.count("AUTH") == 2)
        assert "wrong-horse" not in repr(served.app.settings)
    assert answer.json["channels"][0]["last"]["error"] == (
        "the mail server refused the user name or password (535)"
    )
    shown = capfd.readouterr()
    assert "wrong-horse" not in shown.out + shown.err
