"""Content encodings: correct, bounded, and never incomplete without an error (N8, N10)."""

import gzip
import io
import zlib

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BrokenBody, TooLarge
from headwater.fetch.net import decompression as module
from headwater.fetch.net.decompression import encoding_of, inflate, inflate_start

MB = 1024 * 1024
LIMIT = 10 * MB


def raw_deflate(data):
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


def zstd_stream(data, **options):
    """A frame of unknown content size, as streaming servers send it."""
    parameters = zstandard.ZstdCompressionParameters(**options)
    output = io.BytesIO()
    writer = zstandard.ZstdCompressor(compression_params=parameters).stream_writer(
        output, closefd=False
    )
    with writer:
        writer.write(data)
    return output.getvalue()


def zstd_checked(data):
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


DEFLATERS = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", lambda data: brotli.compress(data, quality=3)),
    ("zstd", zstandard.ZstdCompressor().compress),
    ("zstd", zstd_stream),
    ("zstd", zstd_checked),
]
IDS = ["gzip", "zlib", "raw deflate", "br", "zstd", "zstd stream", "zstd checked"]
every_deflater = pytest.mark.parametrize(("encoding", "deflate"), DEFLATERS, ids=IDS)


@every_deflater
@given(data=st.binary(max_size=3000), times=st.sampled_from([0, 1, 100]))
def test_n8_compressed_bodies_are_decompressed(encoding, deflate, data, times):
    assert inflate(deflate(data * times), encoding, limit=LIMIT) == data * times


@every_deflater
@given(data=st.binary(min_size=1, max_size=2000), cut=st.floats(0, 1, exclude_max=True))
def test_n10_a_partial_body_is_never_accepted(encoding, deflate, data, cut):
    whole = deflate(data)
    part = whole[: max(1, int(len(whole) * cut))]
    if part != whole:
        with pytest.raises(BrokenBody):
            inflate(part, encoding, limit=LIMIT)


@every_deflater
@given(junk=st.binary(max_size=200))
def test_n10_invalid_data_is_a_broken_body(encoding, deflate, junk):
    try:
        inflate(b"\x00junk" + junk, encoding, limit=LIMIT)
    except BrokenBody as error:
        assert "\n" not in str(error)


@every_deflater
def test_n8_steps_are_at_most_64_kib(encoding, deflate):
    body = deflate(b"a" * (5 * MB))
    assert max(len(step) for step in module.inflate_steps(body, encoding)) <= 65_536


@every_deflater
def test_n8_a_decompression_bomb_stops_at_the_limit(encoding, deflate):
    bomb = deflate(b"\0" * (64 * MB))
    with pytest.raises(TooLarge, match="more than 100000 bytes"):
        inflate(bomb, encoding, limit=100_000)


@every_deflater
def test_n8_exactly_the_limit_is_not_over_it(encoding, deflate):
    assert len(inflate(deflate(b"x" * 70_000), encoding, limit=70_000)) == 70_000
    with pytest.raises(TooLarge):
        inflate(deflate(b"x" * 70_001), encoding, limit=70_000)


def test_n8_gzip_members_are_joined_and_padding_is_not_read():
    body = gzip.compress(b"one, ") + gzip.compress(b"two")
    assert inflate(body, "gzip", limit=LIMIT) == b"one, two"
    assert inflate(body + b"\0" * 512, "gzip", limit=LIMIT) == b"one, two"


def test_n10_a_second_gzip_member_that_is_cut_short_is_broken():
    body = gzip.compress(b"one") + gzip.compress(b"two")[:-3]
    with pytest.raises(BrokenBody):
        inflate(body, "gzip", limit=LIMIT)


def test_n8_a_body_of_many_empty_gzip_members_is_refused():
    with pytest.raises(TooLarge, match="members"):
        inflate(gzip.compress(b"") * 200_000, "gzip", limit=LIMIT)


def test_n10_a_wrong_checksum_is_broken():
    body = bytearray(gzip.compress(b"hello"))
    body[-5] ^= 1
    with pytest.raises(BrokenBody):
        inflate(bytes(body), "gzip", limit=LIMIT)


def test_n8_zstd_frames_are_joined_and_skippable_ones_skipped():
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    body = zstd_checked(b"one, ") + skippable + zstd_stream(b"two")
    assert inflate(body, "zstd", limit=LIMIT) == b"one, two"


def test_n8_a_zstd_body_of_many_empty_blocks_is_refused():
    head, empty, last = bytes.fromhex("28b52ffd0058"), b"\0\0\0", b"\1\0\0"
    assert inflate(head + empty * 1000 + last, "zstd", limit=LIMIT) == b""
    with pytest.raises(TooLarge, match="blocks"):
        inflate(head + empty * 1_000_000 + last, "zstd", limit=LIMIT)


def test_n8_zstd_windows_over_8_mb_are_refused():
    assert inflate(zstd_stream(b"fine", window_log=23), "zstd", limit=LIMIT) == b"fine"
    with pytest.raises(TooLarge, match="window"):
        inflate(zstd_stream(b"greedy", window_log=24), "zstd", limit=LIMIT)


def test_n8_a_later_zstd_frame_cannot_have_a_larger_window_either():
    body = zstd_stream(b"fine") + zstd_stream(b"greedy", window_log=24)
    with pytest.raises(BrokenBody):
        inflate(body, "zstd", limit=LIMIT)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_n8_an_empty_body_is_empty_in_every_encoding(encoding):
    assert inflate(b"", encoding, limit=LIMIT) == b""


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("utf-8", None),
        ("none", None),
        ("gzip", "gzip"),
        (" GZip ", "gzip"),
        ("x-gzip", "gzip"),
        ("identity, br", "br"),
        ("deflate", "deflate"),
        ("zstd", "zstd"),
    ],
)
def test_n8_one_encoding_is_read(header, encoding):
    assert encoding_of(header) == encoding


@pytest.mark.parametrize("header", ["gzip, gzip", "br,gzip", "compress", "gzip;q=1", "évil"])
def test_n8_several_layers_and_unknown_encodings_are_refused(header):
    with pytest.raises(BrokenBody):
        encoding_of(header)


@every_deflater
def test_n9_the_start_of_a_body_is_decompressed_as_far_as_possible(encoding, deflate):
    whole = deflate(b"reason " * 10_000)
    assert inflate_start(whole, encoding, limit=7) == b"reason "
    assert b"reason reason".startswith(inflate_start(whole[:20], encoding, limit=13)[:13])
    assert inflate_start(b"\xff\xff no such thing", encoding, limit=7) in (b"",)
    assert inflate_start(b"", encoding, limit=7) == b""
