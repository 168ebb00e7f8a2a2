"""The text of one element of a feed, whatever its markup and escaping (R4)."""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from html import escape
from itertools import islice
from string import whitespace

from lxml import etree

from headwater.fetch.text import UNSEEN, gap, html_to_text, long_line, one_line
from headwater.fetch.vocabulary import local

_MAX_TITLE_MARKUP = 20_000  # far more than a title keeps (M8)
_SNIFFED = 50_000
_MANY_ELEMENTS = 1_000  # of one text
_LONG_MARKUP = 50_000  # characters
_UNSEEN = frozenset({*UNSEEN, "head"})
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
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_PREFIXED_TAG = re.compile(r"(</?)[A-Za-z][\w.-]*:(?=[A-Za-z])")
_NAME_THEN_ADDRESS = re.compile(r"(.+?)\s*[<(]\s*(?:mailto:)?[^\s<>()@]+@[^\s<>()@]+\s*[)>]")
_ADDRESS_THEN_NAME = re.compile(r"[^\s<>()@]+@[^\s<>()@]+\s*\(([^()]+)\)")
_NAME_PARTS = ("name", "email", "uri")


def element_text(element: etree._Element, *, atom: bool, short: bool) -> str:
    """The plain text of content, a summary or, if `short`, a title.

    In a title only known tags are taken for markup, `Vec<T>` is not.
    """
    if len(element):
        return _text_inside(element)
    text = element.text
    if not text:
        return ""
    if element.items():
        kind = element.get("type", "").strip().lower()
        mode = element.get("mode")
        if kind or mode:
            return _typed(text, kind, mode, atom=atom, short=short)
    return _untyped(text, atom=atom, short=short)


def title_of_html(text: str) -> str:
    """The same for a title that is a string already.

    Titles of RSS are text by its rules, yet most publishers escape HTML in them. Where a reference
    would still be one after decoding, the rules are taken at their word.
    """
    text = text[:_MAX_TITLE_MARKUP]
    if ("<" not in text and "&" not in text) or "&amp;amp;" in text:
        return one_line(text)
    if "<" in text and _KNOWN_TAG.search(text):
        return html_to_text(text)
    return html_to_text(text.replace("<", "&lt;"))


def author_text(element: etree._Element) -> str:
    """The name of a person, else the address, whether in parts or in one string."""
    if len(element) == 0:
        return person((element.text or "")[:_MAX_TITLE_MARKUP])
    parts: dict[str, str] = {}
    for child in element:
        name = child.tag.rpartition("}")[2].rpartition(":")[2].lower()
        if name in _NAME_PARTS:
            parts.setdefault(name, one_line((child.text or "")[:_MAX_TITLE_MARKUP]))
    found = next((parts[name] for name in _NAME_PARTS if parts.get(name)), None)
    return _text_inside(element) if found is None else found


def person(text: str) -> str:
    """The name in `me@example.org (Name)` and its other spellings."""
    text = one_line(text)
    if "@" in text and len(text) < 1000:
        found = _NAME_THEN_ADDRESS.fullmatch(text) or _ADDRESS_THEN_NAME.fullmatch(text)
        if found:
            return found[1].strip(" \"'")
    return html_to_text(text) if "<" in text or "&" in text else text


def _typed(text: str, kind: str, mode: str | None, *, atom: bool, short: bool) -> str:
    if kind.startswith(_BINARY_TYPES):
        return ""
    if mode == "base64" or kind == "application/octet-stream":
        return html_to_text(_from_base64(text))
    if kind in _HTML_TYPES or (mode == "escaped" and kind not in _PLAIN_TYPES):
        return html_to_text(text)
    if kind in _PLAIN_TYPES or "xhtml" in kind or kind.endswith(("/xml", "+xml")):
        return one_line(text)
    return _untyped(text, atom=atom, short=short)


def _untyped(text: str, *, atom: bool, short: bool) -> str:
    if "<" not in text and "&" not in text:
        return one_line(text)
    if atom and not (_KNOWN_TAG.search(text, 0, _SNIFFED) or _REFERENCE.search(text, 0, _SNIFFED)):
        return one_line(text)  # Atom's default is text, but many escape HTML without saying so
    return title_of_html(text) if short else html_to_text(text)


def _text_inside(element: etree._Element) -> str:
    """What a reader sees of markup; a long one is not written out as a whole (H1)."""
    several = islice(element.iter(), _MANY_ELEMENTS)
    if sum(map(_size, several)) < _LONG_MARKUP:
        return html_to_text(_markup_inside(element))
    return long_line(_texts(element))


def _size(element: etree._Element) -> int:
    """About how many characters an element is written in."""
    attributes = sum(map(len, element.values()))
    texts = len(element.text or "") + len(element.tail or "")
    return attributes + texts + _LONG_MARKUP // _MANY_ELEMENTS


def _texts(element: etree._Element) -> Iterator[str]:
    """The texts inside an element in their order, with a gap where a block begins or ends."""
    walk = etree.iterwalk(element, events=("start", "end"))
    text: str | None
    for event, each in walk:
        name = local(each.tag)
        if edge := gap(name):
            yield edge
        if event == "end":
            text = each.tail if each is not element else None
        elif name in _UNSEEN:
            text = None
            walk.skip_subtree()
        else:
            text = each.text
        if text:
            yield text


def _markup_inside(element: etree._Element) -> str:
    """The content of an element as HTML, whatever prefix its tags have."""
    try:
        # in one piece: child by child, each would declare all namespaces anew (H1)
        whole = etree.tostring(element, encoding="unicode", with_tail=False)
    except (etree.LxmlError, UnicodeError):  # characters that XML does not know
        return escape(" ".join(str(part) for part in element.itertext()), quote=False)
    inner = whole[whole.index(">") + 1 : whole.rindex("<")]
    return _PREFIXED_TAG.sub(r"\1", inner)


def _from_base64(text: str) -> str:
    try:
        written = text.encode("ascii", "replace").translate(None, whitespace.encode())
        return b64decode(written, validate=True).decode("utf-8")
    except (NotBase64, ValueError):
        return text
