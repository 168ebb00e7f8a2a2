"""Which posts report the same story in the same words (I1, I3).

A post has *marks*: a hash of its link, and the smallest hashes of three-word phrases at the
beginning of its text. Posts with the same link, or several marks in common, are candidates; only
then are their texts compared.
"""

import re
import zlib
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, compress
from operator import sub
from urllib.parse import parse_qsl, urlencode, urlsplit

from headwater.rules.admission import timed_id

WINDOW = timedelta(days=7)
MARKS_IN_COMMON = 3  # of two texts that are worth comparing
COMPARED_CHARACTERS = 3000  # at the beginning of a text
_SKETCHED_CHARACTERS = 1000
_SKETCH_SIZE = 16
_MARK_WORDS = 3  # words of a phrase that is hashed
_PHRASE_WORDS = 4  # words of a phrase that two texts have in common
_MIN_WORDS = 40  # of a text that is compared
_MIN_SHARE = 0.5  # of the shorter text that is in common
_FIRST_WORDS = 40
_MIN_FIRST_SHARE = 0.3  # copies begin alike; texts with the same footer do not
# As many words in a row as make a text, with at most one phrase in common by chance, are news of
# their own: what both texts have is then a long introduction or footer.
_OWN_WORDS = _MIN_WORDS
_CHANCE_WORDS = 4

# Chinese and Japanese have no spaces between words: each character is one.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ASCII_WORD = re.compile("[a-z0-9]+")  # twice as fast
_TRACKING_PREFIXES = ("utm_", "at_", "mc_", "mtm_", "pk_", "piwik_", "hsa_", "_hs", "oly_")
_TRACKING = frozenset({
    "fbclid", "gclid", "dclid", "msclkid", "yclid", "twclid", "igshid", "igsh", "ref", "ref_src",
    "ref_url", "cmpid", "cmp", "ito", "ns_mchannel", "ns_source", "ns_campaign", "ns_linkname",
    "ns_fee", "xtor", "wt_mc", "wtmc", "wt_zmc", "smid", "smtyp", "ocid", "ncid",
    "mkt_tok", "rss", "s_cid", "sc_cid", "feedtype", "feedname", "traffic_source", "vero_id",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Marks:
    """The hashes that a post is found by; marks of different podcasts differ."""

    link: int | None  # None: the link does not identify a story
    text: tuple[int, ...]  # empty: the text is too short to be compared


@dataclass(frozen=True, slots=True)
class ComparedText:
    """The beginning of a text, prepared for any number of comparisons.

    Phrases are hashes in an array: a batch of posts has hundreds of thousands of them.
    """

    words: int
    phrases: "array[int]"  # all runs of this many words, in order

    @classmethod
    def of(cls, text: str) -> "ComparedText":
        """Prepare the beginning of a text."""
        words = _words(text[:COMPARED_CHARACTERS])
        runs = zip(*(words[n:] for n in range(_PHRASE_WORDS)), strict=False)
        return cls(len(words), array("q", map(hash, runs)))


@dataclass(frozen=True, slots=True)
class StoryPost:
    """What is compared of a post."""

    seq: int
    id: str
    source_id: str
    at: datetime  # published, else stored
    text: ComparedText
    story_id: str | None = None


def marks_of(podcast_id: str, url: str, source_url: str, text: str) -> Marks:
    """The marks of a post of a podcast; a link to the source itself identifies no story."""
    link = canonical_link(url)
    if link == canonical_link(source_url):
        link = None
    scope = (zlib.crc32(podcast_id.encode()) & 0x7FFF_FFFF) << 32
    words = _words(text[:_SKETCHED_CHARACTERS])
    phrases = _phrases(words, _MARK_WORDS) if len(words) >= _MIN_WORDS else ()
    smallest = sorted({zlib.crc32(phrase.encode()) for phrase in phrases})[:_SKETCH_SIZE]
    return Marks(
        link=None if link is None else scope | zlib.crc32(f"link {link}".encode()),
        text=tuple(scope | each for each in smallest),
    )


def canonical_link(url: str) -> str | None:
    """A link without scheme, `www.` and tracking parameters; None: that of a whole site."""
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").removeprefix("www.")
        port = f":{parts.port}" if parts.port not in (None, 80, 443) else ""
    except ValueError:
        return None
    path = parts.path.rstrip("/")
    query = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _is_tracking(name)
    ]
    # entries of a changelog may differ in the fragment only
    is_anchor = parts.fragment and not any(map(_is_tracking, _names(parts.fragment)))
    fragment = f"#{parts.fragment}" if is_anchor else ""
    if not host or not (path or query or fragment):
        return None
    return f"{host}{port}{path}{'?' if query else ''}{urlencode(sorted(query))}{fragment}"


def _is_tracking(name: str) -> bool:
    name = name.lower()
    return name in _TRACKING or name.startswith((*_TRACKING_PREFIXES, ":~:text"))


def _names(fragment: str) -> list[str]:
    return [part.partition("=")[0] for part in fragment.split("&")]


def is_within_window(at: datetime, other: datetime) -> bool:
    """Whether posts of these times can be of one story."""
    return abs(at - other) <= WINDOW


def best_match(
    post: StoryPost,
    same_link: Sequence[StoryPost],
    similar: Iterable[StoryPost],
    taken: Collection[str] = (),
) -> StoryPost | None:
    """The earlier post of the same story that is most like this one, if there is one (I1).

    `same_link` are all earlier posts with its link, `similar` those with marks in common. `taken`
    are stories that have a post of its source: only a link can add another one to them.
    """
    same_link = [other for other in same_link if is_within_window(post.at, other.at)]
    sources = [other.source_id for other in same_link]
    # a link that one source gave to several posts identifies none of them: texts decide
    is_unique = len({post.source_id, *sources}) == len(sources) + 1
    if same_link and is_unique:
        return min(same_link, key=lambda other: other.seq)
    candidates = {other.seq: other for other in same_link} | {
        other.seq: other
        for other in similar
        if is_within_window(post.at, other.at)
        and other.source_id != post.source_id
        and other.story_id not in taken
    }
    shares = _similarities(post.text, [other.text for other in candidates.values()])
    found = [
        (share, -other.seq, other)
        for share, other in zip(shares, candidates.values(), strict=True)
        if share is not None
    ]
    return max(found, key=lambda each: each[:2])[2] if found else None


def story_id(first: StoryPost) -> str:
    """The id of the story that begins with this post."""
    return timed_id(first.at, "story", first.id)


def _similarities(text: ComparedText, others: Sequence[ComparedText]) -> list[float | None]:
    """The share of the shorter text that both have; None: they are not copies."""
    phrases = frozenset(text.phrases)
    return [_similarity(text, phrases, other) for other in others]


def _similarity(text: ComparedText, phrases: frozenset[int], other: ComparedText) -> float | None:
    if min(text.words, other.words) < _MIN_WORDS:
        return None
    found = bytes(map(phrases.__contains__, other.phrases))
    common = set(compress(other.phrases, found))
    if not common:
        return None
    covered = [
        _covered(other.words, found),
        _covered(text.words, bytes(map(common.__contains__, text.phrases))),
    ]
    shorter = min(covered, key=len)
    share = sum(shorter) / len(shorter)
    if share < _MIN_SHARE or not all(map(_begins_alike, covered)):
        return None
    return None if _has_words_of_its_own(shorter) else share


def _begins_alike(covered: bytes) -> bool:
    return sum(covered[:_FIRST_WORDS]) >= _MIN_FIRST_SHARE * _FIRST_WORDS


def _has_words_of_its_own(covered: bytes) -> bool:
    """Whether a part of a text is news of its own, between an introduction and a footer."""
    if len(covered) - sum(covered) < _OWN_WORDS - _CHANCE_WORDS:
        return False  # too few words are not in common
    sums = list(accumulate(covered, initial=0))
    in_common = map(sub, sums[_OWN_WORDS:], sums)  # of each run of this many words
    return min(in_common, default=_OWN_WORDS) <= _CHANCE_WORDS


def _covered(words: int, found: bytes) -> bytes:
    """For each word 1 if it is in a phrase that both texts have, else 0; `found` are phrases.

    Words are counted rather than phrases: one changed word alters four phrases.
    """
    begun = int.from_bytes(found, "little")  # one byte per word: a phrase is four shifts
    covered = begun
    for word in range(1, _PHRASE_WORDS):
        covered |= begun << 8 * word
    return covered.to_bytes(words, "little")


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(text.casefold())


def _phrases(words: Sequence[str], length: int) -> list[str]:
    """All runs of this many words."""
    return [" ".join(each) for each in zip(*(words[n:] for n in range(length)), strict=False)]
