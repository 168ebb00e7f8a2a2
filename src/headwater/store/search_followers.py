"""The follower that keeps the search index up to date with stored posts and articles (B3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.model import Article, Post, Source
from headwater.rules.filters import searchable, searchable_article
from headwater.store.database import Row, Session
from headwater.store.followers import CHARACTERS_PER_BATCH, Follower, beginnings
from headwater.store.numbered_rows import NumberedPage, NumberRange, fetch_numbered
from headwater.store.row_mapping import (
    ARTICLE_COLUMNS,
    POST_COLUMNS,
    SOURCE_COLUMNS,
    columns,
    read_article,
    read_post,
    read_source,
)
from headwater.store.search_index import (
    FOLLOWER,
    IndexEntry,
    Kind,
    add_entries,
    entry_of,
    replace_entries,
)

Reader = Callable[[Sequence[Row]], Sequence[Any]]
_TABLES: Mapping[Kind, tuple[Sequence[str], Reader]] = {
    "posts": (beginnings(POST_COLUMNS), read_post.all),
    "articles": (beginnings(ARTICLE_COLUMNS), read_article.all),
}
_STREAMS: tuple[tuple[Kind, str], ...] = (
    ("posts", "seq"),
    ("articles", "seq"),
    ("posts", "changed_seq"),
    ("articles", "changed_seq"),
)


@dataclass(frozen=True, slots=True)
class ItemToIndex:
    """A post or article that was stored or changed."""

    item: Post | Article
    is_new: bool

    @property
    def id(self) -> str:
        """The id of the post or article."""
        return self.item.id


def search_follower() -> Follower:
    """Indexes what was stored or changed, in the order of these numbers."""
    return Follower(FOLLOWER, _index, read=_read)


def _read(session: Session, wanted: NumberRange, limit: int) -> NumberedPage[ItemToIndex]:
    """The next posts and articles, new and changed: their numbers are of one sequence."""
    last, more = wanted.until, False
    found: dict[tuple[Kind, str], tuple[int, NumberedPage[Post | Article]]] = {}
    for stream in _STREAMS:
        page = _fetch(session, stream, replace(wanted, until=last), limit)
        if page.more:
            last, more = page.next_after, True
        found[stream] = (last, page)
    items: dict[str, Post | Article] = {}
    for stream, (until, page) in found.items():
        if until > last:  # read before another stream ended earlier
            page = _fetch(session, stream, replace(wanted, until=last), limit)
        items |= {item.id: item for item in page.items}
    new = [ItemToIndex(item, is_new=(item.seq or 0) > wanted.after) for item in items.values()]
    return NumberedPage(tuple(new), last, more)


def _fetch(
    session: Session, stream: tuple[Kind, str], wanted: NumberRange, limit: int
) -> NumberedPage[Post | Article]:
    table, column = stream
    names, read = _TABLES[table]
    wanted = replace(wanted, column=column)
    return fetch_numbered(session, table, names, wanted, limit, read, CHARACTERS_PER_BATCH)


def _index(session: Session, found: Sequence[ItemToIndex]) -> None:
    """Add the entries of what is new, and replace those of what changed."""
    sql = f"SELECT {columns(SOURCE_COLUMNS)} FROM sources WHERE id IN :ids"
    rows = session.fetch(sql, {"ids": {one.item.source_id for one in found}})
    sources = {source.id: source for source in read_source.all(rows)}
    new, changed = list[IndexEntry](), list[IndexEntry]()
    for one in found:
        source = sources.get(one.item.source_id)
        if source is not None:  # else it is being deleted
            (new if one.is_new else changed).append(_entry(one.item, source))
    add_entries(session, new)
    replace_entries(session, changed)


def _entry(item: Post | Article, source: Source) -> IndexEntry:
    if isinstance(item, Post):
        return entry_of("posts", source.podcast_id, item, searchable(source, item))
    return entry_of("articles", source.podcast_id, item, searchable_article(source, item))
