"""The content of sources: entries as fetched, posts as stored, articles made of posts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar, dataclass_transform

from headwater.source_settings import SourceType

Model = TypeVar("Model")


class Completeness(StrEnum):
    """Whether a text is the whole story (T3)."""

    FULL = "full"
    EXCERPT = "excerpt"
    UNKNOWN = "unknown"


class TextFrom(StrEnum):
    """Where the text of a post was read (T3)."""

    FEED = "feed"
    PAGE = "page"
    X = "x"


class FilteredBy(StrEnum):
    """The filter that hides a post: of its source or of its podcast (B2)."""

    SOURCE_KEEP = "source.keep"
    SOURCE_BLOCK = "source.block"
    PODCAST_KEEP = "podcast.keep"
    PODCAST_BLOCK = "podcast.block"


@dataclass_transform(frozen_default=True)
def light(kind: type[Model]) -> type[Model]:
    """Declare a class with many instances per poll: frozen for mypy only (decision 17)."""
    return dataclass(slots=True, unsafe_hash=True)(kind)


@light
class Enclosure:
    """A file that belongs to an entry, such as an episode (T2)."""

    url: str
    type: str | None = None  # media type
    length: int | None = None  # bytes


@light
class Entry:
    """One item as fetched, as plain text and as Markdown."""

    id: str | None
    title: str
    url: str | None
    published_at: datetime | None
    author: str | None
    body: str
    plain_body: str | None = None  # the body without the title that R5 prepends
    has_link: bool = True  # False: the entry has no link, and url is the source's (R5)
    markdown: str | None = None  # T1
    enclosures: tuple[Enclosure, ...] = ()
    categories: tuple[str, ...] = ()
    language: str | None = None
    image_url: str | None = None
    completeness: Completeness = Completeness.UNKNOWN
    page_text: str | None = None  # of a page: its body with one block of text per line (W1)
    identity_hash: str | None = None  # of a page with ignored lines (W4); None: that of the body
    conversation_id: str | None = None  # on X, unless it is a reply to another user (E3)


@dataclass(frozen=True, slots=True)
class ArticleSource:
    """The source of an article."""

    id: str
    label: str | None  # else the name that the source gives itself (T5)
    type: SourceType
    url: str


@light
class AlsoFrom:
    """Another post of the same story (I2)."""

    post_id: str
    source: ArticleSource
    link: str
    timestamp: datetime  # published, else stored


@light
class Post:
    """An entry that was admitted."""

    id: str
    source_id: str
    title: str
    body: str
    url: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime
    seq: int | None = None  # increases as posts are stored (R9); None: not numbered yet
    markdown: str | None = None  # T1; None: stored before posts had it
    enclosures: tuple[Enclosure, ...] = ()
    categories: tuple[str, ...] = ()
    language: str | None = None
    image_url: str | None = None
    completeness: Completeness | None = None
    text_from: TextFrom | None = None
    page_text: str | None = None  # plain text of the whole page, where `body` is not it (T4)
    full_text_error: str | None = None  # why the page was not used (T4)
    is_linked: bool = False  # whether it is in an article
    kept_until: datetime | None = None  # cleanup keeps it until then (E1)
    score: float | None = None  # of the client that processes it, like its annotations (E4)
    annotations: Mapping[str, Any] | None = field(default=None, hash=False)
    filtered_by: FilteredBy | None = None  # B2; None: no filter hides it
    story_id: str | None = None  # posts of one story share it (I1)
    conversation_id: str | None = None  # on X, unless it is a reply to another user (E3)
    also_from: tuple[AlsoFrom, ...] = ()  # the others, as of the time it was read (I2)


@dataclass(frozen=True, slots=True)
class Article:
    """The input of a script: one post, or a digest or thread of several."""

    id: str
    source_id: str
    title: str
    body: str
    url: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime
    is_processed: bool = False
    markdown: str | None = None  # T1; None: the body is all there is
    seq: int | None = None  # increases as articles are stored (V1); None: not numbered yet
    batch: str | None = None  # the name it was marked as processed with (E1)
    kept_until: datetime | None = None  # cleanup keeps it until then (E1)
    score: float | None = None  # of the client that processes it, like its annotations (E4)
    annotations: Mapping[str, Any] | None = field(default=None, hash=False)
    thread_id: str | None = None  # articles of one thread share it; None: it is not a thread (E3)
    follow_up_of: str | None = None  # the article of the same thread before it (E3)
    post_ids: tuple[str, ...] = ()
    source: ArticleSource | None = None  # as of the time it was read
    also_from: tuple[AlsoFrom, ...] = ()  # posts that report the same (I2)


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A named query of a podcast (B3)."""

    podcast_id: str
    name: str
    query: str
    feed_token: str  # permits reading the feed of this search, and nothing else
    created_at: datetime
