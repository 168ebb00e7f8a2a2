"""OPML, the format in which people carry their subscriptions from one reader to the next."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape

from headwater.errors import UsageError
from headwater.model import SourceType
from headwater.rules.opml_markup import Tag, TagKind, decoded, tags
from headwater.rules.urls import masked

MAX_FOLDER_DEPTH = 32  # deeper folders count as their ancestor: paths stay short (M2)
MAX_NAME_LENGTH = 1_000  # of titles and folders, as of all titles (M8)

# Other readers skip an attribute in a namespace they do not know, as OPML 2.0 tells them to.
_NAMESPACE = "urn:headwater:opml"
_SOURCE_TYPE = "headwater:sourceType"
_WANTED = frozenset({"xmlurl", "htmlurl", "title", "text", "type", _SOURCE_TYPE.lower()})
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Outline:
    """A source as it stands in an OPML file."""

    url: str
    title: str | None = None
    html_url: str | None = None
    folder: tuple[str, ...] = ()
    type: str | None = None  # a SourceType where the file says so


def read_opml(data: bytes, *, most: int | None = None) -> list[Outline]:
    """The sources of an OPML file in their order, as many as can be made out.

    Where only so many are wanted, reading ends with the first one beyond.
    """
    outlines: list[Outline] = []
    open_folders: list[tuple[str, ...]] = []
    is_opml = False
    for tag in tags(decoded(data), wanted=_WANTED):
        is_opml = is_opml or tag.name in ("opml", "outline")
        if tag.name != "outline":
            open_folders.clear()  # whatever a broken file left open ends with head and body
            continue
        if tag.kind is TagKind.CLOSE:
            del open_folders[-1:]
            continue
        folder = open_folders[-1] if open_folders else ()
        outline = _outline(tag, folder)
        if outline is not None:
            outlines.append(outline)
            if most is not None and len(outlines) > most:
                break
        if tag.kind is TagKind.OPEN:
            open_folders.append(folder if outline else _subfolder(folder, tag))
    if not is_opml:
        raise UsageError("this is not an OPML file: it has no outline")
    return outlines


def write_opml(outlines: Iterable[Outline], *, title: str, created: datetime) -> bytes:
    """An OPML 2.0 file of these sources; a folder stands where its first source does."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<opml version="2.0" xmlns:headwater="{_NAMESPACE}">',
        "  <head>",
        f"    <title>{escape(_line(title))}</title>",
        f"    <dateCreated>{format_datetime(created.astimezone(UTC), usegmt=True)}</dateCreated>",
        "  </head>",
        "  <body>",
        *_folder_lines(_tree(outlines), indent="    "),
        "  </body>",
        "</opml>",
    ]
    return "\n".join([*lines, ""]).encode()


def _outline(tag: Tag, folder: tuple[str, ...]) -> Outline | None:
    """The source that a tag speaks of, if any: folders and notes have no `xmlUrl`."""
    url = _address(tag.attributes.get("xmlurl"))
    if url is None:
        return None
    title = _name(tag)
    if "title" not in tag.attributes and title == _line(masked(url)):
        title = None  # `text` is compulsory, so those without a title show their URL there
    return Outline(
        url=url,
        title=title,
        html_url=_address(tag.attributes.get("htmlurl")),
        folder=folder,
        type=_source_type(tag),
    )


def _source_type(tag: Tag) -> str | None:
    """Our own attribute where it stands, else `rss` where the file says that much."""
    for name in (_SOURCE_TYPE.lower(), "type"):
        said = tag.attributes.get(name, "").strip().lower()
        known = tuple(SourceType) if name != "type" else (SourceType.RSS,)
        if said in known:
            return said
    return None


def _subfolder(folder: tuple[str, ...], tag: Tag) -> tuple[str, ...]:
    name = _name(tag)
    return (*folder, name) if name and len(folder) < MAX_FOLDER_DEPTH else folder


def _name(tag: Tag) -> str | None:
    names = (_line(tag.attributes.get(attribute, "")) for attribute in ("title", "text"))
    return next((name for name in names if name), None)


def _line(text: str) -> str:
    """The text on one line, without what no XML file and no database may hold (M6)."""
    line = _UNWANTED.sub("", " ".join(text.split()))
    return " ".join(line[:MAX_NAME_LENGTH].split())


def _address(text: str | None) -> str | None:
    """The URL as given, to be judged by those who store it; None where there is none."""
    return _UNWANTED.sub("", text or "").replace("\r", "").strip() or None


@dataclass(slots=True)
class _Folder:
    """A folder under construction; its members stand in the order of their first mention."""

    members: list["Outline | tuple[str, _Folder]"] = field(default_factory=list)
    folders: dict[str, "_Folder"] = field(default_factory=dict)

    def subfolder(self, name: str) -> "_Folder":
        if name not in self.folders:
            self.folders[name] = _Folder()
            self.members.append((name, self.folders[name]))
        return self.folders[name]


def _tree(outlines: Iterable[Outline]) -> _Folder:
    root = _Folder()
    for outline in outlines:
        folder = root
        for name in filter(None, map(_line, outline.folder[:MAX_FOLDER_DEPTH])):
            folder = folder.subfolder(name)
        folder.members.append(outline)
    return root


def _folder_lines(folder: _Folder, indent: str) -> Iterator[str]:
    for member in folder.members:
        if isinstance(member, Outline):
            yield f"{indent}<outline {_pairs(_source_attributes(member))}/>"
            continue
        name, subfolder = member
        yield f"{indent}<outline {_pairs({'text': name, 'title': name})}>"
        yield from _folder_lines(subfolder, indent + "  ")
        yield f"{indent}</outline>"


def _source_attributes(outline: Outline) -> dict[str, str]:
    """What is written of a source: `type` only for feeds, since it says what `xmlUrl` holds."""
    url = _address(outline.url) or ""
    title = _line(outline.title or "")
    html_url = _address(outline.html_url)
    attributes = {"text": title or _line(masked(url))}
    if title:
        attributes["title"] = title
    if outline.type == SourceType.RSS:
        attributes["type"] = "rss"
    elif outline.type is not None:
        attributes[_SOURCE_TYPE] = outline.type
    attributes["xmlUrl"] = url
    if html_url is not None:
        attributes["htmlUrl"] = html_url
    return attributes


def _pairs(attributes: dict[str, str]) -> str:
    return " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
