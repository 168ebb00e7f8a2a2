"""Markdown of real documents keeps their words and invents none (T1)."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import NoContent, NotAFeed
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.page.page_document import read_page
from headwater.model import Entry
from tests.fetch.test_markdown import rendered_words

pytestmark = pytest.mark.corpus

_ALT = re.compile(rb"\balt(\s*=)")  # alternative texts are the only words that Markdown adds


def feed_entries(corpus: Path) -> Iterator[tuple[str, Entry]]:
    folder = corpus / "feeds"
    for case in json.loads((folder / "manifest.json").read_text("utf-8"))["files"]:
        data = _ALT.sub(rb"xlt\1", (folder / case["file"]).read_bytes())
        try:
            feed = parse_feed(data, content_type=case["content_type"], url=case["url"])
        except NotAFeed:
            continue
        yield from ((case["file"], entry) for entry in feed.entries)


def page_entries(corpus: Path) -> Iterator[tuple[str, Entry]]:
    folder = corpus / "pages"
    for case in json.loads((folder / "manifest.json").read_text("utf-8"))["files"]:
        data = _ALT.sub(rb"xlt\1", gzip.decompress((folder / case["file"]).read_bytes()))
        try:
            yield case["file"], read_page(data, url=case["url"])
        except NoContent:
            continue


@pytest.mark.parametrize("entries_of", [feed_entries, page_entries], ids=["feeds", "pages"])
def test_t1_the_markdown_of_real_documents_has_their_words_and_no_others(corpus: Path, entries_of):
    total, lost, invented = 0, Counter[str](), Counter[str]()
    for name, entry in entries_of(corpus):
        assert entry.markdown is not None, name
        body, shown = Counter(entry.body.split()), Counter(rendered_words(entry.markdown))
        total += body.total()
        lost += Counter({f"{name}: {word}": count for word, count in (body - shown).items()})
        invented += Counter({f"{name}: {word}": count for word, count in (shown - body).items()})
    assert total > 50_000
    assert lost.total() <= 0.0005 * total, lost.most_common(20)
    assert not invented, invented.most_common(20)
