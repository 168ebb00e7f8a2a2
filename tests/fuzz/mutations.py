"""Mutates seed documents: parts missing, duplicated, misplaced."""

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

MAX_BYTES = 65_536  # larger feeds and lists are not parsed inline (H2)
_JOINTS = re.compile(rb"([<>\"'{}\[\],:;&=/?@.\s-])")
_ENCODINGS = ("utf-16", "utf-32-le", "latin-1", "shift_jis", "cp1252")

Pieces = list[bytes]
Below = Callable[[int], int]  # returns a number from 0 up to, but not including, its argument
Change = Callable[[Pieces, Below, Sequence[bytes]], None]


@st.composite
def mutated(draw: Callable[..., int], seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """A mutated seed, which Hypothesis can shrink."""

    def below(count: int) -> int:
        return draw(st.integers(0, max(0, count - 1)))

    data = seeds[below(len(seeds))]
    if below(8) == 0:
        data += seeds[below(len(seeds))]
    return changed(data, below, words)


@st.composite
def amplified(draw: Callable[..., int], seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """A document that repeats a few tokens up to the largest size that is parsed inline."""

    def below(count: int) -> int:
        return draw(st.integers(0, max(0, count - 1)))

    return repeating(seeds[below(len(seeds))], below, words)


def changed(data: bytes, below: Below, words: Sequence[bytes]) -> bytes:
    """Mutate a document at its delimiters, where parsers take decisions."""
    pieces = _JOINTS.split(data)
    for _ in range(below(8) + 1):
        _CHANGES[below(len(_CHANGES))](pieces, below, words)
    data = b"".join(pieces)
    if below(10) == 0:
        encoding = _ENCODINGS[below(len(_ENCODINGS))]
        data = data.decode("utf-8", "replace").encode(encoding, "replace")
    return data[:MAX_BYTES]


def repeating(data: bytes, below: Below, words: Sequence[bytes]) -> bytes:
    """Fill a document up with a few repeated tokens, at one position or several.

    Costs multiply where a long part is read again for each of many others.
    """
    pieces = _JOINTS.split(data)
    known = [*words, *pieces]
    places = sorted((below(len(pieces) + 1) for _ in range(below(3) + 1)), reverse=True)
    for place in places:
        unit = b"".join(known[below(len(known))] for _ in range(below(6) + 1)) or b"<"
        room = (1_000, 8_000, MAX_BYTES // len(places))[below(3)]
        pieces.insert(place, unit * (room // len(unit)))
    return b"".join(pieces)[:MAX_BYTES]


def _drop(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    at = below(len(pieces))
    del pieces[at : at + 1 + below(6)]
    if not pieces:
        pieces.append(b"")


def _repeat(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    at = below(len(pieces))
    part = pieces[at : at + 1 + below(12)]
    pieces[at:at] = part * (1, 2, 5, 60)[below(4)]


def _move(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    at = below(len(pieces))
    part = pieces[at : at + 1 + below(12)]
    del pieces[at : at + len(part)]
    to = below(len(pieces) + 1)
    pieces[to:to] = part


def _insert(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    pieces.insert(below(len(pieces) + 1), words[below(len(words))])


def _replace(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    pieces[below(len(pieces))] = words[below(len(words))]


def _cut_off(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    del pieces[below(len(pieces)) + 1 :]


def _spoil(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    at = below(len(pieces))
    piece = bytearray(pieces[at] or b" ")
    piece[below(len(piece))] = below(256)
    pieces[at] = bytes(piece)


def _shout(pieces: Pieces, below: Below, words: Sequence[bytes]) -> None:
    at = below(len(pieces))
    pieces[at] = pieces[at].swapcase()


_CHANGES: tuple[Change, ...] = (
    _drop,
    _repeat,
    _move,
    _insert,
    _insert,
    _replace,
    _replace,
    _cut_off,
    _spoil,
    _shout,
)
