"""Maps element names and namespaces of feeds to fields of an entry, leniently (R1)."""

from enum import StrEnum


class EntryField(StrEnum):
    """The field of an entry that an element holds."""

    TITLE = "title"
    BODY = "body"
    LINK = "link"
    ID = "id"
    DATE = "date"
    AUTHOR = "author"
    METADATA = "metadata"  # T2
    GROUP = "group"  # contains elements with fields of the entry
    NONE = "none"


# A field, the rank of the element (the lowest wins), and whether it is Atom's: then text depends on
# its `type`, and links are attributes.
ElementMeaning = tuple[EntryField, int, bool]

XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"

# Family -> parts of the namespaces' URIs; the first match wins.
_FAMILIES = {
    "atom": "w3.org/2005/atom purl.org/atom",
    "dcterms": "purl.org/dc/terms modules/dcterms",
    "dc": "purl.org/dc/ dublin_core",
    "content": "modules/content",
    "other": "modules/",  # further modules of RSS 1.0
    "itunes": "itunes.com/dtds",
    "media": "search.yahoo.com/mrss tools.search.yahoo.com",
    "googleplay": "schemas/play-podcasts",
    "redirector": "rssnamespace.org/feedburner pheedo.com/namespace",
    "xhtml": "w3.org/1999/xhtml",
    "rss": "purl.org/rss/ purl.org/net/rss netscape.com/rdf netscape.com/publish userland.com "
    "harvard.edu/tech/rss harvard.edu/rss 22-rdf-syntax-ns",
}
_PREFIXES = {
    "a": "atom", "atom": "atom", "atom10": "atom", "atom03": "atom",
    "dc": "dc", "dcterms": "dcterms", "dct": "dcterms",
    "content": "content", "itunes": "itunes", "media": "media", "googleplay": "googleplay",
    "feedburner": "redirector", "pheedo": "redirector",
    "xhtml": "xhtml", "rss": "rss", "rdf": "rss",
}  # fmt: skip

_TITLE, _BODY, _LINK, _ID, _DATE, _AUTHOR, _METADATA, _GROUP, _NONE = EntryField
ORIGINAL_LINK = -1  # rank of the publisher's own link, where others count clicks
_Names = dict[tuple[EntryField, int], str]  # field and rank -> element names
_SHARED: _Names = {  # the same in RSS and Atom
    (_TITLE, 0): "title",
    (_LINK, 0): "link",
    (_BODY, 0): "content content_encoded encoded",
    (_BODY, 2): "body fullitem",
    (_BODY, 10): "description",
    (_BODY, 11): "summary abstract",
    (_BODY, 13): "tagline",
    (_ID, 0): "guid id",
    (_DATE, 0): "pubdate published issued",
    (_DATE, 1): "date",
    (_DATE, 2): "created",
    (_DATE, 3): "updated modified",
    (_AUTHOR, 0): "author creator",
    (_METADATA, 0): "enclosure category language image",
}
_DUBLIN_CORE: _Names = {
    (_TITLE, 1): "title",
    (_BODY, 12): "description",
    (_ID, 2): "identifier",
    (_DATE, 1): "date",
    (_AUTHOR, 1): "creator",
    (_METADATA, 1): "subject language",
}
_DUBLIN_CORE_TERMS: _Names = {
    (_BODY, 12): "description abstract",
    (_DATE, 1): "date issued available",
    (_DATE, 2): "created",
    (_DATE, 3): "modified",
}
_NAMES: dict[str, _Names] = {
    "rss": {**_SHARED, (_LINK, 3): "a"},  # CDF writes <A HREF="…">
    "atom": _SHARED,
    "dc": {**_DUBLIN_CORE, (_AUTHOR, 1): "creator author"},
    "dcterms": {**_DUBLIN_CORE, **_DUBLIN_CORE_TERMS},
    "content": {(_BODY, 0): "encoded"},
    "itunes": {
        (_TITLE, 3): "title",
        (_BODY, 13): "summary",
        (_BODY, 15): "subtitle",
        (_AUTHOR, 2): "author",
        (_METADATA, 2): "image",
    },
    "media": {
        (_TITLE, 2): "title",
        (_BODY, 14): "description",
        (_METADATA, 1): "thumbnail",
        (_GROUP, 0): "group content",
    },
    "googleplay": {(_AUTHOR, 3): "author", (_BODY, 14): "description"},
    "redirector": {(_LINK, ORIGINAL_LINK): "origlink"},
    "xhtml": {(_BODY, 1): "body", (_BODY, 3): "div"},
}
_MEANINGS = {
    (family, name): meaning
    for family, meanings in _NAMES.items()
    for meaning, names in meanings.items()
    for name in names.split()
}


def element_meaning(tag: str, prefix: str | None) -> ElementMeaning:
    """The meaning of an element by its namespace or, without one, its prefix."""
    uri, _, name = tag.rpartition("}")
    if ":" in name:  # the prefix was never declared, so the parser left it in the name
        prefix, _, name = name.partition(":")
    family = _family(uri[1:], prefix)
    field, rank = _MEANINGS.get((family, name.lower()), (_NONE, 0))
    return field, rank, family == "atom"


def local_name(tag: str) -> str:
    """The name without namespace or prefix, in lower case."""
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


def _family(uri: str, prefix: str | None) -> str:
    if uri:
        uri = uri.lower()
        for family, parts in _FAMILIES.items():
            if any(part in uri for part in parts.split()):
                return family
    if prefix:
        return _PREFIXES.get(prefix.lower(), "other")
    return "rss"  # no namespace, or one of its own for the whole feed
