"""The posts pages of a podcast, and what the articles page shares with them."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time
from math import isfinite
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from markupsafe import Markup
from pydantic import StringConstraints

from headwater.api.schemas.pagination import Position, cursor_for, id_in, place_in
from headwater.errors import AlreadyExists, QueryError, SearchTooSlow
from headwater.formats.markdown import markdown_to_html
from headwater.model import Article, Post, Source
from headwater.operations.post_diffs import diff_of, later_versions
from headwater.operations.search import remove_search, save_search, search_request
from headwater.operations.stories import undo_story
from headwater.store.content_filter import ContentFilter, Filtered
from headwater.store.sequence_numbers import horizon
from headwater.store.sources import SourceFilter
from headwater.web.forms import fields_of, one
from headwater.web.humanize import name_of
from headwater.web.page_context import source_at
from headwater.web.rendering import DashboardPage, PodcastPage, done

PAGE = 25
_MAX_RENDERED = 300_000  # characters of Markdown on one page; further texts are shown as they are
_MAX_CHOICES = 200  # sources in the menu of the filter
_LINK_TARGET = re.compile(r"\]\([^()\s]*+\)")
_HEADING_LEVEL = 3  # below the title of a post
_FILTERED = {"only": Filtered.ONLY, "any": Filtered.ANY}  # by the `filtered` parameter
_PROCESSED = {"false": False, "true": True}  # by the `processed` parameter
routes = APIRouter(prefix="/podcasts/{p}", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class PostQuery:
    """The query and the filters of the list, as its form sends them."""

    q: Annotated[str, StringConstraints(strip_whitespace=True)] = ""
    order: str = ""
    source: str = ""
    since: str = ""
    until: str = ""
    filtered: str = ""
    processed: str = ""
    score: str = ""

    @property
    def kept(self) -> dict[str, str]:
        """The parameters of a link to the same list."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def is_limited(self) -> bool:
        """Whether not all posts are listed."""
        return bool(self.kept.keys() - {"order"})

    @property
    def has_conditions(self) -> bool:
        """Whether anything but the query is given."""
        return bool(self.kept.keys() - {"q"})

    @property
    def is_of_source(self) -> bool:
        """Whether all posts of one source are listed."""
        return self.kept.keys() - {"order"} == {"source"}

    async def chosen(self, page: DashboardPage) -> ContentFilter:
        """The filters; invalid ones are left out."""
        only = await source_at(page.store, page.podcast, self.source) if self.source else None
        return ContentFilter(
            source_id=None if only is None else only.id,
            since=_start_of(self.since),
            until=_start_of(self.until),
            processed=_PROCESSED.get(self.processed),
            min_score=number_in(self.score),
            story_once=page.podcast.stories and not self.filtered,
            filtered=_FILTERED.get(self.filtered, Filtered.NO),
        )


GivenPostQuery = Annotated[PostQuery, Depends()]


@routes.get("/posts")
async def list_posts(
    page: PodcastPage, given: GivenPostQuery, cursor: str | None = None
) -> Response:
    """Show posts of a podcast, of one of its sources or of some days, or those of a search."""
    podcast, store = page.podcast, page.store
    chosen = await given.chosen(page)
    last_number = await store.database.read_single(horizon)  # later ones are announced
    error = ""
    try:
        posts, last = await _found(page, chosen, given, cursor)
    except (QueryError, SearchTooSlow) as refused:
        posts, last, error = (), None, str(refused)
    list_url = podcast_url(podcast.id, "posts", given.kept)
    ids = [*filter(None, [chosen.source_id]), *(post.source_id for post in posts)]
    known = await store.sources.known(ids)
    return page.show(
        "posts.html",
        status=422 if error else 200,
        posts=posts,
        error=error,
        sources=known,
        later_versions=await later_versions(store, posts, known),
        choices=await _choices(page),
        searches=await store.saved_searches.all(podcast.id),
        needs_token=await store.tokens.exist(),
        only=known.get(chosen.source_id or ""),
        given=given,
        list_url=list_url,
        arrivals_url=podcast_url(podcast.id, "arrivals", given.kept | {"after": str(last_number)}),
        first_url=list_url if cursor else None,
        next_url=podcast_url(podcast.id, "posts", given.kept, last) if last else None,
    )


@routes.get("/arrivals")
async def count_arrivals(
    page: PodcastPage, given: GivenPostQuery, after: Annotated[int, Query(ge=0, lt=2**63)] = 0
) -> JSONResponse:
    """How many posts of a list were stored after a number; `more`: there are more than these."""
    chosen = await given.chosen(page)
    if not given.q:
        part = await page.store.posts.after(page.podcast.id, after, PAGE, chosen=chosen)
        return JSONResponse({"count": len(part.items), "more": part.more})
    try:
        found, last = await _found(page, chosen, replace(given, order=""), None)
    except (QueryError, SearchTooSlow):
        found, last = (), None
    new = [post for post in found if (post.seq or 0) > after]  # those stored last are first
    return JSONResponse({"count": len(new), "more": bool(last) and len(new) == len(found)})


async def _choices(page: DashboardPage) -> Sequence[Source]:
    """Return the sources to choose from by name; none if they are too many for a menu."""
    wanted = SourceFilter(podcast_id=page.podcast.id)
    found = await page.store.sources.find(wanted, limit=_MAX_CHOICES + 1)
    if len(found) > _MAX_CHOICES:
        return ()
    return sorted(found, key=lambda source: name_of(source).casefold())


@routes.get("/posts/{i}")
async def read_post(page: PodcastPage, i: str) -> Response:
    """Show one post with its whole text."""
    post = await page.store.posts.get(page.podcast.id, i)
    sources = await page.store.sources.known([post.source_id])
    text = (await rendered_texts([post])).get(post.id)
    return page.show(
        "post.html",
        post=post,
        source=sources.get(post.source_id),
        text=text,
        is_later_version=post.id in await later_versions(page.store, [post], sources),
    )


@routes.post("/posts/{i}/story/undo")
async def leave_story(page: PodcastPage, i: str) -> Response:
    """Remove a post from its story."""
    await undo_story(page.store, page.podcast, i)
    return done(f"{podcast_url(page.podcast.id, 'posts')}/{quoted(i)}", "story-undone")


@routes.get("/posts/{i}/diff")
async def show_diff(page: PodcastPage, i: str) -> Response:
    """Show what changed on a page since its previous version (W5)."""
    post = await page.store.posts.get(page.podcast.id, i)
    known = await page.store.sources.known([post.source_id])
    found = await diff_of(page.store, post)
    return page.show("post_diff.html", post=post, source=known.get(post.source_id), diff=found)


async def _found(
    page: DashboardPage, chosen: ContentFilter, given: PostQuery, cursor: str | None
) -> tuple[Sequence[Post], Position | None]:
    """The posts of a page, and the position of the last one if there are more."""
    podcast, store = page.podcast, page.store
    if given.q:
        request = search_request(
            podcast,
            given.q,
            chosen,
            now=page.app.clock.now(),
            limit=PAGE,
            by_rank=given.order == "rank",
            behind=place_in(cursor),
        )
        found = await store.search.posts(request)
        return found.items, found.next
    part = await store.posts.page(
        podcast_id=podcast.id, chosen=chosen, limit=PAGE, before=id_in(cursor)
    )
    return part.items, (part.items[-1].id,) if part.more else None


@routes.post("/searches")
async def save(page: PodcastPage) -> Response:
    """Save the search that is shown."""
    fields = await fields_of(page.request)
    name, query = one(fields, "name"), one(fields, "q")
    url = podcast_url(page.podcast.id, "posts", {"q": query})
    try:
        await save_search(page.store, page.podcast, name, query, page.app.clock.now())
    except AlreadyExists:
        return done(url, "search-exists")
    return done(url, "search-saved")


@routes.post("/searches/remove")
async def remove(page: PodcastPage) -> Response:
    """Delete a saved search."""
    name = one(await fields_of(page.request), "name")
    saved = await page.store.saved_searches.get(page.podcast.id, name)
    await remove_search(page.store, saved)
    return done(podcast_url(page.podcast.id, "posts"), "search-removed")


async def rendered_texts(things: Sequence[Post | Article]) -> dict[str, Markup]:
    """The Markdown of posts or articles as HTML by id, as far as a page should hold it."""

    def render() -> dict[str, Markup]:
        texts: dict[str, Markup] = {}
        left = _MAX_RENDERED
        for thing in things:
            left -= len(thing.markdown or "")
            if thing.markdown is not None and left >= 0:
                text = _without_title(thing.markdown, thing.title)
                html = markdown_to_html(text, top_level=_HEADING_LEVEL)
                texts[thing.id] = Markup(html)  # noqa: S704 - cleaned (T1)
        return texts

    return await asyncio.to_thread(render)  # long texts take a while (H2)


def _without_title(markdown: str, title: str) -> str:
    """The text without a first heading or paragraph that only repeats the title above it."""
    first, _, rest = markdown.partition("\n")
    is_alone = first.startswith("#") or rest.startswith("\n")
    is_title = is_alone and _letters(_LINK_TARGET.sub("]", first)) == _letters(title) != ""
    return rest if is_title and rest.strip() else markdown


def _letters(text: str) -> str:
    """The letters and digits of a text, by which it is the same with any marks and quotes."""
    return "".join(filter(str.isalnum, text)).casefold()


def _start_of(day: str) -> datetime | None:
    """The start of a day in UTC; None if the parameter is missing or invalid."""
    try:
        return datetime.combine(date.fromisoformat(day), time(), UTC)
    except ValueError:
        return None


def number_in(text: str) -> float | None:
    """Return a number; None if the parameter is missing or invalid."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def podcast_url(
    podcast_id: str, screen: str, kept: dict[str, str] | None = None, last: Position | None = None
) -> str:
    """Return the URL of a podcast's page, after the last item shown."""
    query = dict(kept or {}) | ({"cursor": cursor_for(last)} if last else {})
    path = f"/podcasts/{quoted(podcast_id)}/{screen}"
    return f"{path}?{urlencode(query)}" if query else path


def quoted(id_: str) -> str:
    """Return an id as part of a path."""
    return quote(id_, safe="")
