"""HTML to plain text (R4, M5, M6)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.text.html_to_text import html_to_text

MARKUP = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            "<p>|</p>|<b|</b>|<|>|&|&amp;|&#|&#x1;|<!--|-->|<script>|</script>|<style |\"|'|=|/>"
            "|<br/>|<!x|</|\0|\ud800|&#xD800;|<iframe/>|<title>|<head>|</head>|&nbsp;".split("|")
        ),
    ),
    max_size=30,
).map("".join)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<p>Breaking news</p><a href="https://example.org/">link</a>', "Breaking news link"),
        ("<b>bo</b>ld <i>wor</i>d", "bold word"),
        ("one<br>two<br/>three", "one two three"),
        ("<ul><li>one<li>two</ul>", "one two"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
        ("<h1>Head</h1>line", "Head line"),
        ("<P>upper</P><DiV>mixed</DiV>", "upper mixed"),
        ("  a \t b\r\n\n c\u00a0\u2003d&nbsp;e ", "a b c d e"),
        ("plain text", "plain text"),
        ("", ""),
    ],
)
def test_r4_block_boundaries_become_a_space_and_inline_tags_split_no_word(html, text):
    assert html_to_text(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("AT&amp;T &lt;3 &#8364; &#x20AC; &euro;", "AT&T <3 € € €"),
        ("AT&T &unknown; &", "AT&T &unknown; &"),
        ("&amp;lt;", "&lt;"),
        ("&am<b>p;</b>", "&amp;"),
        ("&#128;", "€"),  # windows-1252, as browsers read it
        ("a&#0;b&#xD800;c&#1114112;d", "a\ufffdb\ufffdc\ufffdd"),
        ("a&#" + "9" * 5000 + ";b", "a\ufffdb"),
        ("a&#x" + "F" * 5000 + ";b", "a\ufffdb"),
        ("1 < 2 and 3 > 2 <3", "1 < 2 and 3 > 2 <3"),
    ],
)
def test_r4_entities_are_decoded_once(html, text):
    assert html_to_text(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a<script>if (1 < 2) '</p>'</script>b", "ab"),
        ("a <STYLE type='x'>p > b {}</style > b", "a b"),
        ("<script>never closed <p>text</p>", ""),
        ("a <iframe src='x'/> b", "a b"),  # as XHTML writes it
        ("a <iframe>no frames</iframe> b", "a b"),
        ("a <template><p>later</p></template> b", "a b"),
        ("a <noscript>without scripts</noscript> b", "a without scripts b"),
        ("a<!-- no <p> -->b<!-->c<!---->d<!-- x --!>e", "abcde"),
        ("<!DOCTYPE html><html><head><title>t</title></head><body>b</body></html>", "b"),
        ("the <title> tag", "the tag"),
        ("<a title='x > y'>z</a>", "z"),
        ('<a title="it\'s > that">z</a>', "z"),
        ("<?php echo 1 ?>a</>b", "ab"),
        ("<scripty>kept</scripty>", "kept"),
    ],
)
def test_r4_hidden_content_is_dropped(html, text):
    assert html_to_text(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a\0b<p>\0c", "ab c"),
        ("a \x01 b", "a b"),
        ("a&#1;b", "ab"),
        ("a\ud83d<b>b</b>", "a\ufffdb"),
        ("\ud800", "\ufffd"),
    ],
)
def test_m6_control_characters_are_removed_and_lone_surrogates_replaced(html, text):
    assert html_to_text(html) == text


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 200_000 + "deep",
        "<ul><li>" * 100_000 + "deep",
        "<b><p>" * 100_000 + "deep",
        "<p " + "a=1 " * 100_000 + ">deep",
        "<p " + " ".join(f"a{number}=''" for number in range(100_000)) + ">deep",
    ],
    ids=["div", "list", "formatting", "one-attribute", "attributes"],
)
def test_m5_nesting_and_attributes_do_not_matter(html):
    assert html_to_text(html) == "deep"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    "<|<a |<a x='|<a x=\"|<!--|<!|</|<script>|<script></scrip|&|&#9|&a|&#x|<head>|<iframe/>|<p ="
    "|\0|<!doctype |<title>|< ".split("|"),
)
def test_m5_five_megabytes_of_broken_markup_take_linear_time(piece):
    assert isinstance(html_to_text(piece * (5_000_000 // len(piece))), str)


@given(MARKUP)
def test_h4_nothing_raises_and_the_result_is_one_storable_line(html):
    text = html_to_text(html)
    assert text == " ".join(text.split())
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


@given(st.text().filter(lambda text: "<" not in text and "&" not in text))
def test_r4_plain_text_is_unchanged(text):
    once = html_to_text(text)
    assert html_to_text(once) == once


@given(st.lists(st.text(alphabet="abc ", min_size=1).filter(str.strip), min_size=1))
def test_r4_paragraphs_are_their_texts_joined_by_spaces(paragraphs):
    html = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    assert html_to_text(html) == " ".join(" ".join(paragraphs).split())
