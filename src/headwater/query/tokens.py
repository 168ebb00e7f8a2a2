"""Tokens: how text is compared, for the evaluator and for the search index of each database (B1).

A token is a word without case and accents. Scripts without spaces between words, and Korean, whose
words take endings, are split into overlapping pairs of characters, so that a phrase of pairs finds
any part of them. The search index stores these tokens, separated by spaces: no tokenizer of a
database is involved, and all of them agree.
"""

import re
import sys
from unicodedata import category, normalize

SEPARATOR = "·"  # a token between two texts of one field; no query contains it
MAX_TOKEN = 64  # characters; longer words are several tokens
MAX_CHARACTERS = 200_000  # of a text; the rest is not searched
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf"  # Thai, Lao
    "\u1000-\u1049\u1050-\u109d\u1780-\u17d3"  # Burmese, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uac00-\ud7a3"  # Korean
)
# vowel signs and the like: `\w` has no marks
_MARKS = "".join(
    chr(code)
    for code in (*range(0x900, 0x1AB0), *range(0xA800, 0xAC00))
    if category(chr(code)) in {"Mn", "Mc"}
)
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
    "\u00ad\u200b-\u200d\u2060\ufeff]+"  # soft hyphens and other characters without width
)
# normalising a long run of marks would take quadratic time
_LONG_RUN = re.compile(r"[^\w\s]{33,}+")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_WORD = re.compile(rf"[\w{_MARKS}]{{1,{MAX_TOKEN}}}")
_ASCII_WORD = re.compile(rf"[a-z0-9]{{1,{MAX_TOKEN}}}")  # three times as fast
# separators that many texts have which are ASCII otherwise
_TYPOGRAPHIC = "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u2022\u00a0"
_RUN_OR_WORD = re.compile(rf"([{_UNSPACED}]+)|([\w{_MARKS}]{{1,{MAX_TOKEN}}})")


def tokens_of(text: str, *, limit: int = sys.maxsize) -> list[str]:
    """The first tokens of a text, in order."""
    text = text[:MAX_CHARACTERS]
    if not text.isascii():
        for mark in _TYPOGRAPHIC:
            text = text.replace(mark, " ")
    plain = normalised(text).replace("_", " ")
    if plain.isascii():
        return _ASCII_WORD.findall(plain)[:limit]
    if _UNSPACED_RUN.search(plain) is None:
        return _WORD.findall(plain)[:limit]
    found: list[str] = []
    for run, word in _RUN_OR_WORD.findall(_UNSPACED_RUN.sub(r" \g<0> ", plain)):
        if word:
            found.append(word)
        else:
            found += (run[at : at + 2] for at in range(len(run)))
    return found[:limit]


def normalised(text: str) -> str:
    """A text without case, accents and other differences in how the same letters are encoded."""
    if text.isascii():
        return text.lower()
    decomposed = normalize("NFKD", _LONG_RUN.sub(" ", text))
    return normalize("NFC", _ACCENTS.sub("", decomposed).casefold())


def phrase_of(text: str) -> tuple[tuple[str, ...], bool]:
    """The tokens that a text with this phrase has in sequence, and whether the last is a prefix.

    A phrase may end within a run of characters without spaces. The last token of a run is its last
    character alone: after a pair it adds nothing, and without a pair it is the start of one.
    """
    tokens = tokens_of(text)
    if not tokens or len(tokens[-1]) > 1 or not is_unspaced(tokens[-1]):
        return tuple(tokens), False
    if len(tokens) > 1 and len(tokens[-2]) > 1 and is_unspaced(tokens[-2]):
        return tuple(tokens[:-1]), False
    return tuple(tokens), True


def is_unspaced(token: str) -> bool:
    """Whether a token is a pair or a character of a script without spaces, or Korean."""
    return _UNSPACED_RUN.match(token) is not None
