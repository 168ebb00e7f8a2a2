"""Everything is copied from one database to another, once, and compared; odd cases are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.errors import AlreadyPolling, SchemaTooNew, StoreError, UsageError
from headwater.operations.copy_database import CopyProgress, copy_database
from headwater.rules.shards import shard_of
from headwater.store import Session, Store, open_database
from headwater.store.database_copy import (
    CHARACTERS_PER_BATCH,
    KEYS,
    ROWS_PER_BATCH,
    TableDigest,
    table,
)
from tests.operations.copy_cases import all_rows, change, fill_all, moved, unclaimed
from tests.store.store_data import NOW, a_polled_source, a_post_of, rows, stored, with_posts

pytestmark = pytest.mark.postgres
Make = Callable[[], str]
DIRECTIONS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite"),
              ("postgres", "postgres")]  # fmt: skip


@pytest.fixture
def new(tmp_path: Path, postgres_url: Make) -> dict[str, Make]:
    """Creates empty databases of both kinds."""
    numbers = iter(range(100))
    return {
        "sqlite": lambda: f"sqlite:///{tmp_path / f'{next(numbers)}.db'}",
        "postgres": postgres_url,
    }


@pytest.fixture
async def source(new: dict[str, Make]) -> str:
    """A SQLite file with rows in every table."""
    url = new["sqlite"]()
    await fill_all(url)
    return url


@pytest.fixture
def target(postgres_url: Make) -> str:
    """An empty PostgreSQL database."""
    return postgres_url()


@pytest.mark.parametrize(("from_", "to"), DIRECTIONS)
async def test_everything_is_copied_and_equal_on_both_sides(
    new: dict[str, Make], from_: str, to: str
):
    source, target = new[from_](), new[to]()
    await fill_all(source)
    before = await all_rows(source)
    reported: list[CopyProgress] = []

    came = await moved(source, target, reported)

    assert came.differing == []
    assert [table.table for table in came.tables] == list(KEYS)
    assert {table.table: table.source.rows for table in came.tables} == {
        name: len(found) for name, found in before.items()
    }
    assert (came.went_on, came.was_complete) == (False, False)
    assert came.copied == sum(map(len, before.values()))
    assert await all_rows(target) == before
    assert await all_rows(source) == before
    assert {progress.step for progress in reported} == {"Copying", "Comparing"}
    for step in ("Copying", "Comparing"):
        numbers = [progress.rows for progress in reported if progress.step == step]
        assert numbers == sorted(numbers)
        assert numbers[-1] == reported[-1].total == came.copied


@pytest.mark.parametrize(("from_", "to"), DIRECTIONS[:2])
async def test_a_copied_database_can_be_polled(new: dict[str, Make], from_: str, to: str):
    source, target = new[from_](), new[to]()
    await fill_all(source)
    await moved(source, target)

    async with Store(open_database(target), SystemClock()) as store:
        await store.check()
        before = await rows(store, "SELECT max(id) FROM polls")
        one = await stored(store)
        await with_posts(store, one, a_post_of(one))
        (poll,) = await store.polls.newest(one.id, limit=1)
        assert poll.id == before[0][0] + 1
        token = await store.tokens.with_hash("hash of t2")
        assert token is not None
        assert token[0].user_id == "u"
        assert await store.sessions.token_of("s-t1", NOW) is not None
        assert await store.key_values.get("retired_master_keys") == "value of retired_master_keys"


async def test_shards_are_computed_from_the_hosts(source: str, target: str):
    await moved(source, target)

    async with Store(open_database(target), SystemClock()) as store:
        found = await rows(store, "SELECT host, shard FROM sources")
        assert found
        assert all(shard == shard_of(host) for host, shard in found)
        assert await rows(store, "SELECT count(*) FROM shards WHERE worker IS NULL") == [(256,)]


async def test_a_second_run_copies_nothing_and_compares_again(source: str, target: str):
    await moved(source, target)
    before = await all_rows(target)
    await unclaimed(target)

    again = await moved(source, target)

    assert (again.copied, again.was_complete, again.differing) == (0, True, [])
    assert await all_rows(target) == before


async def test_new_rows_on_either_side_after_a_copy_are_not_mixed(source: str, target: str):
    await moved(source, target)
    await change(source, "INSERT INTO facts (name, value) VALUES ('zzz', 'later')")
    await change(target, "DELETE FROM polls")
    before = await all_rows(target)
    await unclaimed(target)

    again = await moved(source, target)

    assert again.was_complete
    assert again.differing == ["polls", "facts"]
    assert await all_rows(target) == before


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        ("posts", "UPDATE posts SET title = title || ' ' WHERE id = (SELECT max(id) FROM posts)"),
        ("posts", "UPDATE posts SET is_linked = NOT is_linked"),
        ("posts", "UPDATE posts SET author = '' WHERE author IS NULL"),
        ("api_keys", r"UPDATE api_keys SET nonce = '\x0002'"),
        ("sources", "UPDATE sources SET aggregate = NULL WHERE aggregate"),
        ("late_keys", "DELETE FROM late_keys WHERE key = (SELECT max(key) FROM late_keys)"),
        ("hosts", "INSERT INTO hosts (lane) VALUES ('one more')"),
        ("tokens", "UPDATE tokens SET hash = 'another' WHERE id = 't_4'"),
        ("polls", "UPDATE polls SET bytes = bytes + 1"),
    ],
)
async def test_a_row_that_was_changed_in_the_target_is_reported(
    source: str, target: str, name: str, sql: str
):
    await moved(source, target)
    assert await change(target, sql)
    await unclaimed(target)

    again = await moved(source, target)

    assert again.differing == [name]


async def test_a_copy_with_a_difference_is_never_complete_and_never_polled(
    source: str, target: str
):
    async with Store(open_database(target), SystemClock()) as store:
        await store.prepare()
        await store.database.write(_spoil_posts)
    before = await all_rows(source)

    first = await moved(source, target)
    await unclaimed(target)
    again = await moved(source, target)

    for came in (first, again):
        assert (came.differing, came.was_complete) == (["posts"], False)
    after = await all_rows(target)
    assert {name for name in before if before[name] != after[name]} == {"posts"}
    async with Store(open_database(target), SystemClock()) as store:
        with pytest.raises(StoreError, match="an unfinished copy of sqlite:///"):
            await store.check()
    with pytest.raises(StoreError, match="an unfinished copy of sqlite:///"):
        await moved(target, source.replace(".db", "-again.db"))


async def test_a_source_that_was_changed_between_two_runs_is_reported(source: str, target: str):
    def cut_off(progress: CopyProgress) -> None:
        if progress.table == "sources":
            raise KeyError("interrupted")

    clock = SystemClock()
    with pytest.raises(KeyError):
        async with (
            Store(open_database(source), clock) as there,
            Store(open_database(target), clock) as here,
        ):
            await copy_database(there, here, clock, cut_off)
    async with Store(open_database(source), clock) as store:
        late = await stored(store, id="! before all others")
        await with_posts(store, late, a_post_of(late))
    await unclaimed(target)

    with pytest.raises(StoreError, match=r"target refused rows of posts: .*empty target"):
        await moved(source, target)


def _spoil_posts(session: Session) -> None:
    """Change rows while they are inserted."""
    session.execute(
        """CREATE FUNCTION spoil() RETURNS TRIGGER LANGUAGE plpgsql AS
        $$ BEGIN NEW.title := 'odd'; RETURN NEW; END $$"""
    )
    session.execute(
        "CREATE TRIGGER spoil BEFORE INSERT ON posts FOR EACH ROW EXECUTE FUNCTION spoil()"
    )


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("INSERT INTO tokens (id, name, hash, created_at) VALUES ('t', 't', 'h', 0)", "tokens"),
        ("INSERT INTO users (id, name) VALUES ('anna', 'anna')", "users"),
        ("INSERT INTO hosts (lane) VALUES ('a.example')", "hosts"),
    ],
)
async def test_a_target_with_rows_is_refused(
    source: str, new: dict[str, Make], kind: str, sql: str, what: str
):
    target = new[kind]()
    async with Store(open_database(target), SystemClock()) as store:
        await store.prepare()
    await change(target, sql)
    before = await all_rows(target)

    with pytest.raises(UsageError, match=f"the target has {what} of its own"):
        await moved(source, target)

    assert await all_rows(target) == before


async def test_a_target_that_has_sources_is_refused(source: str, new: dict[str, Make]):
    target = new["postgres"]()
    await fill_all(target)
    await change(target, "DELETE FROM tokens")
    await change(target, "DELETE FROM api_keys")
    before = await all_rows(target)

    with pytest.raises(UsageError, match="of its own: a move needs an empty database"):
        await moved(source, target)

    assert await all_rows(target) == before


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_posts_deleted_from_the_target_before_leave_nothing_in_its_search_index(
    source: str, new: dict[str, Make], kind: str
):
    target = new[kind]()
    async with Store(open_database(target), SystemClock()) as store:
        await store.prepare()
    # the numbers of deleted posts: cleanup would remove copied posts from the index
    await change(target, "INSERT INTO search_removals (number) VALUES (1)")

    await moved(source, target)

    async with Store(open_database(target), SystemClock()) as store:
        assert await rows(store, "SELECT number FROM search_removals") == []


async def test_a_copy_of_another_database_is_refused(
    source: str, target: str, new: dict[str, Make], tmp_path: Path
):
    await moved(source, target)
    before = await all_rows(target)
    other = new["sqlite"]()
    await fill_all(other)
    await unclaimed(target)

    with pytest.raises(UsageError, match=f"the target is a copy of {source}, not of {other}"):
        await moved(other, target)
    # the file of another database in its place
    await change(source, "UPDATE users SET created_at = created_at + 1")
    await unclaimed(target)
    with pytest.raises(UsageError, match="another database that was there"):
        await moved(source, target)

    assert await all_rows(target) == before


async def test_a_database_is_not_copied_into_itself(source: str, tmp_path: Path):
    link = tmp_path / "link.db"
    link.symlink_to(source.removeprefix("sqlite:///"))
    for same in (source, f"sqlite:///{link}"):
        with pytest.raises(UsageError, match="the same database"):
            await moved(source, same)


@pytest.mark.parametrize("side", ["source", "target"])
async def test_s10_a_database_that_is_polled_is_not_copied(source: str, target: str, side: str):
    poller = open_database({"source": source, "target": target}[side])
    assert poller.take_poll_lock()
    try:
        with pytest.raises(AlreadyPolling, match=f"polls the {side}"):
            await moved(source, target)
    finally:
        poller.release()
        await poller.close()


async def test_s10_a_target_that_workers_poll_is_refused(source: str, target: str):
    worker = open_database(target)
    assert worker.take_poll_lock(shared=True)
    try:
        with pytest.raises(AlreadyPolling, match="polls the target"):
            await moved(source, target)
    finally:
        worker.release()
        await worker.close()


async def test_k7_a_source_of_another_schema_is_refused_and_left_unchanged(
    source: str, target: str, new: dict[str, Make]
):
    await change(source, "UPDATE schema_version SET version = 99 WHERE version = 1")
    with pytest.raises(SchemaTooNew, match="has schema 99"):
        await moved(source, target)
    await change(source, "DELETE FROM schema_version WHERE version > 3")
    with pytest.raises(StoreError, match=f"`headwater --database-url {source} migrate`"):
        await moved(source, target)
    async with Store(open_database(source), SystemClock()) as store:
        assert (await store.schema())[0] == 3


async def test_every_table_is_copied_or_listed_as_excluded(new: dict[str, Make]):
    of_the_house = {"schema_version", "podcast_marks", "marked_podcasts", "story_marks"}
    of_the_house |= {"search_documents", "search_removals"}  # the index is written again
    fts5 = {"search_index", "search_index_config", "search_index_data", "search_index_idx"}
    stay = {
        "sqlite": of_the_house | fts5 | {"post_numbers"},
        "postgres": of_the_house | {"shards", "workers"},
    }
    names = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
        "postgres": "SELECT table_name FROM information_schema.tables "
        "WHERE table_schema = current_schema()",
    }
    for kind, make in new.items():
        async with Store(open_database(make()), SystemClock()) as store:
            await store.prepare()
            found = {row[0] for row in await rows(store, names[kind])}
            assert found - stay[kind] == set(KEYS)


@pytest.mark.parametrize(("from_", "to"), DIRECTIONS[:2])
async def test_p3_an_unclean_stop_is_copied(new: dict[str, Make], from_: str, to: str):
    source, target = new[from_](), new[to]()
    await fill_all(source)
    if from_ == "sqlite":
        await change(source, "INSERT INTO facts (name, value) VALUES ('poller', 'since eight')")
    else:
        half = "INSERT INTO hosts (lane, next_allowed_at) VALUES ('half.example', 1)"
        await change(source, half)

    assert (await moved(source, target)).differing == []

    async with Store(open_database(target), SystemClock()) as store:
        assert await store.key_values.get("poller") == f"moved from {store_address(source)}"


def store_address(url: str) -> str:
    return open_database(url).address


async def test_a_clean_stop_leaves_no_poller(source: str, target: str):
    await moved(source, target)
    async with Store(open_database(target), SystemClock()) as store:
        assert await store.key_values.get("poller") is None


async def test_no_password_is_kept(source: str, target: str):
    with_password = target.replace("postgres:@", "postgres:geheim@")
    assert with_password != target
    back = source.replace(".db", "-back.db")
    await moved(source, with_password)
    await unclaimed(target)
    await moved(with_password, back)
    for url in (target, back):
        async with Store(open_database(url), SystemClock()) as store:
            fact = await store.key_values.get("copied_from")
            assert fact is not None
            assert json.loads(fact)["complete"]
            assert "geheim" not in fact


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_h2_a_batch_is_small_even_with_long_bodies(new: dict[str, Make], kind: str):
    async with Store(open_database(new[kind]()), SystemClock()) as store:
        await store.prepare()
        one = await stored(store)
        long = [a_post_of(one, f"{n}" * (CHARACTERS_PER_BATCH // 2 - 1000)) for n in range(5)]
        huge = a_post_of(one, "x" * (2 * CHARACTERS_PER_BATCH))
        await with_posts(store, one, *long, huge)

        def sizes(session: Session) -> list[int]:
            posts, after, found = table(session, "posts"), None, []
            while bite := posts.batch(session, after):
                after = posts.key_of(bite[-1])
                found.append(len(bite))
            return found

        found = await store.database.read(sizes)
    assert sum(found) == 6
    assert max(found) <= 2
    assert len(found) >= 4


@pytest.mark.parametrize(("from_", "to"), DIRECTIONS[:2])
async def test_many_rows_are_copied_in_many_batches(new: dict[str, Make], from_: str, to: str):
    source, target = new[from_](), new[to]()
    async with Store(open_database(source), SystemClock()) as store:
        await store.prepare()
        ones = [
            replace(a_polled_source(), id=f"{letter}-{n}") for n in range(3) for letter in "aB_"
        ]
        await store.sources.add_many(ones)
        await store.database.write(lambda s: _add_tombstones(s, [one.id for one in ones]))
    before = await all_rows(source)
    assert len(before["tombstones"]) > 3 * ROWS_PER_BATCH

    reported: list[CopyProgress] = []
    assert (await moved(source, target, reported)).differing == []

    assert await all_rows(target) == before
    assert sum(p.step == "Copying" and p.table == "tombstones" for p in reported) >= 4


def _add_tombstones(session: Session, source_ids: list[str]) -> None:
    letters = "abAB_-äß1 "
    marks = [f"{letters[n % 10]}{letters[n // 10 % 10]}{n}" for n in range(800)]
    session.insert_rows(
        "tombstones",
        [{"source_id": id_, "mark": mark, "link": mark} for id_ in source_ids for mark in marks],
    )


def test_a_digest_is_the_same_for_the_same_rows_in_any_order_and_form():
    row, other = (1, None, "ä", b"\0", 2.5), (0, "", "None", b"", 1)
    digest = TableDigest().with_rows([row, other])
    assert digest == TableDigest().with_rows([other]).with_rows([row])
    assert digest == TableDigest().with_rows([(True, None, "ä", memoryview(b"\0"), 2.5), other])
    assert len(digest.hash) == 32
    for changed in [
        (0, None, "ä", b"\0", 2.5), (1, "None", "ä", b"\0", 2.5), (1, None, "a\u0308", b"\0", 2.5),
        (1, None, "ä", "\0", 2.5), (1, None, "ä", b"\0", 2), (1, None, "ä", b"\0", None),
    ]:  # fmt: skip
        assert TableDigest().with_rows([changed, other]) != digest
    assert TableDigest().with_rows([row, row]) != TableDigest()  # two equal rows do not cancel out
