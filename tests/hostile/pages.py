"""Web pages that nest, explode, hide their text, or are no pages."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, product
from typing import Any

from tests.hostile.documents import PARAGRAPH, article, page
from tests.hostile.exchange import Exchange, answer
from tests.hostile.table import Failed, Misbehaviour, ObservedRequests, Outcome, Stored, row

EMPTY = Failed("no content")
TEXT = {"title": "A page", "body": lambda body: "under water again" in body}
KEPT = Stored(1, (TEXT,))


def web(name: str, ids: str, document: bytes | Callable[[], bytes], *outcomes: Outcome,
        kind: str = "text/html; charset=utf-8", **more) -> Misbehaviour:  # fmt: skip
    """A row that is polled as a page."""

    def talk(_: Exchange) -> bytes:
        body = document if isinstance(document, bytes) else document()
        return answer(body, f"Content-Type: {kind}")

    return row(name, ids, talk, *outcomes, type="website", url="{origin}/page", **more)


def crowd(piece: str, times: int, end: str = "") -> Callable[[], bytes]:
    """An article followed by many repetitions of a piece of markup."""
    return cache(lambda: page(article() + piece * times + end))


def around(opening: str, times: int) -> Callable[[], bytes]:
    """An article inside very many open elements."""
    return cache(lambda: page(opening * times + article()))


def plain(piece: str, times: int) -> Callable[[], bytes]:
    """Some text that is no article, followed by many repetitions of a piece of markup."""
    return cache(lambda: page(f"<div><p>{PARAGRAPH * 5}</p>{piece * times}</div>"))


def _classes() -> Iterator[str]:
    """Fifty words for each element, all different."""
    words = map("".join, product("abcdefghijklmnopqrstuvwxyz", repeat=4))
    return (" ".join(islice(words, 50)) for _ in range(8_000))


def one_request(sight: ObservedRequests) -> bool:
    """No URL in the page was fetched."""
    return len(sight.requests) == 1 and not sight.elsewhere


def mentioning(ex: Exchange) -> bytes:
    """A page that references its own second host in every way a browser would follow."""
    other = ex.other
    head = (
        f"<title>A page</title><base href='{other}/'><meta http-equiv=refresh content='0;{other}'>"
        f"<link rel=stylesheet href='{other}/x.css'><link rel=icon href='{other}/i.ico'>"
        f"<link rel=alternate type='application/rss+xml' href='{other}/feed'>"
        f"<script src='{other}/x.js'></script><link rel=next href='{other}/2'>"
    )
    body = f"<img src='{other}/i.png'><iframe src='{other}/f'></iframe><video src='{other}/v'>"
    return answer(page(article() + body, head), "Content-Type: text/html")


ANY_TEXT = Stored(1)
HEAVY: dict[str, Any] = {"heavy": True}

ROWS = (
    web("page without text", "W3", page("<div><img src=x></div>"), EMPTY),
    web("page of scripts", "W3", page("<script>var a = 'text';</script>" * 50), EMPTY),
    web("page of hidden text", "W3", page("<template>hidden</template><style>x{}</style>"), EMPTY),
    web("empty page", "W3", b"", EMPTY),
    web("page of blanks", "W3", b" \n\t" * 50_000, EMPTY),
    web("picture instead of a page", "W3", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100, EMPTY,
        kind="image/png"),
    web("pdf instead of a page", "W3", b"%PDF-1.7\n" + bytes(range(256)) * 100, EMPTY,
        kind="application/pdf"),
    web("random bytes instead of a page", "W3 H4", bytes(range(256)) * 2000,
        Failed("no content"), kind="application/octet-stream"),
    web("200,000 open blocks", "M5", around("<div>", 200_000), ANY_TEXT, **HEAVY),
    web("200,000 open spans", "M5", around("<span>", 200_000), ANY_TEXT, **HEAVY),
    web("50,000 nested tables", "M5", around("<table><tr><td>", 50_000), ANY_TEXT, **HEAVY),
    web("50,000 nested lists", "M5", around("<ul><li>", 50_000), ANY_TEXT, **HEAVY),
    web("100,000 open links", "M5", crowd("<a href=x>", 100_000), KEPT, **HEAVY),
    web("100,000 open forms", "M5", crowd("<form>", 100_000), KEPT, **HEAVY),
    web("200,000 paragraphs", "M5", crowd("<p>x", 200_000), ANY_TEXT, **HEAVY),
    web("a million angles", "M5", crowd("<", 1_000_000), ANY_TEXT, **HEAVY),
    web("half a million open tags without end", "M5", crowd("<a ", 500_000), KEPT, **HEAVY),
    web("half a million open comments", "M5", crowd("<!--", 500_000), KEPT, **HEAVY),
    web("half a million declarations", "M5", crowd("<!x", 500_000), KEPT, **HEAVY),
    web("300,000 end tags of nothing here", "M5", crowd("</b>", 300_000), KEPT, **HEAVY),
    web("half a million open scripts", "M5", crowd("<script>", 500_000), KEPT, **HEAVY),
    web("half a million quotes in a tag", "M5", crowd("<a '\"", 500_000), KEPT, **HEAVY),
    web("200,000 entities", "M5", crowd("&amp;lt;&#x26;", 200_000), ANY_TEXT, **HEAVY),
    web("100,000 attributes on one tag", "M5",
        cache(lambda: page(f"<div {' '.join(f'a{n}=x' for n in range(100_000))}>" + article())),
        KEPT, **HEAVY),
    web("class of 5 MB", "M5",
        cache(lambda: page(f"<div class='{'navigation ' * 450_000}'>" + article() + "</div>")),
        ANY_TEXT, **HEAVY),
    web("word of 8 MB", "M5", cache(lambda: page(f"<article>{'x' * 8_000_000}</article>")),
        Stored(1, ({"body": lambda body: len(body) == 8_000_000},)), **HEAVY),
    web("200,000 links without an article", "M5 H1", plain("<a href=b>c</a>", 200_000), ANY_TEXT,
        **HEAVY),
    web("19,000 links without an article", "M5 H1", plain("<a href=b>c</a>", 19_000), ANY_TEXT,
        **HEAVY),
    web("300,000 elements without an article", "M5 H1", plain("x<b>", 300_000), ANY_TEXT,
        **HEAVY),
    web("9 MB of words, without an article", "M5 H1", plain("wo an ", 1_600_000), ANY_TEXT,
        **HEAVY),
    web("9 MB of lines in the page, one character wide", "M5 H1",
        crowd("ab\n", 3_200_000, end="\U0001f600"), KEPT, **HEAVY),
    web("2 million words of classes", "M5 H1",
        cache(lambda: page(article() + "".join(f"<p class='{words}'>" for words in _classes()))),
        KEPT, **HEAVY),
    web("300,000 names of meta tags", "M5 H1",
        cache(lambda: page(article(), "<title>A page</title>" + "".join(
            f"<meta name={n:x} content={n:x}>" for n in range(300_000)))), KEPT, **HEAVY),
    web("page title of 1 MB", "M8",
        cache(lambda: page(article(), f"<title>{'t' * 1_000_000}</title>")),
        Stored(1, ({"title": "t" * 1000},))),
    web("page title that never ends", "M5 W2", cache(lambda: page(article(), "<title>Never")),
        Failed("no content")),
    web("author of 1 MB", "M8",
        cache(lambda: page(article(), f"<title>A page</title><meta name=author "
                                      f"content='{'a' * 5000}'>")),
        Stored(1, ({"title": "A page", "author": lambda a: len(a) <= 500},))),
    web("10,000 authors", "M5 W2",
        cache(lambda: page(article(), "<title>A page</title>"
                           + "<meta name=author content=' '>" * 10_000
                           + "<meta name=author content='The last one'>")),
        Stored(1, ({"author": "The last one"},))),
    row("page that mentions another host", "N15", mentioning, KEPT, type="website",
        url="{origin}/page", elsewhere=True, sight=one_request),
    web("page comment that never ends", "M5 W1", page(article() + "<!-- " + PARAGRAPH * 100), KEPT),
    web("impossible characters", "M6",
        page(article("&#0;&#x110000;&#xD800;&#1;&#99999999999999999999; " + PARAGRAPH * 5)),
        Stored(1, ({"body": lambda b: "\0" not in b and "\ud800" not in b},))),
    web("nul bytes in the page", "M6", page(article(PARAGRAPH.replace(" ", "\0 ") * 5)),
        Stored(1, ({"body": lambda b: "\0" not in b and "lower road" in b},))),
    web("page in utf-16", "R1", page(article()).decode().encode("utf-16"), KEPT, kind="text/html"),
    web("page in utf-7", "R1",
        page("+ADw-script+AD4-" + article(), "<meta charset=utf-7><title>A page</title>"),
        Stored(1, (TEXT,)), kind="text/html"),
    web("page of a false charset", "R1", page(article("Grün " + PARAGRAPH * 5)),
        Stored(1, (TEXT,)), kind="text/html; charset=utf-32"),
    web("page with a doctype of entities", "M1 M5",
        b"<!DOCTYPE html [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]>"
        + page(article("&b;" + PARAGRAPH * 5)),
        ANY_TEXT),
    web("page that is a feed", "W1",
        b"<rss><channel><item><title>T</title><description>" + PARAGRAPH.encode() * 5
        + b"</description></item></channel></rss>", ANY_TEXT, kind="application/rss+xml"),
    web("drawing with a script", "W1 U4",
        page("<svg><script>evil()</script><text>" + PARAGRAPH + "</text></svg>" + article()),
        Stored(1, ({"body": lambda b: "evil" not in b},))),
)  # fmt: skip
