"""Posts, articles and searches."""

from collections.abc import Iterable
from datetime import date
from typing import Any, TypedDict, Unpack

from headwater.client.operation import (
    ApiRequest,
    Page,
    body_of,
    given,
    listing,
    once,
    operation,
    path_of,
)
from headwater.client.results.choices import Filtered, Order, PostOrder, PostsOfDeleted
from headwater.client.results.content import (
    Aggregation,
    AnnotatedArticles,
    Article,
    Diff,
    FilterEffect,
    Marking,
    Post,
    ProcessedBatch,
    SavedSearch,
    Undo,
)

Moment = date | str  # a date, a time with its offset, or either as text
_OTHER_ORDERS = ("q", "order", "stories", "changed_after", "cursor")


class NumberedFilters(TypedDict, total=False):
    """Which posts or articles are wanted."""

    source: str | None
    since: Moment | None
    until: Moment | None
    filtered: Filtered | None
    processed: bool | None
    min_score: float | None
    expiring: bool | None


class Paging(TypedDict, total=False):
    """From where on a list is read, and how many items."""

    cursor: str | None
    limit: int | None


class ListOrder(Paging, total=False):
    """In which order posts or articles are listed, and how many."""

    q: str | None
    stories: bool | None
    changed_after: int | None


class PostFilters(NumberedFilters, ListOrder, total=False):
    """Which posts are wanted, and in which order."""

    order: PostOrder | None


class ArticleFilters(NumberedFilters, ListOrder, total=False):
    """Which articles are wanted, and in which order."""

    batch: str | None
    order: Order | None


class Annotations(TypedDict, total=False):
    """What a client stores with a post or article; None removes it."""

    score: float | None
    annotations: dict[str, Any] | None


class ArticleAnnotations(Annotations):
    """The annotations of one of several articles."""

    id: str


class FilterQueries(TypedDict, total=False):
    """Filters to preview; one that is not given stays as it is, None is none."""

    keep: str | None
    block: str | None


class InPodcasts:
    """Calls below the podcasts of a user."""

    user: str

    def in_podcast(self, podcast: str, *segments: str) -> str:
        """A path below a podcast, given by its id or name."""
        return path_of("users", self.user, "podcasts", podcast, *segments)


class PostOperations(InPodcasts):
    """Posts of a podcast."""

    @listing
    def posts(
        self, podcast: str, after: int | None = 0, **filters: Unpack[PostFilters]
    ) -> ApiRequest[Page[Post]]:
        """The posts stored after the one with the number `after`, in this order, to the last.

        With `order`, `q`, `stories` or `after=None` the newest ones come first.
        """
        query = given(after=_number(after, filters), **filters)
        return ApiRequest("GET", self.in_podcast(podcast, "posts"), Page[Post], query)

    @listing
    def search(
        self, podcast: str, query: str, **filters: Unpack[PostFilters]
    ) -> ApiRequest[Page[Post]]:
        """The posts that match a query, the newest first, or with `order="rank"` the best."""
        wanted = given(**{**filters, "q": query})
        return ApiRequest("GET", self.in_podcast(podcast, "posts"), Page[Post], wanted)

    @listing
    def source_posts(
        self,
        podcast: str,
        source_id: str,
        *,
        min_score: float | None = None,
        filtered: Filtered | None = None,
        **paging: Unpack[Paging],
    ) -> ApiRequest[Page[Post]]:
        """The posts of a source, the newest first."""
        path = self.in_podcast(podcast, "sources", source_id, "posts")
        query = given(min_score=min_score, filtered=filtered, **paging)
        return ApiRequest("GET", path, Page[Post], query)

    @operation
    def get_post(self, podcast: str, post_id: str) -> ApiRequest[Post]:
        """One post."""
        return ApiRequest("GET", self.in_podcast(podcast, "posts", post_id), Post)

    @operation
    def annotate_post(
        self, podcast: str, post_id: str, **annotations: Unpack[Annotations]
    ) -> ApiRequest[Post]:
        """Set the score or the annotations of a post; what is not given is kept."""
        body = body_of(**annotations)
        return ApiRequest("PATCH", self.in_podcast(podcast, "posts", post_id), Post, body=body)

    @operation
    def get_diff(self, podcast: str, post_id: str) -> ApiRequest[Diff]:
        """What changed between a version of a page and the one before."""
        return ApiRequest("GET", self.in_podcast(podcast, "posts", post_id, "diff"), Diff)

    @operation
    def leave_story(self, podcast: str, post_id: str) -> ApiRequest[None]:
        """State that a post is not a copy of the others of its story."""
        path = self.in_podcast(podcast, "posts", post_id, "story")
        return ApiRequest("DELETE", path, type(None))


class ArticleOperations(InPodcasts):
    """Articles of a podcast: made of posts, marked as processed, and undone."""

    @listing
    def articles(
        self, podcast: str, after: int | None = 0, **filters: Unpack[ArticleFilters]
    ) -> ApiRequest[Page[Article]]:
        """The articles stored after the one with the number `after`, in this order, to the last.

        With `order`, `q`, `stories` or `after=None` the newest ones come first.
        """
        query = given(after=_number(after, filters), **filters)
        return ApiRequest("GET", self.in_podcast(podcast, "articles"), Page[Article], query)

    @operation
    def get_article(self, podcast: str, article_id: str) -> ApiRequest[Article]:
        """One article."""
        return ApiRequest("GET", self.in_podcast(podcast, "articles", article_id), Article)

    @operation
    def annotate_article(
        self, podcast: str, article_id: str, **annotations: Unpack[Annotations]
    ) -> ApiRequest[Article]:
        """Set the score or the annotations of an article; what is not given is kept."""
        path = self.in_podcast(podcast, "articles", article_id)
        return ApiRequest("PATCH", path, Article, body=body_of(**annotations))

    @operation
    def annotate_articles(
        self, podcast: str, changes: Iterable[ArticleAnnotations]
    ) -> ApiRequest[AnnotatedArticles]:
        """Set the scores or annotations of many articles: of all, or of none."""
        path, body = self.in_podcast(podcast, "articles"), [body_of(**one) for one in changes]
        return ApiRequest("PATCH", path, AnnotatedArticles, body=body)

    @operation
    def delete_article(
        self, podcast: str, article_id: str, *, posts: PostsOfDeleted | None = None
    ) -> ApiRequest[None]:
        """Delete an article, and `free` its posts for the next one, or `drop` them too."""
        path = self.in_podcast(podcast, "articles", article_id)
        return ApiRequest("DELETE", path, type(None), given(posts=posts))

    @operation
    def aggregate(
        self, podcast: str, *, dry_run: bool | None = None, idempotency_key: str | None = None
    ) -> ApiRequest[Aggregation]:
        """Make articles of the posts that are in none yet."""
        path, query = self.in_podcast(podcast, "articles", "aggregate"), given(dry_run=dry_run)
        return ApiRequest("POST", path, Aggregation, query, headers=once(idempotency_key))

    @operation
    def mark_processed(
        self,
        podcast: str,
        ids: Iterable[str],
        batch: str | None = None,
        *,
        skip_missing: bool = False,
        idempotency_key: str | None = None,
    ) -> ApiRequest[Marking]:
        """Mark articles as processed, all or none; `batch` names them, to undo them later."""
        body = body_of(ids=list(ids), batch=batch, skip_missing=skip_missing)
        path = self.in_podcast(podcast, "articles", "processed")
        return ApiRequest("POST", path, Marking, body=body, headers=once(idempotency_key))

    @operation
    def mark_article_processed(
        self, podcast: str, article_id: str, *, idempotency_key: str | None = None
    ) -> ApiRequest[Article]:
        """Mark one article as processed."""
        path = self.in_podcast(podcast, "articles", article_id, "processed")
        return ApiRequest("POST", path, Article, headers=once(idempotency_key))

    @operation
    def unprocess(
        self,
        podcast: str,
        ids: Iterable[str] | None = None,
        batch: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> ApiRequest[Undo]:
        """Undo the marking of some articles, or of a whole batch."""
        body = body_of(ids=None if ids is None else list(ids), batch=batch)
        path = self.in_podcast(podcast, "articles", "unprocessed")
        return ApiRequest("POST", path, Undo, body=body, headers=once(idempotency_key))

    @listing
    def batches(self, podcast: str, **paging: Unpack[Paging]) -> ApiRequest[Page[ProcessedBatch]]:
        """The names that articles were marked with, the last used first."""
        path = self.in_podcast(podcast, "batches")
        return ApiRequest("GET", path, Page[ProcessedBatch], given(**paging))


class SearchOperations(InPodcasts):
    """Saved searches and previews of filters."""

    @listing
    def saved_searches(self, podcast: str) -> ApiRequest[Page[SavedSearch]]:
        """The saved searches of a podcast."""
        return ApiRequest("GET", self.in_podcast(podcast, "searches"), Page[SavedSearch])

    @operation
    def save_search(
        self, podcast: str, name: str, query: str, *, idempotency_key: str | None = None
    ) -> ApiRequest[SavedSearch]:
        """Save a search with a new name."""
        path, body = self.in_podcast(podcast, "searches"), body_of(name=name, query=query)
        return ApiRequest("POST", path, SavedSearch, body=body, headers=once(idempotency_key))

    @operation
    def get_saved_search(self, podcast: str, search: str) -> ApiRequest[SavedSearch]:
        """One saved search."""
        return ApiRequest("GET", self.in_podcast(podcast, "searches", search), SavedSearch)

    @operation
    def change_saved_search(
        self, podcast: str, search: str, name: str, query: str
    ) -> ApiRequest[SavedSearch]:
        """Change the name and the query of a saved search."""
        path, body = self.in_podcast(podcast, "searches", search), body_of(name=name, query=query)
        return ApiRequest("PUT", path, SavedSearch, body=body)

    @operation
    def delete_saved_search(self, podcast: str, search: str) -> ApiRequest[None]:
        """Delete a saved search."""
        return ApiRequest("DELETE", self.in_podcast(podcast, "searches", search), type(None))

    @operation
    def preview_podcast_filters(
        self,
        podcast: str,
        *,
        idempotency_key: str | None = None,
        **filters: Unpack[FilterQueries],
    ) -> ApiRequest[FilterEffect]:
        """How many stored posts other filters of a podcast would hide and show."""
        path, body = self.in_podcast(podcast, "filters", "preview"), body_of(**filters)
        return ApiRequest("POST", path, FilterEffect, body=body, headers=once(idempotency_key))

    @operation
    def preview_source_filters(
        self,
        podcast: str,
        source_id: str,
        *,
        idempotency_key: str | None = None,
        **filters: Unpack[FilterQueries],
    ) -> ApiRequest[FilterEffect]:
        """The same for the filters of a source."""
        path = self.in_podcast(podcast, "sources", source_id, "filters", "preview")
        headers, body = once(idempotency_key), body_of(**filters)
        return ApiRequest("POST", path, FilterEffect, body=body, headers=headers)


def _number(after: int | None, filters: PostFilters | ArticleFilters) -> int | None:
    """The number to start after; None if another order is wanted."""
    others = [name for name in _OTHER_ORDERS if filters.get(name) is not None]
    return None if after == 0 and others else after
