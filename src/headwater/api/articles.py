"""Articles: made of posts on demand, listed, and marked by whoever has worked them off."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from headwater.api.inputs import ArticleIdsIn
from headwater.api.pages import Cursor, Page, id_in, limit_up_to, page_of_part
from headwater.api.parameters import refuse_body
from headwater.api.schemas import AggregationOut, ArticleOut, MarkingOut
from headwater.api.scope import PodcastName, UserName, the_podcast
from headwater.api.streams import streamed
from headwater.app import App
from headwater.operations.articles import aggregate, mark_one_processed, mark_processed

ArticleId = Annotated[str, Path(alias="a", max_length=200, description="An article's id.")]


class Order(StrEnum):
    """In which order articles are listed."""

    NEWEST = "newest"
    OLDEST = "oldest"


def article_routes(app: App) -> APIRouter:
    """`…/podcasts/{p}/articles`."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}/articles", tags=["articles"])
    store = app.store
    usual = limit_up_to(app.settings.limits.max_page_size)

    @routes.post("/aggregate", response_model=AggregationOut, dependencies=[Depends(refuse_body)])
    async def aggregate_posts(request: Request, u: UserName, p: PodcastName) -> Response:
        """Make articles of the posts that are in none yet."""
        podcast = await the_podcast(store, request, u, p)
        made = await aggregate(store, podcast, app.clock.now(), app.policy)
        counts = {"created": len(made.created), "linkedPosts": made.linked_posts}
        return streamed(counts, store.articles.each(podcast.id, made.created), ArticleOut.of)

    @routes.get("")
    async def list_articles(
        request: Request,
        u: UserName,
        p: PodcastName,
        processed: Annotated[bool | None, Query(description="Only those that are, or not.")] = None,
        order: Annotated[Order, Query(description="Which ones come first.")] = Order.NEWEST,
        limit: int = usual,
        cursor: Cursor = None,
    ) -> Page[ArticleOut]:
        """List the articles of a podcast.

        Where articles are very long, a page has fewer of them than `limit`.
        """
        podcast = await the_podcast(store, request, u, p)
        part = await store.articles.page(
            podcast.id,
            processed=processed,
            limit=limit,
            behind=id_in(cursor),
            oldest_first=order is Order.OLDEST,
        )
        return page_of_part(part, ArticleOut.of, lambda article: (article.id,))

    @routes.post("/processed")
    async def mark_articles(
        request: Request, u: UserName, p: PodcastName, body: ArticleIdsIn
    ) -> MarkingOut:
        """Mark articles as processed, all of them or, if one is unknown, none.

        With `skipMissing`, those that are there are marked and the others named: old articles may
        be cleaned up between being listed and being marked. Those that are processed stay so:
        sending the same again does no harm.
        """
        podcast = await the_podcast(store, request, u, p)
        marking = await mark_processed(
            store, podcast, body.ids, app.clock.now(), skip_missing=body.skip_missing
        )
        return MarkingOut.of(marking)

    @routes.get("/{a}")
    async def get_article(
        request: Request, u: UserName, p: PodcastName, a: ArticleId
    ) -> ArticleOut:
        """Show an article."""
        podcast = await the_podcast(store, request, u, p)
        return ArticleOut.of(await store.articles.get(podcast.id, a))

    @routes.post("/{a}/processed", dependencies=[Depends(refuse_body)])
    async def mark_article(
        request: Request, u: UserName, p: PodcastName, a: ArticleId
    ) -> ArticleOut:
        """Mark an article as processed; one that is stays so."""
        podcast = await the_podcast(store, request, u, p)
        return ArticleOut.of(await mark_one_processed(store, podcast, a, app.clock.now()))

    return routes
