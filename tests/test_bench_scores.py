"""Which facts of a corpus count is decided by the facts, never by what a parser returns."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.scores.feeds import score

from headwater.fetch.feed.feed_entries import Feed
from headwater.model import Entry

ENTRY = Entry("1", "Flood", "https://example.org/1", None, "Ann", "The river rose.")
FACTS = {"index": 0, "title": "Flood", "link": "https://example.org/1", "author": "Ann"}
CHOICES = [
    {"author": "Ann, Bob"},
    {"link": "http://feedproxy.google.com/~r/river/~3/1"},
    {"title": "Flood", "link": "https://example.org/1", "policy": True},
]


def a_corpus(folder: Path, facts: dict[str, Any], title: str = "News") -> Path:
    (folder / "feeds").mkdir()
    (folder / "feeds" / "a.xml").write_bytes(b"<rss/>")
    expected = {"feed": {"title": title}, "entries": [{"index": 0, **facts}]}
    case = {"file": "a.xml", "content_type": None, "url": "https://example.org/feed"}
    manifest = {"files": [{**case, "expected": expected}]}
    (folder / "feeds" / "manifest.json").write_text(json.dumps(manifest))
    return folder


def counted(corpus: Path, entry: Entry, title: str = "News") -> tuple[int, int, int]:
    """Facts that are right, that count, and that are choices of their origin."""
    result = score(corpus, lambda *_, **__: Feed((entry,), complete=True, title=title))
    return result.right.total(), result.total.total(), result.policy_total


def test_right_and_wrong_facts_count(tmp_path: Path):
    corpus = a_corpus(tmp_path, FACTS)
    assert counted(corpus, ENTRY) == (4, 4, 0)
    assert counted(corpus, replace(ENTRY, author="Bob", url="https://example.org/2")) == (2, 4, 0)


@pytest.mark.parametrize("facts", CHOICES)
def test_a_choice_of_the_origin_counts_for_no_parser(tmp_path: Path, facts: dict[str, Any]):
    corpus = a_corpus(tmp_path, facts)
    names = len(facts.keys() - {"policy"})
    as_expected = replace(
        ENTRY, author=facts.get("author", "Ann"), url=facts.get("link", ENTRY.url)
    )
    for entry in (ENTRY, as_expected, replace(ENTRY, author="Eve", url="https://example.org/2")):
        assert counted(corpus, entry) == (1, 1, names)


def test_an_address_instead_of_a_missing_title_counts_for_no_parser(tmp_path: Path):
    corpus = a_corpus(tmp_path, {"author": "Ann"}, title="http://example.org/feed")
    for title in ("http://example.org/feed", "", "News"):
        assert counted(corpus, ENTRY, title) == (1, 1, 1)
