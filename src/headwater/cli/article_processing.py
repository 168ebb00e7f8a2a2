"""The unprocess, batches, discard and annotate commands."""

import json as json_
from datetime import timedelta
from math import isfinite, nan
from typing import Annotated, Any

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, flat, number, wide
from headwater.cli.posts_and_articles import Limit, age_of, article_ids, find_post
from headwater.errors import UsageError
from headwater.model import Article, Podcast, Post
from headwater.operations.articles import (
    annotate_article,
    annotate_post,
    delete_article,
    undo_processed,
)
from headwater.rules.annotations import annotations_text
from headwater.store.annotations import Annotation
from headwater.store.article_processing import ProcessedBatch, Undo

commands = typer.Typer()


@commands.command(epilog='Example: headwater unprocess --batch "episode 12"')
def unprocess(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids, their beginnings or ends.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="NAME", help="All articles of this batch.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Undo that articles were marked as processed.

    A digest is deleted and its posts are freed: the next `aggregate` uses them again.
    """

    async def undo(app: App, podcast: Podcast) -> Undo:
        given = await article_ids(app, podcast, ids) if ids else None
        return await undo_processed(
            app.store, podcast, app.clock.now(), article_ids=given, batch=batch
        )

    undone = invocation(ctx).do_in_podcast(undo)
    if json:
        output.show_json(output.schema_json("UndoOut", undone))
        return
    text = f"{humanize.counted(undone.unmarked, 'article')} no longer processed"
    if undone.deleted_digests:
        digests = humanize.counted(undone.deleted_digests, "digest")
        posts = humanize.counted(undone.freed_posts, "post")
        text += f"; {digests} deleted, {posts} wait for `headwater aggregate`"
    output.say(text)


@commands.command(epilog="Example: headwater batches")
def batches(ctx: typer.Context, limit: Limit = 50, json: output.Json = False) -> None:
    """List the names that articles were processed with.

    The last used comes first.
    """
    call = invocation(ctx)
    found = call.do_in_podcast(
        lambda app, podcast: app.store.articles.batches(podcast.id, limit=limit)
    )
    columns: tuple[Column[ProcessedBatch], ...] = (
        wide("Batch", lambda batch: batch.name),
        number("Articles", lambda batch: batch.articles),
        Column("Processed", lambda batch: humanize.moment(batch.processed_at, call.now)),
    )
    empty = "No batches. Try: headwater articles --mark ID --batch NAME"
    output.show_items(columns, found, schema="ProcessedBatchOut", json=json, empty=empty)


@commands.command(epilog="Example: headwater discard 51f0c2a9e874 --yes")
def discard(
    ctx: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="The id, its beginning or end.")],
    drop_posts: Annotated[
        bool, typer.Option("--drop-posts", help="Delete its posts too; they do not come back.")
    ] = False,
    yes: output.Yes = False,
) -> None:
    """Delete an article and free its posts.

    The next `headwater aggregate` uses them again.
    """
    call = invocation(ctx)

    async def find(app: App, podcast: Podcast) -> Article:
        (article_id,) = await article_ids(app, podcast, [id_])
        return await app.store.articles.get(podcast.id, article_id)

    article = call.do_in_podcast(find)
    output.confirm(f"Delete {flat(article.title)}?", yes=yes)
    posts = call.do_in_podcast(
        lambda app, podcast: delete_article(
            app.store, podcast, article.id, app.clock.now(), drop_posts=drop_posts
        )
    )
    what = "deleted" if drop_posts else "freed"
    output.say(f"Deleted; {humanize.counted(posts, 'post')} {what}")


@commands.command(epilog='Example: headwater annotate 51f0c2a9e874 --set \'{"topic": "rivers"}\'')
def annotate(
    ctx: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="The id, its beginning or end.")],
    score: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="The score, or none to remove it.")
    ] = None,
    annotations: Annotated[
        str | None,
        typer.Option("--set", metavar="JSON", help="The JSON object, or none to remove it."),
    ] = None,
    post: Annotated[bool, typer.Option("--post", help="The id is that of a post.")] = False,
    json: output.Json = False,
) -> None:
    """Store a score or a JSON object with an article or post.

    Polls never change either.
    """
    values = _values(score, annotations)

    async def change(app: App, podcast: Podcast) -> tuple[Post | Article, timedelta]:
        age = age_of(app, podcast)
        if post:
            found = await find_post(app, podcast, id_)
            return await annotate_post(app.store, podcast, Annotation(found.id, values)), age
        (article_id,) = await article_ids(app, podcast, [id_])
        return await annotate_article(app.store, podcast, Annotation(article_id, values)), age

    changed, age = invocation(ctx).do_in_podcast(change)
    if json:
        output.show_json(output.schema_json("PostOut" if post else "ArticleOut", changed, age))
    else:
        output.say(f"Stored with {changed.title}")


def _values(score: str | None, annotations: str | None) -> dict[str, Any]:
    """Return the values to store by name, or raise a UsageError that names the option."""
    if score is None and annotations is None:
        raise UsageError("give --score or --set")
    values: dict[str, Any] = {}
    if score is not None:
        values["score"] = None if score == "none" else _number(score)
    if annotations is not None:
        values["annotations"] = None if annotations == "none" else _object(annotations)
    return values


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise UsageError(f"--score: {text!r} is not a number", field="score")
    return value


def _object(text: str) -> dict[str, Any]:
    try:
        value = json_.loads(text)
        if not isinstance(value, dict):
            raise ValueError("must be a JSON object")  # noqa: TRY004 - one error for all cases
        annotations_text(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--set: {error}", field="annotations") from None
    return value
