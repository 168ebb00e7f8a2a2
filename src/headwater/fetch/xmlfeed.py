"""RSS, RDF, Atom and CDF documents -> drafts of entries (R1, R4, R6; M1, M2)."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from urllib.parse import urljoin

from lxml import etree

from headwater.fetch.dates import parse_date
from headwater.fetch.drafts import (
    MAX_BASE_LENGTH,
    MAX_ENTRIES,
    Draft,
    Reading,
    absolute_link,
    first_ones,
    is_full,
    is_web_url,
    near,
)
from headwater.fetch.fragments import author_text, element_text
from headwater.fetch.repair import FEED_ROOTS, repaired, short_namespaces, windows_characters
from headwater.fetch.storable import MAX_TITLE_LENGTH, storable_line
from headwater.fetch.vocabulary import RDF_ABOUT, XML_BASE, Fact, Meaning, local, meaning
from headwater.fetch.xmlstream import (
    CONTAINERS,
    ENTRIES,
    LARGE_BYTES,
    MAX_CONTAINERS,
    EntryStream,
    has_endless_tag,
    parser_options,
)
from headwater.rules.urls import MAX_URL_LENGTH, url_host

_TITLE, _BODY, _LINK, _ID, _DATE, _AUTHOR, _GROUP, _NOTHING = Fact
_USELESS_LINKS = frozenset(
    {"enclosure", "edit", "edit-media", "replies", "hub", "next", "prev", "search", "license"}
)
_MAX_LINE = 20_000  # characters of an id, a link or a name that are looked at

_HAS_BASE = re.compile(rb"xml:base")  # twice as quick as `in`, for so long a text

Found = tuple[int, etree._Element, bool]  # rank, where, whether it is Atom's


def read_xml(data: bytes, url: str, most: int = MAX_ENTRIES) -> Reading | None:
    """Read a document in UTF-8 that starts with its root; None where that is no feed's."""
    data = windows_characters(data)
    if len(data) > LARGE_BYTES:
        return _read_large(data, url, most)
    root, complete = _tree(data)
    if root is None:
        return None
    reader = _Reader(root, url, has_bases=_HAS_BASE.search(data) is not None)
    elements, are_all = first_ones(_entry_elements(root), most)
    drafts = [reader.draft(element) for element in elements]
    if not drafts and local(root.tag) not in FEED_ROOTS:
        return None
    return Reading(drafts, title=reader.title or None, complete=complete and are_all)


def _read_large(data: bytes, url: str, most: int) -> Reading | None:
    """The same, with no more of the document in memory than an entry."""
    try:
        if not has_endless_tag(data):
            return _read_stream(EntryStream(data, recover=False), data, url, most)
    except etree.XMLSyntaxError:
        pass
    data, closed = repaired(data)
    try:
        reading = _read_stream(EntryStream(data, recover=True), data, url, most)
    except etree.XMLSyntaxError:
        return None
    if reading is not None:
        reading.complete = reading.complete and closed
    return reading


def _read_stream(stream: EntryStream, data: bytes, url: str, most: int) -> Reading | None:
    reader: _Reader | None = None
    drafts: list[Draft] = []
    are_all = True
    has_bases = _HAS_BASE.search(data) is not None
    for element in stream:
        if reader is None:
            reader = _Reader(element.getroottree().getroot(), url, has_bases=has_bases)
        if is_full(drafts, most):
            are_all = False
            break
        if stream.is_long:
            reader.shorten(element)
        drafts.append(reader.draft(element))
    root = stream.root
    if root is None:
        return None
    reader = reader or _Reader(root, url, has_bases=has_bases)
    if not reader.title:
        reader.read_heads(root)  # some come last
    are_all = are_all and not stream.is_cut
    for element in _entry_elements(root) if are_all else ():
        if is_full(drafts, most):
            are_all = False
            break
        drafts.append(reader.draft(element))
    if not drafts and local(root.tag) not in FEED_ROOTS:
        return None
    return Reading(drafts, title=reader.title or None, complete=are_all)


def _tree(data: bytes) -> tuple[etree._Element | None, bool]:
    """Parse; what is ill-formed is repaired first, as the parser would lose text and nesting."""
    root = _parsed(data, recover=False)  # ends at the first error, however many there are
    if root is not None:
        return root, True
    mended, closed = repaired(data)
    return _parsed(mended, recover=True), closed


def _parsed(data: bytes, *, recover: bool) -> etree._Element | None:
    parser = etree.XMLParser(**parser_options(recover=recover))
    try:
        return etree.fromstring(short_namespaces(data), parser)
    except etree.XMLSyntaxError:
        return None


def _entry_elements(root: etree._Element) -> list[etree._Element]:
    if local(root.tag) in ENTRIES:
        return [root]
    found = list(_entries_in(root, MAX_CONTAINERS))
    return found or [
        element
        for element in root.iter("{*}item", "{*}entry")
        if local(root.tag) not in FEED_ROOTS and len(element)
    ]


def _entries_in(container: etree._Element, depth: int) -> Iterator[etree._Element]:
    for child in container:
        name = local(child.tag)
        if name in ENTRIES:
            yield child
        elif name in CONTAINERS and depth:
            yield from _entries_in(child, depth - 1)


class _Reader:
    """Reads the entries of one document; remembers what its element names mean."""

    def __init__(self, root: etree._Element, url: str, *, has_bases: bool) -> None:
        self.url = url
        self.title = ""
        self._site: str | None = None  # where links of RSS start if a relay serves the feed
        self._has_bases = has_bases
        self._meanings: dict[str, Meaning] = {}
        self._people: dict[str, str] = {}  # an author's name is in every entry
        self.read_heads(root)

    def read_heads(self, root: etree._Element) -> None:
        """Learn what is told of the whole, as far as it is there yet."""
        for part in (root, *(child for child in root if local(child.tag) == "channel")):
            self._read_head(part)

    def shorten(self, element: etree._Element) -> None:
        """Cut what nobody reads of a long entry: of ids, links, names, all but the body."""
        for child in element:
            fact, _, _ = self._meanings.get(child.tag) or self._learn(child)
            if fact is not _BODY and len(child.text or "") > _MAX_LINE:
                child.text = (child.text or "")[:_MAX_LINE]

    def draft(self, element: etree._Element) -> Draft:
        """Read one entry in a single walk over its children."""
        found: dict[Fact, list[Found]] = {}
        self._gather(element, found, depth=2)
        for fact, candidates in found.items():
            if len(candidates) > 1:
                if fact is _DATE:
                    candidates.reverse()  # of two that count alike, the later corrects the first
                candidates.sort(key=itemgetter(0))
        ids = found.get(_ID, ())
        return Draft(
            self._id(element, ids),
            _first_text(found.get(_TITLE, ()), short=True),
            self._link(element, found.get(_LINK, ()), ids),
            _first_date(element, found.get(_DATE, ())),
            self._author(found.get(_AUTHOR, ())),
            _first_text(found.get(_BODY, ()), short=False),
        )

    def _read_head(self, channel: etree._Element) -> None:
        for child in channel:
            fact, _, atom = self._meanings.get(child.tag) or self._learn(child)
            if fact is _TITLE and not self.title:
                text = element_text(child, atom=atom, short=True)
                self.title = storable_line(text, MAX_TITLE_LENGTH)
            elif fact is _LINK and not atom and self._site is None:
                site = (child.text or "").strip()
                if is_web_url(site) and len(site) <= MAX_URL_LENGTH:
                    self._site = site if url_host(site) != url_host(self.url) else None
            elif local(child.tag) in ENTRIES:
                break

    def _learn(self, element: etree._Element) -> Meaning:
        told = self._meanings[element.tag] = meaning(element.tag, element.prefix)
        return told

    def _gather(
        self, element: etree._Element, found: dict[Fact, list[Found]], *, depth: int
    ) -> None:
        known = self._meanings.get
        for child in element:
            fact, rank, atom = known(child.tag) or self._learn(child)
            if fact in found:
                found[fact].append((rank, child, atom))
            elif fact is _GROUP:
                if depth:
                    self._gather(child, found, depth=depth - 1)
            elif fact is not _NOTHING:
                found[fact] = [(rank, child, atom)]

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
            if target and (best is None or rank + target[1] < best[0]):
                best = (rank + target[1], child, target[0], atom)
        if best is not None:
            return absolute_link(best[2], self._base(best[1], by_site=not best[3]))
        for _, child, _ in ids:
            text = (child.text or "").strip()
            permanent = child.get("isPermaLink", "").lower() == "true" and "/" in text
            if permanent or is_web_url(text):
                return absolute_link(text, self._base(child, by_site=True))
        return absolute_link(element.get("HREF") or element.get(RDF_ABOUT), self.url)

    def _author(self, found: Sequence[Found]) -> str | None:
        for _, element, _ in found:
            text = element.text or ""
            name = author_text(element) if len(element) else self._people.get(text)
            if name is None:
                name = self._people[text] = author_text(element)
            if name:
                return name
        return None

    def _base(self, element: etree._Element, *, by_site: bool) -> str:
        bases = _bases(element) if self._has_bases else ()
        if bases:
            return _joined(self.url, bases)
        return self._site if by_site and self._site else self.url


def _bases(element: etree._Element) -> tuple[str, ...]:
    """The `xml:base` values that hold for an element, outermost first."""
    steps = [element.get(XML_BASE), *(parent.get(XML_BASE) for parent in element.iterancestors())]
    return tuple(step for step in reversed(steps) if step and len(step) <= MAX_BASE_LENGTH)


def _joined(url: str, bases: tuple[str, ...]) -> str:
    base = url
    for step in bases:  # one by one, because the outer ones are the same for all entries
        base = _step(base, step)
    return base


@lru_cache(maxsize=64)
def _step(base: str, step: str) -> str:
    try:
        return urljoin(near(base), step.strip())
    except ValueError:  # a broken IPv6 host, for one
        return base


def _target(element: etree._Element) -> tuple[str, int] | None:
    """Where a link points and how far it is from being the entry's own; None: not at all."""
    if not element.items():
        target = (element.text or "").strip()
        return (target, 0) if target else None
    relation = (element.get("rel") or "alternate").strip().lower().rpartition("/")[2]
    if relation in _USELESS_LINKS:
        return None
    href = element.get("href") or element.get("HREF")
    kind = element.get("type") or "html"
    distance = (0 if "html" in kind else 1) if relation == "alternate" else 4
    target = href or (element.text or "").strip()
    return (target, distance) if target else None


def _first_text(found: Sequence[Found], *, short: bool) -> str:
    for _, element, atom in found:
        text = element_text(element, atom=atom, short=short)
        if text:
            return text
    return ""


def _first_date(element: etree._Element, found: Sequence[Found]) -> datetime | None:
    for _, child, _ in found:
        text = child.text
        moment = parse_date(text) if text else None
        if moment is not None:
            return moment
    modified = element.get("LASTMOD")  # CDF
    return parse_date(modified) if modified else None
