"""Search: the translations to SQL agree with the evaluator, on both databases (B1, B3)."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.engine.followers import Followers, all_followers
from headwater.errors import SearchTooSlow
from headwater.model import Completeness, Post, Source, SourceType
from headwater.query.evaluator import matches
from headwater.query.parser import parse_query
from headwater.query.syntax import Query
from headwater.rules.admission import timed_id
from headwater.rules.digest import articles_from
from headwater.rules.filters import searchable
from headwater.rules.policy import Policy
from headwater.store import Session, Store, sequence_numbers
from headwater.store.backup_file import back_up, restore
from headwater.store.content_filter import EVERYTHING, ContentFilter
from headwater.store.expired_rows import removed_from_search
from headwater.store.search import SearchRequest
from headwater.store.search_index import words_with_prefix
from tests.factories import a_post
from tests.store.store_data import DAY, NOW, StoreClock, a_success, rows, stored

# accents, scripts without spaces, operators as words, punctuation, prefixes of each other
WORDS = (
    "river", "rivers", "Rivière", "riviere", "water", "c++", "C", "or", "and", "NOT", "not",
    "北京", "北京大学", "大学", "東京都", "京都", "서울에서", "ประเทศ", "naïve", "İstanbul",
    "flood-plain", "flood", "3.14", "2026", "ß", "strasse", "straße", "e\u0301te", "été", "_x_",
    "a", "title", "ﬁne", "https://example.org/a",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
SOURCES = (
    {"label": "River News", "url": "https://river.example/feed"},
    {"title": "東京 Times", "url": "https://times.example/rss", "type": SourceType.WEBSITE},
    {"url": "@riverwatch", "type": SourceType.TWITTER},
)
LANGUAGES = st.sampled_from([None, "en", "en-GB", "pt_BR", "PT", "zh-Hant-TW"])
TIMES = st.sampled_from([None, *(NOW + n * DAY / 2 for n in (-90, -3, -2, -1, 0, 1, 3, 5))])


@st.composite
def posts(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a post."""
    return {
        "source": draw(st.integers(0, len(SOURCES) - 1)),
        "title": draw(TEXTS),
        "body": draw(TEXTS),
        "author": draw(st.none() | TEXTS),
        "categories": tuple(draw(st.lists(TEXTS, max_size=2))),
        "url": f"https://example.org/{draw(st.sampled_from(WORDS))}",
        "language": draw(LANGUAGES),
        "published_at": draw(TIMES),
        "completeness": draw(st.none() | st.sampled_from(Completeness)),
        "page_text": draw(st.none() | TEXTS),
    }


TERMS = st.one_of(
    st.sampled_from(WORDS).filter(lambda w: w not in ("NOT", "https://example.org/a")),
    TEXTS.filter(lambda text: any(c.isalnum() for c in text)).map(lambda text: f'"{text}"'),
    st.sampled_from(
        ["rive*", "flood*", "東*", "北京*", "title:rive*", "url:exam*", "author:nai*ve"]
    ),
    st.sampled_from(["title", "author", "url", "category"]).flatmap(
        lambda field: st.sampled_from(WORDS[:6]).map(lambda word: f"{field}:{word}")
    ),
    st.sampled_from(['title:"river water"', 'url:"example org"', 'category:"a river"']),
    st.sampled_from(["source:river", "source:times", "source:東京", "source:nowhere", "type:rss"]),
    st.sampled_from(
        ["type:twitter", "lang:en", "lang:en-gb", "lang:pt", "lang:zh-hant", "is:full"]
    ),
    st.sampled_from(["is:excerpt", "is:processed", "is:unprocessed"]),
    st.integers(-5, 5).map(lambda n: f"after:{NOW + n * DAY:%Y-%m-%d}"),
    st.integers(-100, 5).map(lambda n: f"before:{NOW + n * DAY:%Y-%m-%dT%H:%M}"),
).filter(lambda term: term != "author:nai*ve")


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        parts.map(lambda part: f"-({part})"),
        several.map(lambda them: f"({' '.join(them)})"),
        several.map(lambda them: f"({' OR '.join(them)})"),
    )


QUERIES = st.recursive(TERMS, larger, max_leaves=8)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    given_posts=st.lists(posts(), max_size=8), queries=st.lists(QUERIES, min_size=5, max_size=12)
)
async def test_b1_evaluator_and_database_find_the_same_posts(
    store: Store, clock: StoreClock, given_posts: Sequence[dict[str, Any]], queries: Sequence[str]
):
    there = await store_posts(store, given_posts)
    await Followers(store, clock, all_followers()).catch_up()
    for text in queries:
        query = parse_query(text)
        wanted = {post.id for source, post in there if matches(query, searchable(source, post))}
        for by_rank in (False, True):
            found = await found_ids(store, query, by_rank=by_rank)
            assert len(found) == len(set(found)), text
            assert set(found) == wanted, text


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    given_posts=st.lists(posts(), max_size=8),
    query=QUERIES,
    source=st.integers(0, len(SOURCES) - 1) | st.none(),
    since=TIMES,
    until=TIMES,
)
async def test_b3_filters_limit_the_results(
    store: Store,
    clock: StoreClock,
    given_posts: Sequence[dict[str, Any]],
    query: str,
    source: int | None,
    since: datetime | None,
    until: datetime | None,
):
    there = await store_posts(store, given_posts)
    await Followers(store, clock, all_followers()).catch_up()
    sources = sorted({owner.url: owner.id for owner, _ in there}.values())
    source_id = None if source is None or source >= len(sources) else sources[source]
    chosen = ContentFilter(source_id=source_id, since=since, until=until)
    parsed = parse_query(query)
    page = await store.posts.page(podcast_id="default", chosen=chosen, limit=100)
    listed = {post.id for post in page.items}
    wanted = {p.id for s, p in there if p.id in listed and matches(parsed, searchable(s, p))}
    assert set(await found_ids(store, parsed, chosen)) == wanted


async def test_b3_results_come_newest_first_or_those_with_the_words_in_the_title(
    store: Store, clock: StoreClock
):
    texts = [("river", "x"), ("x", "river water"), ("water", "river"), ("river water", "x")]
    fields = [{"source": 0, "title": title, "body": body} for title, body in texts]
    there = await store_posts(store, fields)
    await Followers(store, clock, all_followers()).catch_up()
    bodies = {post.id: post.title for _, post in there}

    async def found(text: str, **options: Any) -> list[str]:
        return [bodies[id_] for id_ in await found_ids(store, parse_query(text), **options)]

    assert await found("river") == ["river water", "water", "x", "river"]
    assert await found("river", by_rank=True) == ["river water", "river", "water", "x"]
    assert await found("river OR water", by_rank=True) == ["river water", "water", "river", "x"]


async def test_b3_a_changed_text_is_found_and_the_old_one_is_not(store: Store, clock: StoreClock):
    [(_, post)] = await store_posts(store, [{"source": 0, "title": "t", "body": "teaser"}])
    followers = Followers(store, clock, all_followers())
    await followers.catch_up()
    assert await found_ids(store, parse_query("teaser")) == [post.id]

    def change(session: Session) -> None:
        session.execute("UPDATE posts SET page_text = 'whole story'")
        sequence_numbers.mark_changed(session, "posts", [post.id])

    await store.database.write(change)
    await followers.catch_up()
    assert await found_ids(store, parse_query('"whole story"')) == [post.id]
    assert await found_ids(store, parse_query("teaser")) == []


async def test_b3_articles_are_found_and_limited_to_processed_ones(store: Store, clock: StoreClock):
    fields = [{"source": 0, "title": f"river {n}", "body": "water"} for n in range(3)]
    await store_posts(store, fields)
    made = await store.articles.aggregate(
        "default", created_after=NOW - DAY, make=partial(articles_from, now=NOW, policy=Policy())
    )
    await store.articles.mark_processed("default", made.created[:1], NOW)
    await Followers(store, clock, all_followers()).catch_up()

    async def found(text: str, **conditions: Any) -> int:
        chosen = ContentFilter(**conditions)
        request = SearchRequest("default", parse_query(text), chosen, NOW, limit=10)
        return len((await store.search.articles(request)).items)

    assert await found("title:river water") == 3
    assert await found("river", processed=True) == await found("river is:processed") == 1
    assert await found("river", processed=False) == await found("-is:processed") == 2
    assert await found("teaser") == 0
    posts = await found_ids(store, parse_query("is:processed"))
    assert len(posts) == 1


async def test_b1_a_prefix_finds_its_words_however_many_there_are(store: Store, clock: StoreClock):
    many = [" ".join(f"flood{n}" for n in range(first, first + 1500)) for first in (10000, 20000)]
    # what only the last words in order match is lost if not all words are looked up
    bodies = [*many, "flood", "floo", "flooring", "nothing", "floodzz", "flood2zz"]
    bodies.append(" ".join(f"flood{n}" for n in range(30000, 30700)))
    there = await store_posts(store, [{"source": 0, "title": "", "body": b} for b in bodies])
    ids = [post.id for _, post in there]
    await Followers(store, clock, all_followers()).catch_up()

    async def found(text: str) -> list[int]:
        return sorted(map(ids.index, await found_ids(store, parse_query(text))))

    assert await found("flood*") == [0, 1, 2, 6, 7, 8]  # more words than are looked up one by one
    assert await found("flood1*") == [0]
    assert await found("floo*") == [0, 1, 2, 3, 4, 6, 7, 8]
    assert await found("floor*") == [4]
    assert await found("floor* OR flood2*") == [1, 4, 7]
    assert await found("flood3*") == [8]
    assert await found("flood3* OR flood2*") == [1, 7, 8]  # together more
    assert await found("flood2* flood2*") == [1, 7]
    assert await found("-floo*") == [5]
    assert await found("nowhere*") == []


async def test_b3_what_is_deleted_leaves_the_index(store: Store, clock: StoreClock):
    fields = [{"source": n % 3, "title": "river", "body": f"water{n}"} for n in range(7)]
    there = await store_posts(store, fields)
    followers = Followers(store, clock, all_followers())
    await followers.catch_up()
    gone = there[0][0].id
    await store.database.execute("DELETE FROM sources WHERE id = :id", {"id": gone})
    kept = {post.id for source, post in there if source.id != gone}
    assert set(await found_ids(store, parse_query("river"))) == kept
    assert len(await rows(store, "SELECT 1 FROM search_documents")) == 7

    assert await store.clean(removed_from_search(), NOW, 1000) == 7 - len(kept)
    assert await store.clean(removed_from_search(), NOW, 1000) == 0
    assert len(await rows(store, "SELECT 1 FROM search_documents")) == len(kept)
    assert set(await found_ids(store, parse_query("river"))) == kept
    if not store.database.takes_workers:
        check = "INSERT INTO search_index (search_index) VALUES ('integrity-check')"
        await store.database.execute(check)
        left = await store.database.read(lambda session: words_with_prefix(session, "water", 9))
        assert left == ["water1", "water2", "water4", "water5"]  # 0, 3 and 6 were deleted


async def test_b3_a_killed_process_loses_nothing_and_indexes_nothing_twice(store: Store, url: str):
    """Killed before any statement and before the commit of several batches."""
    fields = [{"source": n % 3, "title": f"river {n}", "body": "water"} for n in range(150)]
    there = await store_posts(store, fields)
    command = [sys.executable, "-m", "tests.store.killed_following", url, "30", "search"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    indexed = await found_ids(store, parse_query("river"))
    assert 0 < len(indexed) < len(there)
    await Followers(store, StoreClock(), all_followers()).catch_up()
    found = await found_ids(store, parse_query("river"))
    assert sorted(found) == sorted(post.id for _, post in there)


async def test_b3_a_restored_backup_is_indexed_again(
    store: Store, clock: StoreClock, tmp_path: Path
):
    there = await store_posts(store, [{"source": 0, "title": "river", "body": "x"}])
    followers = Followers(store, clock, all_followers())
    await followers.catch_up()
    await back_up(store.database, tmp_path / "backup")
    await store.database.execute("DELETE FROM sources")
    await restore(store.database, tmp_path / "backup")
    assert await found_ids(store, parse_query("river")) == []
    await followers.catch_up()
    assert await found_ids(store, parse_query("river")) == [there[0][1].id]
    assert await store.clean(removed_from_search(), NOW, 1000) == 0


async def test_b3_a_search_that_takes_too_long_is_cancelled(store: Store):
    sql = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT count(*) FROM n"""

    def search(session: Session) -> None:
        with session.time_limit(0.1):
            session.fetch(sql)

    with pytest.raises(SearchTooSlow, match="takes too long"):
        await store.database.read(search)
    assert await rows(store, "SELECT 1") == [(1,)]  # on the same connections


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20 + "river" + ")" * 20,
        "-(a " * 20 + "river" + ")" * 20,
        "-(a OR " * 20 + "-river" + ")" * 20,
        "(a OR -is:full (b " * 10 + "river" + "))" * 10,
        " ".join(["river"] * 100),
        " OR ".join([f"-w{n}" for n in range(100)]),
        " ".join([f'-"w{n} x"' for n in range(100)]),
    ],
)
async def test_b1_the_largest_queries_are_no_error(store: Store, text: str):
    for by_rank in (False, True):
        assert await found_ids(store, parse_query(text), by_rank=by_rank) == []


async def store_posts(
    store: Store, given_posts: Sequence[dict[str, Any]]
) -> list[tuple[Source, Post]]:
    """Replace all sources and posts by these."""
    await store.database.write(lambda s: s.execute("DELETE FROM sources"))
    sources = [await stored(store, **changes) for changes in SOURCES]
    there: list[tuple[Source, Post]] = []
    for number, fields in enumerate(given_posts):
        source = sources[fields["source"]]
        changes = {name: value for name, value in fields.items() if name != "source"}
        changes["body"] = f"{changes['body']} post {number}"
        sort_at = min(changes.get("published_at") or NOW, NOW)
        id_ = timed_id(sort_at, source.id, str(number))
        post = a_post(id=id_, source_id=source.id, created_at=NOW, **changes)
        outcome = a_success(await store.sources.get(source.id), [post])
        there += [(source, post) for post in (await store.record(outcome)).posts]
    return there


async def found_ids(
    store: Store, query: Query, chosen: ContentFilter = EVERYTHING, *, by_rank: bool = False
) -> list[str]:
    """The ids of all results, page by page."""
    request = SearchRequest("default", query, chosen, NOW, limit=3, by_rank=by_rank)
    found: list[str] = []
    while True:
        page = await store.search.posts(request)
        found += [post.id for post in page.items]
        if page.next is None:
            return found
        request = replace(request, behind=page.next)
