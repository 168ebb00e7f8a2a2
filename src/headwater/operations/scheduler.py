"""The scheduler as people see it, and its switch (G2)."""

from dataclasses import dataclass
from datetime import datetime

from headwater.engine.service import Service


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """Whether polls start by themselves, and what is under way."""

    paused: bool
    last_tick_at: datetime | None
    lane_count: int  # lanes with something to do
    waiting: int  # sources that wait in them
    in_flight: int  # polls under way
    outage: str | None  # the kind of the outage that lasts (O2, O3)
    outage_since: datetime | None


def scheduler_view(service: Service) -> SchedulerView:
    """How the scheduler of a running service stands."""
    lanes = service.lanes
    return SchedulerView(
        paused=service.paused,
        last_tick_at=service.last_tick,
        lane_count=len(lanes.names()),
        waiting=lanes.waiting(),
        in_flight=len(lanes.in_flight()),
        outage=service.guard.kind,
        outage_since=service.guard.since,
    )


async def switch_scheduler(service: Service, *, paused: bool) -> SchedulerView:
    """Stop starting polls that nobody asked for, or start them again."""
    service.refuse_when_stopping()
    await service.pause(paused=paused)
    return scheduler_view(service)
