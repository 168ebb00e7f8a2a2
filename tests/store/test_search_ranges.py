"""How many statements PostgreSQL needs for a page of a search (B3)."""

from typing import Any

import pytest

from headwater.engine.followers import Followers, all_followers
from headwater.query.parser import parse_query
from headwater.store import Session, Store, sequence_numbers
from headwater.store.content_filter import EVERYTHING
from headwater.store.postgres import PostgresSession
from headwater.store.search import SearchRequest
from headwater.store.search_index import IndexEntry, add_entries, scope_label
from tests.store.store_data import NOW, StoreClock
from tests.store.test_search import store_posts

HITS = 50  # a page; the search looks for one more
EARLIER = 20_000  # entries before them, without posts: nothing finds them


@pytest.fixture
def kind() -> str:
    """SQLite needs one statement for a page."""
    return "postgres"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of searches."""
    found: list[str] = []
    fetch = PostgresSession.fetch_unprepared

    def counted(self: PostgresSession, sql: str, params: Any) -> list[Any]:
        found.append(sql)
        return fetch(self, sql, params)

    monkeypatch.setattr(PostgresSession, "fetch_unprepared", counted)
    return found


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("river", 1_000_000),  # by the index: in ranges of numbers, of which most are unused
        ("is:excerpt", EARLIER),  # by reading entries
        ("-lake", EARLIER),
    ],
)
async def test_b3_a_page_nearly_full_of_the_newest_entries_takes_few_statements(
    store: Store, clock: StoreClock, sent: list[str], text: str, first: int
):
    await store.database.write(lambda session: add_earlier(session, first))
    fields = {"source": 0, "title": "river", "body": "", "completeness": "excerpt"}
    there = await store_posts(store, [fields] * HITS)
    await Followers(store, clock, all_followers()).catch_up()

    sent.clear()
    request = SearchRequest("default", parse_query(text), EVERYTHING, NOW, limit=HITS)
    page = await store.search.posts(request)
    assert [post.id for post in page.items] == [post.id for _, post in reversed(there)]
    assert page.next is None
    assert len(sent) <= 10, sent


def add_earlier(session: Session, last: int) -> None:
    """Add entries that end at a number."""
    scope = scope_label("posts", "default")
    numbers = range(last - EARLIER + 1, last + 1)
    add_entries(session, [IndexEntry(n, scope, scope, "", "", "", "lake", "") for n in numbers])
    sequence_numbers.continue_after(session, last)
