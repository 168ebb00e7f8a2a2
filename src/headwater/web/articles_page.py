"""The articles page of a podcast: aggregate, mark, undo, delete; what waits and what expires."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from headwater.api.schemas.pagination import Position, id_in, place_in
from headwater.engine.article_upkeep import plan_aggregation
from headwater.errors import NotFound, QueryError, SearchTooSlow, UsageError
from headwater.model import Article
from headwater.operations.articles import (
    aggregate,
    delete_article,
    mark_processed,
    undo_processed,
)
from headwater.operations.podcast_views import expiring_soon, pending_posts
from headwater.operations.search import search_request
from headwater.rules.admission import article_age
from headwater.rules.retention import article_expires_at
from headwater.store.article_processing import ProcessedBatch
from headwater.store.content_filter import ContentFilter
from headwater.store.keyset_pages import KeysetPage
from headwater.web.forms import fields_of, one
from headwater.web.posts_page import PAGE, number_in, podcast_url, quoted, rendered_texts
from headwater.web.rendering import DashboardPage, PodcastPage, done

# the `processed` filter, by the `show` parameter
_SHOWN: dict[str, bool | None] = {
    "unprocessed": False,
    "expiring": False,
    "processed": True,
    "all": None,
}
_MAX_POSTS = 50  # of a digest that are listed
_MAX_BATCHES = 20
_UNDO = "undo"  # the query parameter with the ids that the last action has marked
_GONE = "One of these articles is gone, so none was {}. This is the list as it is."
_Listed = tuple[Sequence[Article], Position | None]  # and where to continue, if there are more
routes = APIRouter(prefix="/podcasts/{p}/articles", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class UndoBar:
    """What the last action has marked, and the button that takes it back."""

    ids: tuple[str, ...]

    @classmethod
    def in_url(cls, request: Request) -> "UndoBar | None":
        """The bar that the URL asks for, if any; ids that do not exist do no harm."""
        ids = request.query_params.get(_UNDO, "").split(",")
        return cls(tuple(ids)) if ids != [""] and len(ids) <= PAGE else None


@dataclass(frozen=True, slots=True)
class ArticleQuery:
    """Which articles the list has, as its URL states it."""

    shown: str
    q: str  # empty: no search
    batch: str  # empty: of any batch, or of none
    score: str  # at least this one; empty: any, or none

    @classmethod
    def in_url(cls, request: Request) -> "ArticleQuery":
        """The query of a request; unprocessed articles if `show` is invalid."""
        given = request.query_params
        shown = given.get("show", "")
        return cls(
            shown if shown in _SHOWN else "unprocessed",
            given.get("q", "").strip(),
            given.get("batch", ""),
            given.get("score", ""),
        )

    @property
    def kept(self) -> dict[str, str]:
        """The parameters of a link to the same list."""
        more = {"q": self.q, "batch": self.batch, "score": self.score}
        return {"show": self.shown} | {name: value for name, value in more.items() if value}


@routes.get("")
async def list_articles(page: PodcastPage) -> Response:
    """Show articles of a podcast, newest first; unprocessed ones by default."""
    return await _articles(page)


@routes.post("/aggregate")
async def aggregate_posts(page: PodcastPage) -> Response:
    """Create articles from posts that are in no article."""
    made = await aggregate(page.store, page.podcast, page.app.clock.now(), page.app.policy)
    url, created = podcast_url(page.podcast.id, "articles"), len(made.created)
    if not made.linked_posts:
        return done(url, "aggregated-nothing")
    names = {0: "aggregated-old", 1: "aggregated-one"}
    return done(url, names.get(created, "aggregated"), created, of=made.linked_posts)


@routes.post("/processed")
async def mark(page: PodcastPage) -> Response:
    """Mark one article, or all that were chosen, as processed; the next page can undo it (E1)."""
    fields = await fields_of(page.request)
    ids = [one(fields, "only")] if one(fields, "only") else fields.get("article", [])
    try:
        if not ids:
            raise UsageError("Choose the articles to mark first.")
        batch, now = one(fields, "batch") or None, page.app.clock.now()
        marking = await mark_processed(page.store, page.podcast, ids, now, batch=batch)
    except NotFound:
        return await _articles(page, error=_GONE.format("marked"))
    except UsageError as error:
        return await _articles(page, error=str(error))
    names = {0: "marked-none", 1: "marked-one"}
    undo = {_UNDO: ",".join(marking.marked_ids)} if 0 < marking.marked <= PAGE else {}
    return done(_back(page, **undo), names.get(marking.marked, "marked"), marking.marked)


@routes.post("/unprocessed")
async def undo(page: PodcastPage) -> Response:
    """Undo the marking of some articles, or of a batch (E1)."""
    fields = await fields_of(page.request)
    ids, now = fields.get("marked"), page.app.clock.now()
    batch = one(fields, "batch") if ids is None else None
    try:
        undone = await undo_processed(page.store, page.podcast, now, article_ids=ids, batch=batch)
    except NotFound as error:
        gone = _GONE.format("undone") if batch is None else f"Nothing was changed: {error}."
        return await _articles(page, error=gone)
    if undone.deleted_digests:
        return done(_back(page), "undone-digests", undone.unmarked, of=undone.freed_posts)
    names = {0: "undone-none", 1: "undone-one"}
    return done(_back(page), names.get(undone.unmarked, "undone"), undone.unmarked)


@routes.post("/{a}/delete")
async def delete(page: PodcastPage, a: str) -> Response:
    """Delete an article; its posts are freed or deleted too (E2)."""
    fields, now = await fields_of(page.request), page.app.clock.now()
    drop = one(fields, "posts") == "drop"
    posts = await delete_article(page.store, page.podcast, a, now, drop_posts=drop)
    return done(_back(page), "article-dropped" if drop else "article-deleted", posts)


@routes.get("/{rest:path}")
async def list_articles_instead(p: str) -> Response:
    """Redirect a reload after a form to the list."""
    return RedirectResponse(podcast_url(p, "articles"), status_code=303)


async def _articles(page: DashboardPage, error: str = "") -> Response:
    """Return the list of articles, or an error above it."""
    podcast, store, now, policy = page.podcast, page.store, page.app.clock.now(), page.app.policy
    query, cursor = ArticleQuery.in_url(page.request), page.request.query_params.get("cursor")
    only, last = page.request.query_params.get("article"), None
    items: Sequence[Article] = ()
    try:
        items, last = await (_listed(page, query, cursor) if only is None else _alone(page, only))
    except (QueryError, SearchTooSlow) as refused:
        error = error or f"{str(refused)[:1].upper()}{str(refused)[1:]}."
    kept, plans = query.kept, "plan" in page.request.query_params
    return page.show(
        "articles.html",
        status=422 if error else 200,
        articles=items,
        texts=await rendered_texts(items),
        posts=await _posts_of(page, items),
        expiry=_expiry(page, items),
        sources=await store.sources.known(article.source_id for article in items),
        pending=await pending_posts(store, podcast, now, policy),
        plan=await plan_aggregation(store, podcast, now, policy) if plans else None,
        batches=await _batches(page) if query.shown == "processed" and not query.batch else (),
        undo=None if error else UndoBar.in_url(page.request),
        shown=query.shown,
        batch=query.batch,
        score=query.score,
        is_one=only is not None,
        max_posts=_MAX_POSTS,
        q=query.q,
        kept=urlencode(kept | ({"cursor": cursor} if cursor else {})),
        error=error,
        needs_token=await store.tokens.exist(),
        feeds=f"/api/users/{quoted(podcast.user_id)}/podcasts/{quoted(podcast.id)}",
        first_url=podcast_url(podcast.id, "articles", kept) if cursor else None,
        next_url=podcast_url(podcast.id, "articles", kept, last) if last else None,
    )


async def _listed(page: DashboardPage, query: ArticleQuery, cursor: str | None) -> _Listed:
    """A page of the list, or of a search in it."""
    now, policy = page.app.clock.now(), page.app.policy
    soon = expiring_soon(page.podcast, now, policy) if query.shown == "expiring" else None
    processed, batch = _SHOWN[query.shown], query.batch or None
    chosen = ContentFilter(
        processed=processed, expiring=soon, batch=batch, min_score=number_in(query.score)
    )
    if query.q:
        behind = place_in(cursor)
        request = search_request(page.podcast, query.q, chosen, now=now, limit=PAGE, behind=behind)
        results = await page.store.search.articles(request)
        return results.items, results.next
    found: KeysetPage[Article] = await page.store.articles.page(
        page.podcast.id, chosen=chosen, limit=PAGE, behind=id_in(cursor)
    )
    return found.items, (found.items[-1].id,) if found.more else None


async def _alone(page: DashboardPage, article_id: str) -> _Listed:
    """One article, which another one links to."""
    return (await page.store.articles.get(page.podcast.id, article_id),), None


async def _posts_of(
    page: DashboardPage, articles: Sequence[Article]
) -> Mapping[str, Sequence[tuple[str, str]]]:
    """The titles and links of the first posts of each digest and thread, by article."""
    shown = {a.id: a.post_ids[:_MAX_POSTS] for a in articles if len(a.post_ids) > 1}
    ids = [id_ for some in shown.values() for id_ in some]
    found = await page.store.posts.links(page.podcast.id, ids) if ids else {}
    return {id_: [found[post] for post in some if post in found] for id_, some in shown.items()}


async def _batches(page: DashboardPage) -> Sequence[ProcessedBatch]:
    found: Sequence[ProcessedBatch] = await page.store.articles.batches(
        page.podcast.id, limit=_MAX_BATCHES
    )
    return found


def _expiry(page: DashboardPage, articles: Sequence[Article]) -> dict[str, datetime | None]:
    """When each article expires, by id (E5)."""
    age = article_age(page.podcast.max_article_age_days, page.app.policy)
    return {article.id: article_expires_at(article, age) for article in articles}


def _back(page: DashboardPage, **more: str) -> str:
    """Return the URL of the list that the form was on."""
    cursor, query = page.request.query_params.get("cursor"), ArticleQuery.in_url(page.request)
    (place_in if query.q else id_in)(cursor)
    kept = query.kept | ({"cursor": cursor} if cursor else {}) | more
    return podcast_url(page.podcast.id, "articles", kept)
