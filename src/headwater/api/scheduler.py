"""The scheduler and its switch."""

from fastapi import APIRouter, Depends

from headwater.api.callers import need_admin
from headwater.api.inputs import SwitchIn
from headwater.api.running import SchedulerOut
from headwater.engine.service import Service
from headwater.operations.scheduler import scheduler_view, switch_scheduler


def scheduler_routes(service: Service) -> APIRouter:
    """`/api/scheduler`."""
    routes = APIRouter(prefix="/api/scheduler", tags=["scheduler"])

    @routes.get("")
    async def get_scheduler() -> SchedulerOut:
        """Say whether sources are polled by themselves, and what is under way."""
        return SchedulerOut.of(scheduler_view(service))

    @routes.put("", dependencies=[Depends(need_admin)])
    async def switch(body: SwitchIn) -> SchedulerOut:
        """Stop starting polls that nobody asked for, or start them again; both take effect at once.

        It stays so over restarts. Polls by hand work all the time, and one under way ends as usual.
        """
        return SchedulerOut.of(await switch_scheduler(service, paused=body.paused))

    return routes
