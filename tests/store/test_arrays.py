"""Texts that are looked up together reach the database as they are, whatever is in them (M6)."""

from collections.abc import Sequence

import pytest

from headwater.errors import StoreError
from headwater.store import Session, Store
from tests.store.pieces import ODD_TEXT

TEXTS = [ODD_TEXT, "", "NULL", "null", "{}", '{"a","b"}', ",", '"', "\\", '\\"', "a\\", "\n", "'"]


async def found(store: Store, texts: Sequence[str | None]) -> list[str]:
    """Those users that are named like one of the texts."""

    def look(session: Session) -> list[str]:
        sql = f"SELECT name FROM users WHERE {session.among('name', 'names')}"
        return [row[0] for row in session.fetch(sql, {"names": session.array(texts)})]

    return await store.database.read(look)


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    """A user for every text."""
    rows = [{"id": f"id {n}", "name": text} for n, text in enumerate(TEXTS)]
    await store.database.write(lambda session: session.insert_rows("users", rows))


async def test_m6_every_text_is_found_as_it_was_written(store: Store):
    assert sorted(await found(store, TEXTS)) == sorted(TEXTS)
    assert await found(store, []) == []


@pytest.mark.parametrize("text", TEXTS)
async def test_m6_a_text_stands_for_itself_alone(store: Store, text: str):
    assert await found(store, [text]) == [text]
    assert await found(store, [f"{text}?", "none"]) == []


async def test_m6_nothing_among_texts_is_no_text(store: Store):
    assert await found(store, ["NULL", None]) == ["NULL"]


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_m6_a_text_with_a_nul_is_refused_by_postgres_not_taken_for_two(store: Store):
    with pytest.raises(StoreError, match="NUL"):
        await found(store, ["{}\0,", "c"])
