"""The shapes of what only a running service knows: lanes, hosts, the scheduler."""

from typing import Literal

from pydantic import Field

from headwater.api.schemas import Moment, Shape
from headwater.model import FailureType, OutcomeKind, PollRecord
from headwater.operations.hosts import HostCard, HostView
from headwater.operations.scheduler import SchedulerView


class PollRequestedOut(Shape):
    """That a poll was asked for and nobody waits for its end any more (P10)."""

    outcome: None = Field(default=None, description="There is none yet.")
    requested: Literal[True] = Field(default=True, description="A poll of the source is due.")


class InFlightOut(Shape):
    """The poll of a host that is under way; of somebody else's source no more is said."""

    source_id: str | None
    url: str | None


class HostHoldOut(Shape):
    """A time before which a host must not be asked."""

    until: Moment = Field(description="When it may be asked again.")
    reason: str = Field(description="What the host answered.")


class HostOut(Shape):
    """A host of one's own sources, and how its lane stands right now."""

    host: str
    sources: int = Field(description="How many of one's own sources it has.")
    enabled: int = Field(description="How many of them are polled.")
    failing: int = Field(description="How many of those fail.")
    lane_length: int = Field(description="How many sources wait or are polled, others' included.")
    in_flight: InFlightOut | None
    delay_seconds: float = Field(description="The longest pause that a source asks for here.")
    delay_origin: str = Field(description="Where that pause is set.")
    hold: HostHoldOut | None
    next_allowed_at: Moment | None = Field(description="When it may be asked; null: right now.")
    last_success_at: Moment | None

    @classmethod
    def of(cls, view: HostView) -> "HostOut":
        """A host as it is served."""
        return cls.model_validate(view)


class HostAnswerOut(Shape):
    """How a host answered a poll."""

    source_id: str
    started_at: Moment
    outcome: OutcomeKind
    status: int | None
    failure_type: FailureType | None
    failure_kind: str | None
    error: str | None

    @classmethod
    def of(cls, record: PollRecord) -> "HostAnswerOut":
        """An answer as it is served."""
        return cls.model_validate(record)


class HostCardOut(HostOut):
    """A host of one's own sources with its last answers."""

    last_answers: tuple[HostAnswerOut, ...] = Field(description="Newest first.")

    @classmethod
    def with_answers(cls, card: HostCard) -> "HostCardOut":
        """A host with its answers as it is served."""
        own = {name: getattr(card.view, name) for name in HostOut.model_fields}
        answers = tuple(HostAnswerOut.of(record) for record in card.answers)
        return cls.model_validate(own | {"last_answers": answers})


class SchedulerOut(Shape):
    """Whether sources are polled by themselves, and what is under way."""

    paused: bool
    last_tick_at: Moment | None = Field(description="When it last looked for due sources.")
    lane_count: int = Field(description="How many hosts have something to do.")
    waiting: int = Field(description="How many sources wait for their turn.")
    in_flight: int = Field(description="How many polls are under way.")
    outage: str | None = Field(description="What kind of outage lasts on this machine.")
    outage_since: Moment | None

    @classmethod
    def of(cls, view: SchedulerView) -> "SchedulerOut":
        """The scheduler as it is served."""
        return cls.model_validate(view)
