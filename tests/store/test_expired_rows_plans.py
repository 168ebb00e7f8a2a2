"""The cost of cleanup depends on what it deletes, not on how much is old (C3)."""

from functools import partial

import pytest

from headwater.model import Podcast
from headwater.store import Session, Store
from headwater.store.expired_rows import old_articles, old_polls, old_posts, old_processed
from headwater.store.row_mapping import to_ms
from tests.store.store_data import DAY, NOW, stored
from tests.store.test_due_plans import plans

MANY, FEW = 4000, 3
OLD = NOW - 20 * DAY
TABLES = ("posts", "articles", "post_articles", "polls", "x", "o")
BATCHES = {
    "articles": (old_articles(7), "articles_unprocessed_age", 2 * FEW),
    "processed": (old_processed(7), "articles_processed_age", 2 * FEW),
    "posts": (old_posts(7), "posts_unlinked_age", FEW),
    "polls": (old_polls(14), "", FEW),
}
# a range of an index that ends where newer rows begin
RANGES = {
    ("sqlite", "articles"): "(podcast_id=? AND <expr><?)",
    ("sqlite", "processed"): "(<expr><?)",
    ("sqlite", "posts"): "(podcast_id=? AND created_at<?)",
    ("postgres", "articles"): "Index Cond: (((podcast_id || ''::text) = p.id) AND (COALESCE(",
    ("postgres", "processed"): "Index Cond: (GREATEST(",
    ("postgres", "posts"): "Index Cond: ((podcast_id = p.id) AND (created_at < ",
}
NUMBERS = """(WITH RECURSIVE numbers (n) AS
    (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
    SELECT CAST(:name AS TEXT) || n AS id FROM numbers) AS made"""
POSTS = f"""INSERT INTO posts
    (id, source_id, podcast_id, title, body, url, content_hash, created_at, is_linked)
    SELECT id, :source, :podcast, '', '', '', id, :old, :name NOT LIKE '%loose%' FROM {NUMBERS}"""
ARTICLES = f"""INSERT INTO articles (id, source_id, podcast_id, title, body, url, content_hash,
    created_at, is_processed, processed_at)
    SELECT id, :source, :podcast, '', '', '', id, :old, :name LIKE '%processed%', :processed
    FROM {NUMBERS}"""
LINKS = f"INSERT INTO post_articles (post_id, article_id) SELECT id, id FROM {NUMBERS}"
POLLS = f"""INSERT INTO polls (source_id, started_at, duration_ms, outcome)
    SELECT :source, :polled, 1, 'unchanged' FROM {NUMBERS}"""


async def fill(store: Store) -> None:
    """Many old rows that stay, by a long limit or processed recently, and few that expire."""
    for podcast, days, count, lately in (("short", 1, FEW, OLD), ("long", 365, MANY, NOW)):
        made = Podcast(podcast, "default", podcast, NOW, max_article_age_days=days)
        await store.accounts.save_podcast(made)
        source = await stored(store, podcast_id=podcast)
        params = {"source": source.id, "podcast": podcast, "count": count, "old": to_ms(OLD)}
        params |= {"processed": to_ms(lately), "polled": to_ms(lately)}
        await store.database.write(partial(_insert, params=params))
    await store.database.write(lambda session: session.execute("ANALYZE"))


def _insert(session: Session, params: dict[str, object]) -> None:
    for state in ("loose", "waiting", "processed"):
        named = params | {"name": f"{params['podcast']} {state} "}
        session.execute(POSTS, named)
        if state != "loose":
            session.execute(ARTICLES, named)
            session.execute(LINKS, named)
    session.execute(POLLS, named)


@pytest.mark.parametrize("name", BATCHES)
async def test_c3_a_batch_reads_what_it_deletes_and_not_all_old_rows(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch, name: str
):
    await fill(store)
    batch, index, expected = BATCHES[name]
    taken = []

    async def clean() -> None:
        taken.append(await store.clean(batch, NOW, 1000))

    looked, *removed = await plans(store, clean, monkeypatch)

    assert taken == [expected]
    assert index in looked
    assert RANGES.get((kind, name), "") in looked, looked
    for plan in (looked, *removed):
        assert full_scans(plan, kind) == [], plan


def full_scans(plan: str, kind: str) -> list[str]:
    """The lines of a plan that read a whole table."""
    lines = [line.strip() for line in plan.splitlines()]
    if kind == "postgres":
        return [line for line in lines if any(f"Seq Scan on {table}" in line for table in TABLES)]
    # the beginning of the history, no more than a batch
    scans = [line for line in lines if line.startswith("SCAN") and line != "SCAN polls"]
    return [line for line in scans if line.split()[1] in TABLES]


async def test_c3_without_expired_rows_nothing_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    await fill(store)
    for batch, _, expected in BATCHES.values():
        assert await store.clean(batch, NOW, 1000) == expected

    def refuse(_: object) -> None:
        raise AssertionError("polls would wait for this")

    monkeypatch.setattr(store.database, "write", refuse)
    for batch, _, _ in BATCHES.values():
        assert await store.clean(batch, NOW, 1000) == 0
