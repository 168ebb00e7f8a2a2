"""Hosts: who is asked, how often, and what they said to that."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Path as PathParameter

from headwater.api.callers import caller_of
from headwater.api.pages import Cursor, Page, id_in, limit_up_to, page_of
from headwater.api.running import HostCardOut, HostOut
from headwater.app import App
from headwater.engine.service import Service
from headwater.operations.hosts import HostsSeen

HostName = Annotated[str, PathParameter(alias="host", max_length=300, description="A host name.")]


def host_routes(app: App, service: Service) -> APIRouter:
    """`/api/hosts`."""
    routes = APIRouter(prefix="/api/hosts", tags=["hosts"])
    usual = limit_up_to(app.settings.limits.max_page_size)

    def seen_by(request: Request) -> HostsSeen:
        return HostsSeen(app.store, service, app.policy, caller_of(request).user_id)

    @routes.get("")
    async def list_hosts(
        request: Request,
        limit: int = usual,
        cursor: Cursor = None,
    ) -> Page[HostOut]:
        """List the hosts of one's own sources by name, an administrator everybody's.

        X timelines have one lane per owner: a user sees their own, an administrator the sum of all.
        """
        after, now = id_in(cursor) or "", app.clock.now()
        found = await seen_by(request).page(limit + 1, after=after, now=now)
        return page_of(found, limit, HostOut.of, lambda view: (view.host,))

    @routes.get("/{host}")
    async def get_host(request: Request, host: HostName) -> HostCardOut:
        """Show a host of one's own sources with its last answers to them."""
        card = await seen_by(request).card(host, now=app.clock.now())
        return HostCardOut.with_answers(card)

    return routes
