"""What came in: the posts of a podcast, and the articles that are made of them."""

from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from headwater.api.pages import cursor_for, id_in
from headwater.app import App
from headwater.errors import NotFound, UsageError
from headwater.model import Podcast
from headwater.operations.articles import aggregate, mark_processed
from headwater.web.forms import fields_of, one
from headwater.web.place import Place, place_of, source_at
from headwater.web.rendering import Pages, done

_PAGE = 25
# which articles are shown, by what the address says
_SHOWN: dict[str, bool | None] = {"unprocessed": False, "processed": True, "all": None}


def content_routes(app: App, pages: Pages) -> APIRouter:
    """`/podcasts/{p}/posts` and `/podcasts/{p}/articles`."""
    routes = APIRouter(prefix="/podcasts/{p}", include_in_schema=False)
    _add_posts(routes, app, pages)
    _add_articles(routes, app, pages)
    return routes


def _add_posts(routes: APIRouter, app: App, pages: Pages) -> None:
    store = app.store

    @routes.get("/posts")
    async def list_posts(
        request: Request, p: str, source: str = "", cursor: str | None = None
    ) -> Response:
        """Show posts of a podcast or of one of its sources, newest first."""
        place = await place_of(store, request, p)
        only = await source_at(store, place, source) if source else None
        whose = {"podcast_id": p} if only is None else {"source_id": only.id}
        part = await store.posts.page(**whose, limit=_PAGE, before=id_in(cursor))
        kept = {"source": only.id} if only else {}
        last = part.items[-1].id if part.more else None
        return pages.show(
            request,
            "posts.html",
            place,
            posts=part.items,
            sources=await store.sources.known(post.source_id for post in part.items),
            only=only,
            first_url=_url(p, "posts", kept) if cursor else None,
            next_url=_url(p, "posts", kept, last) if last else None,
        )


def _add_articles(routes: APIRouter, app: App, pages: Pages) -> None:
    store = app.store

    @routes.get("/articles")
    async def list_articles(request: Request, p: str) -> Response:
        """Show articles of a podcast, newest first; those that nobody worked off yet at first."""
        return await articles(request, await place_of(store, request, p))

    @routes.post("/articles/aggregate")
    async def aggregate_posts(request: Request, p: str) -> Response:
        """Make articles of the posts that are in none yet."""
        podcast = _podcast(await place_of(store, request, p))
        made = await aggregate(store, podcast, app.clock.now(), app.policy)
        url, created = _url(p, "articles"), len(made.created)
        if not made.linked_posts:
            return done(url, "aggregated-nothing")
        names = {0: "aggregated-old", 1: "aggregated-one"}
        return done(url, names.get(created, "aggregated"), created, of=made.linked_posts)

    @routes.post("/articles/processed")
    async def mark(request: Request, p: str) -> Response:
        """Mark one article, or all that were chosen, as processed."""
        place = await place_of(store, request, p)
        fields = await fields_of(request)
        ids = [one(fields, "only")] if one(fields, "only") else fields.get("article", [])
        try:
            if not ids:
                raise UsageError("Choose the articles to mark first.")
            marking = await mark_processed(store, _podcast(place), ids, app.clock.now())
        except NotFound:
            gone = "One of these articles is gone, so none was marked. This is the list as it is."
            return await articles(request, place, error=gone)
        except UsageError as error:
            return await articles(request, place, error=str(error))
        shown, cursor = _shown(request), request.query_params.get("cursor")
        id_in(cursor)
        url = _url(p, "articles", {"show": shown}) + (f"&cursor={cursor}" if cursor else "")
        names = {0: "marked-none", 1: "marked-one"}
        return done(url, names.get(marking.marked, "marked"), marking.marked)

    @routes.get("/articles/{rest:path}")
    async def list_articles_instead(p: str) -> Response:
        """Lead whoever reloads the answer to a form back to the list."""
        return RedirectResponse(_url(p, "articles"), status_code=303)

    async def articles(request: Request, place: Place, error: str = "") -> Response:
        podcast, shown = _podcast(place), _shown(request)
        cursor = request.query_params.get("cursor")
        part = await store.articles.page(
            podcast.id, processed=_SHOWN[shown], limit=_PAGE, behind=id_in(cursor)
        )
        last = part.items[-1].id if part.more else None
        kept = {"show": shown}
        return pages.show(
            request,
            "articles.html",
            place,
            status=422 if error else 200,
            articles=part.items,
            sources=await store.sources.known(article.source_id for article in part.items),
            shown=shown,
            cursor=cursor,
            error=error,
            needs_token=await store.tokens.exist(),
            feeds=f"/api/users/{_quoted(podcast.user_id)}/podcasts/{_quoted(podcast.id)}",
            first_url=_url(podcast.id, "articles", kept) if cursor else None,
            next_url=_url(podcast.id, "articles", kept, last) if last else None,
        )


def _podcast(place: Place) -> Podcast:
    assert place.podcast is not None
    return place.podcast


def _shown(request: Request) -> str:
    """Which articles are asked for; what nobody knows shows those that wait."""
    wanted = request.query_params.get("show", "")
    return wanted if wanted in _SHOWN else "unprocessed"


def _url(
    podcast_id: str, screen: str, kept: dict[str, str] | None = None, last: str | None = None
) -> str:
    """A screen of a podcast, behind the last thing that was shown."""
    query = dict(kept or {}) | ({"cursor": cursor_for((last,))} if last else {})
    path = f"/podcasts/{_quoted(podcast_id)}/{screen}"
    return f"{path}?{urlencode(query)}" if query else path


def _quoted(id_: str) -> str:
    return quote(id_, safe="")
