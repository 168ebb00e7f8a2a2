"""The hosts of sources, and their responses."""

from typing import Annotated

from fastapi import Depends, Request

from headwater.api.dependencies import CurrentApp, CurrentService, Page, path_parameter
from headwater.api.middleware.authentication import caller_of
from headwater.api.openapi import documented_router
from headwater.api.schemas.pagination import ListPage, id_in, page_of
from headwater.api.schemas.service_outputs import HostCardOut, HostOut
from headwater.operations.host_views import HostReader

HostName = Annotated[str, path_parameter("A host name.", "example.org", most=300)]
routes = documented_router("/api/hosts", "hosts")


async def _reader(request: Request, app: CurrentApp, service: CurrentService) -> HostReader:
    return HostReader(app.store, service, app.policy, caller_of(request).user_id)


Reader = Annotated[HostReader, Depends(_reader)]


@routes.get("")
async def list_hosts(app: CurrentApp, hosts: Reader, page: Page) -> ListPage[HostOut]:
    """List the hosts of the caller's sources by name; an administrator sees all hosts.

    Hosts of pages that are still to be read for their full text are listed as well.
    X timelines have one lane per user: a user sees their own, an administrator the sum.
    """
    after, now = id_in(page.cursor) or "", app.clock.now()
    found = await hosts.page(page.limit + 1, after=after, now=now)
    return page_of(found, page.limit, HostOut.of, lambda view: (view.host,))


@routes.get("/{host}")
async def get_host(app: CurrentApp, hosts: Reader, host: HostName) -> HostCardOut:
    """Get a host of the caller's sources with its last responses."""
    return HostCardOut.of(await hosts.card(host, now=app.clock.now()))
