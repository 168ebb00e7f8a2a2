"""Compressed bodies that explode, end early, or have a wrong encoding."""

import gzip
import zlib
from collections.abc import Callable
from functools import cache

import brotli  # type: ignore[import-untyped]
import zstandard

from tests.hostile.documents import GOOD, good, rss
from tests.hostile.exchange import Exchange, answer, chunked, head
from tests.hostile.table import Failed, Stored, row

FEED = rss(good())
KEPT = Stored(1, (GOOD,))
BROKEN = Failed("broken body")
TOO_LARGE = Failed("too large")
_MEGABYTE = b" " * 1_048_576
_REPEATED = 1000


def encoded(encoding: str, body: bytes | Callable[[], bytes], status: str = "200 OK"):
    """A response with this encoding; a body that takes time is created when it is requested."""

    def talk(_: Exchange) -> bytes:
        content = body if isinstance(body, bytes) else body()
        return answer(content, f"Content-Encoding: {encoding}", status=status)

    return talk


def raw_deflate(data: bytes) -> bytes:
    """Deflate data without the header that belongs there."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@cache
def gzip_bomb(before: bytes = b"") -> bytes:
    """A gigabyte of blanks as one stream; its blocks are independent and so can be repeated."""
    packer = zlib.compressobj(9, wbits=31)
    start = packer.compress(before + _MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * _REPEATED + packer.flush()


@cache
def deflate_bomb() -> bytes:
    packer = zlib.compressobj(9)
    start = packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * _REPEATED + packer.flush()


@cache
def zstd_bomb() -> bytes:
    return zstandard.compress(_MEGABYTE) * _REPEATED


@cache
def brotli_bomb() -> bytes:
    packer = brotli.Compressor(quality=5)
    start = packer.process(_MEGABYTE) + packer.flush()
    block = packer.process(_MEGABYTE) + packer.flush()
    return start + block * _REPEATED + packer.finish()


def bomb_at_the_end() -> bytes:
    """A feed whose first bytes are valid."""
    return gzip_bomb(FEED)


@cache
def nested_bomb() -> bytes:
    return gzip.compress(gzip_bomb())


@cache
def wide_window() -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(FEED) + packer.flush()


def in_chunks(_: Exchange) -> bytes:
    return head("Content-Encoding: gzip", "Transfer-Encoding: chunked") + chunked(gzip_bomb())


GZIP = gzip.compress(FEED)
BOMB = {"heavy": True, "seconds": 5}

ROWS = (
    row("gzip bomb", "N8", encoded("gzip", gzip_bomb), TOO_LARGE, **BOMB),
    row("deflate bomb", "N8", encoded("deflate", deflate_bomb), TOO_LARGE, **BOMB),
    row("brotli bomb", "N8", encoded("br", brotli_bomb), TOO_LARGE, **BOMB),
    row("zstd bomb", "N8", encoded("zstd", zstd_bomb), TOO_LARGE, **BOMB),
    row("bomb behind a feed", "N8", encoded("gzip", bomb_at_the_end), TOO_LARGE, **BOMB),
    row("bomb in chunks", "N8", in_chunks, TOO_LARGE, **BOMB),
    row("bomb in an error", "N8 N9", encoded("gzip", gzip_bomb, "404 Not Found"),
        Failed("404", "permanent")),
    row("bomb in a bomb", "N8", encoded("gzip, gzip", nested_bomb), BROKEN),
    row("ten layers", "N8", encoded(", ".join(["gzip"] * 10), GZIP), BROKEN),
    row("two layers in two headers", "N8",
        answer(GZIP, "Content-Encoding: gzip", "Content-Encoding: br"), BROKEN),
    row("window of 128 MB", "N8", encoded("zstd", wide_window), TOO_LARGE),
    row("20,000 empty gzip members", "N8", encoded("gzip", gzip.compress(b"") * 20_000), TOO_LARGE),
    row("gzip cut short", "N10", encoded("gzip", GZIP[:-12]), BROKEN),
    row("gzip without its checksum", "N10", encoded("gzip", GZIP[:-8]), BROKEN),
    row("gzip with a wrong checksum", "N10",
        encoded("gzip", GZIP[:-8] + b"\0" * 8), BROKEN),
    row("deflate cut short", "N10", encoded("deflate", zlib.compress(FEED)[:-8]), BROKEN),
    row("brotli cut short", "N10", encoded("br", brotli.compress(FEED)[:-8]), BROKEN),
    row("zstd cut short", "N10", encoded("zstd", zstandard.compress(FEED)[:-8]), BROKEN),
    row("second gzip member cut short", "N10", encoded("gzip", GZIP + GZIP[:-12]), BROKEN),
    row("plain text called gzip", "N10", encoded("gzip", FEED), BROKEN),
    row("plain text called brotli", "N10", encoded("br", FEED), BROKEN),
    row("plain text called zstd", "N10", encoded("zstd", FEED), BROKEN),
    row("gzip called brotli", "N10", encoded("br", GZIP), BROKEN),
    row("gzip called nothing", "R1", answer(GZIP), Failed("parse")),
    row("unrequested compression", "N8", encoded("compress", FEED), BROKEN),
    row("unknown compression", "N8", encoded("quantum", FEED), BROKEN),
    row("gzip with padding", "N8", encoded("gzip", GZIP + b"\0" * 512), KEPT),
    row("gzip in two members", "N8",
        encoded("gzip", gzip.compress(FEED[:40]) + gzip.compress(FEED[40:])), KEPT),
    row("deflate without a header", "N8", encoded("deflate", raw_deflate(FEED)), KEPT),
    row("gzip by its old name", "N8", encoded("x-gzip", GZIP), KEPT),
    row("identity", "N8", encoded("identity", FEED), KEPT),
)  # fmt: skip
