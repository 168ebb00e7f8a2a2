"""Notices: where a user gets messages about incidents, and test messages (Y3)."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.clock import Clock
from headwater.errors import NotFound, NotSent, SecretError, UsageError
from headwater.model import User
from headwater.rules.addresses import Allowed
from headwater.rules.channels import Channel, ChannelChoice, checked_choices
from headwater.rules.notice_messages import TEST_EVENT, sample_notice
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.channels import OF_SERVICE
from headwater.store.webhooks import Webhook, WebhookDelivery

if TYPE_CHECKING:  # takes a while to import
    from headwater.engine.notifier import Notifier


@dataclass(frozen=True, slots=True)
class ShownChannel:
    """A channel with the newest message that was sent to it."""

    channel: Channel
    last: WebhookDelivery | None


async def notices_of(store: Store, user: User) -> list[ShownChannel]:
    """The channels of a user, in their order."""
    last = await store.channels.last_results(user.id)
    return [ShownChannel(one, last.get(one.id)) for one in await store.channels.listed(user.id)]


async def set_notices(
    store: Store, user: User, chosen: Sequence[ChannelChoice], clock: Clock, *, allowed: Allowed
) -> list[ShownChannel]:
    """Replace the channels of a user; UsageError says what is wrong with one."""
    checked = checked_choices(chosen, allowed)
    kinds = ", ".join(one.kind for one in checked)
    describe("notices.set", f"user {user.id}", channels=kinds or "none")
    await store.channels.replace(user.id, checked, clock.now())
    return await notices_of(store, user)


async def add_channel(
    store: Store, user: User, choice: ChannelChoice, clock: Clock, *, allowed: Allowed
) -> None:
    """Add a channel of a user; one that is there already gets the given time."""
    (new,) = checked_choices([choice], allowed)
    found = await store.channels.listed(user.id)
    others = [_choice(one) for one in found if (one.kind, one.target) != (new.kind, new.target)]
    await set_notices(store, user, [*others, new], clock, allowed=True)


async def remove_channel(store: Store, user: User, target: str, clock: Clock) -> None:
    """Remove the channel of a user with this address, URL, webhook, or id."""
    found = await store.channels.listed(user.id)
    after = [_choice(one) for one in found if target not in (one.id, one.target)]
    if len(after) == len(found):
        raise NotFound(f"{user.name} has no such channel")
    await set_notices(store, user, after, clock, allowed=True)


async def webhooks_for(store: Store, user: User) -> list[Webhook]:
    """The webhooks that can be channels of a user."""
    return await store.webhooks.of_user(user.id, for_all=user.id == OF_SERVICE)


def _choice(channel: Channel) -> ChannelChoice:
    return ChannelChoice(channel.kind, channel.target, channel.is_digest, channel.hour)


async def send_tests(
    store: Store, notifier: "Notifier", user: User, clock: Clock
) -> list[ShownChannel]:
    """Send a test message to each channel of a user, and return the results."""
    channels = await store.channels.listed(user.id)
    if not channels:
        raise UsageError("there is no channel yet", field="channels")
    results = await asyncio.gather(*(_tested(notifier, one, clock) for one in channels))
    describe("notices.test", f"user {user.id}")
    await store.channels.add_results(list(zip(channels, results, strict=True)))
    return [ShownChannel(*one) for one in zip(channels, results, strict=True)]


async def _tested(notifier: "Notifier", channel: Channel, clock: Clock) -> WebhookDelivery:
    """Send a test message at once; the result is stored as that of any other message."""
    began, error = clock.now(), None
    notice = sample_notice(channel.id, str(uuid.uuid4()), began, dashboard=notifier.dashboard)
    try:
        await notifier.send(channel, notice)
    except (NotSent, SecretError) as problem:
        error = str(problem)
    return WebhookDelivery(
        number=0,
        id=notice.id,
        webhook_id=None,
        event=TEST_EVENT,
        payload=notice.payload,
        created_at=began,
        attempts=1,
        delivered_at=clock.now() if error is None else None,
        error=error,
    )
