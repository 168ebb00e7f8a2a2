"""Posts, and the history of polls."""

from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Annotated

from fastapi import Query

from headwater.api.dependencies import (
    Age,
    CurrentApp,
    Filter,
    Numbered,
    OwnPodcast,
    OwnSource,
    Page,
    Searched,
    path_parameter,
    refuse_rank,
    search_in,
)
from headwater.api.openapi import body_example, documented_router
from headwater.api.schemas.article_inputs import PostPatch
from headwater.api.schemas.outputs import EXAMPLE_POST, DiffOut, PostOut
from headwater.api.schemas.pagination import (
    ListPage,
    MinScore,
    NumberedListPage,
    WithFiltered,
    id_in,
    numbered_page_of_part,
    page_of,
    page_of_part,
    position_in,
    searched_page,
)
from headwater.api.schemas.source_outputs import PollDayOut, PollRecordOut
from headwater.operations.articles import annotate_post
from headwater.operations.post_diffs import diff_of
from headwater.operations.stories import undo_story
from headwater.store.annotations import Annotation
from headwater.store.content_filter import ContentFilter, Filtered
from headwater.store.poll_days import day_number

PostId = Annotated[str, path_parameter("A post's id.", EXAMPLE_POST)]
routes = documented_router("/api/users/{u}/podcasts/{p}", "posts")


class PostOrder(StrEnum):
    """The order of posts: the newest first, or those with the words of the query in the title."""

    NEW = "new"
    RANK = "rank"


@routes.get("/posts")
async def list_podcast_posts(
    app: CurrentApp,
    podcast: OwnPodcast,
    page: Page,
    chosen: Filter,
    numbered: Numbered,
    age: Age,
    q: Searched = None,
    order: Annotated[PostOrder, Query(description="Which posts come first.")] = PostOrder.NEW,
) -> NumberedListPage[PostOut]:
    """List or search the posts of a podcast, newest first.

    With `after` they come in the order they were stored. A page of very long posts has fewer than
    `limit` items. The date of a post is `publishedAt`, or `createdAt` if it has none. A search
    finds a post a few seconds after it was stored, and returns those stored last first.
    """
    if numbered is not None and numbered.changes and chosen.filtered is Filtered.NO:
        # that a filter hides a post now is a change too (V1)
        chosen = replace(chosen, filtered=Filtered.ANY)
    by_rank, shown = order is PostOrder.RANK, partial(PostOut.of, age=age)
    if q is not None:
        request = search_in(app, podcast, page, chosen, q, by_rank=by_rank)
        return searched_page(await app.store.search.posts(request), shown)
    if by_rank:
        refuse_rank()
    if numbered is not None:
        posts = app.store.posts
        read = posts.changed_after if numbered.changes else posts.after
        found = await read(podcast.id, numbered.seq, page.limit, chosen=chosen)
        return numbered.page_of(found, shown)
    before = id_in(page.cursor)
    part = await app.store.posts.page(
        podcast_id=podcast.id,
        chosen=chosen,
        limit=page.limit,
        before=before,
    )
    return numbered_page_of_part(part, shown, lambda post: (post.id,))


@routes.get("/posts/{i}")
async def get_post(app: CurrentApp, podcast: OwnPodcast, i: PostId, age: Age) -> PostOut:
    """Get a post."""
    return PostOut.of(await app.store.posts.get(podcast.id, i), age)


@routes.patch("/posts/{i}")
async def annotate(
    app: CurrentApp,
    podcast: OwnPodcast,
    i: PostId,
    age: Age,
    body: Annotated[PostPatch, body_example({"score": 0.75, "annotations": {"used": True}})],
) -> PostOut:
    """Set the score or the annotations of a post; a field that is not given is kept."""
    post = await annotate_post(app.store, podcast, Annotation(i, body.changes()))
    return PostOut.of(post, age)


@routes.get("/posts/{i}/diff")
async def diff_post(app: CurrentApp, podcast: OwnPodcast, i: PostId) -> DiffOut:
    """Compare a post of a web page with the previous version of the page, sentence by sentence.

    Parts that are `same` or `added` make up the text of this version, `same` or `removed` ones
    that of the previous version. If there is no previous version, or it was deleted by cleanup,
    `from` is null and everything is `added`; so it is for posts of feeds and timelines.
    """
    post = await app.store.posts.get(podcast.id, i)
    return DiffOut.of(await diff_of(app.store, post))


@routes.delete("/posts/{i}/story", status_code=204)
async def leave_story(app: CurrentApp, podcast: OwnPodcast, i: PostId) -> None:
    """Remove a post from its story: it reports something else.

    The post is never grouped again. If it was left out of articles as a copy, it waits to be
    aggregated again. The call is idempotent.
    """
    await undo_story(app.store, podcast, i)


@routes.get("/sources/{s}/posts")
async def list_source_posts(
    app: CurrentApp,
    source: OwnSource,
    page: Page,
    age: Age,
    min_score: MinScore = None,
    filtered: WithFiltered = Filtered.NO,
) -> ListPage[PostOut]:
    """List the posts of a source, newest first.

    A page of very long posts has fewer than `limit` items.
    """
    part = await app.store.posts.page(
        source_id=source.id,
        chosen=ContentFilter(min_score=min_score, filtered=filtered),
        limit=page.limit,
        before=id_in(page.cursor),
    )
    return page_of_part(part, partial(PostOut.of, age=age), lambda post: (post.id,))


@routes.get("/sources/{s}/polls")
async def list_polls(app: CurrentApp, source: OwnSource, page: Page) -> ListPage[PollRecordOut]:
    """List the stored polls of a source, newest first.

    Polls older than `app.source.poll-history-days` are in the list of days only.
    """
    (before,) = position_in(page.cursor, int) or (None,)
    found = await app.store.polls.newest(source.id, limit=page.limit + 1, before=before)
    return page_of(found, page.limit, PollRecordOut.of, lambda poll: (poll.id,))


@routes.get("/sources/{s}/poll-days")
async def list_poll_days(app: CurrentApp, source: OwnSource, page: Page) -> ListPage[PollDayOut]:
    """Count the polls of a source by day (UTC), newest first; days without a poll are left out.

    Days are kept for `app.source.daily-history-days`, longer than single polls.
    """
    (before,) = position_in(page.cursor, int) or (None,)
    found = await app.store.poll_days.newest(source.id, limit=page.limit + 1, before=before)
    return page_of(found, page.limit, PollDayOut.of, lambda one: (day_number(one.day),))
