"""The syntax tree of a query, and a query printed from it (B1)."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from headwater.source_settings import SourceType

RESERVED_WORDS = {"AND", "OR", "NOT"}
FIELD_NAME = re.compile(r"([A-Za-z]+):")  # at the start of a word
QUOTES = '"“”„'  # phones write the others


class TextField(StrEnum):
    """A text that a term can be limited to."""

    TITLE = "title"
    AUTHOR = "author"
    URL = "url"
    CATEGORY = "category"
    SOURCE = "source"


class PostState(StrEnum):
    """What `is:` can ask for."""

    FILTERED = "filtered"
    EXCERPT = "excerpt"
    FULL = "full"
    PROCESSED = "processed"
    UNPROCESSED = "unprocessed"


@dataclass(frozen=True, slots=True)
class TextTerm:
    """A word, a phrase or a prefix; `tokens` must occur in sequence."""

    text: str  # as written, without quotes and star
    tokens: tuple[str, ...]
    is_prefix: bool = False  # of the last token
    has_star: bool = False
    field: TextField | None = None  # None: title, text, author and categories

    def __str__(self) -> str:
        prefix = "" if self.field is None else f"{self.field}:"
        if self.has_star:
            return f"{prefix}{self.text}*"
        return f"{prefix}{self.text}" if self._is_plain_word() else f'{prefix}"{self.text}"'

    def _is_plain_word(self) -> bool:
        """Whether the text means the same without quotes."""
        if any(c.isspace() or c in "()*" for c in self.text) or self.text.startswith("-"):
            return False
        if self.field is not None:
            return True
        return self.text not in RESERVED_WORDS and FIELD_NAME.match(self.text) is None


@dataclass(frozen=True, slots=True)
class TypeTerm:
    """`type:`, of the source."""

    type: SourceType

    def __str__(self) -> str:
        return f"type:{self.type}"


@dataclass(frozen=True, slots=True)
class LanguageTerm:
    """`lang:`, a language tag in lower case, which also stands for more specific ones."""

    tag: str

    def __str__(self) -> str:
        return f"lang:{self.tag}"


@dataclass(frozen=True, slots=True)
class TimeTerm:
    """`after:` (at this time or later) or `before:` (earlier)."""

    at: datetime  # UTC
    is_after: bool

    def __str__(self) -> str:
        start = self.at.isoformat(timespec="minutes").removesuffix("+00:00")
        return f"{'after' if self.is_after else 'before'}:{start.removesuffix('T00:00')}"


@dataclass(frozen=True, slots=True)
class StateTerm:
    """`is:`."""

    state: PostState

    def __str__(self) -> str:
        return f"is:{self.state}"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`-`: matches what its part does not match."""

    part: "Query"

    def __str__(self) -> str:
        is_group = isinstance(self.part, Exclusion | AllOf | AnyOf)
        return f"-({self.part})" if is_group else f"-{self.part}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Two or more parts, all of which must match."""

    parts: tuple["Query", ...]

    def __str__(self) -> str:
        return " ".join(
            f"({part})" if isinstance(part, AllOf | AnyOf) else str(part) for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Two or more parts, at least one of which must match."""

    parts: tuple["Query", ...]

    def __str__(self) -> str:
        return " OR ".join(
            f"({part})" if isinstance(part, AnyOf) else str(part) for part in self.parts
        )


Term = TextTerm | TypeTerm | LanguageTerm | TimeTerm | StateTerm
Query = Term | Exclusion | AllOf | AnyOf


def terms_of(query: Query) -> list[Term]:
    """The terms of a query, from left to right."""
    match query:
        case AllOf() | AnyOf():
            return [term for part in query.parts for term in terms_of(part)]
        case Exclusion():
            return terms_of(query.part)
        case TextTerm() | TypeTerm() | LanguageTerm() | TimeTerm() | StateTerm():
            return [query]
        case _:
            assert_never(query)
