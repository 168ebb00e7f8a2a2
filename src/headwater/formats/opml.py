"""Reads and writes OPML, the exchange format for subscription lists.

The reader finds the tags of a file, even an ill-formed one, in one pass without entities or a tree
(M1, M2). XML parsers stop at a bare `&` or drop what follows it, and most real files have one. An
outline has all its data in attributes, so its tags in their order are enough.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from enum import StrEnum
from html.entities import html5
from typing import Any

from headwater.errors import UsageError
from headwater.formats import charset
from headwater.model import SourceType
from headwater.rules.url_secrets import masked
from headwater.source_settings import SETTINGS

MAX_FOLDER_DEPTH = 32  # deeper folders count as their ancestor (M2)
MAX_NAME_LENGTH = 1_000  # of titles and folders (M8)

# Other readers ignore an attribute in an unknown namespace, as OPML 2.0 requires.
_NAMESPACE = "urn:headwater:opml"
_SOURCE_TYPE = "headwater:sourceType"
# attributes of other settings, by the name of the setting
_OWN = {
    name: f"headwater:{setting.json_name}"
    for name, setting in SETTINGS.items()
    if name not in ("type", "url")
}
_OWN_BY_KEY = {attribute.lower(): name for name, attribute in _OWN.items()}
_WANTED = _OWN_BY_KEY.keys() | {"xmlurl", "htmlurl", "title", "text", "type", _SOURCE_TYPE.lower()}
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

_MARKUP = re.compile(r"<(?:(/?)([A-Za-z_][\w:.-]*+)|(!--|!\[CDATA\[|[!?]))")
_CLOSINGS = {"!--": "-->", "![CDATA[": "]]>", "!": ">", "?": ">"}
_SKIPPED = re.compile(r"""[\s=/"']*+""")
_NAME = re.compile(r"""([^\s=<>/"']++)(\s*+=\s*+)?""")
_BARE_VALUE = re.compile(r"(?:[^\s<>/]|/(?!>))*+")
_VALUE_STOPS = {'"': re.compile(r'["<]'), "'": re.compile(r"['<]")}
_INNER_TAG = re.compile(r"</?([A-Za-z][\w:.-]*+)[^<>]*+>?")
_OWN_TAGS = frozenset({"opml", "head", "body", "outline"})
_REFERENCE = re.compile(r"&(?:(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));")

Attributes = Mapping[str, str]  # by name in lower case


class _TagKind(StrEnum):
    """Whether a tag opens or closes an element, or both."""

    OPEN = "open"
    CLOSE = "close"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Outline:
    """A source in an OPML file."""

    url: str
    title: str | None = None
    html_url: str | None = None
    folder: tuple[str, ...] = ()
    type: str | None = None  # a SourceType, if the file names one
    # values of own attributes, by the name of the setting
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


def read_opml(data: bytes, *, max_outlines: int | None = None) -> list[Outline]:
    """The sources of an OPML file in order, as many as can be parsed.

    With `max_outlines`, parsing ends after one more than that. Raises UsageError if the file is no
    OPML or is cut off.
    """
    outlines: list[Outline] = []
    open_folders: list[tuple[str, ...]] = []
    is_opml = is_open = False
    for name, kind, attributes in _tags(_decoded(data)):
        is_opml = is_opml or name in ("opml", "outline")
        if name == "opml":
            is_open = kind is _TagKind.OPEN
        if name != "outline":
            open_folders.clear()  # head and body end open folders of a broken file
            continue
        if kind is _TagKind.CLOSE:
            del open_folders[-1:]
            continue
        folder = open_folders[-1] if open_folders else ()
        outline = _outline(attributes, folder)
        if outline is not None:
            outlines.append(outline)
            if max_outlines is not None and len(outlines) > max_outlines:
                return outlines
        if kind is _TagKind.OPEN:
            open_folders.append(folder if outline else _subfolder(folder, attributes))
    if not is_opml:
        raise UsageError("this is not an OPML file: it has no outline")
    if is_open:
        raise UsageError(
            f"the file is cut off: its end, </opml>, is missing (feeds found: {len(outlines):,})"
        )
    return outlines


def write_opml(outlines: Iterable[Outline], *, title: str, created: datetime) -> bytes:
    """An OPML 2.0 file of these sources; a folder is at the position of its first source."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<opml version="2.0" xmlns:headwater="{_NAMESPACE}">',
        "  <head>",
        f"    <title>{html.escape(_line(title))}</title>",
        f"    <dateCreated>{format_datetime(created.astimezone(UTC), usegmt=True)}</dateCreated>",
        "  </head>",
        "  <body>",
        *_folder_lines(_tree(outlines), indent="    "),
        "  </body>",
        "</opml>",
    ]
    return "\n".join([*lines, ""]).encode()


def as_written(outline: Outline) -> Outline:
    """The outline with the title and the folder that a reader of the written file gets."""
    folder = tuple(filter(None, map(_line, outline.folder[:MAX_FOLDER_DEPTH])))
    return replace(outline, title=_line(outline.title or "") or None, folder=folder)


def _outline(attributes: Attributes, folder: tuple[str, ...]) -> Outline | None:
    """The source of a tag, if any: folders and notes have no `xmlUrl`."""
    url = _address(attributes.get("xmlurl"))
    if url is None:
        return None
    title = _name(attributes)
    if "title" not in attributes and title == _line(masked(url)):
        title = None  # `text` is required, so a source without a title has its URL there
    return Outline(
        url=url,
        title=title,
        html_url=_address(attributes.get("htmlurl")),
        folder=folder,
        type=_source_type(attributes),
        settings={
            name: _UNWANTED.sub("", attributes[key])
            for key, name in _OWN_BY_KEY.items()
            if key in attributes
        },
    )


def _source_type(attributes: Attributes) -> str | None:
    """The value of our own attribute, else `rss` if the `type` says so."""
    for name in (_SOURCE_TYPE.lower(), "type"):
        value = attributes.get(name, "").strip().lower()
        known = tuple(SourceType) if name != "type" else (SourceType.RSS,)
        if value in known:
            return value
    return None


def _subfolder(folder: tuple[str, ...], attributes: Attributes) -> tuple[str, ...]:
    name = _name(attributes)
    return (*folder, name) if name and len(folder) < MAX_FOLDER_DEPTH else folder


def _name(attributes: Attributes) -> str | None:
    return _line(attributes.get("title", "")) or _line(attributes.get("text", "")) or None


def _line(text: str) -> str:
    """The text on one line, without characters that XML or a database cannot hold (M6)."""
    line = _UNWANTED.sub("", " ".join(text.split()))
    return " ".join(line[:MAX_NAME_LENGTH].split())


def _address(text: str | None) -> str | None:
    """The URL as given, not validated; None if there is none."""
    return _UNWANTED.sub("", text or "").replace("\r", "").strip() or None


def _tree(outlines: Iterable[Outline]) -> dict[Any, Any]:
    """Folders by name and outlines by number, in order of their first occurrence."""
    root: dict[Any, Any] = {}
    for number, outline in enumerate(map(as_written, outlines)):
        folder = root
        for name in outline.folder:
            folder = folder.setdefault(name, {})
        folder[number] = outline
    return root


def _folder_lines(folder: Mapping[Any, Any], indent: str) -> Iterator[str]:
    for name, member in folder.items():
        if isinstance(member, Outline):
            yield f"{indent}<outline {_pairs(_source_attributes(member))}/>"
            continue
        yield f"{indent}<outline {_pairs({'text': name, 'title': name})}>"
        yield from _folder_lines(member, indent + "  ")
        yield f"{indent}</outline>"


def _source_attributes(outline: Outline) -> dict[str, str]:
    """The attributes of a source; `type` only for feeds, since it describes `xmlUrl`."""
    url = _address(outline.url) or ""
    html_url = _address(outline.html_url)
    attributes = {"text": outline.title or _line(masked(url))}
    if outline.title:
        attributes["title"] = outline.title
    if outline.type == SourceType.RSS:
        attributes["type"] = "rss"
    elif outline.type is not None:
        attributes[_SOURCE_TYPE] = outline.type
    attributes["xmlUrl"] = url
    if html_url is not None:
        attributes["htmlUrl"] = html_url
    own = outline.settings
    return attributes | {_OWN[name]: own[name] for name in _OWN if name in own}


def _pairs(attributes: dict[str, str]) -> str:
    return " ".join(f'{name}="{html.escape(value)}"' for name, value in attributes.items())


def _decoded(data: bytes) -> str:
    """The text of an OPML file in any encoding; undecodable bytes are replaced."""
    text = charset.decoded_by_start(data)
    if text is not None:
        return text
    declared = charset.declared_charset(data)
    codec = charset.codec_name(declared) if declared else None
    try:
        return data.decode(codec or "utf-8")
    except UnicodeError:  # a wrong declaration is more likely than broken text
        return charset.decoded_utf8(data)


def _tags(text: str) -> Iterator[tuple[str, _TagKind, Attributes]]:
    """The tags of OPML in order, with the wanted attributes; linear in time and memory."""
    position = 0
    while (found := _MARKUP.search(text, position)) is not None:
        slash, name, declaration = found.groups()
        if declaration is not None:
            closing = _CLOSINGS[declaration]  # without it, a comment extends to the end
            end = text.find(closing, found.end())
            position = len(text) if end < 0 else end + len(closing)
            continue
        attributes, position, kind = _attributes(text, found.end())
        if name.lower() in _OWN_TAGS:
            yield name.lower(), _TagKind.CLOSE if slash else kind, attributes


def _attributes(text: str, position: int) -> tuple[dict[str, str], int, _TagKind]:
    """Parse attributes up to the tag's end; an unfinished tag counts as an empty element."""
    attributes: dict[str, str] = {}
    while True:
        skipped = _SKIPPED.match(text, position)
        assert skipped is not None  # it also matches the empty string
        position = skipped.end()
        if text.startswith(">", position):
            is_empty = skipped[0].endswith("/")
            return attributes, position + 1, _TagKind.EMPTY if is_empty else _TagKind.OPEN
        named = _NAME.match(text, position)
        if named is None:  # the next tag begins, or the text ends
            return attributes, position, _TagKind.EMPTY
        position = named.end()
        if named[2] is not None:
            value, position, is_whole = _value(text, position)
            name = named[1].lower()
            if is_whole and name in _WANTED:
                attributes.setdefault(name, _unescaped(value))


def _value(text: str, position: int) -> tuple[str, int, bool]:
    """A value as written, its end, and whether it is complete."""
    quote = text[position : position + 1]
    if quote not in _VALUE_STOPS:
        bare = _BARE_VALUE.match(text, position)
        assert bare is not None
        return bare[0], bare.end(), bool(bare[0])
    end = start = position + 1
    while (stop := _VALUE_STOPS[quote].search(text, end)) is not None:
        if stop[0] == quote:
            return text[start : stop.start()], stop.end(), True
        inner = _INNER_TAG.match(text, stop.start())
        if inner is not None and inner[1].lower() in _OWN_TAGS:
            return "", stop.start(), False  # the quote was never closed
        # unescaped HTML with quotes of its own
        end = stop.end() if inner is None else inner.end()
    return "", len(text), False


def _unescaped(value: str) -> str:
    """Decode entities that end with `;`: the `&copy=` of a URL is none."""
    return _REFERENCE.sub(_character, value)


def _character(reference: re.Match[str]) -> str:
    number, name = reference.groups()
    return html.unescape(reference[0]) if number else html5.get(f"{name};", reference[0])
