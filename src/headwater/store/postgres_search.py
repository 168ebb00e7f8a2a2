"""How PostgreSQL finds the newest results of a search (B3).

Its planner does not know how frequent a word is, and chooses the wrong one of two ways: reading
entries from the newest on until enough match, which is fast for common words, or reading all
entries with these words from the index, which is fast for rare ones. So the newest entries are read
first. If too few of them match, they show which way is faster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.store import sequence_numbers
from headwater.store.database import Session

_WINDOW = 1000  # entries that are read first
_READ_COST = 1.5  # of an entry, compared with one that the index finds
_GROWTH = 2  # how many more entries are read than are likely to be enough


@dataclass(frozen=True, slots=True)
class NewestFirst:
    """The conditions of a search, in SQL."""

    table: str  # posts or articles
    scope: str  # on the podcast
    lexemes: str | None  # on what the index has; None: nothing
    others: Sequence[str]
    params: Mapping[str, object]
    limit: int

    def numbers(self, session: Session, below: int | None) -> list[int]:
        """The highest numbers of entries that match, in descending order."""
        most = sequence_numbers.last(session) + 1
        below = most if below is None else min(below, most)
        found: list[int] = []
        window = _WINDOW
        while below > 1:
            found += self._in_window(session, below, window, self.limit - len(found))
            if len(found) >= self.limit:
                break
            end = self._end_of_window(session, below, window)
            if end is None:
                break
            needed = window * self.limit / max(len(found), 0.5)
            if self._is_index_faster(session, below, window, end, needed):
                return found + self._by_index(session, end, self.limit - len(found))
            below, window = end, round(min(needed * _GROWTH, end))
        return found

    def _in_window(self, session: Session, below: int, window: int, limit: int) -> list[int]:
        """The first results among the entries below a number."""
        conditions = [*filter(None, [self.lexemes]), *self.others]
        sql = f"""SELECT d.number FROM {self._window()}
            JOIN {self.table} ON {self.table}.seq = d.number
            WHERE {" AND ".join(conditions) or "TRUE"} ORDER BY d.number DESC LIMIT :limit"""
        given = {"below": below, "window": window, "limit": limit}
        return [row[0] for row in session.fetch_unprepared(sql, {**self.params, **given})]

    def _window(self) -> str:
        return f"""(SELECT * FROM search_documents d WHERE {self.scope} AND d.number < :below
            ORDER BY d.number DESC LIMIT :window) AS d"""

    def _end_of_window(self, session: Session, below: int, window: int) -> int | None:
        """The lowest number of a window; None: there are no entries below it."""
        sql = f"""SELECT d.number FROM search_documents d WHERE {self.scope} AND d.number < :below
            ORDER BY d.number DESC OFFSET :window LIMIT 1"""
        given = {"below": below, "window": window - 1}
        rows = session.fetch_unprepared(sql, {**self.params, **given})
        return int(rows[0][0]) if rows else None

    def _is_index_faster(
        self, session: Session, below: int, window: int, end: int, needed: float
    ) -> bool:
        """Whether the index has fewer entries with these words than would have to be read."""
        if self.lexemes is None:
            return False
        sql = f"SELECT count(*) FROM {self._window()} WHERE {self.lexemes}"
        given = {"below": below, "window": min(window, _WINDOW)}
        matching = int(session.fetch_unprepared(sql, {**self.params, **given})[0][0])
        in_index = matching / min(window, _WINDOW) * end
        return in_index < min(needed, end) * _READ_COST

    def _by_index(self, session: Session, below: int, limit: int) -> list[int]:
        """The results below a number, by way of the index."""
        session.execute("SET LOCAL enable_seqscan = off")  # chosen where estimates are wrong
        sql = f"""WITH found AS MATERIALIZED (SELECT d.number FROM search_documents d
                WHERE {self.scope} AND {self.lexemes} AND d.number < :below)
            SELECT d.number FROM (SELECT number FROM found ORDER BY number DESC) AS f
                JOIN search_documents d ON d.number = f.number
                JOIN {self.table} ON {self.table}.seq = d.number
            WHERE {" AND ".join(self.others) or "TRUE"} ORDER BY f.number DESC LIMIT :limit"""
        given = {"below": below, "limit": limit}
        return [row[0] for row in session.fetch_unprepared(sql, {**self.params, **given})]
