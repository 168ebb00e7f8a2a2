"""Commands about what polls brought: posts, articles, aggregate."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from headwater.api.schemas import AggregationOut, ArticleOut, PostOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.errors import NotFound, UsageError
from headwater.model import Article, Podcast, Post
from headwater.operations.articles import aggregate as make_articles
from headwater.operations.articles import mark_processed
from headwater.operations.sources import find_source
from headwater.store.articles import Aggregation

commands = typer.Typer()
_PANEL = "Posts and articles"
_PAGE = 500
_ID_LENGTH = 36
_ROOMY = 110  # columns from which there is room for whole ids
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")]
_POST_COLUMNS = (
    output.Column("Published"),
    output.wide("Title"),
    output.spare(output.wide("Author")),
    output.spare(output.wide("Link")),
)
_ARTICLE_COLUMNS = (
    output.Column("ID"),
    output.spare(output.Column("Published"), 2),
    output.Column("Processed"),
    output.spare(output.number("Posts"), 3),
    output.wide("Title", least=20),
)


@commands.command(rich_help_panel=_PANEL, epilog="Example: headwater posts --source 3f2a --limit 5")
def posts(
    ctx: typer.Context,
    source: Annotated[str | None, typer.Option(metavar="ID", help="Of this source.")] = None,
    limit: Limit = 50,
    json: output.Json = False,
) -> None:
    """Show the posts of a podcast or source, newest first."""
    call = invocation(ctx)
    found, now = call.do(lambda app: _posts(call, app, source, limit))
    if json:
        output.show_json(output.plain(PostOut.of(post) for post in found))
        return
    output.show_table(
        _POST_COLUMNS,
        [[_published(p, now), p.title, p.author or "", p.url] for p in found],
        empty="No posts yet.",
    )


@commands.command(rich_help_panel=_PANEL, epilog="Example: headwater articles --unprocessed --json")
def articles(
    ctx: typer.Context,
    processed: Annotated[
        bool | None, typer.Option("--processed/--unprocessed", help="Only those.")
    ] = None,
    mark: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Mark as processed: id, its beginning or end."),
    ] = None,
    limit: Limit = 50,
    json: output.Json = False,
) -> None:
    """Show articles, newest first, or mark some as processed."""
    call = invocation(ctx)
    if mark:
        changed = call.do(lambda app: _marked(call, app, mark))
        output.show_json({"marked": changed}) if json else output.say(f"Marked {changed:,}")
        return
    found, now = call.do(lambda app: _articles(call, app, processed, limit))
    if json:
        output.show_json(output.plain(ArticleOut.of(article) for article in found))
        return
    rows = [_article_row(article, now) for article in found]
    output.show_table(_ARTICLE_COLUMNS, rows, empty="No articles. Try: headwater aggregate")


@commands.command(rich_help_panel=_PANEL, epilog="Example: headwater aggregate --podcast default")
def aggregate(ctx: typer.Context, json: output.Json = False) -> None:
    """Make articles of the posts that are in none yet."""
    call = invocation(ctx)
    made, new, now = call.do(lambda app: _aggregated(call, app))
    if json:
        output.show_json(AggregationOut.of(made, new).plain())
        return
    if new:
        rows = [_article_row(article, now) for article in new]
        output.show_table(_ARTICLE_COLUMNS, rows, empty="")
    if output.on_terminal() or not made.created:
        created = words.counted(len(made.created), "article")
        told = f"{created} made of {words.counted(made.linked_posts, 'post')}"
        output.say(Text(told, style="bold"))


async def _posts(
    call: Invocation, app: App, wanted: str | None, limit: int
) -> tuple[Sequence[Post], datetime]:
    _, podcast = await call.place(app)
    now = app.clock.now()
    if wanted is None:
        return await app.store.posts.newest(podcast_id=podcast.id, limit=limit), now
    source = await find_source(app.store, wanted)
    return await app.store.posts.newest(source_id=source.id, limit=limit), now


async def _articles(
    call: Invocation, app: App, processed: bool | None, limit: int
) -> tuple[Sequence[Article], datetime]:
    _, podcast = await call.place(app)
    found = await app.store.articles.newest(podcast.id, processed=processed, limit=limit)
    return found, app.clock.now()


async def _marked(call: Invocation, app: App, ids: Sequence[str]) -> int:
    _, podcast = await call.place(app)
    whole = list(ids)
    if any(len(wanted) < _ID_LENGTH for wanted in ids):
        known = [article_id async for article_id in _ids(app, podcast)]
        whole = [_whole(wanted, known) for wanted in ids]
    return (await mark_processed(app.store, podcast, whole, app.clock.now())).marked


async def _ids(app: App, podcast: Podcast) -> AsyncIterator[str]:
    """The ids of all articles of a podcast."""
    before = None
    while page := await app.store.articles.newest(podcast.id, limit=_PAGE, before=before):
        for article in page:
            yield article.id
        before = page[-1].id


def _whole(wanted: str, known: Sequence[str]) -> str:
    """The one id that begins or ends so; ids of one day differ at the end."""
    if wanted in known:
        return wanted
    part = wanted.removeprefix("…")
    matches = [i for i in known if part and (i.startswith(part) or i.endswith(part))]
    if not matches:
        raise NotFound(f"there is no article {wanted}")
    if len(matches) > 1:
        raise UsageError(f"{wanted!r} fits {len(matches)} articles; give more of the id")
    return matches[0]


async def _aggregated(
    call: Invocation, app: App
) -> tuple[Aggregation, Sequence[Article], datetime]:
    _, podcast = await call.place(app)
    now = app.clock.now()
    made = await make_articles(app.store, podcast, now, app.policy)
    return made, [a async for a in app.store.articles.each(podcast.id, made.created)], now


def _article_row(article: Article, now: datetime) -> list[output.Cell]:
    narrow = output.on_terminal() and output.console().width < _ROOMY
    return [
        f"…{article.id[-8:]}" if narrow else article.id,
        _published(article, now),
        "yes" if article.is_processed else "no",
        str(len(article.post_ids)),
        article.title,
    ]


def _published(post: Post | Article, now: datetime) -> str:
    if output.on_terminal():
        return words.when(post.published_at, now, never="undated")
    return "–" if post.published_at is None else words.clock(post.published_at)
