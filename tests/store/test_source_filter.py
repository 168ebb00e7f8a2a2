"""Sources are found by a part of their URL or label in any letter case, on both databases."""

from collections.abc import Callable
from itertools import product
from sys import maxunicode

import pytest

from headwater.rules.text_checks import lowered
from headwater.store import Store, open_database
from headwater.store.source_pages import NON_ASCII
from headwater.store.sources import SourceFilter
from tests.store.store_data import StoreClock, a_polled_source, rows, stored


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
async def test_text_is_found_in_any_letter_case(
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


async def test_text_is_found_by_its_lower_case(store: Store):
    letters = "aikKσςΣßżŻéÉ%!\u0130\u0131\u212a"
    labels = ["".join(pair) for pair in product(letters, letters)]
    sources = [
        a_polled_source(label=label, url=f"http://bb.bb/{n}") for n, label in enumerate(labels)
    ]
    await store.sources.add_many(sources)
    for text in (*letters, *labels[::7], "\u0130\u212a", "żé", "żéσ", "kik", "KIŻÉ"):
        wanted = SourceFilter(podcast_id="default", text=text)
        found = [source.label for source in await store.sources.find(wanted, limit=1000)]
        expected = [label for label in labels if lowered(text) in lowered(label)]
        assert sorted(map(str, found)) == sorted(expected), text


def test_no_letter_with_a_lower_case_form_is_missing():
    others = (chr(code) for code in range(maxunicode + 1) if code not in NON_ASCII)
    assert [letter for letter in others if lowered(letter) != letter and not letter.isascii()] == []


@pytest.mark.postgres
async def test_lower_case_agrees_with_postgresql(new_postgres: Callable[[], str]):
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
