"""Posts, articles and searches, as the API returns them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.client.results.choices import Completeness, DiffOp, FilteredBy, SourceType, TextFrom


@dataclass(frozen=True, kw_only=True)
class Enclosure:
    """A file that belongs to a post, such as an episode."""

    url: str
    type: str | None
    length: int | None


@dataclass(frozen=True, kw_only=True)
class ArticleSource:
    """The source of an article."""

    id: str
    label: str | None
    type: SourceType
    url: str


@dataclass(frozen=True, kw_only=True)
class AlsoFrom:
    """Another post that reports the same story."""

    post_id: str
    source: ArticleSource
    link: str
    timestamp: datetime


@dataclass(frozen=True, kw_only=True)
class Post:
    """A post."""

    enclosures: tuple[Enclosure, ...]
    categories: tuple[str, ...]
    language: str | None
    image_url: str | None
    completeness: Completeness | None
    id: str
    source_id: str
    title: str
    body: str
    markdown: str | None
    url: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime
    expires_at: datetime | None
    score: float | None
    annotations: dict[str, Any] | None
    also_from: tuple[AlsoFrom, ...]
    seq: int | None
    text_from: TextFrom | None
    full_text_error: str | None
    story_id: str | None
    filtered_by: FilteredBy | None


@dataclass(frozen=True, kw_only=True)
class DiffPart:
    """Consecutive sentences of one or both versions."""

    op: DiffOp
    text: str


@dataclass(frozen=True, kw_only=True)
class Diff:
    """What changed since the previous version of a page."""

    from_: str | None  # the post with the previous version
    parts: tuple[DiffPart, ...]


@dataclass(frozen=True, kw_only=True)
class Article:
    """An article."""

    id: str
    source_id: str
    title: str
    body: str
    markdown: str | None
    url: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime
    expires_at: datetime | None
    score: float | None
    annotations: dict[str, Any] | None
    also_from: tuple[AlsoFrom, ...]
    seq: int | None
    source: ArticleSource | None
    is_processed: bool
    batch: str | None
    post_ids: tuple[str, ...]
    follow_up_of: str | None


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """The result of an aggregation."""

    created: int
    linked_posts: int
    items: tuple[Article, ...]


@dataclass(frozen=True, kw_only=True)
class Marking:
    """The result of marking articles as processed."""

    marked: int
    already: int
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Undo:
    """The result of an undo."""

    unmarked: int
    already: int
    deleted_digests: int
    freed_posts: int


@dataclass(frozen=True, kw_only=True)
class AnnotatedArticles:
    """The result of changing many articles."""

    changed: int


@dataclass(frozen=True, kw_only=True)
class ProcessedBatch:
    """Articles that were marked as processed with the same name."""

    name: str
    articles: int
    processed_at: datetime


@dataclass(frozen=True, kw_only=True)
class SavedSearch:
    """A saved search."""

    name: str
    query: str
    feed_token: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class FilterEffect:
    """What filters would change among the posts that are in no article."""

    hidden: int
    shown: int
    titles: tuple[str, ...]
    checked: int
    is_complete: bool
