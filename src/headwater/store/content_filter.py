"""ContentFilter: conditions on lists of posts and articles, the same in every interface (B3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headwater.rules.admission import first_id
from headwater.store.expiry import AGE_CONDITIONS
from headwater.store.row_mapping import to_ms
from headwater.store.stories import OTHER, PROCESSED_STORY, story_once

Conditions = tuple[str, dict[str, object]]  # SQL, each with a leading AND, and its parameters


class Filtered(StrEnum):
    """Which posts a list has: those that no filter hides, only hidden ones, or both (B2)."""

    NO = "false"
    ONLY = "true"
    ANY = "any"


_FILTERED = {
    "posts": {
        Filtered.NO: "{0}.filtered_by IS NULL",
        Filtered.ONLY: "{0}.filtered_by IS NOT NULL",
    },
    "articles": {Filtered.ONLY: "FALSE"},
}
_PROCESSED = {
    "articles": "{0}.is_processed",
    "posts": """EXISTS (SELECT 1 FROM post_articles l JOIN articles a ON a.id = l.article_id
        WHERE l.post_id = {0}.id AND a.is_processed)""",
}


def processed_condition(table: str, name: str) -> str:
    """A condition on an article, or on a post: an article made of it is processed."""
    return _PROCESSED[table].format(name)


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
    story_once: bool = False  # of a story only one of those that meet the conditions (I2)
    filtered: Filtered = Filtered.NO  # no article is made of filtered posts
    expiring: Expiring | None = None
    batch: str | None = None  # the name that articles were marked with (E1); posts have none

    def conditions(self, table: str, among: str = "") -> Conditions:
        """The conditions without those on the date.

        `among` has a further condition on those that can represent a story, named `OTHER`.
        """
        found, params = self._on(table, table)
        if self.story_once:
            other = OTHER[table]
            others, _ = self._on(table, other)
            if self.since is not None:
                others.append(f"{other}.id >= :first_id")
                params["first_id"] = self.first_id
            if self.until is not None:
                others.append(f"{other}.id < :end_id")
                params["end_id"] = self.end_id
            found.append(story_once(table, _all([*others, *filter(None, [among])])))
        return _all(found), params

    def _on(self, table: str, name: str) -> tuple[list[str], dict[str, object]]:
        """The conditions on columns of a row with this name."""
        found: list[str] = []
        params: dict[str, object] = {}
        if self.source_id is not None:
            found.append(f"{name}.source_id = :source")
            params["source"] = self.source_id
        if self.processed is not None:
            found.append(f"{'' if self.processed else 'NOT '}{self._is_processed(table, name)}")
        if self.min_score is not None:
            # the first part names the index of rows that have a score
            found.append(f"{name}.score IS NOT NULL AND {name}.score >= :min_score")
            params["min_score"] = self.min_score
        if self.batch is not None:
            found.append(f"{name}.batch = :batch")
            params["batch"] = self.batch
        if self.filtered in _FILTERED[table]:
            found.append(_FILTERED[table][self.filtered].format(name))
        if self.expiring is not None:
            state, time = (one.format(name) for one in AGE_CONDITIONS[table])
            found.append(f"""{state} AND {time} < :dated_before
                AND ({name}.kept_until IS NULL OR {name}.kept_until < :kept_before)""")
            params["dated_before"] = to_ms(self.expiring.dated_before)
            params["kept_before"] = to_ms(self.expiring.kept_before)
        return found, params

    def _is_processed(self, table: str, name: str) -> str:
        is_processed = processed_condition(table, name)
        if table == "posts" and self.story_once:
            return f"({is_processed} OR {PROCESSED_STORY.format(name)})"
        return is_processed

    @property
    def first_id(self) -> str | None:
        """The lowest id of `since`: ids begin with the date."""
        return None if self.since is None else first_id(self.since)

    @property
    def end_id(self) -> str | None:
        """The lowest id of `until`."""
        return None if self.until is None else first_id(self.until)


def _all(conditions: Sequence[str]) -> str:
    return "".join(f" AND {one}" for one in conditions)


SHOWN = ContentFilter()
EVERYTHING = ContentFilter(filtered=Filtered.ANY)
