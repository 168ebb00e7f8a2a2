"""Parses queries; the error of an invalid one has the position and what was expected (B1)."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from headwater.errors import QueryError
from headwater.query.syntax import (
    FIELD_NAME,
    QUOTES,
    RESERVED_WORDS,
    AllOf,
    AnyOf,
    Exclusion,
    LanguageTerm,
    PostState,
    Query,
    StateTerm,
    Term,
    TextField,
    TextTerm,
    TimeTerm,
    TypeTerm,
)
from headwater.query.tokens import is_unspaced, phrase_of
from headwater.source_settings import SourceType

MAX_QUERY = 1000  # characters
MAX_TERMS = 100
MAX_DEPTH = 20  # of parentheses
MIN_PREFIX = 4  # letters; shorter prefixes match too much of an index
FIELDS = (*TextField, "type", "lang", "after", "before", "is")
_UNUSABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_QUOTE = re.compile(f"[{QUOTES}]")
_WORD = re.compile(rf"[^\s(){QUOTES}]+")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,8}")
_TIME = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::00)?Z?)?)?)?"
)
_A_TERM = "a word, a phrase, a field or ("
_STATES_OF_FILTERS = {PostState.EXCERPT, PostState.FULL}
Choice = TypeVar("Choice", bound=StrEnum)


def parse_query(text: str) -> Query:
    """The syntax tree of a query, or a QueryError."""
    return _parsed(text, tuple(PostState))


def parse_filter(text: str) -> Query:
    """The same for a filter: no term of it asks what filters or people decide later."""
    return _parsed(text, (PostState.EXCERPT, PostState.FULL))


def _parsed(text: str, states: tuple[PostState, ...]) -> Query:
    if len(text) > MAX_QUERY:
        raise QueryError(f"expected at most {MAX_QUERY:,} characters", MAX_QUERY)
    unusable = _UNUSABLE.search(text)
    if unusable is not None:
        raise QueryError("expected no control characters", unusable.start())
    return _Parser(text, states).parse()


class _Parser:
    """Recursive descent over one query; the depth of its parentheses is limited."""

    def __init__(self, text: str, states: tuple[PostState, ...]) -> None:
        self.text = text
        self.states = states
        self.position = 0
        self.terms = 0

    def parse(self) -> Query:
        query = self._any_of(depth=0)
        if self.position < len(self.text):  # only a parenthesis ends a query early
            raise QueryError("expected no ) without a ( before it", self.position)
        return query

    def _any_of(self, depth: int) -> Query:
        parts = [self._all_of(depth)]
        while self._take_or():
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all_of(self, depth: int) -> Query:
        parts = [self._part(depth)]
        while self._next() not in ("", ")") and self._word() != "OR":
            parts.append(self._part(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _part(self, depth: int) -> Query:
        if self._next() != "-":
            return self._group_or_term(depth)
        self.position += 1
        following = self.text[self.position : self.position + 1]
        if following in ("", "-", ")") or following.isspace():
            raise QueryError(f"expected {_A_TERM} directly after -", self.position)
        return Exclusion(self._group_or_term(depth))

    def _group_or_term(self, depth: int) -> Query:
        start, first = self.position, self._next()
        if first != "(":
            return self._term()
        if depth == MAX_DEPTH:
            raise QueryError(f"expected at most {MAX_DEPTH} parentheses in each other", start)
        self.position += 1
        query = self._any_of(depth + 1)
        if self._next() != ")":
            raise QueryError("expected ) for this (", start)
        self.position += 1
        return query

    def _term(self) -> Term:
        start, word = self.position, self._word()
        self.terms += 1
        if self.terms > MAX_TERMS:
            raise QueryError(f"expected at most {MAX_TERMS} words, phrases and fields", start)
        if word in RESERVED_WORDS:
            raise QueryError(_expected_for(word), start)
        field = FIELD_NAME.match(word)
        if field is None:
            return self._text_term(None, _A_TERM)
        name = field[1].lower()
        if name not in FIELDS:
            reason = f"expected one of the fields {', '.join(FIELDS)}, not {field[1][:20]}"
            raise QueryError(f"{reason}; quote text that has a colon", start)
        self.position += field.end()
        if name in list(TextField):
            return self._text_term(TextField(name), f"a word or a phrase after {name}:")
        return self._value_term(name)

    def _text_term(self, field: TextField | None, expected: str) -> TextTerm:
        start = self.position
        first = self.text[start : start + 1]
        if first and first in QUOTES:
            text, has_star = self._quoted(), False
        else:
            text, has_star = self._starred_word()
        if not text:
            raise QueryError(f"expected {expected}", start)
        tokens, is_prefix = phrase_of(text)
        if not tokens:
            raise QueryError("expected letters or digits", start)
        if has_star and len(tokens[-1]) < MIN_PREFIX and not is_unspaced(tokens[-1]):
            raise QueryError(f"expected at least {MIN_PREFIX} letters before *", start)
        return TextTerm(text, tokens, is_prefix or has_star, has_star, field)

    def _quoted(self) -> str:
        start = self.position
        self.position += 1
        end = _QUOTE.search(self.text, self.position)
        if end is None:
            raise QueryError("expected a quotation mark that ends this phrase", start)
        text = self.text[self.position : end.start()]
        self.position = end.end()
        return " ".join(text.split())

    def _starred_word(self) -> tuple[str, bool]:
        word = self._word()
        star = word.find("*")
        if star == 0:
            raise QueryError(f"expected at least {MIN_PREFIX} letters before *", self.position)
        if 0 < star < len(word) - 1:
            raise QueryError("expected the end of the word after *", self.position + star + 1)
        self.position += len(word)
        return word.removesuffix("*"), star > 0

    def _value_term(self, name: str) -> Term:
        start, word = self.position, self._word()
        self.position += len(word)
        if name == "type":
            return TypeTerm(_choice(SourceType, tuple(SourceType), word, name, start))
        if name == "is":
            return StateTerm(_choice(PostState, self.states, word, name, start))
        if name == "lang":
            if _LANGUAGE.fullmatch(word) is None:
                raise QueryError("expected a language such as en or pt-BR after lang:", start)
            return LanguageTerm(word.replace("_", "-").lower())
        at = _time(word)
        if at is None:
            raise QueryError(f"expected a date such as 2026-11-30 after {name}:", start)
        return TimeTerm(at, is_after=name == "after")

    def _take_or(self) -> bool:
        if self._next() == "" or self._word() != "OR":
            return False
        self.position += len("OR")
        return True

    def _next(self) -> str:
        """The next character after spaces; empty at the end."""
        space = _SPACE.match(self.text, self.position)
        if space is not None:
            self.position = space.end()
        return self.text[self.position : self.position + 1]

    def _word(self) -> str:
        """The word that starts at the position; empty if there is none."""
        word = _WORD.match(self.text, self.position)
        return "" if word is None else word[0]


def _expected_for(reserved: str) -> str:
    match reserved:
        case "AND":
            return f"expected {_A_TERM}; all words must occur without AND"
        case "NOT":
            return f"expected {_A_TERM}; - excludes the next word, not NOT"
        case _:
            return f"expected {_A_TERM} on both sides of OR"


def _choice(
    kind: type[Choice], choices: tuple[Choice, ...], word: str, field: str, start: int
) -> Choice:
    if word.lower() in choices:
        return kind(word.lower())
    raise QueryError(f"expected {' or '.join(choices)} after {field}:", start)


def _time(text: str) -> datetime | None:
    """The start of a year, month, day or minute in UTC."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute = (
        default if one is None else int(one)
        for one, default in zip(found.groups(), (0, 1, 1, 0, 0), strict=True)
    )
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None
