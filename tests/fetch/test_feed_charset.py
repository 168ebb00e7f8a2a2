"""Feeds in every encoding that real ones come in (R1)."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.charset import codec_name, decoded
from headwater.fetch.feed import read_feed

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
def test_r1_wide_encodings_are_known_with_and_without_a_mark(codec):
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
def test_r1_a_false_declaration_does_not_matter(declared):
    assert title_of(document("naïve", declared).encode()) == "naïve"
    assert title_of(document("naïve").encode(), f"text/xml; charset={declared}") == "naïve"


@pytest.mark.parametrize("label", ["iso-8859-1", "windows-1251", "us-ascii"])
def test_r1_utf8_under_a_single_byte_label_is_still_utf8(label):
    assert title_of(document("naïve 日本", label).encode()) == "naïve 日本"


def test_r1_some_wrong_bytes_in_utf8_are_read_as_windows():
    text = document("naïve 日本 QUOTE" + "x" * 500)
    assert title_of(text.encode().replace(b"QUOTE", b"\x93q\x94")).startswith("naïve 日本 “q”")


def test_r1_undeclared_bytes_that_are_no_utf8_are_windows():
    assert title_of(document("naïve café").encode("cp1252")) == "naïve café"


def test_r1_text_cut_inside_a_character_loses_only_that():
    assert decoded("ab日".encode()[:-1] + b"") in ("ab", "abæ—")
    assert decoded(("x" * 500 + "日").encode()[:-1]) == "x" * 500


@pytest.mark.parametrize("label", ["rot13", "base64", "zlib", "punycode", "undefined", "x\0y", ""])
def test_codecs_that_are_no_encodings_of_text_are_refused(label):
    assert codec_name(label) is None


@given(st.binary(max_size=200), st.none() | st.text(max_size=40))
def test_any_bytes_give_text(data, content_type):
    assert isinstance(decoded(data, content_type), str)
