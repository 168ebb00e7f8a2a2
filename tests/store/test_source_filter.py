"""Sources are found by a part of their URL or label, whatever the case, on both databases."""

from collections.abc import Callable

import pytest

from headwater.rules.lines import lowered
from headwater.store import Store, open_database
from headwater.store.sources import SourceFilter
from tests.store.pieces import StoreClock, rows, stored


@pytest.mark.parametrize(
    ("label", "found", "missed"),
    [
        (
            "Grüße aus Köln",
            ["GRÜßE", "köln", "KÖLN", "aus k"],
            ["koln", "GRÜSSE"],
        ),
        ("ΟΔΟΣ ΑΘΗΝΩΝ", ["οδοσ αθ", "Οδοσ", "ΟΔΟΣ"], ["οδος αθηναι"]),
        ("новости ЖИВЫЕ", ["НОВОСТИ ж", "живые"], ["новость"]),
        ("İstanbul'dan", ["istanbul", "İSTANBUL", "STAN"], ["ıstanbul"]),
        ("日本のニュース 100%_", ["ニュース", "100%_", "日本"], ["100__", "韓国"]),
        ("ÅNGSTRÖM", ["ångström", "Ångström"], ["angstrom"]),
        (None, ["FEED.example", "/ü", "/Ü", "=%41"], ["ö"]),
    ],
)
async def test_text_is_found_in_whatever_case_it_is_written(
    store: Store, label: str | None, found: list[str], missed: list[str]
):
    source = await stored(store, label=label, url="https://feed.example/\u00dc?a=%41")
    await stored(store, label="plain", url="https://other.test/")
    for text in found:
        wanted = SourceFilter(podcast_id="default", text=text)
        assert [one.id for one in await store.sources.find(wanted, limit=10)] == [source.id], text
    for text in missed:
        wanted = SourceFilter(podcast_id="default", text=text)
        assert await store.sources.find(wanted, limit=10) == [], text


@pytest.mark.postgres
async def test_small_letters_are_those_of_postgresql(new_postgres: Callable[[], str]):
    scripts = (
        range(0x80, 0x590),
        range(0x10A0, 0x1100),
        range(0x1E00, 0x2000),
        range(0xFF21, 0xFF3B),
    )
    letters = [chr(code) for codes in scripts for code in codes if chr(code).isprintable()]
    sql = "SELECT letter, lower(letter) FROM unnest(CAST(:letters AS TEXT[])) AS letter"
    async with Store(open_database(new_postgres()), StoreClock()) as store:
        pairs = await rows(store, sql, letters=letters)
    assert [pair for pair in pairs if lowered(pair[0]) != pair[1]] == []
