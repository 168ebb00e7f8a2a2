"""Known hashes are looked up by index, however many are queried at once (D1, S5)."""

from dataclasses import replace

import pytest

from headwater.model import Entry, Podcast
from headwater.rules.admission import new_by_date
from headwater.rules.policy import Policy
from headwater.store import Store
from tests.store.store_data import NOW, a_post_of, a_success, stored
from tests.store.test_due_plans import plans

_LATERAL = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%LATER' || 'AL%'"
STORED, ASKED = 1000, 1500
BODY = "It rained all night, and the river rose. " * 20


async def test_s5_a_thousand_hashes_are_looked_up_without_reading_all_posts(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    source = await stored(store)
    subject = await store.sources.subject(source.id)
    assert subject is not None
    posts = [a_post_of(source, f"{n} {BODY}", url=f"https://a.example/{n}") for n in range(STORED)]
    await store.record(a_success(source, posts))
    tombstones = [{"mark": f"mark {n}", "source": source.id} for n in range(STORED)]
    sql = "INSERT INTO tombstones (source_id, mark, link) VALUES (:source, :mark, '')"
    await store.database.write(lambda session: session.execute_many(sql, tombstones))
    await store.database.write(lambda session: session.execute("ANALYZE"))
    seen = Entry(None, "", "https://a.example/", None, None, "")
    entries = [replace(seen, body=f"{n} {BODY}") for n in range(ASKED)]

    async def query() -> None:
        known = await store.posts.known(subject, new_by_date(source, entries, NOW, Policy()))
        assert len(known.hash_prefixes) == STORED

    for plan in await plans(store, query, monkeypatch):
        assert "Seq Scan on" not in plan, (kind, plan)
        assert "SCAN t" not in plan, (kind, plan)
        assert "Hash" not in plan, (kind, plan)


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.parametrize("across", [False, True])
async def test_s5_no_plan_of_a_lookup_is_cached_until_the_table_has_grown(
    store: Store, across: bool
):
    await store.accounts.save_podcast(
        Podcast("p", "default", "P", NOW, dedupe_across_sources=across)
    )
    source = await stored(store, podcast_id="p")
    subject = await store.sources.subject(source.id)
    assert subject is not None
    await store.record(a_success(source, [a_post_of(source, "seen")]))
    entry = Entry(None, "", "https://a.example/", None, None, "seen")
    for _ in range(12):  # PostgreSQL caches a plan after a few executions
        known = await store.posts.known(subject, new_by_date(source, [entry], NOW, Policy()))
        assert len(known.hash_prefixes) == 1
    kept = [await store.database.read(lambda session: session.fetch(_LATERAL)) for _ in range(12)]
    assert {rows[0][0] for rows in kept} == {0}
