"""Asking for a poll, asking why there was none, and looking at a URL before adding it."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse

from headwater.api.inputs import PreviewIn
from headwater.api.parameters import refuse_body
from headwater.api.problems import problem
from headwater.api.running import PollRequestedOut
from headwater.api.schemas import ExplanationOut, PollOut, PreviewOut
from headwater.api.scope import PodcastName, SourceId, UserName, the_podcast, the_source
from headwater.app import App
from headwater.engine.service import Service
from headwater.errors import FetchError, SecretError
from headwater.operations.hosts import look_at_lane
from headwater.operations.overview import explanation_of
from headwater.operations.polling import poll_one
from headwater.operations.sources import SourceSettings
from headwater.rules.failure import classify

# a feed can have 100,000 entries of any length; whoever looks at one wants to see what it is like
_MOST_ENTRIES = 100
_LONGEST_BODY = 2000
_REQUESTED = {"model": PollRequestedOut, "description": "The poll is asked for and goes on."}


def polling_routes(app: App, service: Service) -> APIRouter:
    """`…/sources/{s}/poll`, `…/sources/{s}/explain` and `…/sources/preview`."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}/sources", tags=["sources"])
    store = app.store

    @routes.post("/preview", response_model=PreviewOut)
    async def preview(
        request: Request, u: UserName, p: PodcastName, body: PreviewIn
    ) -> PreviewOut | JSONResponse:
        """Visit a URL and say what a first poll would store, and why not the rest; store nothing.

        Without a type it is found out. The host is visited when it is its turn, for which at most
        30 s are waited. A visit that fails is answered 422, with the URL as the field that is
        wrong. At most 100 entries are shown, and 2,000 characters of each; counts are of all.
        """
        podcast = await the_podcast(store, request, u, p)
        wanted = SourceSettings(**body.given())
        try:
            found = await app.previews.preview(app.previewer(service), wanted, podcast)
        except (FetchError, SecretError) as error:
            return _failed_visit(error)
        return PreviewOut.of(found, most=_MOST_ENTRIES, longest=_LONGEST_BODY)

    @routes.post(
        "/{s}/poll",
        response_model=PollOut,
        responses={202: _REQUESTED},
        dependencies=[Depends(refuse_body)],
    )
    async def poll(
        request: Request,
        u: UserName,
        p: PodcastName,
        s: SourceId,
        wait: Annotated[bool, Query(description="Whether to wait for the outcome.")] = True,
    ) -> PollOut | JSONResponse:
        """Poll a source now, in its host's lane, and say what came of it.

        A poll under way is joined. A host on hold is not asked: the outcome says so at once, also
        to who does not wait. Who does not wait otherwise, or has waited for 60 s, is answered 202,
        and the source stays requested.
        """
        source = await the_source(store, request, u, p, s)
        report = await poll_one(service, source, wait=wait)
        if report is None:
            return JSONResponse(PollRequestedOut().plain(), status_code=202)
        return PollOut.of(report)

    @routes.get("/{s}/explain")
    async def explain(request: Request, u: UserName, p: PodcastName, s: SourceId) -> ExplanationOut:
        """Say when a source will be polled next and why, step by step.

        `nextPollAt` is null if it is disabled, not yet in contact, or the scheduler is paused;
        a source's own `nextPollAt` leaves that last one aside.
        """
        source = await the_source(store, request, u, p, s)
        look, now = partial(look_at_lane, service), app.clock.now()
        return ExplanationOut.of(await explanation_of(store, source.id, now, app.policy, look=look))

    return routes


def _failed_visit(error: FetchError | SecretError) -> JSONResponse:
    """A visit that fails is not our failure: the URL is what somebody might want to change."""
    failure = classify(error)
    errors = [{"field": "url", "message": failure.message}]
    return problem(
        422,
        failure.message,
        errors=errors,
        failureType=failure.type.value,
        failureKind=failure.kind,
    )
