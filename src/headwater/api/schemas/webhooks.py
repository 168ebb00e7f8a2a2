"""Request and response models of webhooks."""

from typing import Annotated, Any, Self

from pydantic import Field

from headwater.api.schemas.inputs import Line, RequestModel
from headwater.api.schemas.outputs import Moment, ResponseModel
from headwater.operations.webhooks import NewWebhook, WebhookSettings
from headwater.rules.webhook_messages import WebhookEvent
from headwater.store.webhooks import WebhookDelivery

EXAMPLE_WEBHOOK = "7c5a2c1e-0f1d-4c55-9a3b-6f3b7d0c2a11"
EXAMPLE_DELIVERY = "msg_2f1c9a7e105b0b4a3e8f0c4a529d3e2f"
EXAMPLE_ENDPOINT = "https://studio.example.org/hooks/headwater"
EXAMPLE_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw3W4c6Yl1x0E="  # noqa: S105
_EVENTS = "The events it receives: " + ", ".join(f"`{event}`" for event in WebhookEvent) + "."


class WebhookOut(ResponseModel):
    """An endpoint that receives events, without its secret."""

    id: Annotated[str, Field(examples=[EXAMPLE_WEBHOOK])] = Field(description="The id.")
    podcast_id: str | None = Field(
        description="The podcast whose events it receives; null: all podcasts.",
        examples=["default"],
    )
    url: str = Field(description="The endpoint.", examples=[EXAMPLE_ENDPOINT])
    events: tuple[WebhookEvent, ...] = Field(description=_EVENTS, examples=[["post.created"]])
    query: str | None = Field(
        description="Only posts that match this query are reported; null: all.",
        examples=["title:river"],
    )
    enabled: bool = Field(description="Whether messages are stored and sent.", examples=[True])
    disabled_reason: str | None = Field(description="Why the service disabled it.", examples=[None])
    created_at: Moment = Field(description="When it was added.")


class NewWebhookOut(WebhookOut):
    """A webhook that was just added, with its secret."""

    secret: str = Field(
        description="Signs the messages; no other response contains it.", examples=[EXAMPLE_SECRET]
    )

    @classmethod
    def of(cls, new: NewWebhook) -> Self:
        """A new webhook with its secret."""
        return cls.combined(new.webhook, secret=new.secret)


class WebhookDeliveryOut(ResponseModel):
    """A message to an endpoint, and its result."""

    id: Annotated[str, Field(examples=[EXAMPLE_DELIVERY])] = Field(
        description="The `webhook-id` of the message, the same at every attempt."
    )
    webhook_id: Annotated[str, Field(examples=[EXAMPLE_WEBHOOK])] = Field(
        description="Its endpoint."
    )
    event: str = Field(description="What it reports.", examples=["post.created"])
    payload: str = Field(
        description="Its body.",
        examples=['{"type":"post.created","timestamp":"2026-02-16T08:00:00.000Z","data":{}}'],
    )
    created_at: Moment = Field(description="When it was stored.")
    attempts: int = Field(description="How often it was sent.", examples=[1])
    next_attempt_at: Moment | None = Field(
        description="When it is sent next; null: it is delivered or given up.", examples=[None]
    )
    delivered_at: Moment | None = Field(description="When the endpoint accepted it.")
    status: int | None = Field(description="The status of the last response.", examples=[204])
    error: str | None = Field(description="Why the last attempt failed.", examples=[None])

    @classmethod
    def of(cls, delivery: WebhookDelivery) -> Self:
        """A message."""
        return cls.model_validate(delivery)


class WebhookIn(RequestModel):
    """An endpoint that receives events."""

    response_model = NewWebhookOut
    url: Annotated[Line, Field(min_length=1, max_length=2000)] = Field(
        description="The endpoint.", examples=[EXAMPLE_ENDPOINT]
    )
    events: Annotated[tuple[Line, ...], Field(strict=False, max_length=20)] = Field(
        default=(WebhookEvent.POST_CREATED,), description=_EVENTS, examples=[["post.created"]]
    )
    query: Annotated[Line, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="Only posts that match this query are reported; null: all."
    )
    enabled: bool = Field(default=True, description="Whether messages are stored and sent.")
    secret: Annotated[Line, Field(max_length=200)] | None = Field(
        default=None,
        description="`whsec_` and 24 to 64 bytes in Base64. By default a new webhook gets a random "
        "one, and another keeps the one it has.",
        examples=[EXAMPLE_SECRET],
    )

    @property
    def settings(self) -> WebhookSettings:
        """What the request chooses."""
        return WebhookSettings(self.url, self.events, self.query, self.enabled, self.secret)


EXAMPLE_INPUT: dict[str, Any] = {"url": EXAMPLE_ENDPOINT, "events": ["post.created"]}
