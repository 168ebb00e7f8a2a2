"""Posts and articles are read by their numbers without gaps, on both databases (V1)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from headwater.errors import NotFound
from headwater.model import Entry, Outcome, OutcomeKind, Podcast, Source, SourceType
from headwater.rules.digest import articles_from
from headwater.rules.full_text import PageResult
from headwater.store import Session, Store, open_database, sequence_numbers
from headwater.store.content_filter import ContentFilter
from headwater.store.expired_rows import unnumbered_articles, unnumbered_posts
from headwater.store.numbered_rows import NumberedPage, NumberedTable
from headwater.store.postgres import PostgresSession
from tests.factories import a_policy, a_post
from tests.store.store_data import DAY, NOW, StoreClock, rows, stored, with_posts
from tests.store.test_due_plans import plans
from tests.store.test_list_plans import long_lists

Read = Callable[[int], Awaitable[NumberedPage[Any]]]


async def store_posts(store: Store, source: Source, *names: str) -> list[str]:
    """Record a poll with posts of these titles, and return their ids."""
    posts = [a_post(name, source_id=source.id) for name in names]
    await with_posts(store, source, *posts)
    page = await store.posts.page(source_id=source.id, limit=1000)
    by_title = {post.title: post.id for post in page.items}
    return [by_title[f"The {name} title"] for name in names]


async def read_all(read: Read, after: int = 0) -> tuple[list[str], int]:
    """The ids of all items after a number, page by page, and the number to continue after."""
    found: list[str] = []
    while True:
        page = await read(after)
        assert page.next_after >= after
        found += [item.id for item in page.items]
        after = page.next_after
        if not page.more:
            return found, after


async def aggregated(store: Store, podcast_id: str = "default") -> list[str]:
    """Make articles of all posts, and return their ids."""
    make = partial(articles_from, now=NOW, policy=a_policy())
    made = await store.articles.aggregate(podcast_id, created_after=NOW - 7 * DAY, make=make)
    return list(made.created)


async def test_v1_posts_after_a_number_come_in_the_order_they_were_stored(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    first, second = await stored(store), await stored(store)
    other = await stored(store, podcast_id="other")
    ids = await store_posts(store, first, "a", "b", "c")
    theirs = await store_posts(store, other, "x")
    ids += await store_posts(store, second, "d", "e")

    found, after = await read_all(lambda seq: store.posts.after("default", seq, 2))
    assert found == ids
    everything, _ = await read_all(lambda seq: store.posts.after(None, seq, 2))
    assert everything == [*ids[:3], *theirs, *ids[3:]]

    assert await read_all(lambda seq: store.posts.after("default", seq, 2), after) == ([], after)
    more = await store_posts(store, first, "f")
    assert (await read_all(lambda seq: store.posts.after("default", seq, 2), after))[0] == more


async def test_v1_deleted_posts_leave_no_gap_and_stop_no_reader(store: Store):
    source = await stored(store)
    ids = await store_posts(store, source, *"abcdef")
    page = await store.posts.after("default", 0, 3)
    assert [post.id for post in page.items] == ids[:3]
    await store.database.execute("DELETE FROM posts WHERE id IN :ids", {"ids": ids[2:5]})
    page = await store.posts.after("default", page.next_after, 3)
    assert [post.id for post in page.items] == ids[5:]
    await store.database.execute("DELETE FROM posts")
    # the next number is beyond what is left
    page = await store.posts.after("default", 0, 3)
    assert page == NumberedPage((), 6, more=False)
    (later,) = await store_posts(store, source, "g")
    page = await store.posts.after("default", page.next_after, 3)
    assert [post.id for post in page.items] == [later]


async def test_v1_a_number_from_the_future_is_kept(store: Store):
    await store_posts(store, await stored(store), "a")
    assert (await store.posts.after("default", 99, 3)) == NumberedPage((), 99, more=False)


async def test_v1_an_empty_database_hides_no_first_post(store: Store):
    page = await store.posts.after(None, 0, 10)
    assert page.next_after == 0
    (first,) = await store_posts(store, await stored(store), "a")
    page = await store.posts.after(None, page.next_after, 10)
    assert [post.id for post in page.items] == [first]


async def test_v1_changes_are_a_second_stream(store: Store):
    source = await stored(store)
    ids = await store_posts(store, source, *"abc")
    changes = partial(store.posts.changed_after, "default", limit=2)
    assert (await changes(0)).items == ()

    def mark(session: Session) -> None:
        sequence_numbers.mark_changed(session, "posts", [ids[2], ids[0]])

    await store.database.write(mark)
    found, after = await read_all(lambda seq: store.posts.changed_after("default", seq, 1))
    assert found == [ids[2], ids[0]]
    await store.database.write(mark)  # once more: each is found at its last change only
    found, _ = await read_all(lambda seq: store.posts.changed_after("default", seq, 1))
    assert found == [ids[2], ids[0]]
    assert [post.id for post in (await changes(after)).items] == [ids[2], ids[0]]
    found, _ = await read_all(lambda seq: store.posts.after("default", seq, 2))
    assert found == ids  # changes move no post in the first stream


async def test_v1_the_text_of_a_page_is_a_change(store: Store):
    source = await stored(store, full_text="on")
    ids = await store_posts(store, source, "a", "b")
    visits = [await store.page_visits.pending(id_) for id_ in ids]
    page = Entry(None, "A", None, None, None, "The whole text")
    source = await store.sources.get(source.id)
    outcome = Outcome(source, source, OutcomeKind.UNCHANGED, NOW)
    for visit, read in zip(visits, (page, None), strict=True):
        assert visit is not None
        await store.record_page(PageResult(visit, outcome, page=read, error=None, retry=None))
    changed = await store.posts.changed_after("default", 0, 10)
    assert [post.id for post in changed.items] == ids[:1]
    assert changed.items[0].page_text == "The whole text"


async def test_v1_articles_are_numbered_and_know_their_source(store: Store):
    labelled = await stored(store, label="Rivers", title="ignored")
    named = await stored(store, title="Lakes", type=SourceType.WEBSITE)
    await store_posts(store, labelled, "a")
    await store_posts(store, named, "b")
    ids = await aggregated(store)
    found, after = await read_all(lambda seq: store.articles.after("default", seq, 1))
    assert found == ids
    articles = (await store.articles.after("default", 0, 10)).items
    assert [(a.source.id, a.source.label, a.source.url) for a in articles if a.source] == [
        (labelled.id, "Rivers", labelled.url),
        (named.id, "Lakes", named.url),
    ]
    assert [a.source and a.source.type for a in articles] == [SourceType.RSS, SourceType.WEBSITE]
    await store_posts(store, labelled, "c")
    (third,) = await aggregated(store)
    assert (await read_all(lambda seq: store.articles.after("default", seq, 1), after))[0] == [
        third
    ]

    await store.articles.mark_processed("default", ids[:1], NOW)
    unprocessed = await store.articles.after(
        "default", 0, 10, chosen=ContentFilter(processed=False)
    )
    assert [article.id for article in unprocessed.items] == [ids[1], third]
    await store.database.write(
        lambda s: sequence_numbers.mark_changed(s, "articles", [third, ids[0]])
    )
    changed = await store.articles.changed_after("default", 0, 10)
    assert [article.id for article in changed.items] == [third, ids[0]]


async def test_v1_articles_of_earlier_versions_are_numbered_by_cleanup(store: Store):
    await store_posts(store, await stored(store), *"abcde")
    ids = await aggregated(store)
    await store.database.execute("UPDATE articles SET seq = NULL")
    assert (await store.articles.after("default", 0, 10)).items == ()
    batches = [await store.clean(unnumbered_articles(), NOW, 2) for _ in range(4)]
    assert batches == [2, 2, 1, 0]
    assert (await read_all(lambda seq: store.articles.after("default", seq, 2)))[0] == ids


async def test_v1_readers_wait_for_posts_of_earlier_versions_to_be_numbered(store: Store):
    source = await stored(store)
    ids = await store_posts(store, source, *"abcd")
    await store.database.execute("UPDATE posts SET seq = NULL")
    await store.key_values.set("numbers of earlier posts", "1-4")
    ids += await store_posts(store, source, "new")
    read: list[str] = []
    after = 0
    for _ in range(4):
        page = await store.posts.after("default", after, 10)
        read += [post.id for post in page.items]
        after = page.next_after
        await store.clean(unnumbered_posts(), NOW, 2)
    assert read == ids


@pytest.mark.postgres
@pytest.mark.parametrize("is_guarded", [True, False])
async def test_v1_a_late_commit_is_not_missed(new_postgres: Callable[[], str], *, is_guarded: bool):
    """Two writers on PostgreSQL; without the guard the consumer misses the post of the first."""
    url = new_postgres()
    async with Store(open_database(url), StoreClock()) as store:
        source = await stored(store)
        ids = await store_posts(store, source, "copied")
        with closing(PostgresSession(url)) as slow:
            with slow.connection.transaction():
                take: Callable[[Session, int], Any] = sequence_numbers.take
                (seq,) = (take if is_guarded else numbers_without_guard)(slow, 1)
                insert_copy(slow, ids[0], "late", seq)
                quick = await store_posts(store, source, "quick")  # a higher number, and committed
                found, after = await read_all(lambda n: store.posts.after("default", n, 10))
            found += (await read_all(lambda n: store.posts.after("default", n, 10), after))[0]
        in_database = [row[0] for row in await rows(store, "SELECT id FROM posts ORDER BY seq")]
        assert in_database == [*ids, "late", *quick]
        if is_guarded:
            assert found == in_database
        else:
            assert found == [*ids, *quick]


def numbers_without_guard(session: Session, count: int) -> list[int]:
    sql = "SELECT nextval('post_numbers') FROM generate_series(1, :count)"
    return [row[0] for row in session.fetch(sql, {"count": count})]


def insert_copy(session: Session, id_: str, new_id: str, seq: int) -> None:
    """Insert a post like another one."""
    sql = """INSERT INTO posts (id, source_id, podcast_id, title, body, url, content_hash,
            created_at, seq)
        SELECT :new, source_id, podcast_id, title, :new, url, :new, created_at, :seq
        FROM posts WHERE id = :id"""
    assert session.execute(sql, {"id": id_, "new": new_id, "seq": seq}) == 1


@pytest.mark.postgres
async def test_v1_the_guard_works_beyond_its_number_of_keys(new_postgres: Callable[[], str]):
    """Keys of locks have 31 bits; numbers around a multiple of that are compared correctly."""
    url = new_postgres()
    async with Store(open_database(url), StoreClock()) as store:
        source = await stored(store)
        start = 2**31 - 2
        await store.database.write(lambda s: sequence_numbers.continue_after(s, start))
        with closing(PostgresSession(url)) as slow, slow.connection.transaction():
            sequence_numbers.take(slow, 1)
            await store_posts(store, source, *"abcde")
            assert await store.database.read_single(sequence_numbers.horizon) == start
        assert await store.database.read_single(sequence_numbers.horizon) == start + 6


@pytest.mark.postgres
async def test_v1_a_rolled_back_transaction_stops_no_reader(new_postgres: Callable[[], str]):
    url = new_postgres()
    async with Store(open_database(url), StoreClock()) as store:
        source = await stored(store)
        with closing(PostgresSession(url)) as failing:
            with pytest.raises(NotFound), failing.connection.transaction():
                sequence_numbers.take(failing, 3)
                raise NotFound("rolled back")
            ids = await store_posts(store, source, "a")
            assert (await read_all(lambda n: store.posts.after("default", n, 10))) == (ids, 4)


@pytest.mark.postgres
async def test_v1_four_concurrent_writers_hide_nothing_from_a_consumer(
    new_postgres: Callable[[], str],
):
    """The bench `cursors` does the same for a minute."""
    url = new_postgres()
    async with Store(open_database(url), StoreClock()) as reader:
        sources = [await stored(reader) for _ in range(8)]

        async def write(number: int) -> None:
            async with Store(open_database(url), StoreClock()) as writer:
                for poll in range(25):
                    for source in sources[number::4]:
                        names = [f"{number}-{poll}-{n}" for n in range(poll % 3 + 1)]
                        await with_posts(
                            writer, source, *(a_post(name, source_id=source.id) for name in names)
                        )

        writing = asyncio.gather(*(write(number) for number in range(4)))
        found: list[str] = []
        after = 0
        while not writing.done():
            more, after = await read_all(lambda n: reader.posts.after("default", n, 7), after)
            found += more
        await writing
        found += (await read_all(lambda n: reader.posts.after("default", n, 7), after))[0]
        stored_ids = [row[0] for row in await rows(reader, "SELECT id FROM posts ORDER BY seq")]
        assert len(stored_ids) == 8 * sum(poll % 3 + 1 for poll in range(25))
        assert found == stored_ids


INDEXES = {
    ("posts", "default"): "posts_podcast_seq",
    ("posts", None): "posts_seq",
    ("articles", "default"): "articles_podcast_seq",
    ("changed posts", "default"): "posts_podcast_changed",
    ("changed posts", None): "posts_changed",
    ("changed articles", "default"): "articles_podcast_changed",
}


async def test_v1_a_page_reads_one_range_of_an_index(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    await long_lists(store)
    # rows of all sources: numbers that are multiples of 10, the number of sources, are of one only
    for table in ("posts", "articles"):
        await store.database.execute(f"UPDATE {table} SET changed_seq = seq WHERE seq % 11 = 0")
    await store.database.write(lambda s: sequence_numbers.continue_after(s, 2_000_000_000))
    await store.database.write(lambda s: s.execute("ANALYZE"))
    for (name, podcast), index in INDEXES.items():
        tables = store.posts if "posts" in name else store.articles
        read = tables.changed_after if "changed" in name else tables.after
        table = name.split()[-1]
        (middle,) = (await rows(store, f"SELECT cast(avg(seq) AS BIGINT) FROM {table}"))[0]
        assert len((await read(podcast, middle, 20)).items) == 20
        found = await plans(store, partial(read, podcast, middle, 20), monkeypatch)
        of_table = [plan for plan in found if index in plan]
        assert len(of_table) == 2, found  # lengths, then texts
        detours = "Sort", "Seq Scan on posts", "Seq Scan on articles", "SCAN posts", "TEMP B-TREE"
        assert not [plan for plan in of_table for word in detours if word in plan], of_table
        assert table in of_table[0]


async def test_v1_a_numbered_table_says_how_its_rows_are_read(store: Store):
    with pytest.raises(TypeError, match="numbered"):
        NumberedTable(store.database)  # type: ignore[abstract]
