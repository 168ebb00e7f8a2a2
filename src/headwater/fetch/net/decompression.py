"""Content encodings: decompression of untrusted data in small steps, within a limit (N8)."""

import io
import zlib
from collections.abc import Generator, Iterator
from contextlib import suppress

import brotli  # type: ignore[import-untyped]
import zstandard

from headwater.errors import BrokenBody, TooLarge
from headwater.fetch.text.sanitize import storable_line

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
_STEP = 65_536  # bytes of output after which the limit is checked
_BROTLI_LIMIT = 16_384  # its first buffer is of 32 KiB; one more would go over the step
_SLICE = 16_384  # bytes of input at a time: unused input is copied, so it stays small
_MAX_MEMBERS = 10_000  # each gzip member costs time, however small it is
_MAX_ZSTD_BLOCKS = 100_000  # of a frame; full ones hold 128 KiB each
_MAX_ZSTD_WINDOW = 8 * 1024 * 1024
_ZSTD_MAGIC = 0xFD2FB528
# values that servers send where there is no encoding
_PLAIN = frozenset({"", "identity", "none", "utf-8", "utf8", "binary"})


def encoding_of(header: str | None) -> str | None:
    """The encoding that a `Content-Encoding` header names, or None if there is none."""
    if header is None:
        return None
    names = [name for part in header.split(",") if (name := part.strip().lower()) not in _PLAIN]
    if len(names) > 1:
        raise BrokenBody("the body is encoded more than once, which is not supported")
    if not names:
        return None
    name = names[0].removeprefix("x-")
    if name not in _DECODERS:
        raise BrokenBody("the body has a content encoding that was not requested")
    return name


def inflate(body: bytes, encoding: str, *, limit: int) -> bytes:
    """Undo one content encoding; more than `limit` bytes of output is TooLarge."""
    output = bytearray()
    for step in inflate_steps(body, encoding):
        output += step
        if len(output) > limit:
            raise TooLarge(f"the body inflates to more than {limit} bytes")
    return bytes(output)


def inflate_start(body: bytes, encoding: str, *, limit: int) -> bytes:
    """At most the first `limit` bytes of a decompressed body, which may be cut short."""
    output = bytearray()
    with suppress(BrokenBody, TooLarge):  # the start is enough
        for step in inflate_steps(body, encoding):
            output += step
            if len(output) >= limit:
                break
    return bytes(output[:limit])


def inflate_steps(body: bytes, encoding: str) -> Iterator[bytes]:
    """The decompressed data in pieces of at most 64 KiB."""
    if not body:
        return  # an empty response is not a broken one
    try:
        yield from _DECODERS[encoding](body)
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        reason = storable_line(str(error), 200)
        raise BrokenBody(f"the body is not valid {encoding}: {reason}") from error


def _gunzip(body: bytes) -> Iterator[bytes]:
    """Inflate one member after another; other bytes after the last one are padding."""
    at = 0
    for _ in range(_MAX_MEMBERS):
        at = yield from _inflate_stream(body, at, zlib.MAX_WBITS | 16)
        if body[at : at + 2] != b"\x1f\x8b":
            return
    raise TooLarge(f"the body consists of more than {_MAX_MEMBERS} gzip members")


def _undeflate(body: bytes) -> Iterator[bytes]:
    """Inflate zlib data (the standard) or raw deflate data (some servers)."""
    has_header = body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    yield from _inflate_stream(body, 0, zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _inflate_stream(body: bytes, at: int, wbits: int) -> Generator[bytes, None, int]:
    """Inflate the stream that begins at `at`; returns where it ends."""
    inflater = zlib.decompressobj(wbits)
    view = memoryview(body)
    while not inflater.eof:
        piece = view[at : at + _SLICE]
        step = inflater.decompress(piece, _STEP)
        taken = len(piece) - len(inflater.unconsumed_tail) - len(inflater.unused_data)
        if not taken and not step:
            raise BrokenBody("the body ends before its compressed data does")
        at += taken
        yield step
    return at


def _unbrotli(body: bytes) -> Iterator[bytes]:
    inflater = brotli.Decompressor()
    view = memoryview(body)
    at = 0
    while not inflater.is_finished():
        piece = view[at : at + _SLICE] if inflater.can_accept_more_data() else view[:0]
        at += len(piece)
        step = inflater.process(piece, output_buffer_limit=_BROTLI_LIMIT)
        if not piece and not step and not inflater.is_finished():
            raise BrokenBody("the body ends before its compressed data does")
        yield step


def _unzstd(body: bytes) -> Iterator[bytes]:
    if not _is_whole_zstd(body):  # the library accepts a truncated body silently (N10)
        raise BrokenBody("the body ends before its compressed data does")
    if zstandard.get_frame_parameters(body).window_size > _MAX_ZSTD_WINDOW:
        raise TooLarge("the body needs a zstd window of more than 8 MB")
    inflater = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
    with inflater.stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
        while step := reader.read(_STEP):
            yield step


def _is_whole_zstd(body: bytes) -> bool:
    """Whether the last frame is complete, by the headers of frames and blocks (RFC 8878)."""
    at = 0
    while at < len(body):
        magic = int.from_bytes(body[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a skippable frame
            at += 8 + int.from_bytes(body[at + 4 : at + 8], "little")
        elif magic == _ZSTD_MAGIC:
            at = _zstd_frame_end(body, at)
        else:
            return len(body) - at >= 4  # not zstd: the library has the better message
    return at == len(body)


def _zstd_frame_end(body: bytes, at: int) -> int:
    """Where the frame that begins at `at` should end, possibly beyond the body."""
    if at + 5 > len(body):
        return len(body) + 1
    descriptor = body[at + 4]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    at += 5 + (1 - single_segment) + dictionary_bytes + content_size_bytes
    for _ in range(_MAX_ZSTD_BLOCKS):
        if at + 3 > len(body):
            return len(body) + 1
        header = int.from_bytes(body[at : at + 3], "little")
        is_run = header >> 1 & 3 == 1  # one byte repeated
        at += 3 + (1 if is_run else header >> 3)
        if header & 1:  # the last one; a checksum may follow
            return at + (4 if descriptor >> 2 & 1 else 0)
    raise TooLarge(f"the body consists of more than {_MAX_ZSTD_BLOCKS} zstd blocks")


_DECODERS = {"gzip": _gunzip, "deflate": _undeflate, "br": _unbrotli, "zstd": _unzstd}
