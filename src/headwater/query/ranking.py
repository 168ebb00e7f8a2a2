"""The order of search results by rank: title first (B3)."""

from dataclasses import replace
from enum import StrEnum

from headwater.query.syntax import AllOf, AnyOf, Exclusion, Query, TextField, TextTerm


class SearchOrder(StrEnum):
    """The order of search results: newest first, or those with the words in their title."""

    NEW = "new"
    RANK = "rank"


def ranked(query: Query) -> tuple[Query, ...]:
    """Queries that split what matches a query into ranks, the best one first.

    First come results with all words of the query in the title, then those with some of them
    there, then the others. Words with a field and excluded ones do not count.
    """
    words = tuple(dict.fromkeys(replace(w, field=TextField.TITLE) for w in _words(query)))
    if not words:
        return (query,)
    if len(words) == 1:
        return AllOf((query, words[0])), AllOf((query, Exclusion(words[0])))
    every, some = AllOf(words), AnyOf(words)
    return (
        AllOf((query, every)),
        AllOf((query, some, Exclusion(every))),
        AllOf((query, Exclusion(some))),
    )


def _words(query: Query) -> list[TextTerm]:
    """The terms without a field that results may have."""
    match query:
        case TextTerm():
            return [query] if query.field is None else []
        case AllOf() | AnyOf():
            return [word for part in query.parts for word in _words(part)]
        case _:
            return []
