"""Scores and annotations of posts and articles, which belong to their clients (E4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.errors import NotFound
from headwater.rules.annotations import annotations_text
from headwater.store.database import Session, Tables, grouped_by_columns, writes

_NOUNS = {"posts": "post", "articles": "article"}


@dataclass(frozen=True, slots=True)
class Annotation:
    """What to store with a post or article: `score`, `annotations` or both, by name."""

    id: str
    values: Mapping[str, Any]


def _annotate(
    session: Session,
    table: str,
    podcast_id: str,
    changes: Sequence[Annotation],
    *,
    in_list: bool = False,
) -> None:
    """Set scores and annotations of posts or articles of a podcast: all, or none.

    With `in_list` an error names the position of the wrong change.
    """
    ids = [change.id for change in changes]
    # sorted, so that two concurrent calls lock rows in the same order
    sql = f"""SELECT id FROM {table} WHERE id IN :ids AND podcast_id = :podcast
        ORDER BY id FOR NO KEY UPDATE"""
    found = {row[0] for row in session.fetch(sql, {"ids": ids, "podcast": podcast_id})}
    for number, id_ in enumerate(ids):
        if id_ not in found:
            field = f"{number}.id" if in_list else None
            raise NotFound(f"there is no {_NOUNS[table]} {id_}", field=field)
    for rows in grouped_by_columns(_row(change) for change in changes if change.values):
        session.update_rows(table, rows)


def _row(change: Annotation) -> dict[str, Any]:
    row = {"id": change.id, **change.values}
    if row.get("annotations") is not None:
        row["annotations"] = annotations_text(row["annotations"])
    return row


class Annotations(Tables):
    """The columns of posts and articles that only clients change."""

    annotate = writes(_annotate)
