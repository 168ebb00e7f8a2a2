"""The seed corpus: small documents of every kind, and tokens that cause trouble in them."""

import ast
import gzip
import zlib
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import zstandard

_FOLDER = Path(__file__).parent / "seeds"


def dictionary_of(target: str) -> Path:
    """The tokens for a target, in libFuzzer's dictionary format."""
    return _FOLDER / f"{target}.dict"


def words_of(target: str) -> list[bytes]:
    """The same tokens: delimiters of markup, of encodings, of numbers."""
    return _quoted_lines(dictionary_of(target))


def seeds_of(target: str) -> list[bytes]:
    """The seed documents of a target."""
    if target == "inflating":
        return _encoded(b"The river rose. " * 40)
    lines, quoted = _FOLDER / f"{target}.txt", _FOLDER / f"{target}.lines"
    if quoted.exists():
        return _quoted_lines(quoted)
    if lines.exists():
        return lines.read_bytes().splitlines()
    return [file.read_bytes() for file in sorted((_FOLDER / target).iterdir())]


def _quoted_lines(file: Path) -> list[bytes]:
    return [ast.literal_eval(f"b{line}") for line in file.read_text().splitlines()]


def _encoded(document: bytes) -> list[bytes]:
    several = gzip.compress(document, mtime=0) + gzip.compress(b"more", mtime=0)
    bare = zlib.compressobj(wbits=-15)
    return [
        several,
        zlib.compress(document),
        bare.compress(document) + bare.flush(),
        brotli.compress(document),
        zstandard.ZstdCompressor(write_checksum=True).compress(document),
        zstandard.ZstdCompressor(write_content_size=False).compress(document) * 2,
    ]
