"""RSS, RDF, Atom and CDF documents to entries (R1, R4, R6; M1, M2)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial, reduce
from itertools import takewhile
from operator import itemgetter
from urllib.parse import urljoin

from lxml import etree

from headwater.fetch.feed.dates import parse_date
from headwater.fetch.feed.element_names import (
    ORIGINAL_LINK,
    RDF_ABOUT,
    XML_BASE,
    ElementMeaning,
    EntryField,
    element_meaning,
    local_name,
)
from headwater.fetch.feed.element_text import LONG_MARKUP, author_text, element_text
from headwater.fetch.feed.entry_metadata import (
    Metadata,
    MetadataReader,
    declared_language,
    language_tag,
)
from headwater.fetch.feed.feed_entries import MAX_ENTRIES, Feed, is_full
from headwater.fetch.feed.xml_repair import (
    FEED_ROOTS,
    repaired,
    windows_characters,
)
from headwater.fetch.feed.xml_stream import (
    CONTAINERS,
    ENTRIES,
    MAX_CONTAINERS,
    EntryStream,
    has_endless_tag,
)
from headwater.fetch.text.markdown_writer import MarkdownWriter
from headwater.fetch.text.sanitize import MAX_TITLE_LENGTH, storable_line
from headwater.fetch.text.web_links import (
    MAX_BASE_LENGTH,
    absolute_link,
    is_web_url,
    short_base,
    web_link,
)
from headwater.model import Entry
from headwater.rules.completeness import completeness
from headwater.rules.urls import MAX_URL_LENGTH, url_host

_TITLE, _BODY, _LINK, _ID, _DATE, _AUTHOR, _METADATA, _GROUP, _NONE = EntryField
_SUMMARY = 10  # the lowest rank of a summary; contents have lower ones
_OTHER_RELATIONS = frozenset(
    {"enclosure", "edit", "edit-media", "replies", "hub", "next", "prev", "search", "license"}
)
_MAX_LINE = 20_000  # characters of an id, a link or a name that are parsed

Found = tuple[int, etree._Element, bool]  # rank, element, whether it is Atom's


def read_xml(
    data: bytes, url: str, max_entries: int = MAX_ENTRIES, since: datetime | None = None
) -> Feed | None:
    """Parse a UTF-8 document that starts with its root element; None if it is not a feed.

    Ill-formed XML is repaired first, since the parser's recovery would lose text and nesting.
    Entries dated before `since` get no Markdown.
    """
    read = partial(_read_entries, url=url, max_entries=max_entries, since=since)
    data = windows_characters(data)
    try:
        if not has_endless_tag(data):
            return read(EntryStream(data, recover=False), data)
    except etree.XMLSyntaxError:  # it ends at the first error, however many there are
        pass
    data, closed = repaired(data)
    try:
        parsed = read(EntryStream(data, recover=True), data)
    except etree.XMLSyntaxError:
        return None
    return parsed and replace(parsed, complete=parsed.complete and closed)


def _read_entries(
    stream: EntryStream, data: bytes, url: str, max_entries: int, since: datetime | None
) -> Feed | None:
    reader: _EntryReader | None = None
    entries: list[Entry] = []
    are_all = True
    for element in stream:
        if reader is None:
            reader = _EntryReader(element.getroottree().getroot(), url, data, since)
        if is_full(entries, max_entries):
            are_all = False
            break
        if stream.is_long:
            reader.shorten(element)
        entries.append(reader.read(element))
    root = stream.root
    if root is None:
        return None
    reader = reader or _EntryReader(root, url, data, since)
    if not reader.title:
        reader.read_heads(root)  # sometimes the head comes last
    are_all = are_all and not stream.is_cut
    for element in _entry_elements(root) if are_all else ():
        if is_full(entries, max_entries):
            are_all = False
            break
        entries.append(reader.read(element))
    if not entries and local_name(root.tag) not in FEED_ROOTS:
        return None
    return Feed(tuple(entries), title=reader.title or None, complete=are_all)


def _entry_elements(root: etree._Element) -> list[etree._Element]:
    if local_name(root.tag) in ENTRIES:
        return [root]
    found = list(_entries_in(root, MAX_CONTAINERS))
    return found or [
        element
        for element in root.iter("{*}item", "{*}entry")
        if local_name(root.tag) not in FEED_ROOTS and len(element)
    ]


def _entries_in(container: etree._Element, depth: int) -> Iterator[etree._Element]:
    for child in container:
        name = local_name(child.tag)
        if name in ENTRIES:
            yield child
        elif name in CONTAINERS and depth:
            yield from _entries_in(child, depth - 1)


class _EntryReader:
    """Reads the entries of one document; caches the meanings of its element names."""

    def __init__(self, root: etree._Element, url: str, data: bytes, since: datetime | None) -> None:
        self.url = url
        self._since = since
        self.title = ""
        self._is_atom = local_name(root.tag) == "feed"
        self._author: str | None = None  # of an Atom feed, inherited by its entries (R6)
        self._site: str | None = None  # base of RSS links if another host serves the feed
        self._has_bases = b"xml:base" in data
        self._language: str | None = None
        self._metadata = MetadataReader()
        self._meanings: dict[str, ElementMeaning] = {}
        self.read_heads(root)

    def read_heads(self, root: etree._Element) -> None:
        """Read title and link of the feed, as far as they are parsed yet."""
        for part in (root, *(child for child in root if local_name(child.tag) == "channel")):
            self._read_head(part)
        if self._is_atom and self._author is None:
            # it may also be named after the entries
            for children in (root.iterchildren(), root.iterchildren(reversed=True)):
                head = takewhile(lambda child: local_name(child.tag) not in ENTRIES, children)
                self._author = self._author or self._author_among(head)

    def shorten(self, element: etree._Element) -> None:
        """Cut long texts of an entry, such as ids, links and names, but not the body."""
        for child in element:
            field, _, _ = self._meanings.get(child.tag) or self._look_up(child)
            if field is not _BODY and len(child.text or "") > _MAX_LINE:
                child.text = (child.text or "")[:_MAX_LINE]

    def read(self, element: etree._Element) -> Entry:
        """Read one entry in a single walk over its children."""
        found: dict[EntryField, list[Found]] = {}
        self._gather(element, found, depth=2)
        for field, candidates in found.items():
            if len(candidates) > 1:
                if field is _DATE:
                    candidates.reverse()  # of equal rank, the later one is the correction
                candidates.sort(key=itemgetter(0))
        ids = found.get(_ID, ())
        link = self._link(element, found.get(_LINK, ()), ids)
        date = _first_date(element, found.get(_DATE, ()))
        is_seen = self._since is not None and date is not None and date < self._since
        rank, body, markdown = self._body(found.get(_BODY, ()), link, is_seen=is_seen)
        return Entry(
            self._id(element, ids),
            _first_title(found.get(_TITLE, ())),
            link,
            date,
            _first_author(each for _, each, _ in found.get(_AUTHOR, ()))
            or self._inherited_author(element),
            body,
            None,
            link is not None,
            markdown,
            *self._read_metadata(element, found, link),
            completeness(body, has_content=rank < _SUMMARY, has_text=bool(body)),
        )

    def _body(
        self, found: Sequence[Found], link: str | None, *, is_seen: bool
    ) -> tuple[int, str, str | None]:
        """The rank, plain text and Markdown of the first body that is not empty."""
        for rank, element, atom in found:
            markdown = None if is_seen else self._markdown_writer(element, link)
            if text := element_text(element, atom=atom, short=False, markdown=markdown):
                return rank, text, None if markdown is None else markdown.finish_for(text)
        return _SUMMARY, "", ""

    def _markdown_writer(self, element: etree._Element, link: str | None) -> MarkdownWriter:
        has_base = self._has_bases and bool(_bases(element))
        base = self._base(element, by_site=True) if has_base or link is None else link
        length = len(element.text or "") if not len(element) else LONG_MARKUP
        return MarkdownWriter(base, length=length)

    def _read_metadata(
        self, entry: etree._Element, found: dict[EntryField, list[Found]], link: str | None
    ) -> Metadata:
        elements = [each for _, each, _ in found.get(_METADATA, ())]
        for _, each, atom in found.get(_LINK, ()):
            if atom and each.get("rel") == "enclosure":
                elements.append(each)
        language = declared_language(entry) or self._language
        if not elements:
            return Metadata(language=language)
        return self._metadata.xml(elements, link or self.url, language)

    def _read_head(self, channel: etree._Element) -> None:
        self._language = self._language or declared_language(channel)
        for child in channel:
            field, _, atom = self._meanings.get(child.tag) or self._look_up(child)
            if field is _TITLE and not self.title:
                text = element_text(child, atom=atom, short=True)
                self.title = storable_line(text, MAX_TITLE_LENGTH)
            elif field is _LINK and not atom and self._site is None:
                site = (child.text or "").strip()
                if is_web_url(site) and len(site) <= MAX_URL_LENGTH:
                    self._site = site if url_host(site) != url_host(self.url) else None
            elif local_name(child.tag) == "language":
                self._language = language_tag(child.text) or self._language
            elif local_name(child.tag) in ENTRIES:
                break

    def _inherited_author(self, entry: etree._Element) -> str | None:
        """The author of the feed that an Atom entry was copied from, else of this one (R6)."""
        if not self._is_atom:
            return None
        origin = entry.find("{*}source")
        return (self._author_among(origin) if origin is not None else None) or self._author

    def _author_among(self, elements: Iterable[etree._Element]) -> str | None:
        return _first_author(each for each in elements if self._look_up(each)[0] is _AUTHOR)

    def _look_up(self, element: etree._Element) -> ElementMeaning:
        meaning = self._meanings[element.tag] = element_meaning(element.tag, element.prefix)
        return meaning

    def _gather(
        self, element: etree._Element, found: dict[EntryField, list[Found]], *, depth: int
    ) -> None:
        known = self._meanings.get
        for child in element:
            field, rank, atom = known(child.tag) or self._look_up(child)
            if field in found:
                found[field].append((rank, child, atom))
            elif field is _GROUP:
                if child.get("url"):  # a file of Media RSS
                    found.setdefault(_METADATA, []).append((1, child, atom))
                if depth:
                    self._gather(child, found, depth=depth - 1)
            elif field is not _NONE:
                found[field] = [(rank, child, atom)]

    def _id(self, element: etree._Element, ids: Sequence[Found]) -> str | None:
        for _, child, atom in ids:
            text = (child.text or "").strip()
            if not text:
                continue
            if self._has_bases and atom and _bases(child):
                return absolute_link(text, self._base(child, by_site=False)) or text
            return text
        return element.get(RDF_ABOUT)

    def _link(
        self, element: etree._Element, links: Sequence[Found], ids: Sequence[Found]
    ) -> str | None:
        best: tuple[int, etree._Element, str, bool] | None = None
        for rank, child, atom in links:
            target = _target(child)
            if rank == ORIGINAL_LINK and not is_web_url((child.text or "").strip()):
                continue
            if target is not None and not target[0] and not (self._has_bases and _bases(child)):
                continue  # it refers to the feed itself
            if target and (best is None or rank + target[1] < best[0]):
                best = (rank + target[1], child, target[0], atom)
        if best is not None:
            base = self._base(best[1], by_site=not best[3])
            return web_link(best[2] or base, base)
        for _, child, _ in ids:
            text = (child.text or "").strip()
            permanent = child.get("isPermaLink", "").lower() == "true" and "/" in text
            if permanent or is_web_url(text):
                return web_link(text, self._base(child, by_site=True))
        return web_link(element.get("HREF") or element.get(RDF_ABOUT), self.url)

    def _base(self, element: etree._Element, *, by_site: bool) -> str:
        bases = _bases(element) if self._has_bases else ()
        if bases:
            # one by one: the outer ones are the same for all entries, and cached
            return reduce(_step, bases, self.url)
        return self._site if by_site and self._site else self.url


def _bases(element: etree._Element) -> tuple[str, ...]:
    """The `xml:base` values that apply to an element, outermost first."""
    steps = [element.get(XML_BASE), *(parent.get(XML_BASE) for parent in element.iterancestors())]
    return tuple(step for step in reversed(steps) if step and len(step) <= MAX_BASE_LENGTH)


@lru_cache(maxsize=64)
def _step(base: str, step: str) -> str:
    try:
        return urljoin(short_base(base), step.strip())
    except ValueError:  # such as a broken IPv6 host
        return base


def _target(element: etree._Element) -> tuple[str, int] | None:
    """The target of a link and its rank (0: the entry's own page); None: some other link.

    An empty target is that of an empty `href`.
    """
    if not element.items():
        target = (element.text or "").strip()
        return (target, 0) if target else None
    relation = (element.get("rel") or "alternate").strip().lower().rpartition("/")[2]
    if relation in _OTHER_RELATIONS:
        return None
    href = element.get("href", element.get("HREF"))
    kind = element.get("type") or "html"
    distance = (0 if "html" in kind else 1) if relation == "alternate" else 4
    target = href or (element.text or "").strip()
    return (target, distance) if target or href is not None else None


def _first_author(elements: Iterable[etree._Element]) -> str | None:
    for element in elements:
        if name := author_text(element):
            return name
    return None


def _first_title(found: Sequence[Found]) -> str:
    for _, element, atom in found:
        if text := element_text(element, atom=atom, short=True):
            return text
    return ""


def _first_date(element: etree._Element, found: Sequence[Found]) -> datetime | None:
    for _, child, _ in found:
        if child.text and (date := parse_date(child.text)):
            return date
    return parse_date(element.get("LASTMOD", ""))  # of CDF
