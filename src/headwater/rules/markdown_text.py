"""Plain text as Markdown: escaped so that rendering shows the text and nothing else (T1)."""

import re

_SPECIAL = re.compile(r"[\\`*_\[\]<~&]")
_ALWAYS = "\\`*[]<~"  # the backslash first
# An underscore inside a word never starts emphasis. `&` matters only before a reference, of which
# the rest may follow in the next piece of text.
_SOMETIMES = re.compile(r"(?<![^\W_])_|_(?![^\W_])|&(?=[#A-Za-z]|\Z)")
_MANY = 1_000  # replacing a pattern this often is too slow (H2)
# What begins a heading, a quote, a list item, a table or an underlined heading on a new line.
_LINE_START = re.compile(
    r"^(?=[-+#>=:|0-9])"
    r"(?:([0-9]{1,9})(?=[.)](?:\s|$))"
    r"|(?=[-+](?:\s|$)|#{1,6}(?:\s|$)|>|[-=:|][-=:| ]*$))",
    re.MULTILINE,
)
LINE_STARTS = frozenset("-+#>=:|0123456789")  # characters that may
_PARAGRAPH_END = re.compile(r"\n\s*\n")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_URL_UNSAFE = re.compile(r"[\s()<>\[\]\"\\`|^{}*]")


def escaped(text: str) -> str:
    """Escape characters that have a meaning anywhere in a line."""
    if not _SPECIAL.search(text):
        return text
    for character in _ALWAYS:
        text = text.replace(character, f"\\{character}")
    if text.count("_") + text.count("&") > _MANY:
        return text.replace("_", "\\_").replace("&", "\\&")
    return _SOMETIMES.sub(r"\\\g<0>", text)


def with_escaped_starts(text: str) -> str:
    """Escape what has a meaning at the start of a line only."""
    if text[:1] not in LINE_STARTS and "\n" not in text:
        return text
    return _LINE_START.sub(r"\1\\", text)


def markdown_of_text(text: str) -> str:
    """Plain text as Markdown: blank lines separate paragraphs, other line breaks are kept."""
    paragraphs = (
        "  \n".join(filter(None, (" ".join(line.split()) for line in paragraph.split("\n"))))
        for paragraph in _PARAGRAPH_END.split(text)
    )
    return "\n\n".join(with_escaped_starts(escaped(each)) for each in paragraphs if each)


def markdown_link(text: str, url: str) -> str:
    """A link; `text` is Markdown already."""
    return f"[{text}]({link_destination(url)})"


def link_destination(url: str) -> str:
    """The URL inside the parentheses of a link: nothing in it ends or changes the link."""
    if _URL_UNSAFE.search(url):
        url = _URL_UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", url)
    return _ENTITY.sub("&amp;", url) if "&" in url else url
