"""Sources, and batch actions on them."""

from typing import Annotated

from fastapi import Depends, Query, Response
from fastapi.responses import JSONResponse

from headwater.api.dependencies import (
    CurrentApp,
    CurrentCaller,
    CurrentService,
    IfMatch,
    OwnPodcast,
    OwnSource,
    Page,
    path_parameter,
    refuse_body,
)
from headwater.api.openapi import (
    MATCHED,
    WITH_ETAG,
    body_example,
    created,
    documented_router,
)
from headwater.api.problems import failed_fetch
from headwater.api.schemas.inputs import (
    BatchIn,
    NullOmitted,
    SourceFilterIn,
    SourceIn,
    SourceNew,
    SourcePatch,
)
from headwater.api.schemas.outputs import EXAMPLE_FEED
from headwater.api.schemas.pagination import (
    ListPage,
    QueryText,
    page_of,
    position_in,
    position_of,
)
from headwater.api.schemas.source_outputs import BatchOut, SourceCreatedOut, SourceOut
from headwater.app import App
from headwater.errors import FetchError, SecretError, UsageError
from headwater.model import Health, Podcast, Source, SourceType
from headwater.operations import suggestions
from headwater.operations.bulk_changes import Batch, run_batch
from headwater.operations.etags import etag_of
from headwater.operations.source_views import views
from headwater.operations.sources import edit_source, host_named, remove_source
from headwater.source_settings import SettingValues
from headwater.store.sources import SourceFilter

Enabled = Annotated[
    bool | None, NullOmitted(), Query(description="Only sources that are enabled, or not.")
]
Type = Annotated[
    SourceType | None,
    NullOmitted(),
    Query(alias="type", description="Only sources of this type."),
]
HealthState = Annotated[
    Health | None, NullOmitted(), Query(description="Only sources in this state.")
]
Host = Annotated[QueryText, Query(max_length=300, description="Only sources of this host.")]
Text = Annotated[
    QueryText,
    Query(max_length=500, description="Only sources with this text in URL, label or folder."),
]
Check = Annotated[
    bool, Query(description="Visit the source even if its type is known; 422 if it is unreadable.")
]
Unique = Annotated[
    bool, Query(description="Whether 409 is the response if the podcast has this address already.")
]
SuggestionId = Annotated[str, path_parameter("A suggestion's id.", "3fa1c04be21d9a77")]
_PATH = "/api/users/{u}/podcasts/{p}/sources"
_OPERATIONS = ("getSource", "replaceSource", "changeSource", "deleteSource")
_CREATED = created("s", _PATH, *_OPERATIONS, etag=True) | {409: {}}
_NEW = {"url": EXAMPLE_FEED, "label": "Example", "pollIntervalMinutes": 60}
_BATCH = {"action": "disable", "filter": {"health": "failing", "host": "example.org"}}
routes = documented_router(_PATH, "sources")


@routes.post("/batch")
async def change_sources(
    app: CurrentApp,
    caller: CurrentCaller,
    podcast: OwnPodcast,
    body: Annotated[BatchIn, body_example(_BATCH)],
) -> BatchOut:
    """Enable, disable, delete, poll or update many sources, selected by ids or a filter.

    If an id is unknown, nothing is changed. A filter without criteria is refused;
    `{"all": true}` selects every source of the podcast. Changes are committed in many small
    transactions. With a user's token, `poll` requests no poll of a source that was polled
    manually in the last 10 s; if that holds for all of them, the response is 429. `enable` and
    `update` change such sources all the same, but request no poll of them.
    """
    batch = Batch(
        action=body.action,
        ids=body.ids,
        wanted=None if body.chosen is None else _filter(body.chosen),
        changes=None if body.changes is None else body.changes.given(),
    )
    pollable = app.visit_limits.pollable_for(caller.user_id)
    counts = await run_batch(app.store, podcast.id, batch, app.clock, pollable=pollable)
    return BatchOut.of(counts)


@routes.get("")
async def list_sources(
    app: CurrentApp,
    podcast: OwnPodcast,
    page: Page,
    enabled: Enabled = None,
    type_: Type = None,
    health: HealthState = None,
    host: Host = None,
    q: Text = None,
) -> ListPage[SourceOut]:
    """List the sources of a podcast in the order they were added."""
    after, name = position_in(page.cursor, int, str), None if host is None else host_named(host)
    wanted = SourceFilter(
        podcast_id=podcast.id, type=type_, enabled=enabled, host=name, text=q, health=health
    )
    found = await app.store.sources.find(wanted, limit=page.limit + 1, after=after)
    shown = await views(app.store, podcast.user_id, found, app.clock.now(), app.policy)
    return page_of(shown, page.limit, SourceOut.of, lambda view: position_of(view.source))


@routes.post("", status_code=201, response_model=SourceCreatedOut, responses=_CREATED)
async def create_source(
    app: CurrentApp,
    caller: CurrentCaller,
    service: CurrentService,
    podcast: OwnPodcast,
    body: Annotated[SourceNew, body_example(_NEW)],
    response: Response,
    check: Check = False,
    unique: Unique = False,
) -> SourceCreatedOut | JSONResponse:
    """Add a source; without a type, find out what the address leads to.

    Addresses and handles of known sites are resolved to their feeds (`recognisedAs`), some with
    one visit. Any other address without a type is visited once to detect it, and the response is
    that of the first poll. A visit that fails gets 422 with the reason, and nothing is added. A
    user's token gets 429 after 10 visits to one host in 10 s. An address that the podcast has
    already is added again and reported as `duplicateOf`.
    """
    visitor = app.visitor_for(service, caller.user_id)
    try:
        added = await app.additions.add(podcast, body.given(), visitor, check=check, unique=unique)
    except (FetchError, SecretError) as error:
        return failed_fetch(error)
    if added.subject is not None and added.outcome is not None:
        await service.publish(added.subject, added.outcome)
    base = f"/api/users/{podcast.user_id}/podcasts/{podcast.id}/sources"
    response.headers["Location"] = f"{base}/{added.source.id}"
    now = app.clock.now()
    (view,) = await views(app.store, podcast.user_id, [added.source], now, app.policy)
    response.headers["ETag"] = etag_of(added.source)
    return SourceCreatedOut.of(view, added)


@routes.get("/{s}", responses=WITH_ETAG)
async def get_source(
    app: CurrentApp, podcast: OwnPodcast, source: OwnSource, response: Response
) -> SourceOut:
    """Get a source; its ETag covers the settings, not what polls change."""
    return await _shown(app, podcast, source, response)


@routes.delete("/{s}", status_code=204, responses=MATCHED)
async def delete_source(app: CurrentApp, source: OwnSource, if_match: IfMatch = None) -> None:
    """Delete a source with its posts, articles and history."""
    await remove_source(app.store, source, if_match=if_match)


@routes.put("/{s}", responses=WITH_ETAG | MATCHED)
async def replace_source(
    app: CurrentApp,
    caller: CurrentCaller,
    podcast: OwnPodcast,
    source: OwnSource,
    body: Annotated[SourceIn, body_example({"type": "rss"} | _NEW)],
    response: Response,
    if_match: IfMatch = None,
) -> SourceOut:
    """Replace the settings of a source.

    A setting that is not given returns to its default, except `enabled`. With a user's token, a
    change that requests a poll gets 429 if the source was polled manually in the last 10 s.
    """
    edited = await _edited(app, caller, source, body.all_settings(), if_match)
    return await _shown(app, podcast, edited, response)


@routes.patch("/{s}", responses=WITH_ETAG | MATCHED)
async def change_source(
    app: CurrentApp,
    caller: CurrentCaller,
    podcast: OwnPodcast,
    source: OwnSource,
    body: Annotated[SourcePatch, body_example({"enabled": True, "pollIntervalMinutes": 120})],
    response: Response,
    if_match: IfMatch = None,
) -> SourceOut:
    """Change some settings of a source; null resets a setting that may be null.

    With a user's token, a change that requests a poll (another `url`, `enabled`) gets 429 if the
    source was polled manually in the last 10 s.
    """
    edited = await _edited(app, caller, source, body.given(), if_match)
    return await _shown(app, podcast, edited, response)


@routes.post(
    "/{s}/suggestions/{n}/accept", responses=WITH_ETAG, dependencies=[Depends(refuse_body)]
)
async def accept_suggestion(
    app: CurrentApp,
    caller: CurrentCaller,
    podcast: OwnPodcast,
    source: OwnSource,
    n: SuggestionId,
    response: Response,
) -> SourceOut:
    """Change the settings of a source as one of its `suggestions` says.

    `ignore` adds its lines to `watch.ignore`, `move` and `feed` replace the `url`; each requests a
    poll. If failures disabled the source, `move` and `feed` enable it. A suggestion that was
    accepted before changes nothing. If it was dismissed, or the settings have no room for it, the
    response is 422. With a user's token it is 429 if the source was polled manually in the last
    10 s.
    """
    check_poll = app.visit_limits.check_poll_for(caller.user_id)
    now = app.clock.now()
    accepted = await suggestions.accept(app.store, source, n, now, check_poll=check_poll)
    return await _shown(app, podcast, accepted, response)


@routes.post("/{s}/suggestions/{n}/undo", responses=WITH_ETAG, dependencies=[Depends(refuse_body)])
async def undo_suggestion(
    app: CurrentApp,
    caller: CurrentCaller,
    podcast: OwnPodcast,
    source: OwnSource,
    n: SuggestionId,
    response: Response,
) -> SourceOut:
    """Give a source the `url` again that it had before a suggestion was accepted.

    The suggestion is dismissed, and a poll is requested. 422 if it was not accepted, or the `url`
    was changed since. With a user's token 429 if the source was polled manually in the last 10 s.
    """
    check_poll = app.visit_limits.check_poll_for(caller.user_id)
    now = app.clock.now()
    undone = await suggestions.undo(app.store, source, n, now, check_poll=check_poll)
    return await _shown(app, podcast, undone, response)


@routes.delete("/{s}/suggestions/{n}", status_code=204)
async def dismiss_suggestion(app: CurrentApp, source: OwnSource, n: SuggestionId) -> None:
    """Dismiss a suggestion: the same one is not made again for this source."""
    await suggestions.dismiss(app.store, source, n)


async def _edited(
    app: App, caller: CurrentCaller, source: Source, changes: SettingValues, if_match: str | None
) -> Source:
    return await edit_source(
        app.store,
        source.id,
        changes,
        app.clock.now(),
        allowed=app.settings.fetch.allow_private_networks,
        if_match=if_match,
        check_poll=app.visit_limits.check_poll_for(caller.user_id),
    )


async def _shown(app: App, podcast: Podcast, source: Source, response: Response) -> SourceOut:
    response.headers["ETag"] = etag_of(source)
    (view,) = await views(app.store, podcast.user_id, [source], app.clock.now(), app.policy)
    return SourceOut.of(view)


def _filter(given: SourceFilterIn) -> SourceFilter:
    criteria = (given.enabled, given.type, given.health, given.host, given.q)
    has_criteria = any(value is not None and value != "" for value in criteria)
    if not has_criteria and not given.all:
        every = 'to select every source, send "filter": {"all": true}'
        raise UsageError(f"the filter has no criteria; {every}", field="filter")
    if has_criteria and given.all:
        raise UsageError("`all` excludes other criteria", field="filter")
    return SourceFilter(
        type=given.type,
        enabled=given.enabled,
        host=None if given.host is None else host_named(given.host),
        text=given.q,
        health=given.health,
    )
