"""Search in posts and articles, and saved searches with their feeds (B3)."""

import asyncio
import secrets
from dataclasses import replace
from datetime import datetime

from headwater.content import SavedSearch
from headwater.errors import QueryError, UsageError
from headwater.model import Podcast
from headwater.operations.articles import FeedWriter
from headwater.operations.users_and_podcasts import one_line_name
from headwater.query.parser import parse_query
from headwater.query.syntax import PostState, Query, StateTerm, terms_of
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.content_filter import SHOWN, ContentFilter, Filtered
from headwater.store.search import Position, SearchRequest

_PREFIX = "hwf_"  # of the token of a feed
_RANDOM_BYTES = 24


def search_request(
    podcast: Podcast,
    text: str,
    chosen: ContentFilter = SHOWN,
    *,
    now: datetime,
    limit: int,
    by_rank: bool = False,
    behind: Position | None = None,
) -> SearchRequest:
    """What `store.search` searches for; a QueryError if the query is invalid."""
    query = query_of(text, field="q")
    asks_for_filtered = StateTerm(PostState.FILTERED) in terms_of(query)
    if asks_for_filtered and chosen.filtered is Filtered.NO:
        chosen = replace(chosen, filtered=Filtered.ANY)
    return SearchRequest(podcast.id, query, chosen, now, limit, by_rank=by_rank, behind=behind)


def query_of(text: str, *, field: str) -> Query:
    """The parsed query of a field."""
    try:
        return parse_query(text)
    except QueryError as error:
        raise QueryError(error.expected, error.position, field=field) from None


async def save_search(
    store: Store, podcast: Podcast, name: str, query: str, now: datetime
) -> SavedSearch:
    """Save a query under a name, with a new token for its feed."""
    search = new_search(podcast.id, name, query, now)
    describe("search.add", f"podcast {podcast.id}", name=search.name, query=query)
    await store.saved_searches.add(search)
    return search


def new_search(podcast_id: str, name: str, query: str, now: datetime) -> SavedSearch:
    """A search with a new token, or a UsageError that names the wrong field."""
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    return SavedSearch(podcast_id, _checked_name(name), _checked_query(query), token, now)


async def change_search(store: Store, search: SavedSearch, name: str, query: str) -> SavedSearch:
    """Change name and query of a saved search; its feed keeps the token."""
    changed = replace(search, name=_checked_name(name), query=_checked_query(query))
    describe("search.edit", f"podcast {search.podcast_id}", name=changed.name, query=query)
    await store.saved_searches.change(changed, old_name=search.name)
    return changed


async def remove_search(store: Store, search: SavedSearch) -> None:
    """Delete a saved search; its feed ends."""
    describe("search.remove", f"podcast {search.podcast_id}", name=search.name)
    await store.saved_searches.remove(search.podcast_id, search.name)


async def newest_matches_as_feed(
    store: Store,
    podcast: Podcast,
    search: SavedSearch,
    *,
    now: datetime,
    limit: int,
    write: FeedWriter,
) -> bytes:
    """The newest posts that a search finds as a feed document."""
    request = search_request(podcast, search.query, now=now, limit=limit)
    found = await store.search.posts(request)
    return await asyncio.to_thread(write, podcast, found.items)  # they may be very long (H2)


def _checked_name(name: str) -> str:
    """A name that can be part of a path."""
    checked = one_line_name(name)
    if "/" in checked or checked in (".", ".."):
        raise UsageError("the name of a search has no `/`, and is not `.` or `..`", field="name")
    return checked


def _checked_query(query: str) -> str:
    query_of(query, field="query")
    return query
