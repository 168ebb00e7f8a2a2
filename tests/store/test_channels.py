"""Messages to channels are stored with the incidents that they report, each once (Y3)."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from headwater.errors import NotFound, UsageError
from headwater.model import Podcast, User
from headwater.rules.channels import Channel, ChannelChoice, ChannelKind
from headwater.rules.incidents import Incident, IncidentChanges, IncidentKind, Severity
from headwater.rules.notice_messages import TEST_EVENT
from headwater.rules.webhook_messages import WebhookEvent
from headwater.store import Store
from headwater.store.webhooks import WebhookDelivery
from tests.store.store_data import NOW
from tests.store.test_webhooks import a_webhook, added

MAIL = ChannelChoice(ChannelKind.EMAIL, "ann@example.org")
TOPIC = ChannelChoice(ChannelKind.NTFY, "https://ntfy.sh/topic")
LATER = NOW + timedelta(hours=3)


def an_incident(
    id_: str = "i", user_id: str | None = "default", at: datetime = NOW, **changes: Any
) -> Incident:
    kind = IncidentKind.OUTAGE if user_id is None else IncidentKind.FAILING
    incident = Incident(id_, kind, Severity.ERROR, user_id, f"{id_}.example", "T", "A", at)
    return replace(incident, **changes)


async def opened(store: Store, *incidents: Incident) -> None:
    await store.incidents.apply(IncidentChanges(opened=list(incidents)))


async def closed(store: Store, *incidents: Incident, at: datetime = LATER) -> None:
    over = [replace(incident, closed_at=at) for incident in incidents]
    await store.incidents.apply(IncidentChanges(closed=over))


async def chosen(store: Store, *choices: ChannelChoice, user_id: str = "default") -> list[Channel]:
    await store.channels.replace(user_id, choices, NOW)
    return await store.channels.listed(user_id)


async def pending(store: Store, channel: Channel) -> list[tuple[str, datetime | None]]:
    found = await store.channels.pending(channel.id)
    return [] if found is None else [(one.event, one.next_attempt_at) for one in found.deliveries]


async def test_y3_a_channel_gets_the_beginning_and_the_end_and_no_third_message(store: Store):
    (channel,) = await chosen(store, MAIL)
    await opened(store, an_incident())
    await opened(store, an_incident())  # another process found it too
    await closed(store, an_incident())
    await closed(store, an_incident(), at=LATER + timedelta(hours=1))
    expected = [("incident.opened", NOW), ("incident.closed", LATER)]
    assert await pending(store, channel) == expected
    assert await store.channels.with_due(NOW) == [channel.id]


async def test_y3_an_update_of_an_incident_is_no_message(store: Store):
    (channel,) = await chosen(store, MAIL)
    await opened(store, an_incident())
    changed = an_incident(title="other sources, too")
    await store.incidents.apply(IncidentChanges(updated=[changed]))
    assert len(await pending(store, channel)) == 1


async def test_y3_digests_wait_for_their_hour_and_follow_a_changed_one(store: Store):
    hour = (NOW.hour + 2) % 24
    begins = NOW.replace(minute=0, second=0, microsecond=0) + timedelta(hours=2)
    (channel,) = await chosen(store, replace(MAIL, is_digest=True, hour=hour))
    await opened(store, an_incident())
    assert await pending(store, channel) == [("incident.opened", begins)]
    assert await store.channels.with_due(begins - timedelta(seconds=1)) == []
    assert await store.channels.with_due(begins) == [channel.id]
    (same,) = await chosen(store, replace(MAIL, hour=hour))
    assert same.id == channel.id
    assert await store.channels.with_due(NOW) == [channel.id]


async def test_y3_users_are_told_about_their_own_sources_only(store: Store):
    await store.accounts.add_user(User("u2", "bee", NOW))
    (mine,) = await chosen(store, MAIL)
    (hers,) = await chosen(store, MAIL, user_id="u2")
    await opened(store, an_incident("a"), an_incident("b", "u2"), an_incident("c", None))
    own = await store.channels.pending(mine.id)
    other = await store.channels.pending(hers.id)
    assert own is not None
    assert other is not None
    assert [one.payload.count('"a"') + one.payload.count('"c"') for one in own.deliveries] == [1, 1]
    assert [one.payload.count('"b"') for one in other.deliveries] == [1]


async def test_y3_targets_of_the_configuration_are_told_about_everything(store: Store):
    await store.accounts.add_user(User("u2", "bee", NOW))
    target = ChannelChoice(ChannelKind.APPRISE, "hash")
    await store.channels.replace_configured(None, [target], NOW)
    await store.channels.replace_configured(None, [target], LATER)
    await opened(store, an_incident("a"), an_incident("b", "u2"), an_incident("c", None))
    (id_,) = await store.channels.with_due(NOW)
    found = await store.channels.pending(id_)
    assert found is not None
    assert len(found.deliveries) == 3
    assert found.channel.created_at == NOW
    assert await store.channels.listed("default") == []
    await store.channels.replace_configured(None, [], LATER)
    assert await store.channels.with_due(LATER) == []


async def test_y3_the_end_of_what_began_before_the_channel_is_not_reported(store: Store):
    await opened(store, an_incident(at=NOW - timedelta(hours=1)))
    (channel,) = await chosen(store, MAIL)
    await closed(store, an_incident(at=NOW - timedelta(hours=1)))
    assert await pending(store, channel) == []


async def test_y3_equal_channels_stay_and_others_go_with_their_messages(store: Store):
    mail, topic = await chosen(store, MAIL, TOPIC)
    await opened(store, an_incident())
    kept, new = await chosen(store, TOPIC, replace(MAIL, target="bee@example.org"))
    assert (kept.id, new.target) == (topic.id, "bee@example.org")
    assert await pending(store, mail) == []
    assert len(await pending(store, topic)) == 1
    assert await chosen(store) == []
    assert await store.channels.with_due(NOW) == []


async def test_y3_only_own_webhooks_are_channels(store: Store):
    await store.accounts.add_user(User("u2", "bee", NOW))
    await store.accounts.save_podcast(Podcast("p2", "u2", "Bee", NOW))
    await added(store, a_webhook("own"), a_webhook("hers", "p2"), a_webhook("all", None))
    hook = ChannelChoice(ChannelKind.WEBHOOK, "own")
    await chosen(store, hook, replace(hook, target="all"))
    await chosen(store, replace(hook, target="hers"), user_id="u2")
    for user, id_ in (("default", "hers"), ("u2", "own"), ("u2", "all"), ("default", "none")):
        with pytest.raises(UsageError, match="there is no webhook"):
            await chosen(store, replace(hook, target=id_), user_id=user)
    await store.webhooks.remove(a_webhook("own"))
    assert [one.target for one in await store.channels.listed("default")] == ["all"]


@pytest.mark.parametrize("when", [(), (True, 6)], ids=["at once", "digest"])
async def test_y3_a_webhook_that_reports_incidents_itself_is_not_told_twice(
    store: Store, when: tuple[bool, int] | tuple[()]
):
    await added(
        store, a_webhook("w", None), a_webhook("o", None, events=(WebhookEvent.POST_CREATED,))
    )
    hooks = [ChannelChoice(ChannelKind.WEBHOOK, id_, *when) for id_ in ("w", "o")]
    itself, other = await chosen(store, *hooks)
    await opened(store, an_incident())
    assert len(await store.webhooks.deliveries("w", limit=10)) == 1
    assert await pending(store, itself) == []
    assert len(await pending(store, other)) == 1
    assert await store.webhooks.deliveries("o", limit=10) == []
    assert await store.webhooks.with_due(NOW) == ["w"]


async def test_y3_a_channel_of_a_disabled_webhook_waits(store: Store):
    quiet = a_webhook("w", None, events=(WebhookEvent.POST_CREATED,))
    await added(store, quiet)
    (channel,) = await chosen(store, ChannelChoice(ChannelKind.WEBHOOK, "w"))
    await opened(store, an_incident())
    await store.webhooks.disable("w", "410")
    assert await store.channels.with_due(NOW) == []
    await store.webhooks.edit(quiet, None)
    assert await store.channels.with_due(NOW) == [channel.id]


async def test_y3_the_last_result_of_each_channel_is_known(store: Store):
    mail, topic = await chosen(store, MAIL, TOPIC)
    await opened(store, an_incident())
    assert await store.channels.last_results("default") == {}
    result = WebhookDelivery(0, "m", None, TEST_EVENT, "{}", NOW, attempts=1, error="HTTP 500")
    await store.channels.add_results([(mail, result)])
    last = await store.channels.last_results("default")
    assert {id_: one.error for id_, one in last.items()} == {mail.id: "HTTP 500"}
    await chosen(store, TOPIC)
    await store.channels.add_results([(mail, replace(result, id="n"))])  # removed meanwhile
    assert await store.channels.last_results("default") == {}
    assert len(await pending(store, topic)) == 1


async def test_y3_channels_go_with_their_user(store: Store):
    await store.accounts.add_user(User("u2", "bee", NOW))
    await chosen(store, MAIL, user_id="u2")
    await opened(store, an_incident(user_id="u2"))
    await store.accounts.remove_user("u2")
    assert await store.channels.with_due(LATER) == []
    with pytest.raises(NotFound):
        await chosen(store, MAIL, user_id="u2")
