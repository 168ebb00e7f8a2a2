"""XML documents that explode, nest, reference files, or are malformed."""

from collections.abc import Callable
from functools import cache

from tests.hostile.documents import GOOD, good, item, numbered, rss
from tests.hostile.exchange import Exchange, answer
from tests.hostile.table import Failed, ObservedRequests, Stored, Unchanged, row

KEPT = Stored(1, (GOOD,))
NO_FEED = Failed("parse")
REFUSED = Failed("too expensive")
FULL = 9_900_000  # bytes, of the 10,485,760 that a body may have
HEAVY = {"heavy": True}


def xml(document: str | bytes | Callable[[], bytes]):
    """Serve a document; one that takes time is created when it is requested."""

    def talk(_: Exchange) -> bytes:
        body = document() if callable(document) else document
        return answer(body if isinstance(body, bytes) else body.encode())

    return talk


def one_request(sight: ObservedRequests) -> bool:
    """No URL in the document was fetched."""
    return len(sight.requests) == 1 and not sight.elsewhere


def reaching_out(opening: str, inner: str):
    """A document that references its own second host, where every visit is recorded."""

    def talk(ex: Exchange) -> bytes:
        return answer(rss(inner.replace("OTHER", ex.other), good(),
                          before=opening.replace("OTHER", ex.other)))  # fmt: skip

    return talk


def laughs(depth: int, width: int) -> str:
    """Entities made of entities."""
    lines = ['<!ENTITY a0 "ha">']
    lines += [f'<!ENTITY a{n + 1} "{f"&a{n};" * width}">' for n in range(depth)]
    return "<?xml version='1.0'?><!DOCTYPE rss [" + "".join(lines) + "]>"


BILLION = rss(item("&a9;", "x").replace("&amp;", "&"), good(), before=laughs(9, 10))
FILE_ENTITY = "<!DOCTYPE rss [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>"


@cache
def quadratic() -> bytes:
    opening = f"<!DOCTYPE rss [<!ENTITY q '{'q' * 100_000}'>]>"
    return rss(f"<item><title>{'&q;' * 100_000}</title></item>", good(), before=opening)


@cache
def deep() -> bytes:
    return rss(good(), "<item><description>" + "<div>" * 200_000 + "x" + "</div>" * 200_000)


@cache
def deep_items() -> bytes:
    return rss(good(), "<item>" * 99_999)


@cache
def attributes() -> bytes:
    several = " ".join(f'a{n}="x"' for n in range(100_000))
    return rss(good(), f"<item {several}><title>Many</title></item>")


@cache
def same_attribute() -> bytes:
    return rss(good(), "<item" + ' a="x"' * 100_000 + "><title>Many</title></item>")


@cache
def namespaces() -> bytes:
    several = " ".join(f'xmlns:n{n}="urn:{n}"' for n in range(100_000))
    return rss(good(), f"<item {several}><title>Many</title></item>")


@cache
def nested_namespaces() -> bytes:
    opened = "".join(f'<n{n}:a xmlns:n{n}="urn:{n}">' for n in range(20_000))
    return rss(good(), f"<item>{opened}")


def token(opening: str, letter: str, closing: str) -> Callable[[], bytes]:
    """A feed with one token of 8 MB behind a good entry."""
    return cache(lambda: rss(good(), opening + letter * 8_000_000 + closing))


def crowd(
    piece: str, times: int, opening: str = "", closing: str = "", *, first: str | None = None
) -> Callable[[], bytes]:
    """A feed that repeats a piece of markup very often, after a good entry or another."""
    return cache(lambda: rss(good() if first is None else first, opening, piece * times, closing))


def full(piece: str | bytes, opening: str = "", closing: str = "") -> Callable[[], bytes]:
    """A feed of nearly 10 MB that repeats one piece, after a good entry."""

    def document() -> bytes:
        one = piece if isinstance(piece, bytes) else piece.encode()
        return rss(good(), opening, one * (FULL // len(one)), closing)

    return cache(document)


def wide(document: Callable[[], bytes]) -> Callable[[], bytes]:
    """The same in UTF-16, half as often."""
    return lambda: document()[: FULL // 2].decode().encode("utf-16")


def many(pieces: Callable[[int], str], opening: str = "", closing: str = "", times: int = 10**6):
    """A feed of nearly 10 MB whose pieces all differ, after a good entry."""

    def document() -> bytes:
        inner = "".join(map(pieces, range(times)))[:FULL]
        return rss(good(), opening, inner[: inner.rindex(pieces(0)[0])], closing)

    return cache(document)


def in_two_parts(ex: Exchange) -> bytes:
    """Truncated at the first visit, complete at the second."""
    whole = rss(*(item(f"Entry {n}", f"Body {n}") for n in range(3)))
    return answer(whole[: whole.index(b"Entry 2") + 5] if ex.number == 1 else whole, 'ETag: "1"')


BODY = "<item><title>L</title><description>"
BODY_END = "</description></item>"
WORD = f"<b>{'x' * 28}</b>"
TEXT_AND_TAIL = "<b>xxxxxxxxxxxxxx</b>yyyyyyyyyyyyyy"
LETTERS = " ".join(f'{letter}=""' for letter in "abcdefghijklmnopqrstuvwxyz")

ROWS = (
    row("billion laughs", "M1 M2", xml(BILLION), Stored(2, (GOOD,)), **HEAVY),
    row("quadratic blow-up", "M1 M2", xml(quadratic),
        Stored(2, (GOOD,)), **HEAVY),
    row("entity of a file", "M1",
        xml(rss(item("T", "&x;").replace("&amp;", "&"), good(), before=FILE_ENTITY)),
        Stored(2, (GOOD,)), secrets=("root:x:",)),
    row("entity of another host", "M1 N15",
        reaching_out("<!DOCTYPE rss [<!ENTITY x SYSTEM 'OTHER/entity'>]>",
                     "<item><title>T</title><description>&x;</description></item>"),
        Stored(2, (GOOD,)), elsewhere=True, sight=one_request),
    row("dtd of another host", "M1 N15", reaching_out("<!DOCTYPE rss SYSTEM 'OTHER/dtd'>", ""),
        KEPT, elsewhere=True, sight=one_request),
    row("parameter entity of another host", "M1 N15",
        reaching_out("<!DOCTYPE rss [<!ENTITY % p SYSTEM 'OTHER/p'> %p;]>", ""),
        KEPT, elsewhere=True, sight=one_request),
    row("xinclude", "M1 N15",
        reaching_out("", "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='OTHER/x'/>"),
        KEPT, elsewhere=True, sight=one_request),
    row("stylesheet of another host", "M1 N15",
        reaching_out("<?xml version='1.0'?><?xml-stylesheet href='OTHER/x.xsl'?>", ""),
        KEPT, elsewhere=True, sight=one_request),
    row("schema of another host", "M1 N15",
        reaching_out("", "<x xmlns:i='http://www.w3.org/2001/XMLSchema-instance' "
                         "i:schemaLocation='urn:x OTHER/x.xsd'/>"),
        KEPT, elsewhere=True, sight=one_request),
    row("hub, next page, image and icon", "N15",
        reaching_out("", "<image><url>OTHER/i.png</url></image><cloud domain='OTHER'/>"
                         "<link rel='hub' href='OTHER/hub' xmlns='http://www.w3.org/2005/Atom'/>"
                         "<link rel='next' href='OTHER/2' xmlns='http://www.w3.org/2005/Atom'/>"),
        KEPT, elsewhere=True, sight=one_request),
    row("enclosures of another host", "N15",
        reaching_out("", "<item><title>E</title><enclosure url='OTHER/a.mp3' length='9'/></item>"),
        Stored(2, (GOOD,)), elsewhere=True, sight=one_request),
    row("doctype alone", "M1", xml(rss(good(), before="<!DOCTYPE rss>")), KEPT),
    row("200,000 levels", "M2", xml(deep), Stored(2, (GOOD,)), **HEAVY),
    row("99,999 items inside each other", "M2", xml(deep_items), Stored(1, (GOOD,)), **HEAVY),
    row("100,000 attributes", "M2", xml(attributes), Stored(2, (GOOD,)), **HEAVY),
    row("one attribute 100,000 times", "M2", xml(same_attribute), Stored(2, (GOOD,)), **HEAVY),
    row("100,000 namespaces", "M2", xml(namespaces), Stored(2, (GOOD,)), **HEAVY),
    row("20,000 nested namespaces", "M2", xml(nested_namespaces), Stored(1, (GOOD,)), **HEAVY),
    row("name of 8 MB", "M2", xml(token("<", "n", "/>")), KEPT, **HEAVY),
    row("attribute of 8 MB", "M2", xml(token('<x a="', "v", '"/>')), KEPT, **HEAVY),
    row("comment of 8 MB", "M2", xml(token("<!--", "c", "-->")), KEPT, **HEAVY),
    row("instruction of 8 MB", "M2", xml(token("<?x ", "p", "?>")), KEPT, **HEAVY),
    row("cdata of 8 MB", "M2", xml(token("<item><title>L</title><description><![CDATA[", "d",
                                         "]]></description></item>")),
        Stored(2, (GOOD, {"title": "L", "body": lambda b: len(b) == 8_000_000})), **HEAVY),
    row("cdata that never ends", "M2 R1", xml(token("<item><title><![CDATA[", "d", "")),
        Stored(2, (GOOD,)), **HEAVY),
    row("xml comment that never ends", "M2 R1", xml(token("<!--", "c", "")), KEPT, **HEAVY),
    row("100,000 empty elements", "M2", xml(crowd("<a/>", 100_000)), KEPT, **HEAVY),
    row("a million empty elements", "M2 H1", xml(crowd("<a/>", 1_000_000)), KEPT, **HEAVY),
    row("2.5 million empty elements", "M2 H1", xml(full("<a/>")), KEPT, **HEAVY),
    row("2 million elements and texts", "M2 H1", xml(full("x<a/>")), KEPT, **HEAVY),
    row("2 million elements and texts in an entry", "M2 H1",
        xml(full("x<a/>", BODY, BODY_END)), KEPT, **HEAVY),
    row("2 million elements, cut off", "M2 H1 R1",
        xml(lambda: full("x<a/>")()[:-20]), KEPT, **HEAVY),
    row("a million elements in utf-16", "M2 H1", xml(wide(full("x<a/>"))), KEPT, **HEAVY),
    row("a million elements with an attribute", "M2 H1", xml(full('<a b=""/>')), KEPT, **HEAVY),
    row("2 million attributes", "M2 H1", xml(full(f"<a {LETTERS}/>")), KEPT, **HEAVY),
    row("a million attributes of one element", "M2 H1",
        xml(many(lambda n: f' a{n:x}=""', "<a", "/>")), KEPT, **HEAVY),
    row("700,000 namespaces", "M2 H1", xml(full('<a xmlns="b"/>')), KEPT, **HEAVY),
    row("half a million prefixes", "M2 H1",
        xml(many(lambda n: f'<a xmlns:a="u{n:x}"/>')), KEPT, **HEAVY),
    row("a million names", "M2 H1", xml(many(lambda n: f"<a{n:x}/>")), KEPT, **HEAVY),
    row("1.4 million comments", "M2 H1", xml(full("<!---->")), KEPT, **HEAVY),
    row("2 million instructions", "M2 H1", xml(full("<?x?>")), KEPT, **HEAVY),
    row("700,000 sections of cdata", "M2 H1", xml(full("x<![CDATA[]]>")), KEPT, **HEAVY),
    row("2.5 million tags in cdata", "M2 H1",
        xml(full("<b>x", BODY + "<![CDATA[", "]]>" + BODY_END)),
        Stored(2, (GOOD, {"title": "L", "body": lambda body: len(body) == FULL // 4})), **HEAVY),
    row("9 MB of words, one character wide", "M2 H1",
        xml(full("ab\n", BODY + "\U0001f600", BODY_END)), Stored(2, (GOOD,)), **HEAVY),
    row("9 MB of marked-up words, one character wide", "M2 H1",
        xml(full("ab<em>", BODY + "<![CDATA[&amp;\U0001f600", "]]>" + BODY_END)),
        Stored(2, (GOOD,)), **HEAVY),
    row("link of 9 MB", "M8 H1",
        xml(full("ab\n", "<item><title>L</title><link>\U0001f600", "</link></item>")),
        Stored(2, (GOOD,)), **HEAVY),
    row("1.4 million entries", "M8 H1", xml(full("<item/>")), KEPT, **HEAVY),
    row("too many elements in the first entry", "M2 H1",
        xml(crowd("x<a/>", 1_500_000, BODY, first="")), REFUSED, **HEAVY),
    row("as many marked-up words as are read", "M2 H1",
        xml(crowd(WORD, 173_000, BODY + "\U0001f600", BODY_END)), Stored(2, (GOOD,)), **HEAVY),
    row("as many words between marks as are read, ill-formed", "M2 H1 R1",
        xml(crowd(TEXT_AND_TAIL, 133_000, BODY + "\U0001f600 & ", BODY_END)),
        Stored(2, (GOOD,)), **HEAVY),
    row("as many marked-up words as are read, among others", "M2 H1",
        xml(crowd(WORD, 80_000, BODY + "\U0001f600", "ab " * 1_900_000 + BODY_END)),
        Stored(2, (GOOD,)), **HEAVY),
    row("cdata longer than the parser takes", "M2 H1 R1",
        xml(crowd("ab ", 3_400_000, BODY + "<![CDATA[", "]]>" + BODY_END)),
        Stored(2, (GOOD,)), **HEAVY),
    row("2 million open angles", "M2 R1", xml(crowd("<", 2_000_000)), KEPT, **HEAVY),
    row("2 million ampersands", "M2 R1", xml(crowd("&", 2_000_000)), KEPT, **HEAVY),
    row("half a million unknown entities", "M2 R1",
        xml(crowd("&whatever;", 500_000)), KEPT, **HEAVY),
    row("300,000 open tags", "M2 R1", xml(crowd("<b>", 300_000)), KEPT, **HEAVY),
    row("300,000 end tags of nothing", "M2 R1", xml(crowd("</b>", 300_000)), KEPT, **HEAVY),
    row("300,000 instructions", "M2", xml(crowd("<?x y?>", 300_000)), KEPT, **HEAVY),
    row("small but deep", "M2 H2", xml(rss(good(), "<item>" + "<b>" * 20_000)), Stored(1, (GOOD,))),
    row("small but full of angles", "M2 H2", xml(rss(good(), "<" * 60_000)), KEPT),
    row("small but full of entities", "M2 H2", xml(rss(good(), "&x" * 30_000)), KEPT),
    row("small but all attributes", "M2 H2", xml(rss(good(), "<a" + " b=" * 20_000)), KEPT),
    row("small but all items", "M2 H2",
        xml(rss("<item><title>x<title>" * 1500, good())), Stored(2)),
    row("cut off, then whole", "R1", in_two_parts, Stored(3), Stored(1)),
    row("cut off in the root's tag", "R1", xml(b'<rss version="2.'), NO_FEED),
    row("cut off behind the root's tag", "R1", xml(b'<rss version="2.0">'), Unchanged()),
    row("cut off in a character", "R1 M6",
        xml(rss(good(), item("Grün", "Grün")).partition("ü".encode())[0] + "ü".encode()[:1]),
        Stored(2, (GOOD,))),
    row("html entities", "R1", xml(rss("<item><title>a&nbsp;b &euro;</title></item>")),
        Stored(1, ({"title": "a b €"},))),
    row("undeclared prefix", "R1",
        xml(rss("<item><title>T</title><content:encoded>Text</content:encoded></item>")),
        Stored(1, ({"title": "T", "body": "Text"},))),
    row("attribute twice", "R1", xml(rss(good(), '<x a="1" a="2"/>')), KEPT),
    row("attribute without quotes", "R1", xml(rss(good(), "<x a=1/>")), KEPT),
    row("junk before the root", "R1", xml(b"\r\n  Warning: mysql_connect()\n" + rss(good())), KEPT),
    row("junk behind the root", "R1", xml(rss(good()) + b"<script>alert(1)</script>"), KEPT),
    row("two roots", "R1", xml(rss(good()) + rss(item("Second", "Second"))), KEPT),
    row("three byte order marks", "R1", xml(b"\xef\xbb\xbf" * 3 + rss(good())), KEPT),
    row("utf-16 without a mark", "R1", xml(rss(good()).decode().encode("utf-16-le")), KEPT),
    row("utf-32", "R1", xml(rss(good()).decode().encode("utf-32")), KEPT),
    row("ebcdic", "R1",
        xml(rss(good(), before="<?xml version='1.0'?>").decode().encode("cp037")), KEPT),
    row("false declaration", "R1",
        xml(rss(item("Grün"), before="<?xml version='1.0' encoding='utf-16'?>")),
        Stored(1, ({"title": "Grün"},))),
    row("declaration of an unknown encoding", "R1",
        xml(rss(good(), before="<?xml version='1.0' encoding='klingon'?>")), KEPT),
    row("a page instead of a feed", "R1", xml("<!doctype html><html><body>Hi</body></html>"),
        NO_FEED),
    row("some other xml", "R1", xml("<inventory><part>1</part></inventory>"), NO_FEED),
    row("plain text", "R1", xml("This is not a feed at all."), NO_FEED),
    row("blanks", "R1", xml(" \n" * 100_000), NO_FEED),
    row("nul bytes only", "R1", xml(b"\0" * 100_000), NO_FEED),
    row("a path instead of a document", "M3", xml("/etc/passwd"), NO_FEED, secrets=("root:x:",)),
    row("a url instead of a document", "M3 N15",
        lambda ex: answer(f"{ex.other}/feed".encode()), NO_FEED, elsewhere=True,
        sight=one_request),
    row("feed without entries", "R1", xml(rss()), Unchanged()),
    row("an atom feed of rss items", "R1",
        xml(b'<feed xmlns="http://www.w3.org/2005/Atom">' + good().encode() + b"</feed>"), KEPT),
    row("items in a foreign namespace", "R1",
        xml(rss("<x:item xmlns:x='urn:x'><x:title>Odd</x:title></x:item>", good())), KEPT),
    row("2,000 duplicates of one item", "D1 R5", xml(rss(good() * 2000)), KEPT),
    row("500 items, then an end in the middle", "R1",
        xml(rss(numbered(range(500)))[:-40]), Stored(500)),
)  # fmt: skip
