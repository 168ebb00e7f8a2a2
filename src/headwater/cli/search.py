"""The search and searches commands."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import inf
from typing import Annotated

import typer

from headwater.app import App
from headwater.cli import output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, wide
from headwater.cli.posts_and_articles import (
    Limit,
    ListedArticles,
    MinScore,
    OfSource,
    OnlyHidden,
    Since,
    StoriesOnce,
    Until,
    age_of,
    article_columns,
    filter_of,
    listed_articles,
    post_columns,
)
from headwater.content import SavedSearch
from headwater.model import Podcast, Post
from headwater.operations.search import remove_search, save_search, search_request
from headwater.query.ranking import SearchOrder
from headwater.store.content_filter import Filtered

commands = typer.Typer()
_searches = typer.Typer(
    epilog='Example: headwater searches add rates "interest rates"', invoke_without_command=True
)
commands.add_typer(_searches, name="searches")
_NOTHING = "Nothing matches."
Name = Annotated[str, typer.Argument(help="The name of the search.")]


@commands.command(epilog="Example: headwater search 'title:rates -podcast' --since 7d")
def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="Words, phrases and fields.")],
    articles: Annotated[
        bool, typer.Option("--articles", help="Search in articles instead of posts.")
    ] = False,
    source: OfSource = None,
    since: Since = None,
    until: Until = None,
    filtered: OnlyHidden = False,
    stories: StoriesOnce = False,
    processed: Annotated[
        bool | None,
        typer.Option("--processed/--unprocessed", help="Only these."),
    ] = None,
    min_score: MinScore = None,
    order: Annotated[
        SearchOrder, typer.Option(help="Newest first, or words in the title first.")
    ] = SearchOrder.NEW,
    limit: Limit = 50,
    json: output.Json = False,
) -> None:
    """Search in the posts or articles of a podcast."""
    call = invocation(ctx)
    now = call.now

    async def found(
        app: App, podcast: Podcast
    ) -> ListedArticles | tuple[Sequence[Post], timedelta]:
        await _complete_index(app)
        chosen = await filter_of(app, source, since, until, now)
        chosen = replace(chosen, processed=processed, min_score=min_score, story_once=stories)
        if filtered:
            chosen = replace(chosen, filtered=Filtered.ONLY)
        by_rank = order is SearchOrder.RANK
        request = search_request(podcast, query, chosen, now=now, limit=limit, by_rank=by_rank)
        request = replace(request, max_characters=inf)
        if articles:
            results = await app.store.search.articles(request)
            return await listed_articles(app, podcast, results.items)
        return (await app.store.search.posts(request)).items, age_of(app, podcast)

    shown, show = call.do_in_podcast(found), partial(output.show_items, json=json, empty=_NOTHING)
    if isinstance(shown, ListedArticles):
        columns = article_columns(now, shown)
        show(columns, shown.articles, schema="ArticleOut", context=[shown.age])
        return
    posts, age = shown
    show(post_columns(now, filtered=filtered), posts, schema="PostOut", context=[age])


async def _complete_index(app: App) -> None:
    """Index what was stored since; a service that runs does it itself."""
    if not await asyncio.to_thread(app.store.database.is_poll_locked):
        await app.followers.catch_up()


# The function of `list` is also that of the group: it lists if there is no subcommand.
@_searches.callback()
@_searches.command(
    "list", help="List saved searches.", epilog="Example: headwater searches list --json"
)
def searches(ctx: typer.Context, json: output.Json = False) -> None:
    """List the saved searches of a podcast, or add and remove them."""
    if ctx.invoked_subcommand is not None:
        return
    columns: tuple[Column[SavedSearch], ...] = (
        wide("Name", lambda search: search.name),
        wide("Query", lambda search: search.query),
        Column("Feed token", lambda search: search.feed_token),
    )
    found = invocation(ctx).do_in_podcast(
        lambda app, podcast: app.store.saved_searches.all(podcast.id)
    )
    empty = "No saved searches."
    output.show_items(columns, found, schema="SavedSearchOut", json=json, empty=empty)


@_searches.command("add", epilog='Example: headwater searches add rates "interest rates"')
def add_search(
    ctx: typer.Context,
    name: Name,
    query: Annotated[str, typer.Argument(help="The query.")],
    json: output.Json = False,
) -> None:
    """Save a search, with a feed of what it finds."""

    async def save(app: App, podcast: Podcast) -> SavedSearch:
        return await save_search(app.store, podcast, name, query, app.clock.now())

    saved = invocation(ctx).do_in_podcast(save)
    if json:
        output.show_json(output.schema_json("SavedSearchOut", saved))
        return
    output.say(f"Saved {saved.name}; the token of its feed is {saved.feed_token}")


@_searches.command("remove", epilog="Example: headwater searches remove rates")
def remove_search_(ctx: typer.Context, name: Name) -> None:
    """Delete a saved search; its feed ends."""

    async def remove(app: App, podcast: Podcast) -> None:
        await remove_search(app.store, await app.store.saved_searches.get(podcast.id, name))

    invocation(ctx).do_in_podcast(remove)
    output.say(f"Removed {name}")
