"""Publication times of sources, which outlive their posts: they show what is usual (Y1)."""

import json
from collections.abc import Sequence

from headwater.model import Outcome
from headwater.rules.activity import published_times, silent_after
from headwater.store.database import Session
from headwater.store.row_mapping import encoded


def remember(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Add the publication times of new posts; the sources are locked."""
    with_posts = {outcome.source.id: outcome for outcome in outcomes if outcome.posts}
    if not with_posts:
        return
    sql = "SELECT source_id, published FROM source_activity WHERE source_id IN :ids"
    known = {id_: times_in(text) for id_, text in session.fetch(sql, {"ids": list(with_posts)})}
    rows = []
    for id_, outcome in with_posts.items():
        before = known.get(id_, [])
        now = outcome.source.last_polled or outcome.started_at
        times = published_times(before, outcome.posts, now)
        if times != before:
            silent = encoded(silent_after(times))
            rows.append({"source_id": id_, "published": json.dumps(times), "silent_after": silent})
    if rows:
        conflict = """ON CONFLICT (source_id) DO UPDATE
            SET published = excluded.published, silent_after = excluded.silent_after"""
        session.insert_rows("source_activity", rows, conflict)


def times_in(text: str) -> list[int]:
    """Stored publication times; none if another program wrote something else."""
    try:
        return sorted({int(minutes) for minutes in json.loads(text)})
    except (ValueError, TypeError):
        return []
