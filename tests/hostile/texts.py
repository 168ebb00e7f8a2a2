"""Texts, links and authors of entries that break databases, lists or terminals."""

from collections.abc import Callable
from functools import cache

from tests.hostile.documents import GOOD, good, item, rss
from tests.hostile.exchange import Exchange, answer
from tests.hostile.table import Misbehaviour, Stored, row

LONG = b"t" * 1_000_000


def texted(
    name: str, ids: str, title: bytes, body: bytes, having: dict[str, object], **more: object
) -> Misbehaviour:
    """A feed with one entry whose title and body are exactly these bytes."""
    inner = b"<item><title>%s</title><description>%s</description></item>" % (title, body)
    return row(name, ids, lambda _: answer(rss(inner)), Stored(1, (having,)), **more)


def linked(name: str, link: str, url: object, ids: str = "M8 R5") -> Misbehaviour:
    """A feed with one entry that links to this."""
    return row(name, ids, answer(rss(item("T", "B", link=link))), Stored(1, ({"url": url},)))


def authored(name: str, ids: str, markup: bytes, author: object) -> Misbehaviour:
    """A feed with one entry by this author."""
    inner = b"<item><title>T</title><description>B</description>%s</item>" % markup
    return row(name, ids, answer(rss(inner)), Stored(1, ({"author": author},)))


def lacks(*characters: str) -> Callable[[str], bool]:
    """A predicate for a text without these."""
    return lambda text: not any(character in text for character in characters)


def is_source_url(url: str) -> bool:
    """The source's own URL, for an entry without a link."""
    return url.startswith("http://127.16.") and url.endswith("/feed")


@cache
def zalgo() -> bytes:
    return ("a" + "\u0301" * 1_000_000).encode()


def same_body(_: Exchange) -> bytes:
    """Entries that differ by their links only."""
    return answer(
        rss(*(item(f"T{n}", "Comments", link=f"http://site.example/{n}") for n in range(5)))
    )


def nameless(_: Exchange) -> bytes:
    """Empty entries beside a good one."""
    return answer(rss("<item/>" * 50, "<item><title> </title></item>", good()))


FORMULA = "=HYPERLINK('http://evil.example','x')"

ROWS = (
    texted("controls in title and body", "M6", b"a\x01b\x02c", b"x\x03y\x1bz",
           {"title": "abc", "body": "xyz"}),
    texted("nul bytes", "M6", b"a\0b", b"x\0y", {"title": "ab", "body": "xy"}),
    texted("nul as an entity", "M6", b"a&#0;b", b"x&#x0;y",
           {"title": lacks("\0"), "body": lacks("\0")}),
    texted("escape sequences as entities", "M6 U7", b"a&#27;[31mred", b"x&#x9b;2Jy",
           {"title": lacks("\x1b"), "body": lacks("\x9b")}),
    texted("line breaks in the title", "M6 U7", b"a\r\n[Polling] forged\nb", b"B",
           {"title": "a [Polling] forged b"}),
    texted("line separators in the title", "M6", "a\u2028b\u2029c\x0bd".encode(), b"B",
           {"title": lambda title: title.split() == list("abcd") or title == "a b cd"}),
    texted("surrogates in utf-8", "M6", b"a\xed\xa0\x80b", b"x\xed\xbf\xbfy",
           {"title": lacks("\ud800"), "body": lacks("\udfff")}),
    texted("surrogates as entities", "M6", b"a&#xD800;b", b"x&#57343;y",
           {"title": lacks("\ud800"), "body": lacks("\udfff")}),
    texted("overlong utf-8", "M6", b"a\xc0\x80b", b"x\xe0\x80\xafy", {"title": lacks("\0")}),
    texted("characters beyond unicode", "M6", b"a&#x110000;b", b"x\xf4\x90\x80\x80y", {}),
    texted("bytes that are no text", "M6", b"a\xff\xfeb", b"x\x80\x81y", {}),
    texted("noncharacters", "M6", b"a&#xFFFE;b&#xFFFF;", "x\ufdd0y".encode(), {}),
    texted("byte order marks inside", "M6", "\ufeffa\ufeffb".encode(), b"B", {}),
    texted("text from right to left", "M6", "a\u202egnp.exe\u202c".encode(), b"B", {}),
    texted("a million accents on one letter", "M6 M8 H2", b"Z", zalgo(), {"title": "Z"},
           heavy=True),
    texted("title of 1 MB", "M8 M2", LONG, b"B", {"title": "t" * 1000, "body": "B"}),
    texted("body of 1 MB", "M2", b"T", LONG, {"body": LONG.decode()}),
    texted("markup in the title", "R4 U4", b"&lt;script&gt;alert(1)&lt;/script&gt;Bold",
           b"&lt;img src=x onerror=alert(1)&gt;Text", {"title": "Bold", "body": "Text"}),
    texted("markup escaped twice", "R4", b"T", b"&amp;lt;b&amp;gt;", {"body": "<b>"}),
    texted("a formula", "U7", FORMULA.encode(), b"B", {"title": FORMULA}),
    texted("quotes and statements", "M6", b"'; DROP TABLE posts; --", b"\\' OR 1=1 %s %(x)s $1",
           {"title": "'; DROP TABLE posts; --", "body": "\\' OR 1=1 %s %(x)s $1"}),
    texted("templates", "Q1", b"{{7*7}} ${7*7} #{7*7}", b"%{7*7} {0.__class__}",
           {"title": "{{7*7}} ${7*7} #{7*7}", "body": "%{7*7} {0.__class__}"}),
    texted("nothing but blanks in the body", "R5", b"T", "\u00a0\u2003 \n".encode(), {"body": "T"}),
    linked("link of 20,000 characters", "http://site.example/" + "x" * 20_000, is_source_url),
    linked("link of 8,192 characters", "http://site.example/" + "x" * 8172,
           "http://site.example/" + "x" * 8172),
    linked("link with controls", "http://site.example/\x01a\tb\nc", lacks("\x01", "\t", "\n"),
           "M6 R5"),
    linked("link with half an address", "http://[::1/x", lambda url: bool(url)),
    linked("link with bytes and breaks", "/x y\r\nSet-Cookie: a=b", lacks("\r", "\n", " "),
           "M6 R5"),
    linked("link that goes up", "/../../../x", lambda url: url.endswith("/x")),
    authored("author of 10,000 characters", "M8", b"<author>%s</author>" % (b"a" * 10_000),
             lambda author: len(author) == 500),
    authored("author of blanks", "R6", b"<author> \t\n </author>", None),
    authored("author of controls", "M6 R6", b"<author>a&#10;b\x00c</author>", "a bc"),
    authored("300 authors", "R6", b"<author> </author>" * 299 + b"<author>Z</author>", "Z"),
    row("id of 100,000 characters", "M8", answer(rss(
        f"<item><guid>{'g' * 100_000}</guid><title>T</title></item>", good())), Stored(2, (GOOD,))),
    row("the same body everywhere", "R5", same_body, Stored(5, ({"body": "T0 Comments"},))),
    row("entries of nothing", "R5", nameless, Stored(1, (GOOD,))),
)  # fmt: skip
