"""Channels for messages about incidents: when they are sent, which addresses are possible (Y3)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headwater.errors import BadUrl, UsageError
from headwater.rules.addresses import Allowed, host_refusal, refusal_text
from headwater.rules.urls import normal_host, parse_url

MAX_CHANNELS = 10  # of a user
DIGEST_HOUR = 8  # unless another is chosen
_MAX_ADDRESS = 254
_MAX_LOCAL = 64
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")


class ChannelKind(StrEnum):
    """The kinds of channels."""

    EMAIL = "email"
    NTFY = "ntfy"
    WEBHOOK = "webhook"
    APPRISE = "apprise"  # of the configuration only


@dataclass(frozen=True, slots=True)
class ChannelChoice:
    """A channel as a person chooses it."""

    kind: ChannelKind
    target: str  # an address, a URL, the id of a webhook; of the configuration, a hash
    is_digest: bool = False  # one message a day instead of one at once
    hour: int | None = None  # of that message, in UTC


@dataclass(frozen=True, slots=True)
class Channel:
    """A stored channel."""

    id: str
    user_id: str | None  # None: of the configuration, receives everything
    kind: ChannelKind
    target: str
    is_digest: bool
    hour: int | None
    created_at: datetime


def checked_choices(chosen: Sequence[ChannelChoice], allowed: Allowed) -> list[ChannelChoice]:
    """Valid choices in their normal form; UsageError says what is wrong with one."""
    if len(chosen) > MAX_CHANNELS:
        raise UsageError(f"a user has at most {MAX_CHANNELS} channels", field="channels")
    checked: list[ChannelChoice] = []
    for one in chosen:
        target = one.target
        match one.kind:
            case ChannelKind.EMAIL:
                target = email_address(target)
            case ChannelKind.NTFY:
                target = _ntfy_url(target, allowed)
            case ChannelKind.APPRISE:
                raise UsageError("only the configuration has Apprise targets", field="kind")
        if any((one.kind, target) == (other.kind, other.target) for other in checked):
            raise UsageError("a channel is given twice", field="channels")
        hour = DIGEST_HOUR if one.is_digest and one.hour is None else one.hour
        checked.append(ChannelChoice(one.kind, target, one.is_digest, hour))
    return checked


def email_address(text: str) -> str:
    """An address such as ann@example.org, its domain normalised; UsageError for anything else."""
    local, at, domain = text.rpartition("@")
    if not at or len(local) > _MAX_LOCAL or not _LOCAL_PART.fullmatch(local):
        raise UsageError("must be an e-mail address such as ann@example.org", field="address")
    try:
        host = normal_host(domain)
    except BadUrl:
        raise UsageError("the domain of the e-mail address is not valid", field="address") from None
    if ":" in host or host.rpartition(".")[2].isdigit():
        raise UsageError("the domain of an e-mail address is a name", field="address")
    if len(local) + len(host) >= _MAX_ADDRESS:
        raise UsageError(
            f"an e-mail address has at most {_MAX_ADDRESS} characters", field="address"
        )
    return f"{local}@{host}"


def _ntfy_url(url: str, allowed: Allowed) -> str:
    """The URL of an ntfy topic, or a BadUrl if it can never be visited (N2, N3)."""
    parsed = parse_url(url)
    reason = host_refusal(parsed.host, allowed)
    if reason is not None:
        raise BadUrl(refusal_text(parsed.host, reason), field="url")
    if parsed.target.partition("?")[0] == "/":
        raise BadUrl("the topic is missing, as in https://ntfy.sh/my-topic", field="url")
    return url


def due_at(channel: Channel | ChannelChoice, at: datetime) -> datetime:
    """When an event of this time is reported: immediately, or when the chosen hour begins."""
    if not channel.is_digest or channel.hour is None:
        return at
    on_the_day = at.replace(hour=channel.hour, minute=0, second=0, microsecond=0)
    return on_the_day if on_the_day > at else on_the_day + timedelta(days=1)
