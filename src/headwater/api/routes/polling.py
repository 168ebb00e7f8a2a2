"""Manual polls, explanations of the schedule, and previews of a URL."""

from functools import partial
from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import JSONResponse

from headwater.api.dependencies import (
    CurrentApp,
    CurrentCaller,
    CurrentService,
    OwnPodcast,
    OwnSource,
    refuse_body,
)
from headwater.api.openapi import body_example, documented_router
from headwater.api.problems import failed_fetch
from headwater.api.schemas.inputs import PreviewIn
from headwater.api.schemas.outputs import EXAMPLE_FEED
from headwater.api.schemas.service_outputs import PollRequestedOut
from headwater.api.schemas.source_outputs import ExplanationOut, PollOut, PreviewOut
from headwater.errors import FetchError, SecretError
from headwater.operations.host_views import lane_status
from headwater.operations.manual_polls import poll_one
from headwater.operations.source_views import explanation_of
from headwater.rules.pasted_addresses import resolve

# a feed can have 100,000 entries of any length; a preview needs only some of them
_MAX_ENTRIES = 100
_MAX_BODY_LENGTH = 2000
_REQUESTED = {"model": PollRequestedOut, "description": "The poll is requested and continues."}
routes = documented_router("/api/users/{u}/podcasts/{p}/sources", "sources")


@routes.post("/preview", response_model=PreviewOut)
async def preview_source(
    app: CurrentApp,
    caller: CurrentCaller,
    service: CurrentService,
    podcast: OwnPodcast,
    body: Annotated[PreviewIn, body_example({"url": EXAMPLE_FEED})],
) -> PreviewOut | JSONResponse:
    """Fetch a URL and return which entries a first poll would store; store nothing.

    Without a type it is detected, and the addresses of known sites are resolved to their feeds
    (`recognisedAs`). The request waits up to 30 s for the lane of the host. A
    failed fetch is answered 422 with `url` as the wrong field. At most 100 entries are
    returned, with 2,000 characters of text each; counts include all entries. Up to three entries
    of a feed that may be excerpts are compared with their pages (`fullTextAdvice`), which takes
    up to 20 s more. A user's token gets 429 after 10 previews and manual polls of one host in
    10 s.

    Of a page, `blocks` are the parts that can be watched or left out. A second preview of it with
    other parts to `watch`, within 10 minutes, uses the same response: nothing is fetched.
    """
    wanted = body.given()
    # before the first visit, and by host, however the address is spelled
    host_url = resolve(wanted["url"], wanted.get("type")).url
    if app.previews.needs_visit(wanted, podcast):
        app.visit_limits.check_visit(caller.user_id, host_url)
    try:
        found = await app.previews.preview(app.previewer(service), wanted, podcast)
    except (FetchError, SecretError) as error:
        return failed_fetch(error)
    return PreviewOut.of(found, most=_MAX_ENTRIES, longest=_MAX_BODY_LENGTH)


@routes.post(
    "/{s}/poll",
    response_model=PollOut,
    responses={202: _REQUESTED},
    dependencies=[Depends(refuse_body)],
)
async def poll_source(
    app: CurrentApp,
    caller: CurrentCaller,
    service: CurrentService,
    source: OwnSource,
    wait: Annotated[bool, Query(description="Whether to wait for the outcome.")] = True,
) -> PollOut | JSONResponse:
    """Poll a source now, in the lane of its host, and return the outcome.

    The request joins a poll in progress. If the host is on hold, the outcome says so at once,
    whatever `wait` is. With `wait=false`, or after 60 s, the response is 202 and the poll stays
    requested. With a user's token a source can be polled manually once in 10 s, by any means;
    further requests get 429.
    """
    app.visit_limits.check_poll(caller.user_id, source)
    report = await poll_one(service, source, wait=wait)
    if report is None:
        return JSONResponse(PollRequestedOut().plain(), status_code=202)
    return PollOut.of(report)


@routes.get("/{s}/explain")
async def explain_source(
    app: CurrentApp, service: CurrentService, source: OwnSource
) -> ExplanationOut:
    """Explain when a source will be polled next, step by step.

    `nextPollAt` is null if the source is disabled or not yet contacted, or if the scheduler is
    paused; the `nextPollAt` of a source itself does not depend on the scheduler.
    """
    look, now = partial(lane_status, service), app.clock.now()
    return ExplanationOut.of(await explanation_of(app.store, source.id, now, app.policy, look=look))
