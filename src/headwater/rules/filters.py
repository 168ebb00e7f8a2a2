"""Filters: which posts the queries `keep` and `block` of sources and podcasts hide (B2)."""

from collections.abc import Iterator
from functools import lru_cache

from headwater.errors import QueryError
from headwater.model import Article, FilteredBy, Post, Source, SourceType, Subject
from headwater.query.evaluator import Searchable, SearchableSource, matches
from headwater.query.parser import parse_filter
from headwater.query.syntax import Query


def has_filters(subject: Subject) -> bool:
    """Whether posts of a source can be filtered."""
    source = subject.source
    return (
        source.keep is not None
        or source.block is not None
        or subject.keep is not None
        or subject.block is not None
    )


def filtered_by(subject: Subject, post: Post) -> FilteredBy | None:
    """The first filter that hides a post: the source's come first, and `block` before `keep`."""
    item = searchable(subject.source, post)
    for reason, query in _filters(subject):
        is_match = matches(query, item)
        if is_match is (reason in (FilteredBy.SOURCE_BLOCK, FilteredBy.PODCAST_BLOCK)):
            return reason
    return None


def searchable(source: Source, post: Post, *, is_processed: bool = False) -> Searchable:
    """What queries can ask about a post."""
    has_page = post.page_text is not None and source.type is not SourceType.WEBSITE
    return Searchable(
        source=SearchableSource(source.id, source.label, source.title, source.url, source.type),
        title=post.title,
        text=(post.page_text or "") if has_page else post.body,  # as in articles (T4)
        url=post.url,
        at=post.published_at or post.created_at,
        author=post.author,
        categories=post.categories,
        language=post.language,
        completeness=post.completeness,
        is_filtered=post.filtered_by is not None,
        is_processed=is_processed,
    )


def searchable_article(source: Source, article: Article) -> Searchable:
    """What queries can ask about an article."""
    return Searchable(
        source=SearchableSource(source.id, source.label, source.title, source.url, source.type),
        title=article.title,
        text=article.body,
        url=article.url,
        at=article.published_at or article.created_at,
        author=article.author,
        is_processed=article.is_processed,
    )


def _filters(subject: Subject) -> Iterator[tuple[FilteredBy, Query]]:
    source = subject.source
    for reason, text in (
        (FilteredBy.SOURCE_BLOCK, source.block),
        (FilteredBy.SOURCE_KEEP, source.keep),
        (FilteredBy.PODCAST_BLOCK, subject.block),
        (FilteredBy.PODCAST_KEEP, subject.keep),
    ):
        if text is not None and (query := _parsed(text)) is not None:
            yield reason, query


@lru_cache(maxsize=1000)
def _parsed(text: str) -> Query | None:
    """The query of a stored filter; None, which filters nothing, if it is invalid."""
    try:
        return parse_filter(text)
    except QueryError:  # written by other means: the polls of the source continue
        return None
