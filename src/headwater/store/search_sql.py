"""Translates queries to the full-text search of each database, and conditions on columns (B1, B3).

The search index has the texts and labels of posts and articles; the other terms of a query are
conditions on columns. Parts of a query that the index has become one expression of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from headwater.query.evaluator import SearchableSource, occurs
from headwater.query.syntax import (
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
    terms_of,
)
from headwater.store.content_filter import processed_condition
from headwater.store.row_mapping import to_ms
from headwater.store.search_index import (
    FIELDS,
    LABEL_PREFIX,
    LEXEME_PREFIXES,
    Kind,
    language_label,
    source_label,
)

_MAX_SOURCE_LABELS = 100  # more sources are a condition on the column
_NOTHING = "nothing"  # a label that no entry has


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """Entries with one of these labels."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnTerm:
    """A condition on columns of the post or article; never null."""

    sql: str


Leaf = TextTerm | LabelTerm | ColumnTerm


@dataclass(frozen=True, slots=True)
class NotLeaf:
    """What does not match a leaf."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class Branch:
    """What matches all parts, or at least one of them."""

    parts: tuple["Part", ...]
    needs_all: bool


Part = Leaf | NotLeaf | Branch


@dataclass(frozen=True, slots=True)
class SearchConditions:
    """A translated query: conditions in SQL."""

    scope: str  # on the podcast
    index: str | None  # that the index answers, possibly together with the one on the podcast
    others: tuple[str, ...] = ()


@dataclass
class Translation(ABC):
    """Translates one query; collects its parameters."""

    kind: Kind
    table: str  # the name of the post or article in the statement
    entry: str  # the name of its entry of the index
    scope: str  # the label of the podcast's posts or articles
    sources: Sequence[SearchableSource]  # of the podcast, if the query asks for them
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # their words, if known
    params: dict[str, object] = field(default_factory=dict)

    def conditions(self, query: Query, labels: Sequence[Part] = ()) -> SearchConditions:
        """SQL conditions for a query and for parts that are labels."""
        top = _flat(Branch((*labels, self._resolved(query, negated=False)), needs_all=True))
        indexed = [part for part in top.parts if _is_indexed(part)]
        others = [part for part in top.parts if not _is_indexed(part)]
        found = self._matching(indexed)
        return replace(found, others=(*found.others, *map(self._condition, others)))

    @abstractmethod
    def lookup(self, query: Query, labels: Sequence[Part] = ()) -> str:
        """A condition on the post or article: it matches a query and has labels."""

    @abstractmethod
    def _matching(self, parts: Sequence[Part]) -> SearchConditions:
        """Conditions that find the entries of the scope with all of these parts by the index."""

    @abstractmethod
    def _lookup(self, leaf: TextTerm | LabelTerm) -> str:
        """A condition on the entry of the post or article: it has this term."""

    def _condition(self, part: Part) -> str:
        match part:
            case ColumnTerm():
                return part.sql
            case NotLeaf():
                return f"NOT {self._condition(part.leaf)}"
            case Branch():
                word = " AND " if part.needs_all else " OR "
                return f"({word.join(self._condition(one) for one in part.parts)})"
            case _:
                return self._lookup(part)

    def bound(self, value: object) -> str:
        """The place of a parameter with this value."""
        name = f"value_{len(self.params)}"
        self.params[name] = value
        return f":{name}"

    def _resolved(self, query: Query, *, negated: bool) -> Part:
        """The query in terms of index and columns; only leaves are negated."""
        match query:
            case AllOf() | AnyOf():
                parts = tuple(self._resolved(part, negated=negated) for part in query.parts)
                return _flat(Branch(parts, needs_all=isinstance(query, AllOf) is not negated))
            case Exclusion():
                return self._resolved(query.part, negated=not negated)
            case _:
                leaf = self._leaf(query)
                return NotLeaf(leaf) if negated else leaf

    def _leaf(self, term: Term) -> Leaf:
        match term:
            case TextTerm():
                if term.field is not TextField.SOURCE:
                    return term
                return self._of_sources([s for s in self.sources if occurs(term, s.tokens)])
            case TypeTerm():
                return self._of_sources([s for s in self.sources if s.type == term.type])
            case LanguageTerm():
                return LabelTerm((language_label(term.tag),))
            case TimeTerm():
                sign = ">=" if term.is_after else "<"
                at = f"coalesce({self.table}.published_at, {self.table}.created_at)"
                return ColumnTerm(f"{at} {sign} {self.bound(to_ms(term.at))}")
            case StateTerm():
                return ColumnTerm(self._state(term.state))
            case _:
                assert_never(term)

    def _of_sources(self, found: Sequence[SearchableSource]) -> Leaf:
        if len(found) <= _MAX_SOURCE_LABELS:
            return LabelTerm(tuple(source_label(source.id) for source in found))
        ids = self.bound([source.id for source in found])
        return ColumnTerm(f"{self.table}.source_id IN {ids}")

    def _state(self, state: PostState) -> str:
        is_post = self.kind == "posts"
        match state:
            case PostState.FILTERED:
                return f"{self.table}.filtered_by IS NOT NULL" if is_post else "FALSE"
            case PostState.EXCERPT | PostState.FULL:
                found = f"coalesce({self.table}.completeness, '') = '{state}'"
                return found if is_post else "FALSE"
            case PostState.PROCESSED:
                return processed_condition(self.kind, self.table)
            case PostState.UNPROCESSED:
                return f"NOT {processed_condition(self.kind, self.table)}"
            case _:
                assert_never(state)


def _flat(branch: Branch) -> Branch:
    """The branch without branches of the same kind in it."""
    parts: list[Part] = []
    for part in branch.parts:
        same = isinstance(part, Branch) and part.needs_all is branch.needs_all
        parts += part.parts if isinstance(part, Branch) and same else (part,)
    return Branch(tuple(parts), branch.needs_all)


def _is_indexed(part: Part) -> bool:
    match part:
        case Branch():
            return all(_is_indexed(one) for one in part.parts)
        case NotLeaf():
            return _is_indexed(part.leaf)
        case _:
            return not isinstance(part, ColumnTerm)


class SqliteTranslation(Translation):
    """To expressions of FTS5."""

    def lookup(self, query: Query, labels: Sequence[Part] = ()) -> str:
        """A lookup in the index by number."""
        found = self.conditions(query, labels)
        if any(
            isinstance(t, TextTerm) and t.is_prefix and not self._words(t) for t in terms_of(query)
        ):
            # FTS5 merges the lists of all words with a prefix at every lookup: read them once. The
            # plus sign keeps SQLite from going through them for every post.
            matching = f"(SELECT rowid FROM search_index {self.entry} WHERE {found.scope})"
            return " AND ".join([f"+{self.table}.seq IN {matching}", *found.others])
        return f"""EXISTS (SELECT 1 FROM search_index {self.entry}
            WHERE {self.entry}.rowid = {self.table}.seq
                AND {" AND ".join([found.scope, *found.others])})"""

    def _matching(self, parts: Sequence[Part]) -> SearchConditions:
        expression = self._all_of([LabelTerm((self.scope,)), *parts])
        match = f"{self.entry}.search_index MATCH {self.bound(expression)}"
        return SearchConditions(match, match)

    def _lookup(self, leaf: TextTerm | LabelTerm) -> str:
        match = self.bound(self._expression(leaf))
        return f"""EXISTS (SELECT 1 FROM search_index
            WHERE search_index MATCH {match} AND rowid = {self.table}.seq)"""

    def _expression(self, part: Part) -> str:
        match part:
            case TextTerm():
                columns = FIELDS[:-1] if part.field is None else (part.field.value,)
                star = " *" if part.is_prefix else ""
                phrase = f"{_quoted(' '.join(part.tokens))}{star}"
                words = " OR ".join(map(_quoted, self._words(part)))  # FTS5 need not merge them
                return f"{{{' '.join(columns)}}} : {f'({words})' if words else phrase}"
            case LabelTerm():
                return f"labels : ({' OR '.join(map(_quoted, part.labels or (_NOTHING,)))})"
            case Branch():
                return self._all_of(part.parts) if part.needs_all else self._any_of(part.parts)
            case _:
                return self._all_of([part])

    def _words(self, term: TextTerm) -> Sequence[str]:
        """The words with the prefix that a term is, if they are known."""
        return self.prefixes.get(term.tokens[0], ()) if is_word_prefix(term) else ()

    def _all_of(self, parts: Sequence[Part]) -> str:
        """NOT of FTS5 needs something to exclude from: the scope."""
        wanted = [self._expression(part) for part in parts if not isinstance(part, NotLeaf)]
        excluded = [self._expression(part.leaf) for part in parts if isinstance(part, NotLeaf)]
        wanted = wanted or [f"labels : {_quoted(self.scope)}"]
        if not excluded:
            return f"({' AND '.join(wanted)})"
        return f"(({' AND '.join(wanted)}) NOT ({' OR '.join(excluded)}))"

    def _any_of(self, parts: Sequence[Part]) -> str:
        return f"({' OR '.join(self._expression(part) for part in parts)})"


def is_word_prefix(term: TextTerm) -> bool:
    """Whether a term is the prefix of a single word, not of one of a link."""
    return term.is_prefix and len(term.tokens) == 1 and term.field is not TextField.URL


def _quoted(text: str) -> str:
    return f'"{text}"'


class PostgresTranslation(Translation):
    """To tsquery, and substrings for phrases."""

    def lookup(self, query: Query, labels: Sequence[Part] = ()) -> str:
        """A lookup of the entry by number; OFFSET: else the planner may search the index."""
        found = self.conditions(query, labels)
        conditions = [found.scope, *filter(None, [found.index]), *found.others]
        return f"""EXISTS (SELECT 1 FROM search_documents {self.entry}
            WHERE {self.entry}.number = {self.table}.seq
                AND {" AND ".join(conditions)} OFFSET 0)"""

    def _matching(self, parts: Sequence[Part]) -> SearchConditions:
        lexemes = _and([lexemes for part in parts if (lexemes := self._lexemes(part)) is not None])
        match = self._has(lexemes) if lexemes else None
        is_useful = any(map(_is_positive, parts))  # else it would read the whole index
        phrases = [self._condition(part) for part in parts if not _is_exact(part)]
        found = [*([match] if match else []), *phrases]
        scope = f"{self.entry}.scope = {self.bound(self.scope)}"
        if match and is_useful:
            return SearchConditions(scope, " AND ".join(found))
        return SearchConditions(scope, None, tuple(found))

    def _lookup(self, leaf: TextTerm | LabelTerm) -> str:
        if _is_exact(leaf) or isinstance(leaf, LabelTerm):
            return self._has(self._lexemes(leaf))
        prefix = LEXEME_PREFIXES["url"] if leaf.field is TextField.URL else ""
        phrase = " ".join(f"{prefix}{token}" for token in leaf.tokens)
        end = "" if leaf.is_prefix else " "
        place = f"{self.entry}.words"
        if leaf.field is not None:
            place = f"split_part({place}, chr(10), {FIELDS.index(leaf.field.value) + 1})"
        return f"strpos({place}, {self.bound(f' {phrase}{end}')}) > 0"

    def _has(self, lexemes: str | None) -> str:
        return f"{self.entry}.lexemes @@ CAST({self.bound(lexemes)} AS TSQUERY)"

    def _lexemes(self, part: Part) -> str | None:
        """A tsquery that every entry with this part matches; None if all entries may have it."""
        match part:
            case TextTerm():
                prefix = "" if part.field is None else LEXEME_PREFIXES[part.field.value]
                found = [_lexeme(f"{prefix}{token}") for token in part.tokens]
                return _and([*found[:-1], f"{found[-1]}:*" if part.is_prefix else found[-1]])
            case LabelTerm():
                labels = part.labels or (_NOTHING,)
                return f"({' | '.join(_lexeme(f'{LABEL_PREFIX}{one}') for one in labels)})"
            case NotLeaf():
                return f"!{self._lexemes(part.leaf)}" if _is_exact(part) else None
            case Branch():
                found_or_none = [self._lexemes(one) for one in part.parts]
                known = [one for one in found_or_none if one is not None]
                if part.needs_all:
                    return _and(known) if known else None
                return f"({' | '.join(known)})" if len(known) == len(part.parts) else None
            case ColumnTerm():
                return None
            case _:
                assert_never(part)


def _is_exact(part: Part) -> bool:
    """Whether lexemes decide: they do not know the order of a phrase."""
    match part:
        case Branch():
            return all(_is_exact(one) for one in part.parts)
        case NotLeaf():
            return _is_exact(part.leaf)
        case TextTerm():
            return len(part.tokens) == 1
        case _:
            return True


def _is_positive(part: Part) -> bool:
    """Whether the index has a list of entries that contains all with this part."""
    match part:
        case Branch():
            found = map(_is_positive, part.parts)
            return any(found) if part.needs_all else all(found)
        case NotLeaf() | ColumnTerm():
            return False
        case _:
            return True


def _and(found: Sequence[str]) -> str:
    return found[0] if len(found) == 1 else f"({' & '.join(found)})" if found else ""


def _lexeme(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
