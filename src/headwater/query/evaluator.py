"""Evaluates queries over one post or article; the translations to SQL agree with it (B1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import assert_never

from headwater.content import Completeness
from headwater.query.syntax import (
    AllOf,
    AnyOf,
    Exclusion,
    LanguageTerm,
    PostState,
    Query,
    StateTerm,
    TextField,
    TextTerm,
    TimeTerm,
    TypeTerm,
)
from headwater.query.tokens import SEPARATOR, tokens_of
from headwater.source_settings import SourceType

MAX_TEXT_TOKENS = 10_000  # together with the other fields below 16,383, PostgreSQL's limit
MAX_FIELD_TOKENS = 1_000


@dataclass(frozen=True)
class SearchableSource:
    """What queries can ask about a source."""

    id: str
    label: str | None
    title: str | None
    url: str
    type: SourceType

    @cached_property
    def tokens(self) -> str:
        """The tokens of everything that names the source, for `source:`."""
        return joined_tokens([self.id, self.label or "", self.title or "", self.url])


@dataclass(frozen=True)
class Searchable:
    """What queries can ask about a post or an article; its tokens are computed when needed.

    The token properties are the texts of a search index: tokens separated by spaces.
    """

    source: SearchableSource
    title: str
    text: str  # without markup
    url: str
    at: datetime  # when it was published, else when it was stored
    author: str | None = None
    categories: tuple[str, ...] = ()
    language: str | None = None
    completeness: Completeness | None = None
    is_filtered: bool = False
    is_processed: bool = False

    @cached_property
    def title_tokens(self) -> str:
        """Of `title:`."""
        return joined_tokens([self.title])

    @cached_property
    def author_tokens(self) -> str:
        """Of `author:`."""
        return joined_tokens([self.author or ""])

    @cached_property
    def category_tokens(self) -> str:
        """Of `category:`; phrases do not reach from one category to the next."""
        return joined_tokens(self.categories)

    @cached_property
    def url_tokens(self) -> str:
        """Of `url:`."""
        return joined_tokens([self.url])

    @cached_property
    def text_tokens(self) -> str:
        """Of the text, as far as it is searched."""
        return " ".join(tokens_of(self.text, limit=MAX_TEXT_TOKENS))


def joined_tokens(texts: Sequence[str]) -> str:
    """The tokens of short texts, with a separator between the texts."""
    found: list[str] = []
    for text in texts:
        tokens = tokens_of(text, limit=MAX_FIELD_TOKENS)
        found += [SEPARATOR, *tokens] if found and tokens else tokens
    return " ".join(found[:MAX_FIELD_TOKENS])


def matches(query: Query, item: Searchable) -> bool:
    """Whether a post or an article matches a query."""
    match query:
        case TextTerm():
            return _has_text(query, item)
        case AllOf():
            return all(matches(part, item) for part in query.parts)
        case AnyOf():
            return any(matches(part, item) for part in query.parts)
        case Exclusion():
            return not matches(query.part, item)
        case TypeTerm():
            return item.source.type == query.type
        case LanguageTerm():
            return has_language(query, item.language)
        case TimeTerm():
            return item.at >= query.at if query.is_after else item.at < query.at
        case StateTerm():
            return _has_state(query.state, item)
        case _:
            assert_never(query)


def _has_text(term: TextTerm, item: Searchable) -> bool:
    match term.field:
        case TextField.TITLE:
            return occurs(term, item.title_tokens)
        case TextField.AUTHOR:
            return occurs(term, item.author_tokens)
        case TextField.URL:
            return occurs(term, item.url_tokens)
        case TextField.CATEGORY:
            return occurs(term, item.category_tokens)
        case TextField.SOURCE:
            return occurs(term, item.source.tokens)
        case None:
            return (
                occurs(term, item.title_tokens)
                or occurs(term, item.text_tokens)
                or occurs(term, item.author_tokens)
                or occurs(term, item.category_tokens)
            )
        case _:
            assert_never(term.field)


def occurs(term: TextTerm, tokens: str) -> bool:
    """Whether the tokens of a term are in sequence among others, which spaces separate."""
    sought = f" {' '.join(term.tokens)}"
    return (sought if term.is_prefix else f"{sought} ") in f" {tokens} "


def has_language(term: LanguageTerm, language: str | None) -> bool:
    """Whether a language is that of a term, or a variety of it."""
    tag = (language or "").replace("_", "-").lower()
    return tag == term.tag or tag.startswith(f"{term.tag}-")


def _has_state(state: PostState, item: Searchable) -> bool:
    match state:
        case PostState.FILTERED:
            return item.is_filtered
        case PostState.EXCERPT:
            return item.completeness is Completeness.EXCERPT
        case PostState.FULL:
            return item.completeness is Completeness.FULL
        case PostState.PROCESSED:
            return item.is_processed
        case PostState.UNPROCESSED:
            return not item.is_processed
        case _:
            assert_never(state)
