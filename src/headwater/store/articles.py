"""Articles: made of posts, linked to them, and marked as processed by readers (A1-A3)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from headwater.errors import NotFound
from headwater.model import EPOCH, Article, ArticleSource
from headwater.store import (
    aggregation,
    article_processing,
    expiry,
    keyset_pages,
    stories,
)
from headwater.store.aggregation import Aggregation, Maker, Plan
from headwater.store.content_filter import EVERYTHING, ContentFilter
from headwater.store.database import (
    Row,
    Session,
    chunks,
    reads,
    writes,
    writes_apart,
)
from headwater.store.keyset_pages import KeysetPage, PageBounds, count_within, fetch_page
from headwater.store.numbered_rows import NumberedPage, NumberedTable, NumberRange, fetch_numbered
from headwater.store.posts import count_by_source
from headwater.store.row_mapping import (
    ARTICLE_COLUMNS,
    LENGTHS,
    columns,
    read_article,
    row_reader,
)

_LENGTHS_PER_QUERY = 100
_MAX_PLANNED = 100  # articles of a plan that are shown
_CHARACTERS_IN_MEMORY = 1_000_000
_read_article_source = row_reader(ArticleSource, "sources")


def _get(session: Session, podcast_id: str, article_id: str) -> Article:
    """An article of a podcast."""
    found = _existing(session, podcast_id, [article_id])
    if not found:
        raise NotFound(f"there is no article {article_id}")
    return found[0]


def _counts(session: Session, source_ids: Sequence[str]) -> dict[str, int]:
    """The number of articles of each of these sources."""
    return count_by_source(session, "articles", source_ids)


def _lengths(session: Session, *, podcast_id: str, ids: Sequence[str]) -> dict[str, int]:
    sql = f"""SELECT id, {LENGTHS["articles"]} FROM articles
        WHERE id IN :ids AND podcast_id = :podcast"""
    return dict(session.fetch(sql, {"ids": ids, "podcast": podcast_id}))


def _existing(session: Session, podcast_id: str, ids: Sequence[str]) -> list[Article]:
    """The given articles that exist, in the order of `ids`."""
    sql = f"""SELECT {columns(ARTICLE_COLUMNS)} FROM articles
        WHERE id IN :ids AND podcast_id = :podcast"""
    rows = session.fetch(sql, {"ids": ids, "podcast": podcast_id})
    found = {article.id: article for article in complete(session, rows)}
    return [found[id_] for id_ in ids if id_ in found]


def _page(
    session: Session,
    podcast_id: str,
    *,
    chosen: ContentFilter = EVERYTHING,
    limit: int,
    behind: str | None = None,
    oldest_first: bool = False,
    max_characters: float = keyset_pages.MAX_CHARACTERS,
) -> KeysetPage[Article]:
    """Articles in either order; `behind` continues, and a page of long ones is shorter."""
    bounds = PageBounds("podcast_id", podcast_id, limit, behind, oldest_first)
    bounds = bounds.within(chosen, "articles")
    read = partial(complete, session)
    return fetch_page(session, "articles", ARTICLE_COLUMNS, bounds, max_characters, read)


def _numbered(session: Session, wanted: NumberRange, limit: int) -> NumberedPage[Article]:
    """The first articles of a range of numbers, in order."""
    read = partial(complete, session)
    return fetch_numbered(session, "articles", ARTICLE_COLUMNS, wanted, limit, read)


def complete(session: Session, rows: Sequence[Row]) -> list[Article]:
    """Articles with the ids of their posts, and their sources."""
    articles = read_article.all(rows)
    sql = """SELECT l.article_id, l.post_id, p.story_id FROM post_articles l
        JOIN posts p ON p.id = l.post_id
        WHERE l.article_id IN :ids AND NOT l.is_copy ORDER BY l.post_id"""
    links = session.fetch(sql, {"ids": [article.id for article in articles]})
    by_article: dict[str, list[str]] = {}
    for article_id, post_id, _ in links:
        by_article.setdefault(article_id, []).append(post_id)
    sources = _sources_of(session, articles)
    also_from = stories.also_from_of_articles(session, links)
    followed = _followed(session, articles)
    return [
        replace(
            article,
            post_ids=tuple(by_article.get(article.id, ())),
            source=sources.get(article.source_id),
            also_from=also_from.get(article.id, ()),
            follow_up_of=article.follow_up_of if article.follow_up_of in followed else None,
        )
        for article in articles
    ]


def _sources_of(session: Session, articles: Sequence[Article]) -> dict[str, ArticleSource]:
    """The sources of articles, by id."""
    sql = "SELECT id, coalesce(label, title), type, url FROM sources WHERE id IN :ids"
    found = session.fetch(sql, {"ids": {article.source_id for article in articles}})
    return {source.id: source for source in _read_article_source.all(found)}


def _followed(session: Session, articles: Sequence[Article]) -> set[str]:
    """The articles that these follow up on and that are not deleted (E3)."""
    ids = {article.follow_up_of for article in articles if article.follow_up_of is not None}
    if not ids:  # most pages
        return set()
    sql = "SELECT id FROM articles WHERE id IN :ids"
    return {row[0] for row in session.fetch(sql, {"ids": ids})}


class Articles(NumberedTable[Article]):
    """The articles table and its links to posts."""

    numbered = staticmethod(_numbered)
    get = reads(_get)
    page = reads(_page)
    counts = reads(_counts)
    mark_processed = writes(article_processing.mark_processed)
    undo = writes(article_processing.undo)
    delete = writes(article_processing.delete)
    batches = reads(article_processing.batches)
    pending = reads(aggregation.pending)
    count_unannounced = reads(expiry.count_unannounced)
    announce_expiring = writes_apart(expiry.announce)

    async def aggregate(
        self,
        podcast_id: str,
        *,
        created_after: datetime,
        pending_since: datetime = EPOCH,
        story_once: bool = False,
        limit: int | None = None,
        make: Maker,
    ) -> Aggregation:
        """Make articles of a podcast's unlinked posts, in batches (A1, A3).

        The articles of one call of `make` and their links are stored in one transaction. The posts
        of a source are split into several calls if they are too many for one digest. Posts whose
        page visit is pending since a time after `pending_since` are left for later (T4). With
        `story_once` the copies of a story are linked to its article, also if they arrived later
        (I2). `limit`: posts that are used at most, for now; their copies are not counted.
        """
        linked = await self._link_copies(podcast_id) if story_once else 0
        unlinked = partial(aggregation.unlinked, story_once=story_once, limit=limit)
        batches = await self.database.read(
            lambda s: unlinked(s, podcast_id, created_after, pending_since)
        )
        created: list[str] = []
        for batch in batches:
            work = partial(
                aggregation.aggregate,
                podcast_id=podcast_id,
                post_ids=batch,
                pending_since=pending_since,
                make=make,
            )
            new, posts = await self.database.write(work)
            created += new
            linked += posts
        if story_once and batches:
            linked += await self._link_copies(podcast_id)
        return Aggregation(tuple(created), linked)

    async def _link_copies(self, podcast_id: str) -> int:
        """Link waiting copies of stories that have an article to it; return how many."""
        linked = 0
        while found := await self.database.read(
            partial(stories.find_copies, podcast_id=podcast_id)
        ):
            new = await self.database.write(partial(stories.link_copies, found=found))
            if not new:  # they were linked, or their articles deleted, meanwhile
                break
            linked += new
        return linked

    async def plan(
        self,
        podcast_id: str,
        *,
        created_after: datetime,
        pending_since: datetime,
        story_once: bool,
        make: Maker,
    ) -> Plan:
        """What `aggregate` would make with these arguments; nothing is stored (E2).

        Copies of stories are counted apart from other posts.
        """
        batches = await self.database.read(
            lambda s: aggregation.unlinked(
                s, podcast_id, created_after, pending_since, story_once=story_once
            )
        )
        count = partial(stories.count_copies, podcast_id=podcast_id)
        created, linked = 0, 0
        copies = await self.database.read(count) if story_once else 0
        shown: list[Article] = []
        for batch in batches:
            work = partial(
                aggregation.planned,
                post_ids=batch,
                pending_since=pending_since,
                story_once=story_once,
                make=make,
            )
            new, posts, their_copies = await self.database.read(work)
            created += len(new)
            linked += posts
            copies += their_copies
            shown += new[: _MAX_PLANNED - len(shown)]
        sources = await self.database.read(lambda s: _sources_of(s, shown))
        articles = [replace(one, source=sources.get(one.source_id)) for one in shown]
        return Plan(created, linked, tuple(articles), copies)

    async def each(self, podcast_id: str, ids: Sequence[str]) -> AsyncIterator[Article]:
        """The given articles that exist, in this order; few are in memory at a time."""
        for left in chunks(ids, _LENGTHS_PER_QUERY):
            lengths = await self.database.read(partial(_lengths, podcast_id=podcast_id, ids=left))
            while left:
                count = count_within([lengths.get(id_, 0) for id_ in left], _CHARACTERS_IN_MEMORY)
                work = partial(_existing, podcast_id=podcast_id, ids=left[:count])
                for article in await self.database.read(work):
                    yield article
                left = left[count:]
