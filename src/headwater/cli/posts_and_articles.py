"""The posts, articles and aggregate commands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import Annotated

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, Styled, number, wide
from headwater.cli.moments import moment_of
from headwater.engine.article_upkeep import plan_aggregation
from headwater.errors import NotFound, UsageError
from headwater.model import AlsoFrom, Article, Podcast, Post, Source
from headwater.operations.articles import aggregate as create_articles
from headwater.operations.articles import mark_processed
from headwater.operations.podcast_views import expiring_soon
from headwater.operations.post_diffs import PostDiff, diff_of
from headwater.operations.sources import find_source
from headwater.operations.stories import undo_story as leave_story
from headwater.rules.admission import article_age
from headwater.rules.markdown_text import markdown_of_text
from headwater.rules.retention import article_expires_at, post_expires_at
from headwater.rules.text_diff import DiffOp
from headwater.store.aggregation import Plan
from headwater.store.content_filter import ContentFilter, Filtered

commands = typer.Typer()
_PAGE = 500
_ID_LENGTH = 36
_DIFF_MARKS = {
    DiffOp.SAME: (" ", "dim"),
    DiffOp.ADDED: ("+", "green"),
    DiffOp.REMOVED: ("-", "red"),
}
_NARROW = 110  # a terminal with fewer columns shows shortened ids
Soon = Annotated[bool, typer.Option("--expiring", help="Only what is deleted within a day.")]
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="Show at most this many.")]
OfSource = Annotated[str | None, typer.Option(metavar="ID", help="Of this source.")]
Since = Annotated[
    str | None, typer.Option(metavar="WHEN", help="From then on, such as 7d, 12h or 2027-01-31.")
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Before then.")]
OnlyHidden = Annotated[bool, typer.Option("--filtered", help="Only posts that a filter hides.")]
StoriesOnce = Annotated[
    bool, typer.Option("--stories", help="Show a story once that several sources report.")
]
MinScore = Annotated[float | None, typer.Option(help="Only with at least this score.")]


@commands.command(epilog="Example: headwater posts --source 3f2a --limit 5")
def posts(
    ctx: typer.Context,
    source: OfSource = None,
    since: Since = None,
    until: Until = None,
    filtered: OnlyHidden = False,
    stories: StoriesOnce = False,
    expiring: Soon = False,
    limit: Limit = 50,
    json: output.Json = False,
) -> None:
    """Show the posts of a podcast or source, newest first."""

    call = invocation(ctx)
    now = call.now

    async def newest(app: App, podcast: Podcast) -> tuple[Sequence[Post], timedelta]:
        chosen = await filter_of(app, source, since, until, now)
        if filtered:
            chosen = replace(chosen, filtered=Filtered.ONLY)
        if expiring:
            chosen = replace(chosen, expiring=expiring_soon(podcast, now, app.policy))
        page = await app.store.posts.page(
            podcast_id=podcast.id,
            chosen=replace(chosen, story_once=stories),
            limit=limit,
            max_characters=inf,
        )
        return page.items, age_of(app, podcast)

    columns = post_columns(now, filtered=filtered)
    found, age = call.do_in_podcast(newest)
    empty = "No posts yet."
    output.show_items(columns, found, schema="PostOut", json=json, empty=empty, context=[age])


@commands.command(epilog="Example: headwater post 51f0c2a9e874")
def post(
    ctx: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="The id, its beginning or end.")],
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what changed since the page's previous version.")
    ] = False,
    undo_story: Annotated[
        bool,
        typer.Option("--undo-story", help="Remove it from its story: it is not the same news."),
    ] = False,
    json: output.Json = False,
) -> None:
    """Show one post with its whole text.

    It is rendered on a terminal, and one Markdown document in a pipe.
    """
    call = invocation(ctx)
    if diff:
        _show_diff(call.do_in_podcast(lambda app, podcast: _diff(app, podcast, id_)), json=json)
        return

    if undo_story:
        undone = call.do_in_podcast(lambda app, podcast: _undo_story(app, podcast, id_))
        text = "Removed the post from its story" if undone else "The post is in no story"
        output.show_json({"undone": undone}) if json else output.say(text)
        return

    async def found(app: App, podcast: Podcast) -> tuple[Post, Source | None, timedelta]:
        shown = await find_post(app, podcast, id_)
        sources = await app.store.sources.known([shown.source_id])
        return shown, sources.get(shown.source_id), age_of(app, podcast)

    shown, source, age = call.do_in_podcast(found)
    if json:
        output.show_json(output.schema_json("PostOut", shown, age))
        return
    fields = {
        "Link": shown.url,
        "Source": None if source is None else humanize.source_name(source),
        "Published": humanize.moment(shown.published_at, call.now),
        "Author": shown.author,
        "Text": humanize.text_state(shown),
        "Page not used": shown.full_text_error,
        "Also from": "\n".join(_also_from(each, call.now) for each in shown.also_from) or None,
        "Expires": _moment_or_none(post_expires_at(shown, age), call.now),
        "Categories": ", ".join(shown.categories) or None,
        "Files": "\n".join(file.url for file in shown.enclosures) or None,
    }
    text = shown.markdown if shown.markdown is not None else markdown_of_text(shown.body)
    output.show_document(shown.title, fields, text)


@commands.command(epilog="Example: headwater articles --unprocessed --json")
def articles(
    ctx: typer.Context,
    processed: Annotated[
        bool | None, typer.Option("--processed/--unprocessed", help="Only these.")
    ] = None,
    mark: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Mark as processed: id, its beginning or end."),
    ] = None,
    source: OfSource = None,
    since: Since = None,
    until: Until = None,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only of this batch; with --mark: the name of the batch."
        ),
    ] = None,
    min_score: MinScore = None,
    expiring: Soon = False,
    limit: Limit = 50,
    json: output.Json = False,
) -> None:
    """Show articles, newest first, or mark some as processed.

    `headwater unprocess` undoes it.
    """
    call = invocation(ctx)
    if mark:
        changed = call.do_in_podcast(lambda app, podcast: _mark(app, podcast, mark, batch))
        output.show_json({"marked": changed}) if json else output.say(f"Marked {changed:,}")
        return

    async def newest(app: App, podcast: Podcast) -> ListedArticles:
        chosen = await filter_of(app, source, since, until, call.now)
        chosen = replace(chosen, processed=processed, min_score=min_score, batch=batch)
        if expiring:
            chosen = replace(chosen, expiring=expiring_soon(podcast, call.now, app.policy))
        page = app.store.articles.page
        found = await page(podcast.id, chosen=chosen, limit=limit, max_characters=inf)
        return await listed_articles(app, podcast, found.items)

    found = call.do_in_podcast(newest)
    columns, empty = article_columns(call.now, found), "No articles. Try: headwater aggregate"
    if batch is not None:
        empty = "No articles of this batch. Try: headwater batches"
    show = partial(output.show_items, schema="ArticleOut", json=json, empty=empty)
    show(columns, found.articles, context=[found.age])


@commands.command(epilog="Example: headwater aggregate --podcast default")
def aggregate(
    ctx: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be created.")
    ] = False,
    json: output.Json = False,
) -> None:
    """Create articles from posts that are in no article."""

    async def create(app: App, podcast: Podcast) -> tuple[Plan, ListedArticles]:
        now = app.clock.now()
        if dry_run:
            plan = await plan_aggregation(app.store, podcast, now, app.policy)
            return plan, await listed_articles(app, podcast, plan.articles)
        made = await create_articles(app.store, podcast, now, app.policy)
        new = [a async for a in app.store.articles.each(podcast.id, made.created)]
        plan = Plan(len(made.created), made.linked_posts, tuple(new))
        return plan, await listed_articles(app, podcast, new)

    call = invocation(ctx)
    made, found = call.do_in_podcast(create)
    if json:
        numbers = made.created, made.linked_posts
        output.show_json(output.schema_json("AggregationOut", *numbers, made.articles, found.age))
        return
    if made.articles:
        output.show_table(article_columns(call.now, found), made.articles)
    if output.on_terminal() or not made.created:
        created = humanize.counted(made.created, "article")
        linked = humanize.counted(made.linked_posts, "post")
        verb = "would be made" if dry_run else "made"
        if made.copies:
            linked += f" and {humanize.counted(made.copies, 'copy')} of their stories"
        output.say(Styled(f"{created} {verb} of {linked}", "bold"))


def age_of(app: App, podcast: Podcast) -> timedelta:
    """Return the age limit of a podcast."""
    return article_age(podcast.max_article_age_days, app.policy)


def _hidden_by(post: Post) -> str:
    return "" if post.filtered_by is None else post.filtered_by.value


async def filter_of(
    app: App, source: str | None, since: str | None, until: str | None, now: datetime
) -> ContentFilter:
    """The filter that options state; the source may be of another podcast."""
    found = None if source is None else await find_source(app.store, source)
    return ContentFilter(
        source_id=None if found is None else found.id,
        since=None if since is None else moment_of(since, now, ago=True),
        until=None if until is None else moment_of(until, now, ago=True),
    )


def post_columns(now: datetime, *, filtered: bool = False) -> tuple[Column[Post], ...]:
    """The columns of a table of posts."""
    return (
        Column("ID", lambda post: _shown_id(post.id)),
        Column("Published", lambda post: humanize.moment(post.published_at, now)),
        *([Column("Filter", _hidden_by)] if filtered else ()),
        wide("Title", lambda post: post.title, min_width=30),
        wide("Author", lambda post: post.author or "", optional=1),
        wide("Link", lambda post: post.url, optional=1),
    )


def _moment_or_none(at: datetime | None, now: datetime) -> str | None:
    return None if at is None else humanize.moment(at, now)


@dataclass(frozen=True, slots=True)
class ListedArticles:
    """Articles of a table, with what its columns need."""

    articles: Sequence[Article]
    sources: Mapping[str, Source]
    age: timedelta  # the limit of the podcast


async def listed_articles(
    app: App, podcast: Podcast, articles: Sequence[Article]
) -> ListedArticles:
    """The articles with their sources."""
    sources = await app.store.sources.known(article.source_id for article in articles)
    return ListedArticles(articles, sources, age_of(app, podcast))


def article_columns(now: datetime, found: ListedArticles) -> tuple[Column[Article], ...]:
    """The columns of a table of articles; those for scores and batches only if there are any."""

    def expires(article: Article) -> str:
        return _moment_or_none(article_expires_at(article, found.age), now) or "–"

    def source_name(article: Article) -> str:
        source = found.sources.get(article.source_id)
        return "" if source is None else humanize.source_name(source)

    has_scores = any(article.score is not None for article in found.articles)
    has_batches = any(article.batch for article in found.articles)
    return (
        Column("ID", lambda article: _shown_id(article.id)),
        Column("Published", lambda a: humanize.moment(a.published_at, now), optional=2),
        Column("Processed", lambda article: "yes" if article.is_processed else "no"),
        number("Posts", lambda article: len(article.post_ids), optional=3),
        Column("Expires", expires, optional=3),
        wide("Title", lambda article: article.title, min_width=20),
        Column(
            "Follows", lambda a: f"…{a.follow_up_of[-12:]}" if a.follow_up_of else "", optional=4
        ),
        wide("Source", source_name, optional=3),
        *([number("Score", _score, optional=1)] if has_scores else ()),
        *([Column("Batch", _batch, optional=2)] if has_batches else ()),
    )


def _batch(article: Article) -> str:
    return article.batch or ""


def _score(article: Article) -> str:
    return "" if article.score is None else f"{article.score:.6g}"


def _shown_id(id_: str) -> str:
    """Return an id that commands accept: its end on a narrow terminal, complete elsewhere."""
    narrow = output.on_terminal() and output.width() < _NARROW
    return f"…{id_[-12:]}" if narrow else id_


def _also_from(other: AlsoFrom, now: datetime) -> str:
    name = other.source.label or other.source.url
    return f"{name}, {humanize.moment(other.timestamp, now)}: {other.link}"


async def _undo_story(app: App, podcast: Podcast, wanted: str) -> bool:
    post = await find_post(app, podcast, wanted)
    return await leave_story(app.store, podcast, post.id)


async def _diff(app: App, podcast: Podcast, wanted: str) -> PostDiff:
    return await diff_of(app.store, await find_post(app, podcast, wanted))


def _show_diff(found: PostDiff, *, json: bool) -> None:
    """Print the lines of a diff: added ones with `+`, removed ones with `-`."""
    if json:
        output.show_json(output.schema_json("DiffOut", found))
        return
    if found.previous is None:
        output.note("There is no previous version to compare with; all of the text is new.")
    for part in found.parts:
        mark, style = _DIFF_MARKS[part.op]
        for line in part.text.splitlines():
            if line.strip():
                output.say(Styled(f"{mark} {line.strip()}", style))


async def find_post(app: App, podcast: Podcast, wanted: str) -> Post:
    """Return the post whose id begins or ends so."""
    if len(wanted) < _ID_LENGTH:
        known, before = list[str](), None
        list_page = app.store.posts.page
        while page := (await list_page(podcast_id=podcast.id, limit=_PAGE, before=before)).items:
            known += [post.id for post in page]
            before = known[-1]
        wanted = _complete_id(wanted, known, "post")
    return await app.store.posts.get(podcast.id, wanted)


async def _mark(app: App, podcast: Podcast, ids: Sequence[str], batch: str | None) -> int:
    ids = await article_ids(app, podcast, ids)
    marking = await mark_processed(app.store, podcast, ids, app.clock.now(), batch=batch)
    return marking.marked


async def article_ids(app: App, podcast: Podcast, parts: Sequence[str]) -> Sequence[str]:
    """Return the ids of articles that begin or end so."""
    if all(len(part) >= _ID_LENGTH for part in parts):
        return parts
    known, before = list[str](), None
    list_page = app.store.articles.page
    while page := (await list_page(podcast.id, limit=_PAGE, behind=before)).items:
        known += [article.id for article in page]
        before = known[-1]
    return [_complete_id(part, known, "article") for part in parts]


def _complete_id(wanted: str, known: Sequence[str], noun: str) -> str:
    """Return the one id that begins or ends so; ids of one day differ at the end."""
    if wanted in known:
        return wanted
    part = wanted.removeprefix("…")
    matches = [i for i in known if part and (i.startswith(part) or i.endswith(part))]
    if not matches:
        raise NotFound(f"there is no {noun} {wanted}")
    if len(matches) > 1:
        raise UsageError(f"{wanted!r} fits {len(matches)} {noun}s; give more of the id")
    return matches[0]
