"""Which element of a feed says what: names and namespaces, matched leniently (R1)."""

from enum import StrEnum


class Fact(StrEnum):
    """What an element inside an entry tells."""

    TITLE = "title"
    BODY = "body"
    LINK = "link"
    ID = "id"
    DATE = "date"
    AUTHOR = "author"
    GROUP = "group"  # has elements that tell facts of the entry
    NOTHING = "nothing"


# A fact, how much the element's word counts (the lowest rank wins), and whether it is Atom's:
# then text follows its `type`, and links are attributes.
Meaning = tuple[Fact, int, bool]

XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"

# Part of the namespace's address -> family; the first that fits.
_FAMILIES = (
    ("w3.org/2005/atom", "atom"),
    ("purl.org/atom", "atom"),
    ("purl.org/dc/terms", "dcterms"),
    ("modules/dcterms", "dcterms"),
    ("purl.org/dc/", "dc"),
    ("dublin_core", "dc"),
    ("modules/content", "content"),
    ("modules/", "other"),  # further modules of RSS 1.0
    ("itunes.com/dtds", "itunes"),
    ("search.yahoo.com/mrss", "media"),
    ("tools.search.yahoo.com", "media"),
    ("schemas/play-podcasts", "googleplay"),
    ("w3.org/1999/xhtml", "xhtml"),
    ("purl.org/rss/", "rss"),
    ("purl.org/net/rss", "rss"),
    ("netscape.com/rdf", "rss"),
    ("netscape.com/publish", "rss"),
    ("userland.com", "rss"),
    ("harvard.edu/tech/rss", "rss"),
    ("harvard.edu/rss", "rss"),
    ("22-rdf-syntax-ns", "rss"),
)
_PREFIXES = {
    "a": "atom", "atom": "atom", "atom10": "atom", "atom03": "atom",
    "dc": "dc", "dcterms": "dcterms", "dct": "dcterms",
    "content": "content", "itunes": "itunes", "media": "media", "googleplay": "googleplay",
    "xhtml": "xhtml", "rss": "rss", "rdf": "rss",
}  # fmt: skip

_SHARED = {  # spelled alike in RSS and Atom
    "title": (Fact.TITLE, 0),
    "link": (Fact.LINK, 0),
    "content": (Fact.BODY, 0),
    "content_encoded": (Fact.BODY, 0),
    "encoded": (Fact.BODY, 0),
    "body": (Fact.BODY, 2),
    "fullitem": (Fact.BODY, 2),
    "summary": (Fact.BODY, 10),
    "description": (Fact.BODY, 10),
    "abstract": (Fact.BODY, 10),
    "tagline": (Fact.BODY, 12),
    "guid": (Fact.ID, 0),
    "id": (Fact.ID, 0),
    "pubdate": (Fact.DATE, 0),
    "published": (Fact.DATE, 0),
    "issued": (Fact.DATE, 0),
    "date": (Fact.DATE, 1),
    "created": (Fact.DATE, 2),
    "updated": (Fact.DATE, 3),
    "modified": (Fact.DATE, 3),
    "author": (Fact.AUTHOR, 0),
    "creator": (Fact.AUTHOR, 0),
}
_WORDS = {
    "rss": {**_SHARED, "a": (Fact.LINK, 3)},  # CDF writes <A HREF="…">
    "atom": _SHARED,
    "dc": {
        "title": (Fact.TITLE, 1),
        "description": (Fact.BODY, 11),
        "identifier": (Fact.ID, 2),
        "date": (Fact.DATE, 1),
        "creator": (Fact.AUTHOR, 1),
        "author": (Fact.AUTHOR, 1),
    },
    "dcterms": {
        "title": (Fact.TITLE, 1),
        "description": (Fact.BODY, 11),
        "abstract": (Fact.BODY, 11),
        "identifier": (Fact.ID, 2),
        "issued": (Fact.DATE, 1),
        "date": (Fact.DATE, 1),
        "available": (Fact.DATE, 1),
        "created": (Fact.DATE, 2),
        "modified": (Fact.DATE, 3),
        "creator": (Fact.AUTHOR, 1),
    },
    "content": {"encoded": (Fact.BODY, 0)},
    "itunes": {
        "title": (Fact.TITLE, 3),
        "summary": (Fact.BODY, 12),
        "subtitle": (Fact.BODY, 14),
        "author": (Fact.AUTHOR, 2),
    },
    "media": {
        "title": (Fact.TITLE, 2),
        "description": (Fact.BODY, 13),
        "group": (Fact.GROUP, 0),
        "content": (Fact.GROUP, 0),
        "player": (Fact.NOTHING, 0),
    },
    "googleplay": {"author": (Fact.AUTHOR, 3), "description": (Fact.BODY, 13)},
    "xhtml": {"body": (Fact.BODY, 1), "div": (Fact.BODY, 3)},
}


def meaning(tag: str, prefix: str | None) -> Meaning:
    """What an element of this name tells, by its namespace or, failing that, its prefix."""
    uri, _, name = tag.rpartition("}")
    if ":" in name:  # the prefix was never declared, so the parser left it in the name
        prefix, _, name = name.partition(":")
    family = _family(uri[1:], prefix)
    fact, rank = _WORDS.get(family, {}).get(name.lower(), (Fact.NOTHING, 0))
    return fact, rank, family == "atom"


def local(tag: str) -> str:
    """The name without namespace or prefix, in lower case."""
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


def _family(uri: str, prefix: str | None) -> str:
    if uri:
        uri = uri.lower()
        for part, family in _FAMILIES:
            if part in uri:
                return family
    if prefix:
        return _PREFIXES.get(prefix.lower(), "other")
    return "rss"  # no namespace, or one of its own for the whole feed
