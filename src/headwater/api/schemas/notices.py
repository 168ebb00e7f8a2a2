"""Request and response models of notices: where a user gets messages about incidents."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from headwater.api.schemas.inputs import Line, RequestModel
from headwater.api.schemas.outputs import Moment, ResponseModel
from headwater.api.schemas.webhooks import EXAMPLE_WEBHOOK
from headwater.operations.notices import ShownChannel
from headwater.rules.channels import DIGEST_HOUR, MAX_CHANNELS, ChannelChoice, ChannelKind

_EXAMPLE_TOPIC = "https://ntfy.sh/river-podcast-alerts"
_EXAMPLE_ADDRESS = "ann@example.org"
_WHEN = "`now`: messages are sent immediately; `digest`: one message a day."
_HOUR = "The hour of the daily message, in UTC."
When = Annotated[Literal["now", "digest"], Field(description=_WHEN, examples=["now"])]


class LastNoticeOut(ResponseModel):
    """The newest message to a channel, and its result."""

    at: Moment = Field(description="When it was stored.")
    event: str = Field(description="What it reported.", examples=["incident.opened"])
    delivered: bool = Field(description="Whether it was accepted.", examples=[True])
    attempts: int = Field(description="How often it was sent.", examples=[1])
    error: str | None = Field(description="Why the last attempt failed.", examples=[None])


class _ChannelOut(ResponseModel):
    kind: str  # first in every response
    when: When
    hour: int | None = Field(description=_HOUR + " Null: none was chosen.", examples=[8])
    last: LastNoticeOut | None = Field(
        description="The newest message that was sent, of the last 7 days; null: none."
    )


class EmailChannelOut(_ChannelOut):
    """Messages by e-mail."""

    kind: Literal["email"] = Field(description="E-mail.")
    address: str = Field(description="Who gets them.", examples=[_EXAMPLE_ADDRESS])


class NtfyChannelOut(_ChannelOut):
    """Messages to a topic of an ntfy server."""

    kind: Literal["ntfy"] = Field(description="An ntfy topic.")
    url: str = Field(description="The topic.", examples=[_EXAMPLE_TOPIC])


class WebhookChannelOut(_ChannelOut):
    """Messages to a webhook of the user."""

    kind: Literal["webhook"] = Field(description="A webhook.")
    id: str = Field(description="The id of the webhook.", examples=[EXAMPLE_WEBHOOK])


AnyChannelOut = Annotated[
    EmailChannelOut | NtfyChannelOut | WebhookChannelOut, Field(discriminator="kind")
]
_TARGETS = {
    ChannelKind.EMAIL: "address",
    ChannelKind.NTFY: "url",
    ChannelKind.WEBHOOK: "id",
}  # fields


class NoticesOut(ResponseModel):
    """Where a user gets messages about incidents."""

    channels: tuple[AnyChannelOut, ...] = Field(description="The channels, in their order.")

    @classmethod
    def of(cls, shown: list[ShownChannel]) -> Self:
        """The channels with the newest message to each."""
        return cls.model_validate({"channels": [_channel(one) for one in shown]})


def _channel(shown: ShownChannel) -> dict[str, Any]:
    channel, last = shown.channel, shown.last
    sent = last and LastNoticeOut(
        at=last.created_at,
        event=last.event,
        delivered=last.delivered_at is not None,
        attempts=last.attempts,
        error=last.error,
    )
    return {
        "kind": channel.kind.value,
        _TARGETS[channel.kind]: channel.target,
        "when": "digest" if channel.is_digest else "now",
        "hour": channel.hour,
        "last": sent,
    }


class _ChannelIn(RequestModel):
    when: When = "now"
    hour: Annotated[int, Field(ge=0, le=23)] | None = Field(
        default=None, description=f"{_HOUR} By default {DIGEST_HOUR}.", examples=[8]
    )


class EmailChannelIn(_ChannelIn):
    """Messages by e-mail."""

    response_model = EmailChannelOut
    kind: Literal["email"] = Field(description="E-mail.")
    address: Annotated[Line, Field(min_length=3, max_length=254)] = Field(
        description="Who gets them.", examples=[_EXAMPLE_ADDRESS]
    )


class NtfyChannelIn(_ChannelIn):
    """Messages to a topic of an ntfy server."""

    response_model = NtfyChannelOut
    kind: Literal["ntfy"] = Field(description="An ntfy topic.")
    url: Annotated[Line, Field(min_length=1, max_length=2000)] = Field(
        description="The topic.", examples=[_EXAMPLE_TOPIC]
    )


class WebhookChannelIn(_ChannelIn):
    """Messages to a webhook of the user."""

    response_model = WebhookChannelOut
    kind: Literal["webhook"] = Field(description="A webhook.")
    id: Annotated[Line, Field(min_length=1, max_length=200)] = Field(
        description="The id of the webhook.", examples=[EXAMPLE_WEBHOOK]
    )


AnyChannelIn = Annotated[
    EmailChannelIn | NtfyChannelIn | WebhookChannelIn, Field(discriminator="kind")
]


class NoticesIn(RequestModel):
    """Where a user gets messages about incidents."""

    response_model = NoticesOut
    channels: Annotated[tuple[AnyChannelIn, ...], Field(strict=False, max_length=MAX_CHANNELS)] = (
        Field(description="The channels; those that are left out are removed.")
    )

    @property
    def choices(self) -> list[ChannelChoice]:
        """What the request chooses."""
        return [
            ChannelChoice(
                ChannelKind(one.kind),
                str(getattr(one, _TARGETS[ChannelKind(one.kind)])),
                one.when == "digest",
                one.hour,
            )
            for one in self.channels
        ]


EXAMPLE_NOTICES: dict[str, Any] = {
    "channels": [
        {"kind": "email", "address": _EXAMPLE_ADDRESS, "when": "digest", "hour": 8},
        {"kind": "ntfy", "url": _EXAMPLE_TOPIC, "when": "now"},
    ]
}
