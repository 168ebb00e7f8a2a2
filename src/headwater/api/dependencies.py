"""Dependencies of routes: the service, the page of a list, what the caller owns, and checks.

What belongs to another user is reported as not found (U2). FastAPI itself does not check for
unknown parameters, text that cannot be stored, and unexpected bodies.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from headwater.api.middleware.authentication import FOR_PROGRAMS, Caller, caller_of
from headwater.api.schemas.inputs import DateText, NullOmitted
from headwater.api.schemas.outputs import EXAMPLE_SOURCE
from headwater.api.schemas.pagination import (
    DEFAULT_LIMIT,
    Cursor,
    MinScore,
    NumberedQuery,
    QueryText,
    WithFiltered,
    place_in,
)
from headwater.app import App
from headwater.engine.service import Service
from headwater.errors import NotFound, QueryError, UsageError
from headwater.model import Podcast, Source, User
from headwater.operations.podcast_views import expiring_soon
from headwater.operations.search import search_request
from headwater.rules.admission import article_age
from headwater.rules.text_checks import is_one_line
from headwater.store import Store
from headwater.store.content_filter import ContentFilter, Filtered
from headwater.store.search import SearchRequest


def path_parameter(description: str, example: str, *, most: int = 200, **schema: Any) -> Any:
    """A text in the path of at most `most` characters."""
    schema["example"] = example
    return Path(max_length=most, description=description, json_schema_extra=schema)


UserName = Annotated[str, path_parameter("A user's id or name.", "default")]
PodcastName = Annotated[str, path_parameter("A podcast's id or name.", "default")]
SourceId = Annotated[str, path_parameter("A source's id.", EXAMPLE_SOURCE)]


async def _app(request: Request) -> App:
    app: App = request.app.state.app
    return app


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _caller(request: Request) -> Caller:
    return caller_of(request)


CurrentApp = Annotated[App, Depends(_app)]
CurrentCaller = Annotated[Caller, Depends(_caller)]
CurrentService = Annotated[Service, Depends(_service)]


async def owned_user(store: Store, caller: Caller, user_name: str) -> User:
    """The user with this id or name, if visible to the caller."""
    if caller.user_id is None:
        return await store.accounts.user(user_name)
    own = await store.accounts.user(caller.user_id)
    if user_name not in (own.id, own.name):
        raise NotFound(f"there is no user {user_name!r}")
    return own


async def _user(app: CurrentApp, caller: CurrentCaller, u: UserName) -> User:
    return await owned_user(app.store, caller, u)


async def _podcast(request: Request, app: CurrentApp, u: UserName, p: PodcastName) -> Podcast:
    return await app.store.accounts.podcast_of(u, p, only=caller_of(request).user_id)


OwnUser = Annotated[User, Depends(_user)]
OwnPodcast = Annotated[Podcast, Depends(_podcast)]


async def _source(app: CurrentApp, podcast: OwnPodcast, s: SourceId) -> Source:
    subject = await app.store.sources.subject(s)
    if subject is None or subject.source.podcast_id != podcast.id:
        raise NotFound(f"there is no source {s}")
    return subject.source


OwnSource = Annotated[Source, Depends(_source)]


async def _limit(
    app: CurrentApp,
    limit: Annotated[
        int | None, NullOmitted(), Query(ge=1, description="Maximum number of items.")
    ] = None,
) -> int:
    most = app.settings.limits.max_page_size
    if limit is not None and limit > most:
        error = {"type": "less_than_equal", "loc": ("query", "limit"), "ctx": {"le": most}}
        raise RequestValidationError([error])
    return min(DEFAULT_LIMIT, most) if limit is None else limit


Limit = Annotated[int, Depends(_limit)]


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The requested page of a list."""

    limit: int
    cursor: str | None


async def _page(limit: Limit, cursor: Cursor = None) -> PageQuery:
    return PageQuery(limit, cursor)


Page = Annotated[PageQuery, Depends(_page)]
_ListedSource = Annotated[
    QueryText, Query(max_length=200, description="Only those of this source, by id.")
]
_Since = Annotated[
    DateText | None, NullOmitted(), Query(description="Only those of this date or later.")
]
_Until = Annotated[
    DateText | None, NullOmitted(), Query(description="Only those before this date.")
]


_Processed = Annotated[
    bool | None,
    NullOmitted(),
    Query(
        description="Only processed articles, or others; only posts of processed articles, or "
        "others."
    ),
]
_StoryOnce = Annotated[
    bool,
    Query(
        description="List a story once that several sources report in the same words: the fullest "
        "text, then the earliest, of those that match the other parameters."
    ),
]


_Expiring = Annotated[
    bool | None,
    NullOmitted(),
    Query(description="true: only items that cleanup deletes within a day."),
]


async def _age(app: CurrentApp, podcast: OwnPodcast) -> timedelta:
    return article_age(podcast.max_article_age_days, app.policy)


Age = Annotated[timedelta, Depends(_age)]  # the age limit of the podcast


async def _content_filter(
    app: CurrentApp,
    podcast: OwnPodcast,
    source: _ListedSource = None,
    since: _Since = None,
    until: _Until = None,
    filtered: WithFiltered = Filtered.NO,
    processed: _Processed = None,
    min_score: MinScore = None,
    stories: _StoryOnce = False,
    expiring: _Expiring = None,
) -> ContentFilter:
    if source is not None:
        await _source(app, podcast, source)
    soon = expiring_soon(podcast, app.clock.now(), app.policy) if expiring else None
    return ContentFilter(
        source_id=source,
        since=since,
        until=until,
        filtered=filtered,
        processed=processed,
        min_score=min_score,
        story_once=stories,
        expiring=soon,
    )


Filter = Annotated[ContentFilter, Depends(_content_filter)]


_Number = Annotated[int | None, NullOmitted()]


async def _numbered(
    request: Request,
    after: Annotated[
        _Number,
        Query(
            ge=0,
            lt=2**63,
            description="Only items with a higher `seq`, in this order; 0: from the beginning. "
            "`nextAfter` of the response continues, and no item is missed or repeated.",
        ),
    ] = None,
    changed_after: Annotated[
        _Number,
        Query(
            alias="changedAfter",
            ge=0,
            lt=2**63,
            description="Only items whose text, completeness, filter or story changed after they "
            "were stored, in the order of these changes. `nextChangedAfter` continues.",
        ),
    ] = None,
) -> NumberedQuery | None:
    given = [name for name in _ORDERS if name in request.query_params]
    if len(given) > 1 and (after is not None or changed_after is not None):
        raise UsageError(f"{given[0]} cannot be combined with {given[1]}", field=given[0])
    if changed_after is not None:
        return NumberedQuery(changed_after, changes=True)
    return None if after is None else NumberedQuery(after, changes=False)


# each is an order of its own; a story may get another representative later
_ORDERS = ("after", "changedAfter", "cursor", "order", "stories", "q")
Numbered = Annotated[NumberedQuery | None, Depends(_numbered)]
Searched = Annotated[
    QueryText,
    Query(
        description="Only those that match this query. The query language is on the help page "
        "`docs/searching.md`.",
        examples=['"central bank" -podcast title:rates'],
    ),
]


def search_in(
    app: App, podcast: Podcast, page: PageQuery, chosen: ContentFilter, q: str, *, by_rank: bool
) -> SearchRequest:
    """The search of a request."""
    return search_request(
        podcast,
        q,
        chosen,
        now=app.clock.now(),
        limit=page.limit,
        by_rank=by_rank,
        behind=place_in(page.cursor),
    )


def refuse_rank() -> None:
    """Raise because only search results have a rank."""
    raise UsageError("order=rank needs a query, `q`", field="order")


IfMatch = Annotated[
    str | None,
    NullOmitted(),
    Header(
        alias="If-Match",
        description="The `ETag` of the settings that the change is based on; 412 if it differs.",
    ),
]


async def check_parameters(request: Request) -> None:
    """Raise unless the route has every parameter, once, and a database can store each value."""
    for name, value in request.path_params.items():
        if not is_one_line(str(value)):
            raise NotFound(f"there is nothing with this {name!r}")
    # pages ignore unknown parameters: old links still work
    is_page = not request.url.path.startswith(FOR_PROGRAMS)
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if not is_page:
            _check_name(name, seen, request.scope["route"])
        if not is_one_line(value) and name == "q":
            position = next(n for n, c in enumerate(value) if not is_one_line(c))
            raise QueryError("expected no control characters", position, field=name)
        if not is_one_line(value):
            raise UsageError(f"the parameter {name!r} is not one line of text", field=name)


def _check_name(name: str, seen: set[str], route: APIRoute) -> None:
    """Raise unless the route or a dependency of it has the parameter and it is given once."""
    fields = get_flat_params(route.dependant)
    known = sorted(field.alias for field in fields if isinstance(field.field_info, params.Query))
    if name not in known:
        there_are = f"; there are: {', '.join(known)}" if known else ""
        raise UsageError(f"there is no parameter {name!r} here{there_are}", field=name)
    if name in seen:
        raise UsageError(f"the parameter {name!r} is given more than once", field=name)
    seen.add(name)


async def refuse_body(request: Request) -> None:
    """Raise if the request has a body other than `{}`."""
    if (await request.body()).strip() not in (b"", b"{}"):
        raise UsageError("this call takes no body", field="body")
