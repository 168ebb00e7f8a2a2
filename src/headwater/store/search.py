"""Search: pages of posts and articles that match a query, newest or best first (B3)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from headwater.model import Article, Post, Subject
from headwater.query.evaluator import SearchableSource
from headwater.query.ranking import ranked
from headwater.query.syntax import (
    AllOf,
    Query,
    TextField,
    TextTerm,
    TimeTerm,
    TypeTerm,
    terms_of,
)
from headwater.store import articles, filter_changes, posts
from headwater.store.content_filter import ContentFilter
from headwater.store.database import Database, Row, Session, Tables
from headwater.store.filter_changes import FilterEffect
from headwater.store.keyset_pages import MAX_CHARACTERS, count_within
from headwater.store.postgres_search import NewestFirst
from headwater.store.row_mapping import (
    ARTICLE_COLUMNS,
    LENGTHS,
    POST_COLUMNS,
    columns,
    from_ms,
    row_reader,
)
from headwater.store.search_index import (
    Kind,
    labels_after,
    labels_within,
    scope_label,
    source_label,
    words_with_prefix,
)
from headwater.store.search_sql import (
    LabelTerm,
    NotLeaf,
    Part,
    PostgresTranslation,
    SqliteTranslation,
    Translation,
    is_word_prefix,
)
from headwater.store.stories import OTHER

Item = TypeVar("Item")
Position = tuple[int, int]  # the rank and the number of a result
SEARCH_SECONDS = 2.0
_AT_ONCE = 2  # searches; other reads have the remaining threads
_MAX_PREFIX_WORDS = 1000  # of all prefixes of a query
_read_source = row_reader(SearchableSource, "sources")


@dataclass(frozen=True, slots=True)
class SearchPage(Generic[Item]):
    """Results, and the position to continue after, if there are more."""

    items: tuple[Item, ...]
    next: Position | None


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is searched for."""

    podcast_id: str
    query: Query
    chosen: ContentFilter
    now: datetime
    limit: int
    by_rank: bool = False
    behind: Position | None = None
    max_characters: float = MAX_CHARACTERS


class Search(Tables):
    """Searches in the index, and previews of filters; those that take too long are cancelled."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.seconds = SEARCH_SECONDS

    async def posts(self, request: SearchRequest) -> SearchPage[Post]:
        """Posts that match a query; SearchTooSlow after some seconds."""
        return await self._limited(partial(_posts, request=request))

    async def articles(self, request: SearchRequest) -> SearchPage[Article]:
        """The same for articles."""
        return await self._limited(partial(_articles, request=request))

    async def filter_effect(
        self, podcast_id: str, source_id: str, change: Callable[[Subject], Subject]
    ) -> FilterEffect:
        """What filters would do to the posts that are evaluated in this time (B2)."""
        preview = partial(filter_changes.preview, seconds=self.seconds)
        async with self._slots:
            return await self.database.read(lambda s: preview(s, podcast_id, source_id, change))

    async def _limited(self, search: Callable[[Session], SearchPage[Item]]) -> SearchPage[Item]:
        def limited(session: Session) -> SearchPage[Item]:
            with session.time_limit(self.seconds):
                return search(session)

        async with self._slots:
            return await self.database.read(limited)


def _posts(session: Session, request: SearchRequest) -> SearchPage[Post]:
    return _page(session, "posts", POST_COLUMNS, request, partial(posts.read_posts, session))


def _articles(session: Session, request: SearchRequest) -> SearchPage[Article]:
    read = partial(articles.complete, session)
    return _page(session, "articles", ARTICLE_COLUMNS, request, read)


def _page(
    session: Session,
    kind: Kind,
    names: Sequence[str],
    request: SearchRequest,
    read: Callable[[Sequence[Row]], Sequence[Item]],
) -> SearchPage[Item]:
    found = _positions(session, kind, request)
    numbers = [number for _, number in found[: request.limit]]
    # lengths first: texts beyond the bound are never read into memory
    sql = f"SELECT seq, {LENGTHS[kind]} FROM {kind} WHERE seq IN :numbers"
    lengths: dict[int, int] = dict(session.fetch(sql, {"numbers": numbers}))
    count = count_within([lengths.get(number, 0) for number in numbers], request.max_characters)
    sql = f"SELECT {columns(names)}, seq FROM {kind} WHERE seq IN :numbers"
    rows = {row[-1]: row[:-1] for row in session.fetch(sql, {"numbers": numbers[:count]})}
    items = read([rows[number] for number in numbers[:count] if number in rows])
    return SearchPage(tuple(items), found[count - 1] if count < len(found) else None)


def _positions(session: Session, kind: Kind, request: SearchRequest) -> list[Position]:
    """The positions of the results of a page, and of one more if there are more."""
    ranks = ranked(request.query) if request.by_rank else (request.query,)
    first, behind = request.behind or (0, None)
    found: list[Position] = []
    for rank in range(max(first, 0), len(ranks)):
        wanted = request.limit + 1 - len(found)
        numbers = _numbers(session, kind, request, ranks[rank], behind, wanted)
        found += [(rank, number) for number in numbers]
        if len(found) > request.limit:
            break
        behind = None
    return found


def _numbers(
    session: Session,
    kind: Kind,
    request: SearchRequest,
    rank: Query,
    behind: int | None,
    limit: int,
) -> list[int]:
    """The highest numbers of what a search finds with this rank, in descending order."""
    chosen = request.chosen
    labels = _labels(session, kind, request)
    scope, sources = scope_label(kind, request.podcast_id), _sources(session, request)
    translation: Translation = (
        SqliteTranslation(kind, kind, "f", scope, sources, _prefixes(session, request.query))
        if session.kind == "sqlite"
        else PostgresTranslation(kind, kind, "d", scope, sources)
    )
    conditions = translation.conditions(rank, labels)
    found_too = ""
    if chosen.story_once:  # by a post that the search finds, with any rank
        other = replace(translation, table=OTHER[kind], entry="other_entry")
        found_too = other.lookup(request.query, labels)
    also, params = chosen.conditions(kind, found_too)
    others = [*conditions.others, *([f"TRUE{also}"] if also else [])]
    if chosen.first_id is not None:
        others.append(f"{kind}.id >= {translation.bound(chosen.first_id)}")
    if chosen.end_id is not None:
        others.append(f"{kind}.id < {translation.bound(chosen.end_id)}")
    given = {**translation.params, **params}
    if session.kind == "postgres":
        search = NewestFirst(kind, conditions.scope, conditions.index, others, given, limit)
        return search.numbers(session, behind)
    if behind is not None:
        others.append(f"f.rowid < {translation.bound(behind)}")
    sql = f"""SELECT f.rowid FROM search_index f CROSS JOIN {kind} ON {kind}.seq = f.rowid
        WHERE {" AND ".join([conditions.index or conditions.scope, *others])}
        ORDER BY f.rowid DESC LIMIT :limit"""
    given = {**translation.params, **params, "limit": limit}
    return [row[0] for row in session.fetch_unprepared(sql, given)]


def _labels(session: Session, kind: Kind, request: SearchRequest) -> list[Part]:
    """Labels that all results have: they exclude what conditions on columns would reject."""
    chosen = request.chosen
    since, until = _times(request)
    if since is None and until is not None:
        since = _oldest(session, kind, request.podcast_id)
    found: list[Part] = []
    if chosen.source_id is not None:
        found.append(LabelTerm((source_label(chosen.source_id),)))
    if labels := labels_within(since, until, request.now):
        found.append(LabelTerm(tuple(labels)))
    elif until is not None and (labels := labels_after(until, request.now)):
        found.append(NotLeaf(LabelTerm(tuple(labels))))
    return found


def _oldest(session: Session, kind: Kind, podcast_id: str) -> datetime | None:
    """The date of the oldest post or article of a podcast: ids begin with it."""
    sql = f"""SELECT coalesce(published_at, created_at) FROM {kind} WHERE podcast_id = :podcast
        ORDER BY id LIMIT 1"""
    rows = session.fetch(sql, {"podcast": podcast_id})
    return from_ms(rows[0][0]) if rows else None


def _times(request: SearchRequest) -> tuple[datetime | None, datetime | None]:
    """The time that all results are from, and the one they are before."""
    query, chosen = request.query, request.chosen
    terms = _required_times(query)
    since = [*filter(None, [chosen.since]), *(term.at for term in terms if term.is_after)]
    until = [*filter(None, [chosen.until]), *(term.at for term in terms if not term.is_after)]
    return max(since, default=None), min(until, default=None)


def _required_times(query: Query) -> list[TimeTerm]:
    """The terms on the time that all results match."""
    if isinstance(query, AllOf):
        return [term for part in query.parts for term in _required_times(part)]
    return [query] if isinstance(query, TimeTerm) else []


def _prefixes(session: Session, query: Query) -> dict[str, Sequence[str]]:
    """The words with each prefix of a query; none for prefixes that too many words have."""
    terms = (term for term in terms_of(query) if isinstance(term, TextTerm))
    found: dict[str, Sequence[str]] = {}
    left = _MAX_PREFIX_WORDS
    for prefix in dict.fromkeys(term.tokens[0] for term in terms if is_word_prefix(term)):
        found[prefix] = words_with_prefix(session, prefix, left)
        left -= len(found[prefix])
    return found


def _sources(session: Session, request: SearchRequest) -> Sequence[SearchableSource]:
    """The sources of the podcast, if the query asks for some of them."""
    asks = any(
        isinstance(term, TypeTerm)
        or (isinstance(term, TextTerm) and term.field is TextField.SOURCE)
        for term in terms_of(request.query)
    )
    if not asks:
        return ()
    sql = "SELECT id, label, title, url, type FROM sources WHERE podcast_id = :podcast"
    return _read_source.all(session.fetch(sql, {"podcast": request.podcast_id}))
