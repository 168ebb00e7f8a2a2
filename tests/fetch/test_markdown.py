"""Markdown has the words of the body, its structure, and nothing that renders as markup (T1)."""

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.fetch.text.html_to_markdown import write_html, write_plain
from headwater.fetch.text.html_to_text import html_to_text, one_line
from headwater.fetch.text.markdown_writer import MarkdownWriter
from headwater.formats.markdown import MAX_RENDERED, content_html, markdown_to_html

_BASE = "https://example.org/blog/entry"
_BLOCK_TAG = re.compile(
    r"</?(?:p|br|h\d|ul|ol|li|blockquote|pre|table|thead|tbody|tr|th|td|hr)\b[^>]*>"
)
_TAG = re.compile(r"<[^>]*>")

_TAGS = (
    "p div h1 h3 ul ol li blockquote pre code em b i a table tr td th br span s hr svg dl dt dd"
).split()
_texts = st.text(
    st.sampled_from("ab1 \n\t\xa0.,;:!?*_`~#+-=|<>&[](){}\\/\"'…é漢\x01\x1c"), max_size=8
)
_words = st.sampled_from(
    ["1. x", "- y", "# z", "&amp;", "&lt;b&gt;", "---", "===", "| a |", "![x](y)", "foo_bar", "**"]
)
_tags = st.builds(
    lambda name, end, attributes: f"<{end}{name}{attributes}>",
    st.sampled_from(_TAGS),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", ' href="https://example.org/a_(b)*"', " href='/c d'", ' start="7"']),
)
_fragments = st.lists(st.one_of(_texts, _words, _tags), max_size=30).map("".join)

_INLINE_WORDS = (
    "x", "a b", " ", "\n", ", ", "!", "1. ", "# ", "é", "²", "\xa0", "\x01", "*", "_", "&",
    "&#8217;", "&rsquo;", "&nbsp;", "&lt;",
)  # fmt: skip
_INLINE_TAGS = (
    ("<b>", "</b>"),
    ("<strong>", "</strong>"),
    ("<i>", "</i>"),
    ("<em>", "</em>"),
    ('<a href="/c">', "</a>"),
    ('<a href="https://example.org/" rel="x">', "</a>"),
    ('<a href="javascript:x">', "</a>"),
    ("<a href='/c'>", "</a>"),
    ("<b>", ""),
)
_inline_texts = st.lists(st.sampled_from(_INLINE_WORDS), max_size=3).map("".join)
_inline_elements = st.builds(
    lambda tags, text: f"{tags[0]}{text}{tags[1]}", st.sampled_from(_INLINE_TAGS), _inline_texts
)
_inline_markup = st.lists(st.one_of(_inline_texts, _inline_elements), max_size=6).map("".join)
_paragraphs = _inline_markup.map(lambda markup: f"<p>{markup}</p>")
_outer_tags = st.sampled_from(["\n", "<li>", "<h2>", "<pre>", "</pre>", "<blockquote>", "<td>"])


def rendered_words(markdown: str) -> list[str]:
    """The words that a reader of the rendered Markdown sees."""
    return unescape(_TAG.sub("", _BLOCK_TAG.sub(" ", markdown_to_html(markdown)))).split()


def markdown_of(html: str) -> str:
    """The Markdown of a fragment; its plain text must be the same as without Markdown."""
    writer = MarkdownWriter(_BASE, length=len(html))
    assert write_html(html, writer) == html_to_text(html)
    return writer.finish()


@given(_fragments)
@example("foo<b>'bar'</b>baz <i>a</i><b>b</b>")
@example("wow!<a href='https://example.org'>x</a>")
@example("<table><tr><td>a\\|b<td>`|`<tr><td>c</table>")
@example("<code>`</code><code>a</code> &<b>amp;</b>")
@example("x<br>- - -<br>===<br>1) y")
@example("<ul><li><ol start=5><li><pre>\n```\n</pre></ol><blockquote>a<p>b")
def test_t1_the_words_of_body_and_rendered_markdown_are_the_same(html: str):
    assert rendered_words(markdown_of(html)) == html_to_text(html).split()


@given(
    st.tuples(
        _inline_markup, st.lists(st.one_of(_paragraphs, _outer_tags), max_size=6).map("".join)
    ).map("".join)
)
@example('1. x <a href="/c">y</a>')
@example("x<p>y</p>z")
@example("x <b>y</b><p>z</p>")
@example("<p>x! <a href='/c'>y</a></p><p>x! <a href=\"/c\">y</a></p>")
@example('<p><b>x</b> <b>y</b></p><p><a href="/c">x</a>\n<a href="/c">y</a></p>')
@example('<p title="&gt;">x&rsquo;</p><p>y</p>')
@example("<h2><p> </p><p>x</p>\n<p>y</p>")
def test_t1_usual_paragraphs_are_converted_as_all_others(html: str):
    # a usual paragraph has a lower-case tag, and no comment precedes the first one
    tag_by_tag = f"<!---->{html.replace('<p', '<P')}"
    assert markdown_of(html) == markdown_of(tag_by_tag)


@given(st.text(max_size=60))
def test_t1_plain_text_is_escaped(text: str):
    writer = MarkdownWriter(_BASE, length=len(text))
    assert write_plain(text, writer) == one_line(text)
    assert rendered_words(writer.finish()) == one_line(text).split()


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h2>A <b>b</b></h2><p>c<br>d", "## A **b**\n\nc  \nd"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>d", "- a\n  - b\n- c\n\nd"),
        ("<ol start=3><li>a<li><p>b<p>c</ol>", "3. a\n4. b\n\n   c"),
        ("<blockquote>a<p>b</blockquote>c", "> a\n>\n> b\n\nc"),
        ("<pre><code>x &lt; y\n\n  z</code></pre>", "```\nx < y\n\n  z\n```"),
        ("use <code>a`b</code>", "use ``a`b``"),
        ("<table><tr><th>a<th>b<tr><td>c|d<td></table>", "| a | b |\n| --- | --- |\n| c\\|d |  |"),
        ("<table><tr><td><p>a<p>b<td>c</table>", "a\n\nb\n\nc"),
        ("<a href='../x?a=1&amp;b=2'>y</a>", "[y](https://example.org/x?a=1&b=2)"),
        ("<a href='mailto:a@b.c'>y</a><a href='ftp://x'>z</a>", "[y](mailto:a@b.c)z"),
        ("<a href='https://x.y/(z)'><b>a</b></a>", "[**a**](https://x.y/%28z%29)"),
        ("a<img alt='cat'>b c <img alt='dog'>", "ab cat c dog"),
        ("<p>1. a<p># b<p>- c<p>*d* _e_ f_g", "1\\. a\n\n\\# b\n\n\\- c\n\n\\*d\\* \\_e\\_ f_g"),
        ("&lt;script&gt; &amp;amp;", "\\<script> \\&amp;"),
        ("a<b>'b'</b>c", "a'b'c"),
    ],
)
def test_t1_structure(html: str, markdown: str):
    assert markdown_of(html) == markdown


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "\x01javascript:x"])
def test_t1_nothing_active_is_rendered(url: str):
    html = markdown_to_html(f"[x]({url})<script>y</script><b onclick=z>")
    assert re.findall(r"<[^>]*>", html) == ["<p>", "</p>"]  # all else is text
    shown = unescape(html)
    assert "[x](" in shown and "<script>y</script><b onclick=z>" in shown


def test_t1_long_markdown_is_shown_as_paragraphs():
    html = markdown_to_html("# <b>\n\n" + "x" * MAX_RENDERED)
    assert html.startswith("<p># &lt;b&gt;</p>\n<p>xxx")


def test_t1_interfaces_fall_back_to_the_body():
    assert content_html(None, "a *b*\n<i>") == "<p>a *b*<br>\n&lt;i&gt;</p>\n"
    assert content_html("*b*", "b") == "<p><em>b</em></p>\n"


@pytest.mark.parametrize(
    "html",
    [
        "<ul><li>" * 100_000 + "x",
        "<blockquote>x" * 100_000,
        "<b><i><a href='/x'>" * 100_000 + "x",
        "<table><tr><td>x" * 100_000,
        "x<img alt=y>" * 100_000,
        "*_`[]<>&\\|~#" * 200_000,
        "<pre>\n" * 100_000 + "x",
    ],
    ids=["lists", "quotes", "inline", "tables", "images", "metacharacters", "code"],
)
def test_m5_the_length_of_markdown_is_bounded_for_any_nesting(html: str):
    writer = MarkdownWriter("https://example.org/" + "p" * 400, length=len(html))
    text = write_html(f"{html} end", writer)
    markdown = writer.finish()
    assert len(markdown) <= 3 * len(html) + 1_000
    assert text.endswith("end")
    shown = re.sub(r"\]\(https:[^)]*\)", "]", markdown)
    assert [shown.count(word) for word in ("x", "end", "~")] == [
        text.count(word) for word in ("x", "end", "~")
    ]
