"""ContentFilter: conditions on lists of posts and articles, the same in every interface (B3)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headwater.rules.admission import first_id
from headwater.store.expiry import AGE_CONDITIONS
from headwater.store.row_mapping import to_ms
from headwater.store.stories import PROCESSED_STORY, story_once

Conditions = tuple[str, dict[str, object]]  # SQL, each with a leading AND, and its parameters


class Filtered(StrEnum):
    """Which posts a list has: those that no filter hides, only hidden ones, or both (B2)."""

    NO = "false"
    ONLY = "true"
    ANY = "any"


_FILTERED = {
    "posts": {
        Filtered.NO: "posts.filtered_by IS NULL",
        Filtered.ONLY: "posts.filtered_by IS NOT NULL",
    },
    "articles": {Filtered.ONLY: "FALSE"},
}
PROCESSED = {
    "articles": "articles.is_processed",
    "posts": """EXISTS (SELECT 1 FROM post_articles l JOIN articles a ON a.id = l.article_id
        WHERE l.post_id = posts.id AND a.is_processed)""",
}


@dataclass(frozen=True, slots=True)
class Expiring:
    """Unprocessed articles, or posts in none, that cleanup deletes soon (E5)."""

    dated_before: datetime
    kept_before: datetime  # those that an undo keeps for longer are left out


@dataclass(frozen=True, slots=True)
class ContentFilter:
    """Conditions on posts or articles; None means any."""

    source_id: str | None = None
    since: datetime | None = None  # by the date that lists are ordered by
    until: datetime | None = None  # exclusive
    # posts: whether an article made of them is processed, with `story_once` one of their story
    processed: bool | None = None
    min_score: float | None = None  # E4
    story_once: bool = False  # of a story only the representative (I2)
    filtered: Filtered = Filtered.NO  # no article is made of filtered posts
    expiring: Expiring | None = None

    def conditions(self, table: str) -> Conditions:
        """The conditions without those on the date."""
        found: list[str] = []
        params: dict[str, object] = {}
        if self.source_id is not None:
            found.append(f"{table}.source_id = :source")
            params["source"] = self.source_id
        if self.processed is not None:
            found.append(f"{'' if self.processed else 'NOT '}{self._is_processed(table)}")
        if self.min_score is not None:
            # the first part names the index of rows that have a score
            found.append(f"{table}.score IS NOT NULL AND {table}.score >= :min_score")
            params["min_score"] = self.min_score
        if self.story_once:
            found.append(story_once(table, one_source=self.source_id is not None))
        if self.filtered in _FILTERED[table]:
            found.append(_FILTERED[table][self.filtered])
        if self.expiring is not None:
            state, time = AGE_CONDITIONS[table]
            found.append(f"""{state} AND {time} < :dated_before
                AND (kept_until IS NULL OR kept_until < :kept_before)""")
            params["dated_before"] = to_ms(self.expiring.dated_before)
            params["kept_before"] = to_ms(self.expiring.kept_before)
        return "".join(f" AND {one}" for one in found), params

    def _is_processed(self, table: str) -> str:
        if table == "posts" and self.story_once:
            return f"({PROCESSED[table]} OR {PROCESSED_STORY})"
        return PROCESSED[table]

    @property
    def first_id(self) -> str | None:
        """The lowest id of `since`: ids begin with the date."""
        return None if self.since is None else first_id(self.since)

    @property
    def end_id(self) -> str | None:
        """The lowest id of `until`."""
        return None if self.until is None else first_id(self.until)


SHOWN = ContentFilter()
EVERYTHING = ContentFilter(filtered=Filtered.ANY)
