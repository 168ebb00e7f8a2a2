"""What the overview shows of content: the newest posts, and how often sources publish (Y2)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from headwater.model import SourceType
from headwater.rules.activity import Minutes
from headwater.rules.url_secrets import masked
from headwater.store.database import Row, Session, Tables, reads
from headwater.store.row_mapping import from_ms
from headwater.store.source_activity import times_in
from headwater.store.stories import story_once

_MAX_TITLE = 300
_VERSIONS = 20  # posts read for each one shown, as many may be versions of one page


@dataclass(frozen=True, slots=True)
class Headline:
    """A post in one line."""

    id: str
    title: str
    url: str
    at: datetime
    podcast_id: str
    source_id: str
    source_name: str


@dataclass(frozen=True, slots=True)
class SourceActivity:
    """When a source published."""

    source_id: str
    podcast_id: str
    name: str
    times: Minutes


def _newest(session: Session, podcast_ids: Sequence[str], *, limit: int) -> list[Headline]:
    """The newest posts of these podcasts, stories once where the podcast wants that (I2).

    Of a page only its newest version: one that changes all the time would push out the others.
    The cost does not grow with the number of posts.
    """
    # BETWEEN keeps the podcast in the ORDER BY: else PostgreSQL may scan all posts by id
    sql = f"""SELECT x.id, substr(x.title, 1, {_MAX_TITLE}), x.url,
            coalesce(x.published_at, x.created_at), x.podcast_id, x.source_id,
            s.label, s.title, s.url, s.type
        FROM (SELECT id, title, url, published_at, created_at, podcast_id, source_id
            FROM posts WHERE podcast_id BETWEEN :podcast AND :podcast
            AND filtered_by IS NULL
            AND ({story_once("posts")}
                OR NOT (SELECT stories FROM podcasts WHERE id = :podcast))
            ORDER BY podcast_id DESC, id DESC LIMIT :limit) x
        JOIN sources s ON s.id = x.source_id"""
    rows = [
        row
        for podcast_id in podcast_ids
        for row in session.fetch(sql, {"podcast": podcast_id, "limit": _VERSIONS * limit})
    ]
    rows.sort(key=lambda row: str(row[0]), reverse=True)  # ids sort by time
    return [_headline(row) for row in islice(_newest_versions(rows), limit)]


def _newest_versions(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows without those of a page, whose posts are its versions, that has a newer one."""
    pages = set()
    for row in rows:
        source_id, type_ = row[5], row[9]
        if source_id not in pages:
            yield row
        if type_ == SourceType.WEBSITE:
            pages.add(source_id)


def _headline(row: Row) -> Headline:
    id_, title, url, at, podcast_id, source_id, label, own_title, source_url, _ = row
    name = label or own_title or masked(source_url)
    return Headline(id_, title, url, from_ms(at), podcast_id, source_id, name)


def _quietest(session: Session, owner: str | None, *, limit: int) -> list[SourceActivity]:
    """Enabled sources that are silent, or will be next if they publish nothing."""
    owned = "" if owner is None else "AND p.user_id = :owner"
    sql = f"""SELECT s.id, s.podcast_id, s.label, s.title, s.url, a.published
        FROM source_activity a JOIN sources s ON s.id = a.source_id
        JOIN podcasts p ON p.id = s.podcast_id
        WHERE a.silent_after IS NOT NULL AND s.enabled {owned}
        ORDER BY a.silent_after LIMIT :limit"""
    rows = session.fetch(sql, {"owner": owner, "limit": limit})
    return [
        SourceActivity(id_, podcast_id, label or title or masked(url), times_in(published))
        for id_, podcast_id, label, title, url, published in rows
    ]


class Headlines(Tables):
    """Lists of the newest posts and the quietest sources."""

    newest = reads(_newest)
    quietest = reads(_quietest)
