"""Articles: created from posts on demand, listed, annotated, marked as processed, and undone."""

from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Annotated

from fastapi import Depends, Query, Response

from headwater.api.chunked_json import streamed
from headwater.api.dependencies import (
    Age,
    CurrentApp,
    Filter,
    Numbered,
    OwnPodcast,
    Page,
    Searched,
    path_parameter,
    refuse_body,
    refuse_rank,
    search_in,
)
from headwater.api.openapi import body_example, documented_router
from headwater.api.schemas.article_inputs import (
    ArticleChanges,
    ArticleIdsIn,
    ArticlePatch,
    UndoIn,
)
from headwater.api.schemas.article_outputs import (
    AggregationOut,
    AnnotatedOut,
    MarkingOut,
    ProcessedBatchOut,
    UndoOut,
)
from headwater.api.schemas.outputs import EXAMPLE_ARTICLE, ArticleOut
from headwater.api.schemas.pagination import (
    ListPage,
    NumberedListPage,
    QueryText,
    id_in,
    numbered_page_of_part,
    page_of,
    position_in,
    searched_page,
)
from headwater.engine.article_upkeep import plan_aggregation
from headwater.errors import UsageError
from headwater.operations.articles import (
    aggregate,
    annotate_article,
    annotate_articles,
    delete_article,
    mark_one_processed,
    mark_processed,
    undo_processed,
)
from headwater.store.annotations import Annotation
from headwater.store.article_processing import ProcessedBatch
from headwater.store.content_filter import ContentFilter
from headwater.store.row_mapping import to_ms

ArticleId = Annotated[str, path_parameter("An article's id.", EXAMPLE_ARTICLE)]
_PODCAST = "/api/users/{u}/podcasts/{p}"
routes = documented_router(f"{_PODCAST}/articles", "articles")
batch_routes = documented_router(f"{_PODCAST}/batches", "articles")


async def _article_filter(
    chosen: Filter,
    batch: Annotated[
        QueryText,
        Query(
            min_length=1,
            max_length=200,
            description="Only those that were marked as processed with this name.",
            examples=["episode 12"],
        ),
    ] = None,
) -> ContentFilter:
    return replace(chosen, batch=batch)


ArticleFilter = Annotated[ContentFilter, Depends(_article_filter)]


class Order(StrEnum):
    """The order of articles: `new` is the same as `newest`, and `rank` is for searches."""

    NEWEST = "newest"
    OLDEST = "oldest"
    NEW = "new"
    RANK = "rank"


class PostsOfDeleted(StrEnum):
    """What happens to the posts of a deleted article."""

    FREE = "free"
    DROP = "drop"


@routes.get("")
async def list_articles(
    app: CurrentApp,
    podcast: OwnPodcast,
    page: Page,
    chosen: ArticleFilter,
    numbered: Numbered,
    age: Age,
    q: Searched = None,
    order: Annotated[Order, Query(description="Which articles come first.")] = Order.NEWEST,
) -> NumberedListPage[ArticleOut]:
    """List or search the articles of a podcast.

    With `after` they come in the order they were stored. A page of very long articles has fewer
    than `limit` items. The date of an article is `publishedAt`, or `createdAt` if it has none. A
    search finds an article a few seconds after it was made, and returns those made last first.
    """
    by_rank, shown = order is Order.RANK, partial(ArticleOut.of, age=age)
    if q is not None and order is not Order.OLDEST:
        request = search_in(app, podcast, page, chosen, q, by_rank=by_rank)
        return searched_page(await app.store.search.articles(request), shown)
    if q is not None:
        raise UsageError("search results have no order=oldest", field="order")
    if by_rank:
        refuse_rank()
    if numbered is not None:
        articles = app.store.articles
        read = articles.changed_after if numbered.changes else articles.after
        found = await read(podcast.id, numbered.seq, page.limit, chosen=chosen)
        return numbered.page_of(found, shown)
    part = await app.store.articles.page(
        podcast.id,
        chosen=chosen,
        limit=page.limit,
        behind=id_in(page.cursor),
        oldest_first=order is Order.OLDEST,
    )
    return numbered_page_of_part(part, shown, lambda article: (article.id,))


@routes.get("/{a}")
async def get_article(app: CurrentApp, podcast: OwnPodcast, a: ArticleId, age: Age) -> ArticleOut:
    """Get an article."""
    return ArticleOut.of(await app.store.articles.get(podcast.id, a), age)


@routes.post("/aggregate", response_model=AggregationOut, dependencies=[Depends(refuse_body)])
async def aggregate_posts(
    app: CurrentApp,
    podcast: OwnPodcast,
    age: Age,
    dry_run: Annotated[
        bool,
        Query(
            alias="dryRun",
            description="Only return what would be created; at most 100 articles are in `items`.",
        ),
    ] = False,
) -> Response:
    """Create articles from the posts that are in none yet."""
    now, shown = app.clock.now(), partial(ArticleOut.of, age=age)
    if dry_run:
        plan = await plan_aggregation(app.store, podcast, now, app.policy)
        counts = {"created": plan.created, "linkedPosts": plan.linked_posts}
        return streamed(counts, plan.articles, shown)
    made = await aggregate(app.store, podcast, now, app.policy)
    counts = {"created": len(made.created), "linkedPosts": made.linked_posts}
    return streamed(counts, app.store.articles.each(podcast.id, made.created), shown)


@routes.post("/processed")
async def mark_articles(
    app: CurrentApp,
    podcast: OwnPodcast,
    body: Annotated[ArticleIdsIn, body_example({"ids": [EXAMPLE_ARTICLE], "batch": "episode 12"})],
) -> MarkingOut:
    """Mark articles as processed: all of them, or none if an id is unknown.

    With `skipMissing` the articles that exist are marked and the other ids returned: cleanup
    may delete old articles after they were listed. The call is idempotent.
    """
    marking = await mark_processed(
        app.store,
        podcast,
        body.ids,
        app.clock.now(),
        batch=body.batch,
        skip_missing=body.skip_missing,
    )
    return MarkingOut.of(marking)


@routes.post("/unprocessed")
async def undo_marking(
    app: CurrentApp,
    podcast: OwnPodcast,
    body: Annotated[UndoIn, body_example({"batch": "episode 12"})],
) -> UndoOut:
    """Undo the marking of articles or of a whole batch: all of them, or none.

    They are as if they had never been marked. A digest is deleted and its posts are freed, so
    that the next aggregation combines them with newer ones; other articles keep their id.
    Cleanup keeps undone articles and freed posts for at least a day.
    """
    now = app.clock.now()
    undone = await undo_processed(app.store, podcast, now, article_ids=body.ids, batch=body.batch)
    return UndoOut.of(undone)


@routes.patch("")
async def annotate_many(
    app: CurrentApp,
    podcast: OwnPodcast,
    body: Annotated[ArticleChanges, body_example([{"id": EXAMPLE_ARTICLE, "score": 0.75}])],
) -> AnnotatedOut:
    """Set the scores or annotations of many articles: of all, or of none if an id is unknown."""
    changes = [Annotation(one.id, one.changes()) for one in body]
    return AnnotatedOut(changed=await annotate_articles(app.store, podcast, changes))


@routes.patch("/{a}")
async def annotate_one(
    app: CurrentApp,
    podcast: OwnPodcast,
    a: ArticleId,
    age: Age,
    body: Annotated[ArticlePatch, body_example({"score": 0.75, "annotations": {"used": True}})],
) -> ArticleOut:
    """Set the score or the annotations of an article; a field that is not given is kept."""
    change = Annotation(a, body.changes())
    return ArticleOut.of(await annotate_article(app.store, podcast, change), age)


@routes.post("/{a}/processed", dependencies=[Depends(refuse_body)])
async def mark_article(app: CurrentApp, podcast: OwnPodcast, a: ArticleId, age: Age) -> ArticleOut:
    """Mark an article as processed; the call is idempotent."""
    return ArticleOut.of(await mark_one_processed(app.store, podcast, a, app.clock.now()), age)


@routes.delete("/{a}", status_code=204)
async def remove_article(
    app: CurrentApp,
    podcast: OwnPodcast,
    a: ArticleId,
    posts: Annotated[
        PostsOfDeleted,
        Query(
            description="`free`: the next aggregation uses its posts again; `drop`: they are "
            "deleted too, and do not come back."
        ),
    ] = PostsOfDeleted.FREE,
) -> None:
    """Delete an article, and free its posts or delete them too."""
    drop = posts is PostsOfDeleted.DROP
    await delete_article(app.store, podcast, a, app.clock.now(), drop_posts=drop)


@batch_routes.get("")
async def list_batches(
    app: CurrentApp, podcast: OwnPodcast, page: Page
) -> ListPage[ProcessedBatchOut]:
    """List the names that articles were marked as processed with, the last used first."""
    after = position_in(page.cursor, int, str)
    found = await app.store.articles.batches(podcast.id, limit=page.limit + 1, after=after)
    return page_of(found, page.limit, ProcessedBatchOut.of, _position)


def _position(batch: ProcessedBatch) -> tuple[int, str]:
    return to_ms(batch.processed_at), batch.first_id
