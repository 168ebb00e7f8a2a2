"""Metadata of entries: enclosures, categories, language and image (T2)."""

from collections.abc import Iterable
from typing import NamedTuple

from lxml import etree

from headwater.fetch.feed.element_names import local_name
from headwater.fetch.text.html_to_text import decoded_line
from headwater.fetch.text.sanitize import storable_line
from headwater.fetch.text.web_links import web_link
from headwater.model import Enclosure

MAX_ENCLOSURES = 16
MAX_CATEGORIES = 32
MAX_VALUES = 50_000  # enclosures and categories of one document (H1)
_MAX_CATEGORY_LENGTH = 200
_MAX_TYPE_LENGTH = 100
_MAX_LANGUAGE_LENGTH = 35  # of a language tag
_MAX_LENGTH_DIGITS = 15
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_IMAGE_FILES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".svg")


class Metadata(NamedTuple):
    """The metadata of one entry."""

    enclosures: tuple[Enclosure, ...] = ()
    categories: tuple[str, ...] = ()
    language: str | None = None
    image_url: str | None = None


NO_METADATA = Metadata()


class MetadataReader:
    """Reads the metadata of the entries of one document, within a limit for all of them."""

    def __init__(self) -> None:
        self._values_left = MAX_VALUES

    def xml(self, elements: Iterable[etree._Element], base: str, language: str | None) -> Metadata:
        """The metadata in elements of an entry; `language` is the feed's."""
        enclosures: dict[str, Enclosure] = {}
        categories: dict[str, None] = {}
        images: list[str] = []
        for element in elements:
            name = local_name(element.tag)
            if name in ("category", "subject"):
                text = element.get("label") or element.get("term") or element.text or ""
                add_category(categories, text)
            elif name == "language":
                language = language_tag(element.text) or language
            elif name in ("image", "thumbnail"):
                images.append(element.get("href") or element.get("url") or _image_text(element))
            else:
                found = _enclosure(element, base)
                if found is not None:
                    enclosures.setdefault(found.url, found)
        return self.limited(enclosures, categories, language, images, base)

    def limited(
        self,
        enclosures: dict[str, Enclosure],
        categories: dict[str, None],
        language: str | None,
        images: Iterable[str],
        base: str,
    ) -> Metadata:
        """The metadata within the limits; the first image is the entry's."""
        pictures = (each.url for each in enclosures.values() if _is_picture(each))
        links = (web_link(each, base) for each in (*images, *pictures))
        image_url = next(filter(None, links), None)
        if not enclosures and not categories:
            return Metadata((), (), language, image_url)
        self._values_left -= len(enclosures) + len(categories)
        if self._values_left < 0:
            return Metadata((), (), language, image_url)
        return Metadata(
            tuple(enclosures.values())[:MAX_ENCLOSURES],
            tuple(categories)[:MAX_CATEGORIES],
            language,
            image_url,
        )


def add_category(categories: dict[str, None], text: str) -> None:
    """Add a category unless it is empty or known."""
    if len(categories) < MAX_CATEGORIES:
        line = storable_line(decoded_line(text[: 4 * _MAX_CATEGORY_LENGTH]), _MAX_CATEGORY_LENGTH)
        if line:
            categories[line] = None


def enclosure(url: str | None, kind: str | None, length: str | None, base: str) -> Enclosure | None:
    """An enclosure; None without an http(s) URL."""
    link = web_link(url, base)
    if link is None:
        return None
    digits = (length or "").strip()
    size = int(digits) if digits.isdecimal() and len(digits) <= _MAX_LENGTH_DIGITS else None
    return Enclosure(link, storable_line(kind or "", _MAX_TYPE_LENGTH).lower() or None, size)


def language_tag(text: str | None) -> str | None:
    """A language such as `en-GB`; None for anything else."""
    if not text:
        return None
    tag = text[:100].strip().replace("_", "-")
    if not tag or len(tag) > _MAX_LANGUAGE_LENGTH or not tag.isascii():
        return None
    return tag if tag.replace("-", "").isalnum() and tag[0].isalpha() else None


def declared_language(element: etree._Element) -> str | None:
    """The `xml:lang` of an element."""
    return language_tag(element.get(_XML_LANG))


def _enclosure(element: etree._Element, base: str) -> Enclosure | None:
    url = element.get("url") or element.get("href")
    kind = element.get("type") or _medium(element)
    return enclosure(url, kind, element.get("length") or element.get("fileSize"), base)


def _medium(element: etree._Element) -> str | None:
    """The first part of a media type, as Media RSS gives it."""
    medium = (element.get("medium") or "").strip()
    return f"{medium}/*" if medium in ("image", "audio", "video") else None


def _image_text(element: etree._Element) -> str:
    """The URL of an image in its text, or in a child element `url`."""
    child = next((each for each in element if local_name(each.tag) == "url"), element)
    return (child.text or "").strip()


def _is_picture(found: Enclosure) -> bool:
    if found.type:
        return found.type.startswith("image/")
    return found.url.lower().partition("?")[0].endswith(_IMAGE_FILES)
