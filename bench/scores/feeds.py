"""How often the feed parser agrees with recorded facts about real feeds.

Run it with `python -m bench.scores.feeds [CORPUS]`, or with HEADWATER_CORPUS set.
"""

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.scores.other_parsers import feed_by_feedparser
from headwater.errors import NotAFeed
from headwater.fetch.feed.dates import parse_date
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.feed.feed_entries import Feed
from headwater.model import Entry

_REDIRECTOR = re.compile(r"https?://(?:feedproxy\.google|feeds\.feedburner)\.com/")
FACTS = ("title", "link", "id", "published", "author", "body")


@dataclass(frozen=True, slots=True)
class Miss:
    """One fact on which we differ."""

    file: str
    index: int | None
    kind: str
    expected: object
    got: object
    policy: bool


@dataclass(slots=True)
class Score:
    """Correct facts, per kind; `policy` facts are choices of their origin, counted separately.

    Facts are told apart by themselves, never by what a parser returns for them.
    """

    right: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    policy_right: int = 0
    policy_total: int = 0
    misses: list[Miss] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)  # anything but NotAFeed
    refused: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0
    cpu_seconds: float = 0.0
    prefixed: int = 0  # bodies with a title in front by R5's same-body rule

    @property
    def share(self) -> float:
        """The share of correct facts, from 0 to 1, without policy facts."""
        return self.right.total() / max(1, self.total.total())

    def count(self, miss: Miss, *, is_right: bool) -> None:
        """Add one compared fact."""
        if miss.policy:
            self.policy_total += 1
            self.policy_right += is_right
        else:
            self.total[miss.kind] += 1
            self.right[miss.kind] += is_right
        if not is_right:
            self.misses.append(miss)


def score(corpus: Path, parse: Callable[..., Feed] = parse_feed) -> Score:
    """Parse every feed of the corpus and compare it with the recorded facts."""
    result = Score()
    manifest = json.loads((corpus / "feeds" / "manifest.json").read_text())
    for case in manifest["files"]:
        _judge(corpus / "feeds" / case["file"], case, result, parse)
    return result


def score_dates(corpus: Path) -> tuple[int, int, list[tuple[str, str | None, str | None]]]:
    """Correct, total and the misses among the date strings of the corpus."""
    dates = json.loads((corpus / "feeds" / "dates.json").read_text())["dates"]
    misses = [
        (case["input"], case["expected"], got)
        for case in dates
        if (got := _stamp(parse_date(case["input"]))) != case["expected"]
    ]
    return len(dates) - len(misses), len(dates), misses


def _judge(path: Path, case: dict[str, Any], result: Score, parse: Callable[..., Feed]) -> None:
    result.files += 1
    expected = case["expected"] or {}
    data, started = path.read_bytes(), time.process_time()
    try:
        feed = parse(data, content_type=case["content_type"], url=case["url"])
    except NotAFeed as error:
        result.refused.append((case["file"], str(error)))
        feed = Feed((), True, None)
    except Exception as error:
        result.errors.append((case["file"], repr(error)))
        feed = Feed((), True, None)
    result.cpu_seconds += time.process_time() - started
    result.prefixed += sum(entry.plain_body is not None for entry in feed.entries)
    for index, kind, wanted, got, is_right, policy in _judged(expected, feed, case["url"]):
        miss = Miss(case["file"], index, kind, wanted, got, policy)
        result.count(miss, is_right=is_right)


def _judged(
    expected: dict[str, Any], feed: Feed, url: str
) -> Iterator[tuple[int | None, str, object, object, bool, bool]]:
    count = expected.get("n_entries")
    if count is not None:
        yield None, "n", count, len(feed.entries), count == len(feed.entries), False
    about = expected.get("feed") or {}
    if "title" in about:
        is_right = _same(feed.title, about["title"], about.get("title_raw"))
        policy = _is_choice("feed title", about["title"])
        yield None, "feed title", about["title"], feed.title, is_right, policy
    for facts in expected.get("entries", ()):
        index = facts["index"]
        entry = feed.entries[index] if index < len(feed.entries) else None
        for kind in FACTS:
            if kind in facts:
                got, is_right = _compared(kind, facts, entry, url)
                policy = bool(facts.get("policy")) or _is_choice(kind, facts[kind])
                yield index, kind, facts[kind], got, is_right, policy


def _is_choice(kind: str, wanted: object) -> bool:
    """Whether a fact is a choice of its origin, whatever a parser returns.

    All authors in one text (R6: the first one), links that count clicks instead of those of the
    entries, the address of a feed instead of a missing title.
    """
    if not isinstance(wanted, str):
        return False
    choices = {"author": ", " in wanted, "link": bool(_REDIRECTOR.match(wanted))}
    return choices.get(kind, kind == "feed title" and wanted.startswith("http"))


def _compared(
    kind: str, facts: dict[str, Any], entry: Entry | None, url: str
) -> tuple[object, bool]:
    if entry is None:
        return None, False
    return _JUDGES[kind](facts, entry, url)


def _title(facts: dict[str, Any], entry: Entry, _url: str) -> tuple[object, bool]:
    if not facts["title"]:  # R5 derives one
        return entry.title, entry.title == entry.body[:100].strip()
    return entry.title, _same(entry.title, facts["title"], facts.get("title_raw"))


def _link(facts: dict[str, Any], entry: Entry, url: str) -> tuple[object, bool]:
    wanted = facts["link"]
    if wanted is None:  # R5 falls back to the id, then to the source
        return entry.url, entry.url in (entry.id, url)
    if entry.url and not urlsplit(wanted).scheme:  # relative to the feed or to its site
        return entry.url, entry.url.endswith(f"/{wanted.lstrip('./')}")
    return entry.url, _same(_lower_host(entry.url or ""), _lower_host(wanted))


def _lower_host(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.lower()).geturl()


def _id(facts: dict[str, Any], entry: Entry, _url: str) -> tuple[object, bool]:
    return entry.id, _same(entry.id, facts["id"])


def _published(facts: dict[str, Any], entry: Entry, _url: str) -> tuple[object, bool]:
    got = _stamp(entry.published_at)
    return got, got == facts["published"]


def _author(facts: dict[str, Any], entry: Entry, _url: str) -> tuple[object, bool]:
    return entry.author, _same(entry.author, facts["author"], *facts.get("author_any", ()))


def _body(facts: dict[str, Any], entry: Entry, _url: str) -> tuple[object, bool]:
    body = entry.body if entry.plain_body is None else entry.plain_body
    if not facts["body"]:  # R5 derives one
        return body, body in (entry.title, entry.url)
    return body, _same(body, facts["body"], *facts.get("body_any", ()))


_Judge = Callable[[dict[str, Any], Entry, str], tuple[object, bool]]
_JUDGES: dict[str, _Judge] = {
    "title": _title,
    "link": _link,
    "id": _id,
    "published": _published,
    "author": _author,
    "body": _body,
}


def _same(got: str | None, *wanted: str | None) -> bool:
    """Whether the text is one of these, ignoring white space."""
    return _bare(got) in {_bare(text) for index, text in enumerate(wanted) if text or not index}


def _bare(text: str | None) -> str:
    return "".join((text or "").split())


def _stamp(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def main() -> None:
    """Print a compact table, then the misses."""
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HEADWATER_CORPUS")
    if named is None:
        sys.exit("name the folder of the corpus, or set HEADWATER_CORPUS")
    result = score(Path(named))
    for miss in result.misses:
        where = miss.file if miss.index is None else f"{miss.file}[{miss.index}]"
        mark = "policy" if miss.policy else "MISS"
        expected, got = str(miss.expected)[:90], str(miss.got)[:90]
        print(f"{mark:6} {miss.kind:10} {where}: {expected!r} != {got!r}")
    for kind in sorted(result.total):
        print(f"{kind:12} {result.right[kind]:5} / {result.total[kind]}")
    print(f"{'all':12} {result.right.total():5} / {result.total.total()} = {result.share:.2%}")
    print(f"{'policy':12} {result.policy_right:5} / {result.policy_total}")
    right, total, dates = score_dates(Path(named))
    print(f"{'dates.json':12} {right:5} / {total} {dates or ''}")
    print(f"{'R5 prefixes':12} {result.prefixed:5} bodies (compared without the title)")
    print(f"{result.files} files, {len(result.refused)} refused, {len(result.errors)} exceptions")
    for file, error in (*result.refused, *result.errors):
        print(f"  {file}: {error}")
    print("parser       facts    exceptions  CPU per document")
    others = {"headwater": result, "feedparser": score(Path(named), feed_by_feedparser)}
    for name, one in others.items():
        cpu = 1000 * one.cpu_seconds / one.files
        print(f"{name:12} {one.share:.2%}  {len(one.errors):9}  {cpu:13.2f} ms")


if __name__ == "__main__":
    main()
