"""What a podcast watches, by URL."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.model import Source
from headwater.store import source_bites
from headwater.store.database import Database, Session


class Subscriptions:
    """The sources table as subscription lists see it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def watched(self, podcast_id: str, urls: Iterable[str]) -> Mapping[str, str]:
        """Which of these URLs a podcast watches, each with the id of its oldest source."""
        return await self._database.read(lambda s: _watched(s, podcast_id, urls))

    async def add_missing(
        self, podcast_id: str, sources: Sequence[Source], *, most: int
    ) -> Mapping[str, str]:
        """Store new sources but those whose URL is watched already, which are answered.

        All or none are stored; no user gets beyond `most` (U8).
        """
        return await self._database.write(lambda s: _add_missing(s, podcast_id, sources, most))


def _watched(session: Session, podcast_id: str, urls: Iterable[str]) -> dict[str, str]:
    # by the index on URLs alone: what a podcast has may be far more than what is asked for
    rows = session.fetch(
        f"""SELECT url, id FROM sources
        WHERE podcast_id || '' = :podcast AND {session.among("url", "urls")}
        ORDER BY created_at DESC, id DESC""",
        {"podcast": podcast_id, "urls": session.array(urls)},
    )
    return dict(rows)  # the oldest comes last and stays


def _add_missing(
    session: Session, podcast_id: str, sources: Sequence[Source], most: int
) -> dict[str, str]:
    if session.kind == "postgres":  # two imports of one list wait for one another
        sql = "SELECT 1 FROM podcasts WHERE id = :id FOR NO KEY UPDATE"
        session.fetch(sql, {"id": podcast_id})
    watched = _watched(session, podcast_id, [source.url for source in sources])
    source_bites.add(session, [s for s in sources if s.url not in watched], most)
    return watched
