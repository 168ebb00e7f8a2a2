"""How PostgreSQL finds the newest results of a search (B3).

Its planner does not know how frequent a word is, and chooses the wrong one of two ways: reading
entries from the newest on until enough match, which is fast for common words, or reading all
entries with these words from the index, which is fast for rare ones. So the newest entries are read
first. If too few of them match, the index finds the others: in a range of numbers that is likely to
have enough of them, then in larger ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.store import sequence_numbers
from headwater.store.database import Session

_WINDOW = 1000  # entries that are read first
_MARGIN = 1.2  # how many more entries are searched than are likely to be enough
# From what was searched to what is searched next. At least: a page that is nearly full would be
# completed in very many small steps if its results are all among the newest entries.
_MIN_GROWTH = 2
_MAX_GROWTH = 50
# Sequential scans are chosen where estimates are wrong, and comparing lexemes costs far more than
# comparing numbers. Neither compiling a plan nor other processes are worth it for so few results.
_PLANNING = """SELECT set_config('enable_seqscan', 'off', TRUE),
    set_config('cpu_operator_cost', '0.1', TRUE), set_config('jit', 'off', TRUE),
    set_config('max_parallel_workers_per_gather', '0', TRUE)"""


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
        window, searched = _WINDOW, 0
        while below > 1:
            found += self._in_window(session, below, window, self.limit - len(found))
            if len(found) >= self.limit:
                break
            end = self._end_of_window(session, below, window)
            if end is None:
                break
            if self.lexemes is not None:
                return self._by_index(session, found, end, below - end)
            below, searched = end, searched + window
            window = self._likely(searched, len(found))
        return found

    def _likely(self, searched: int, found: int) -> int:
        """Among how many further entries the missing results are likely to be."""
        growth = _MARGIN * (self.limit - found) / (found + 1)  # the first results may be by chance
        return round(searched * min(max(growth, _MIN_GROWTH), _MAX_GROWTH))

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

    def _by_index(self, session: Session, found: list[int], below: int, searched: int) -> list[int]:
        """Add the first results below a number, by way of the index, range by range."""
        session.fetch(_PLANNING)
        while below > 1 and len(found) < self.limit:
            first = max(below - self._likely(searched, len(found)), 1)
            found += self._in_range(session, first, below, self.limit - len(found))
            below, searched = first, searched + below - first
        return found

    def _in_range(self, session: Session, first: int, below: int, limit: int) -> list[int]:
        """The first results in a range of numbers; OFFSET: the planner must not join it all."""
        sql = f"""WITH found AS MATERIALIZED (SELECT d.number FROM search_documents d
                WHERE {self.scope} AND {self.lexemes} AND d.number >= :first AND d.number < :below)
            SELECT f.number FROM (SELECT number FROM found ORDER BY number DESC) AS f
            WHERE EXISTS (SELECT 1 FROM search_documents d
                JOIN {self.table} ON {self.table}.seq = d.number
                WHERE d.number = f.number AND {" AND ".join(self.others) or "TRUE"} OFFSET 0)
            ORDER BY f.number DESC LIMIT :limit"""
        given = {"first": first, "below": below, "limit": limit}
        return [row[0] for row in session.fetch_unprepared(sql, {**self.params, **given})]
