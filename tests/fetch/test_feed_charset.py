"""Feeds in every encoding that real feeds use (R1)."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.feed.feed_document import read_feed
from headwater.formats.charset import codec_name, decoded
from headwater.formats.charset_detection import SAMPLE_BYTES, detected_codec, sample_of

XML = "application/xml"


def title_of(data: bytes, content_type: str | None = XML) -> str:
    (entry,) = read_feed(data, content_type=content_type, url="https://example.org/feed")
    return entry.title


def document(title: str, declared: str | None = None) -> str:
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    return f"{declaration}<rss><channel><item><title>{title}</title></item></channel></rss>"


@pytest.mark.parametrize(
    ("label", "codec", "title"),
    [
        ("utf-8", "utf-8", "naïve 日本語"),
        ("ISO-8859-1", "cp1252", "naïve “quotes”"),
        ("us-ascii", "cp1252", "naïve"),
        ("iso-8859-2", "iso-8859-2", "zażółć"),
        ("koi8-r", "koi8-r", "привет"),
        ("windows-1251", "cp1251", "привет"),
        ("gb2312", "gb18030", "你好，世界"),
        ("big5", "big5", "你好"),
        ("Shift_JIS", "cp932", "日本語①"),
        ("x-sjis", "cp932", "日本語"),
        ("EUC-JP", "euc-jp", "日本語"),
        ("iso-2022-jp", "iso-2022-jp", "日本語"),
        ("euc-kr", "cp949", "안녕하세요"),
        ("iso-8859-7", "iso-8859-7", "Ελληνικά"),
        ("macintosh", "mac-roman", "naïve"),
    ],
)
def test_r1_the_declared_encoding_is_used(label, codec, title):
    assert title_of(document(title, label).encode(codec)) == title
    assert title_of(document(title).encode(codec), f'text/xml; charset="{label}"') == title


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_r1_wide_encodings_are_detected_with_and_without_a_byte_order_mark(codec):
    mark = "\ufeff"
    text = document("naïve", codec[:6])
    assert title_of(text.encode(codec)) == "naïve"
    assert title_of((mark + text).encode(codec)) == "naïve"


def test_r1_the_http_charset_beats_the_declaration():
    data = document("naïve", "utf-8").encode("cp1252")
    assert title_of(data, "text/xml; charset=windows-1252") == "naïve"


def test_r1_a_byte_order_mark_beats_both():
    data = codecs.BOM_UTF8 + document("naïve", "koi8-r").encode()
    assert title_of(data, "text/xml; charset=iso-8859-2") == "naïve"


@pytest.mark.parametrize("declared", ["utf-16", "UTF-32", "x-nonsense", "zip", "punycode", "idna"])
def test_r1_a_false_declaration_is_ignored(declared):
    assert title_of(document("naïve", declared).encode()) == "naïve"
    assert title_of(document("naïve").encode(), f"text/xml; charset={declared}") == "naïve"


@pytest.mark.parametrize("label", ["iso-8859-1", "windows-1251", "us-ascii"])
def test_r1_utf8_under_a_single_byte_label_is_still_utf8(label):
    assert title_of(document("naïve 日本", label).encode()) == "naïve 日本"


def test_r1_single_invalid_bytes_in_utf8_are_read_as_windows_1252():
    text = document("naïve 日本 QUOTE" + "x" * 500)
    assert title_of(text.encode().replace(b"QUOTE", b"\x93q\x94")).startswith("naïve 日本 “q”")


def test_r1_undeclared_bytes_that_are_no_utf8_are_windows_1252():
    assert title_of(document("naïve café").encode("cp1252")) == "naïve café"


JAPANESE = "昨夜からの大雨で川の水位が上がり、下流の牧草地が浸水した。農家は牛を丘へ移した。"
CHINESE = "昨夜的大雨使河水上涨，下游的草地被淹没。农民把牛群转移到山上。没有人受伤。"
TAIWANESE = "昨夜的大雨使河水上漲，下游的草地被淹沒。農民把牛群轉移到山上。沒有人受傷。"
KOREAN = "어젯밤 큰비로 강물이 불어나 하류의 목초지가 물에 잠겼다. 농부들은 소를 옮겼다."
RUSSIAN = "Ночью вода в реке поднялась, и нижние луга были затоплены к утру."
FRENCH = (
    "La rivière a monté pendant la nuit et les prés ont été inondés dès le matin, déclare-t-on."
)


@pytest.mark.parametrize(
    ("codec", "title"),
    [
        ("shift_jis", JAPANESE),
        ("euc_jp", JAPANESE),
        ("gb2312", CHINESE),
        ("big5", TAIWANESE),
        ("euc_kr", KOREAN),
        ("cp1251", RUSSIAN),
        ("koi8_r", RUSSIAN),
        ("cp1252", FRENCH),
        ("cp1252", FRENCH.upper()),
    ],
)
@pytest.mark.parametrize("declared", [None, "utf-8"])
def test_r1_an_undeclared_charset_is_detected(codec, title, declared):
    assert title_of(document(title, declared).encode(codec)) == title
    markup = '<link href="https://example.org/a/rather/long/address.html" type="text/html"/>'
    long = document(title, declared).replace("<item>", f"<x>{markup * 20_000}</x><item>")
    assert title_of(long.encode(codec)) == title


def test_r1_one_character_does_not_make_a_western_text_east_asian():
    for word in FRENCH.split():
        assert title_of(document(word).encode("cp1252")) == word


def test_r1_broken_utf8_is_not_taken_for_another_charset():
    data = document(JAPANESE).encode().replace("水".encode(), b"\x93", 1)
    assert title_of(data) == JAPANESE.replace("水", "“", 1)


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(128, 256)) * 80_000,
        b"\xe9a" * 5_000_000,
        b"\x83\x41" * 5_000_000,
        b"\xa4\xa2<" * 3_000_000,
        b"a" * 10_000_000 + b"\xff",
        b"\xff" + b"a" * 10_000_000,
        (b"\xb0\xa1" + b"a" * 20) * 450_000,
    ],
    ids=["all", "accents", "kana", "short", "last", "first", "sparse"],
)
def test_h2_detection_uses_a_bounded_sample(data):
    assert len(sample_of(data)) <= SAMPLE_BYTES
    detected_codec(data)


def test_r1_text_cut_inside_a_character_loses_only_that_character():
    assert decoded("ab日".encode()[:-1] + b"") in ("ab", "abæ—")
    assert decoded(("x" * 500 + "日").encode()[:-1]) == "x" * 500


@pytest.mark.parametrize("label", ["rot13", "base64", "zlib", "punycode", "undefined", "x\0y", ""])
def test_codecs_that_are_no_text_encodings_are_refused(label):
    assert codec_name(label) is None


@given(st.binary(max_size=200), st.none() | st.text(max_size=40))
def test_any_bytes_give_text(data, content_type):
    assert isinstance(decoded(data, content_type), str)
