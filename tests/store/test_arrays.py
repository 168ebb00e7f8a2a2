"""Texts that are queried together reach the database unchanged, whatever they contain (M6)."""

from collections.abc import Sequence

import pytest

from headwater.errors import StoreError
from headwater.store import Session, Store
from tests.store.store_data import ODD_TEXT

TEXTS = [ODD_TEXT, "", "NULL", "null", "{}", '{"a","b"}', ",", '"', "\\", '\\"', "a\\", "\n", "'"]


async def found(store: Store, texts: Sequence[str | None]) -> list[str]:
    """The users named like one of the texts."""

    def query(session: Session) -> list[str]:
        sql = "SELECT name FROM users WHERE name IN :names"
        return [row[0] for row in session.fetch(sql, {"names": list(texts)})]

    return await store.database.read(query)


@pytest.fixture(autouse=True)
async def users(store: Store) -> None:
    """A user for every text."""
    rows = [{"id": f"id {n}", "name": text} for n, text in enumerate(TEXTS)]
    await store.database.write(lambda session: session.insert_rows("users", rows))


async def test_m6_every_text_is_found_unchanged(store: Store):
    assert sorted(await found(store, TEXTS)) == sorted(TEXTS)
    assert await found(store, []) == []


@pytest.mark.parametrize("text", TEXTS)
async def test_m6_a_text_matches_only_itself(store: Store, text: str):
    assert await found(store, [text]) == [text]
    assert await found(store, [f"{text}?", "none"]) == []


async def test_m6_null_among_texts_is_not_a_text(store: Store):
    assert await found(store, ["NULL", None]) == ["NULL"]


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_m6_postgres_refuses_a_text_with_a_nul(store: Store):
    with pytest.raises(StoreError, match="NUL"):
        await found(store, ["{}\0,", "c"])
