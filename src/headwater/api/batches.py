"""One action for many sources."""

from fastapi import APIRouter, Request

from headwater.api.inputs import BatchIn, SourceFilterIn
from headwater.api.schemas import BatchOut
from headwater.api.scope import PodcastName, UserName, the_podcast
from headwater.app import App
from headwater.errors import UsageError
from headwater.operations.batches import Batch, run_batch
from headwater.operations.sources import host_named
from headwater.store.sources import SourceFilter


def batch_routes(app: App) -> APIRouter:
    """`…/sources/batch`."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}/sources", tags=["sources"])
    store = app.store

    @routes.post("/batch")
    async def change_sources(
        request: Request, u: UserName, p: PodcastName, body: BatchIn
    ) -> BatchOut:
        """Enable, disable, delete, poll or update many sources, by their ids or by a filter.

        An id that is not known changes nothing at all. A filter that says nothing is refused;
        `{"all": true}` means every source of the podcast. What is changed is changed in many
        small steps, each for good.
        """
        podcast = await the_podcast(store, request, u, p)
        batch = Batch(
            action=body.action,
            ids=body.ids,
            wanted=None if body.chosen is None else _filter(body.chosen),
            changes=None if body.changes is None else body.changes.given(),
        )
        return BatchOut.of(await run_batch(store, podcast.id, batch, app.clock))

    return routes


def _filter(given: SourceFilterIn) -> SourceFilter:
    narrows = any(
        value is not None and value != ""
        for value in (given.enabled, given.type, given.health, given.host, given.q)
    )
    if not narrows and not given.all:
        every = 'to mean every source, say "filter": {"all": true}'
        raise UsageError(f"the filter says nothing; {every}", field="filter")
    if narrows and given.all:
        raise UsageError("a filter by `all` takes nothing else beside it", field="filter")
    return SourceFilter(
        type=given.type,
        enabled=given.enabled,
        host=None if given.host is None else host_named(given.host),
        text=given.q,
        health=given.health,
    )
