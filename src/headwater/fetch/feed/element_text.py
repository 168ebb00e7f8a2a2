"""The plain text of one element of a feed, for any markup and escaping (R4)."""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from html import escape
from itertools import islice
from string import whitespace

from lxml import etree

from headwater.fetch.feed.element_names import local_name
from headwater.fetch.text.html_to_markdown import MAX_TAGS, write_html, write_plain
from headwater.fetch.text.html_to_text import (
    BLOCKS,
    HIDDEN_ELEMENTS,
    html_to_text,
    long_line,
    one_line,
)
from headwater.fetch.text.markdown_writer import MarkdownWriter

_MAX_TITLE_MARKUP = 20_000  # characters; far more than a stored title has (M8)
_SNIFFED = 50_000  # characters in which markup is searched for
_MANY_ELEMENTS = 1_000  # of one text
LONG_MARKUP = 50_000  # characters
_HIDDEN = frozenset({*HIDDEN_ELEMENTS, "head"})
_PLAIN_TYPES = frozenset({"text", "text/plain", "plain"})
_HTML_TYPES = frozenset({"html", "text/html"})
_BINARY_TYPES = ("image/", "audio/", "video/", "font/", "application/pdf", "application/zip")
_KNOWN_TAG = re.compile(
    r"</?(?:a|abbr|acronym|address|article|b|big|blink|blockquote|br|center|cite|code|dd|del|dfn|"
    r"div|dl|dt|em|embed|figure|font|frame|h[1-6]|hr|i|iframe|img|ins|kbd|li|link|meta|nobr|object|"
    r"ol|p|pre|q|s|samp|script|section|small|span|strike|strong|style|sub|sup|table|tbody|td|tfoot|"
    r"th|thead|tr|tt|u|ul|var|video|applet)(?=[\s/>])[^<>]*+>",
    re.IGNORECASE,
)
_BALANCED_TAG = re.compile(  # only markup has these; a title may name a start tag
    r"</(?:a|abbr|acronym|b|big|blockquote|center|cite|code|del|dfn|div|em|font|h[1-6]|i|ins|kbd|li|"
    r"ol|p|pre|q|s|samp|script|small|span|strike|strong|style|sub|sup|table|td|th|tr|tt|u|ul|var)\s*+>|"
    r"<(?:br|hr|img|wbr)(?=[\s/>])[^<>]*+>",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_PREFIXED_TAG = re.compile(r"(</?)[A-Za-z][\w.-]*:(?=[A-Za-z])")
_NAME_THEN_ADDRESS = re.compile(r"(.+?)\s*[<(]\s*(?:mailto:)?[^\s<>()@]+@[^\s<>()@]+\s*[)>]")
_ADDRESS_THEN_NAME = re.compile(r"[^\s<>()@]+@[^\s<>()@]+\s*\(([^()]+)\)")
_NAME_PARTS = ("name", "email", "uri")


def element_text(
    element: etree._Element, *, atom: bool, short: bool, markdown: MarkdownWriter | None = None
) -> str:
    """The plain text of content, a summary or, if `short`, a title.

    In a title only known tags count as markup: `Vec<T>` does not. The tokens of a content also go
    to `markdown`.
    """
    if len(element):
        return _text_inside(element, markdown)
    text = element.text
    if not text:
        return ""
    if element.items():
        kind = element.get("type", "").strip().lower()
        mode = element.get("mode")
        if kind or mode:
            return _typed(text, kind, mode, atom=atom, short=short, markdown=markdown)
    return _untyped(text, atom=atom, short=short, markdown=markdown)


def title_of_html(text: str) -> str:
    """The plain text of a title that may contain HTML.

    By the specification titles of RSS are text, but most publishers escape HTML in them. A doubly
    escaped reference shows that the title is text.
    """
    text = text[:_MAX_TITLE_MARKUP]
    if ("<" not in text and "&" not in text) or "&amp;amp;" in text:
        return one_line(text)
    if "<" in text and _KNOWN_TAG.search(text):
        return html_to_text(text)
    return html_to_text(text.replace("<", "&lt;"))


def author_text(element: etree._Element) -> str:
    """The name of a person, else the address, from child elements or from one string."""
    if len(element) == 0:
        return person((element.text or "")[:_MAX_TITLE_MARKUP])
    parts: dict[str, str] = {}
    for child in element:
        if (name := local_name(child.tag)) in _NAME_PARTS:
            parts.setdefault(name, one_line((child.text or "")[:_MAX_TITLE_MARKUP]))
    found = next((parts[name] for name in _NAME_PARTS if parts.get(name)), None)
    return _text_inside(element) if found is None else found


def person(text: str) -> str:
    """The name in `me@example.org (Name)` and similar forms."""
    text = one_line(text)
    if "@" in text and text[-1] in ")>" and len(text) < 1000:
        found = _NAME_THEN_ADDRESS.fullmatch(text) or _ADDRESS_THEN_NAME.fullmatch(text)
        if found:
            return found[1].strip(" \"'")
    return html_to_text(text) if "<" in text or "&" in text else text


def _typed(
    text: str,
    kind: str,
    mode: str | None,
    *,
    atom: bool,
    short: bool,
    markdown: MarkdownWriter | None,
) -> str:
    if kind.startswith(_BINARY_TYPES):
        return ""
    if mode == "base64" or kind == "application/octet-stream":
        return _html(_from_base64(text), markdown)
    if kind in _HTML_TYPES or (mode == "escaped" and kind not in _PLAIN_TYPES):
        return _html(text, markdown)
    if kind in _PLAIN_TYPES or "xhtml" in kind or kind.endswith(("/xml", "+xml")):
        return _plain(text, markdown)
    return _untyped(text, atom=atom, short=short, markdown=markdown)


def _untyped(text: str, *, atom: bool, short: bool, markdown: MarkdownWriter | None) -> str:
    if "<" not in text and "&" not in text:
        return _plain(text, markdown)
    if atom:  # its default is text, but many feeds escape HTML without a type
        markup = _BALANCED_TAG if short else _KNOWN_TAG
        has_markup = markup.search(text, 0, _SNIFFED)
        if not has_markup and not _REFERENCE.search(text, 0, _SNIFFED):
            return _plain(text, markdown)
        if not has_markup:
            text = text.replace("<", "&lt;")
    return title_of_html(text) if short else _html(text, markdown)


def _html(text: str, markdown: MarkdownWriter | None) -> str:
    return html_to_text(text) if markdown is None else write_html(text, markdown)


def _plain(text: str, markdown: MarkdownWriter | None) -> str:
    return one_line(text) if markdown is None else write_plain(text, markdown)


def _text_inside(element: etree._Element, markdown: MarkdownWriter | None = None) -> str:
    """The visible text of markup; long markup is not serialised as a whole (H1)."""
    if escaped := _escaped_markup(element):
        return _html(escaped, markdown)
    several = islice(element.iter(), _MANY_ELEMENTS)
    if sum(map(_size, several)) < LONG_MARKUP:
        return _html(_markup_inside(element), markdown)
    return long_line(_texts(element, markdown))


def _escaped_markup(element: etree._Element) -> str | None:
    """The text of a lone `div` that holds escaped markup instead of elements."""
    wrapper = element[0]
    if len(element) > 1 or len(wrapper) or local_name(wrapper.tag) != "div":
        return None
    around, text = (element.text or "") + (wrapper.tail or ""), wrapper.text or ""
    tags = islice(_BALANCED_TAG.finditer(text, 0, _SNIFFED), 2)
    needed = 2 if "xhtml" in element.get("type", "") else 1  # where it is text, one may be quoted
    return text if len(list(tags)) >= needed and not around.strip() else None


def _size(element: etree._Element) -> int:
    """The approximate number of characters of a serialised element."""
    attributes = sum(map(len, element.values()))
    texts = len(element.text or "") + len(element.tail or "")
    return attributes + texts + LONG_MARKUP // _MANY_ELEMENTS


def _texts(element: etree._Element, markdown: MarkdownWriter | None) -> Iterator[str]:
    """The texts inside an element in order, with a separator at the edges of blocks."""
    tags_left = MAX_TAGS
    walk = etree.iterwalk(element, events=("start", "end"))
    text: str | None
    for event, each in walk:
        name = local_name(each.tag)
        if name in BLOCKS:
            yield " "
        if markdown is not None:
            tags_left -= 1
            _write_tag(markdown, name, event, each, whole=tags_left > 0)
        if event == "end":
            text = each.tail if each is not element else None
        elif name in _HIDDEN:
            text = None
            walk.skip_subtree()
        else:
            text = each.text
        if text:
            yield text
            if markdown is not None:
                markdown.plain_run(text)


def _write_tag(
    markdown: MarkdownWriter, name: str, event: str, element: etree._Element, *, whole: bool
) -> None:
    """Write a tag; of very many, only that they separate words (H2)."""
    if whole:
        values = "".join(f' {key}="{escape(str(value))}"' for key, value in element.items())  # type: ignore[str-bytes-safe]
        markdown.tag(name, "/" if event == "end" else "", values)
    elif name in BLOCKS:
        markdown.plain_run(" ")


def _markup_inside(element: etree._Element) -> str:
    """The content of an element as HTML, without prefixes of tags."""
    try:
        # as one: each child on its own would declare all namespaces again (H1)
        whole = etree.tostring(element, encoding="unicode", with_tail=False)
    except (etree.LxmlError, UnicodeError):  # characters that XML does not allow
        return escape(" ".join(str(part) for part in element.itertext()), quote=False)
    inner = whole[whole.index(">") + 1 : whole.rindex("<")]
    return _PREFIXED_TAG.sub(r"\1", inner)


def _from_base64(text: str) -> str:
    try:
        written = text.encode("ascii", "replace").translate(None, whitespace.encode())
        return b64decode(written, validate=True).decode("utf-8")
    except (NotBase64, ValueError):
        return text
