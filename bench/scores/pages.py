"""Accuracy of main text and author of real pages: `python -m bench.scores.pages [corpus]`."""

import gzip
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.scores.other_parsers import page_by_trafilatura
from headwater.errors import NoContent
from headwater.fetch.page.page_document import read_page
from headwater.model import Entry

_TOKEN = re.compile(r"\w+")


@dataclass
class Score:
    """The results of all pages of a corpus."""

    f1: dict[str, float] = field(default_factory=dict)  # by file, if the whole text is known
    authors_right: int = 0
    authors_wrong: int = 0  # another name; the others have none
    authors: int = 0  # pages with a known author, in a meta tag or not
    snippets_right: int = 0
    snippets: int = 0  # text that must, or must not, be there
    seconds: list[float] = field(default_factory=list)  # of CPU time

    @property
    def mean_f1(self) -> float:
        return sum(self.f1.values()) / max(1, len(self.f1))

    @property
    def authors_lenient(self) -> float:
        """The share of pages without a wrong author: the right one, or none."""
        return 1 - self.authors_wrong / max(1, self.authors)

    @property
    def worst(self) -> list[tuple[str, float]]:
        return sorted(self.f1.items(), key=lambda page: page[1])[:10]

    @property
    def ms_per_page(self) -> float:
        return 1000 * sum(self.seconds) / max(1, len(self.seconds))


def score(corpus: Path, read: Callable[..., Entry | None] = read_page) -> Score:
    """Parse every page of the corpus and compare it with its recorded text."""
    result = Score()
    folder = corpus / "pages"
    for page in json.loads((folder / "manifest.json").read_text("utf-8"))["files"]:
        data = gzip.decompress((folder / page["file"]).read_bytes())
        started = time.process_time()
        entry = _read(data, page["url"], read)
        result.seconds.append(time.process_time() - started)
        _compare(entry, page["file"], page["expected"], result)
    return result


def token_f1(text: str, expected: str) -> float:
    """The harmonic mean of precision and recall over words, each as often as it occurs."""
    found, wanted = Counter(_TOKEN.findall(text)), Counter(_TOKEN.findall(expected))
    total = found.total() + wanted.total()
    return 2 * (found & wanted).total() / total if total else 1.0


def _read(data: bytes, url: str, read: Callable[..., Entry | None]) -> Entry | None:
    try:
        return read(data, url=url)
    except NoContent:
        return None


def _compare(entry: Entry | None, name: str, expected: Mapping[str, Any], result: Score) -> None:
    body = entry.body if entry else ""
    if expected["text"] is not None:
        result.f1[name] = token_f1(body, expected["text"])
    if expected["author"]:
        result.authors += 1
        author = entry.author if entry else None
        is_right = author is not None and _same_name(author, expected["author"])
        result.authors_right += is_right
        result.authors_wrong += author is not None and not is_right
    for snippet in expected.get("contains") or ():
        result.snippets += 1
        result.snippets_right += " ".join(snippet.split()) in body
    for snippet in expected.get("lacks") or ():
        result.snippets += 1
        result.snippets_right += " ".join(snippet.split()) not in body


def _same_name(author: str, expected: str) -> bool:
    """Whether the words are the same in any order and case; further authors may follow."""
    first = set(_TOKEN.findall(author.partition(";")[0].lower()))
    return first == set(_TOKEN.findall(expected.partition(";")[0].lower()))


def main() -> None:
    """Print the score of the corpus named first, else of $HEADWATER_CORPUS."""
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HEADWATER_CORPUS")
    if not named:
        sys.exit("Name the folder of the corpus, or set HEADWATER_CORPUS.")
    result = score(Path(named))
    for name, f1 in result.worst:
        print(f"  {f1:.3f}  {name}")
    print(
        f"parser       F1 of {len(result.f1)} pages  authors  right or none  snippets  CPU per page"
    )
    others = {"headwater": result, "trafilatura": score(Path(named), page_by_trafilatura)}
    for name, one in others.items():
        authors = f"{one.authors_right}/{one.authors}"
        snippets = f"{one.snippets_right}/{one.snippets}"
        print(
            f"{name:12} {one.mean_f1:14.4f}  {authors:7}  {one.authors_lenient:13.3f}  "
            f"{snippets:8}  {one.ms_per_page:9.1f} ms"
        )


if __name__ == "__main__":
    main()
