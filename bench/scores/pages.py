"""How well main text and author of real pages are read: `python -m bench.scores.pages [corpus]`."""

import gzip
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.errors import NoContent
from headwater.fetch.website import read_page
from headwater.model import Entry

_TOKEN = re.compile(r"\w+")


@dataclass
class Score:
    """What came of all pages of a corpus."""

    f1: dict[str, float] = field(default_factory=dict)  # by file, where the whole text is known
    authors_right: int = 0
    authors: int = 0  # pages whose author is known, named in a meta tag or not
    snippets_right: int = 0
    snippets: int = 0  # text that must, or must not, be there
    seconds: list[float] = field(default_factory=list)

    @property
    def mean_f1(self) -> float:
        return sum(self.f1.values()) / max(1, len(self.f1))

    @property
    def worst(self) -> list[tuple[str, float]]:
        return sorted(self.f1.items(), key=lambda page: page[1])[:10]

    @property
    def ms_per_page(self) -> float:
        return 1000 * sum(self.seconds) / max(1, len(self.seconds))


def score(corpus: Path) -> Score:
    """Read every page of the corpus and compare it with what is known of it."""
    result = Score()
    folder = corpus / "pages"
    for page in json.loads((folder / "manifest.json").read_text("utf-8"))["files"]:
        data = gzip.decompress((folder / page["file"]).read_bytes())
        started = time.perf_counter()
        entry = _read(data, page["url"])
        result.seconds.append(time.perf_counter() - started)
        _compare(entry, page["file"], page["expected"], result)
    return result


def token_f1(text: str, expected: str) -> float:
    """The harmonic mean of precision and recall over words, each as often as it occurs."""
    found, wanted = Counter(_TOKEN.findall(text)), Counter(_TOKEN.findall(expected))
    total = found.total() + wanted.total()
    return 2 * (found & wanted).total() / total if total else 1.0


def _read(data: bytes, url: str) -> Entry | None:
    try:
        return read_page(data, url=url)
    except NoContent:
        return None


def _compare(entry: Entry | None, name: str, expected: Mapping[str, Any], result: Score) -> None:
    body = entry.body if entry else ""
    if expected["text"] is not None:
        result.f1[name] = token_f1(body, expected["text"])
    if expected["author"]:
        result.authors += 1
        result.authors_right += entry is not None and entry.author == expected["author"]
    for snippet in expected.get("contains") or ():
        result.snippets += 1
        result.snippets_right += " ".join(snippet.split()) in body
    for snippet in expected.get("lacks") or ():
        result.snippets += 1
        result.snippets_right += " ".join(snippet.split()) not in body


def main() -> None:
    """Print the score of the corpus named first, else of $HEADWATER_CORPUS."""
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HEADWATER_CORPUS")
    if not named:
        sys.exit("Name the folder of the corpus, or set HEADWATER_CORPUS.")
    result = score(Path(named))
    print(f"mean token F1     {result.mean_f1:.4f}  over {len(result.f1)} pages")
    print(f"authors right     {result.authors_right}/{result.authors}")
    print(f"snippets right    {result.snippets_right}/{result.snippets}")
    print(f"time per page     {result.ms_per_page:.1f} ms")
    for name, f1 in result.worst:
        print(f"  {f1:.3f}  {name}")


if __name__ == "__main__":
    main()
