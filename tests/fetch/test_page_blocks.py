"""The blocks of a page, and selectors that match exactly one of them (W4)."""

import random
import time

import pytest

from headwater.fetch.page.page_blocks import MAX_BLOCKS, page_blocks, read_page_blocks
from headwater.fetch.page.page_document import read_page
from headwater.fetch.page.selectors import select
from headwater.rules.watched_parts import toggled
from headwater.watch_settings import WatchSettings

URL = "https://example.org/"
TEXT = "The river rose during the night and the meadows were flooded by the morning. " * 4
PAGE = f"""<!doctype html><html><head><title>River</title></head><body>
<header class="site"><p class="clock">It is 12:00</p><nav><a href="/">Home</a></nav></header>
<div class="css-1a2b3c"><div class="wrap"><main><h1>River</h1><p>{TEXT}</p><p>{TEXT}</p>
<section class="prices"><h2>Prices</h2><table><tr><td>Milk</td><td>1.20</td></tr></table></section>
<ul class="teasers"><li><a href="/1">First teaser</a></li><li><a href="/2">Second</a></li></ul>
</main><aside id="side"><h2>Most popular</h2><p>12345 visitors</p></aside></div></div>
<footer>Imprint</footer></body></html>"""


def shown(html=PAGE, *, include=(), exclude=()):
    return page_blocks(html, URL, WatchSettings(tuple(include), tuple(exclude)))


def test_w4_blocks_are_named_by_id_class_or_tag_and_nested():
    assert [(block.depth, block.selector) for block in shown()] == [
        (0, ".site"),
        (1, ".clock"),
        (1, "nav"),
        (0, ".wrap"),
        (1, "main"),
        (2, "h1"),
        (2, "main > p"),
        (2, ".prices"),
        (3, "table"),
        (2, ".teasers"),
        (1, "#side"),
        (2, "#side p"),
        (0, "footer"),
    ]
    texts = {block.selector: block.text for block in shown()}
    assert texts["table"] == "Milk · 1.20"
    assert texts["main"].startswith("River · The river rose")
    assert texts["main"].endswith("…")


@pytest.mark.parametrize(
    ("watch", "whole", "part"),
    [
        (
            {},
            {"h1", "main > p", ".prices", "table"},
            {".wrap", "main"},
        ),  # W1 leaves out the teasers
        ({"include": ["#side"]}, {"#side", "#side p"}, {".wrap"}),
        (
            {"include": ["main"], "exclude": [".prices"]},
            {"h1", "main > p", ".teasers"},
            {".wrap", "main"},
        ),
        ({"exclude": [".prices"]}, {"h1", "main > p"}, {".wrap", "main"}),
        ({"include": ["main > p"]}, {"main > p"}, {".wrap", "main"}),
        ({"include": [".nothing"]}, set(), set()),
        ({"include": ["body"]}, {block.selector for block in shown()}, set()),
    ],
)
def test_w4_each_block_says_how_much_of_it_is_watched(watch, whole, part):
    blocks = shown(**watch)
    assert {block.selector for block in blocks if block.is_watched} == whole
    assert {b.selector for b in blocks if 0 < b.watched_length < b.length} == part


@pytest.mark.parametrize(
    ("html", "selectors"),
    [
        ("<div id='a1b2c3d4'>One</div><div id='news'>Two</div>", ["#news"]),
        ("<div id='x'>One</div><div id='x'>Two</div>", []),
        ("<div class='a b'>One</div><div class='a'>Two</div>", [".b"]),
        ("<p class='a'>One</p><div class='a'>Two</div>", ["p.a", "div.a"]),
        ("<div id='l'><p>One</p></div><div id='r'>x<p>Two</p></div>", ["#l", "#r", "#r p"]),
        ("<div id='l'>x<p class='k'>1</p></div><div id='r'>x<p class='k'>2</p></div>",
         ["#l", "#l p.k", "#r", "#r p.k"]),
        ("<p>One</p><p>Two</p>", []),
        ("<div class='sc-bdVaJa'>One</div><div class='w:1/2 ok'>Two</div>", [".ok"]),
        ("<div class='über'>One</div><p>x</p>", ["div", "p"]),
        ("<section></section><script>x</script><p>Text</p>", ["p"]),
        ("<main>x<p>One</p><p>Two</p></main>", ["main", "main > p"]),
        ("<main>x<p>One</p><b><p>Two</p></b></main>", ["main", "main > p"]),
        ("<main>x<p id=a>One</p><p>Two</p></main>", ["main", "#a"]),
        ("<main>x<div>1<p>2</p></div><div>3<p>4</p></div></main>", ["main"]),
        ("<main><p>One</p><p>Two</p></main>", ["main"]),
        ("no markup at all", []),
        ("", []),
    ],
)  # fmt: skip
def test_w4_selectors_are_robust_and_match_one_element(html, selectors):
    assert [block.selector for block in shown(html)] == selectors


def test_w4_a_click_keeps_main_text_that_has_no_selector_of_its_own():
    paragraphs = "".join(f"<p>Part {number}: {TEXT}</p>" for number in range(4))
    html = (
        f"<html><title>Flat</title><body><nav id=menu>Home</nav><h1>Flat</h1>{paragraphs}"
        "<footer>Imprint</footer></body></html>"
    )
    blocks = shown(html)
    assert [(block.depth, block.selector) for block in blocks] == [
        (0, "body"), (1, "#menu"), (1, "h1"), (1, "footer"),
    ]  # fmt: skip
    watch = toggled(None, blocks, "footer")
    assert watch == WatchSettings(include=("body",), exclude=("#menu",))
    body = read_page(html.encode(), url=URL, watch=watch).body
    assert body.startswith("Flat Part 0: ") and body.endswith("Imprint")
    assert "Part 3: " in body and "Home" not in body


def test_w4_paragraphs_without_a_name_are_one_part():
    html = (
        "<body><nav>Home</nav><main><h1>Shirt</h1><p>Warm and dry.</p><p>Price: <b>25 EUR</b></p>"
        "<table><tr><td>M</td></tr></table><p>In stock: 4</p></main></body>"
    )
    blocks = shown(html)
    assert [(one.depth, one.selector, one.count) for one in blocks] == [
        (0, "nav", 1), (0, "main", 1), (1, "h1", 1), (1, "main > p", 3), (1, "table", 1),
    ]  # fmt: skip
    assert blocks[3].text == "Warm and dry. · Price: 25 EUR · In stock: 4"
    watch = toggled(None, blocks, "main > p", only=True)
    entry = read_page(html.encode(), url=URL, watch=watch)
    assert entry.page_text == "Warm and dry.\nPrice: 25 EUR\nIn stock: 4"
    watch = toggled(None, blocks, "main > p")
    entry = read_page(html.encode(), url=URL, watch=watch)
    assert entry.page_text == "Shirt\nM"


def test_w4_every_selector_of_any_page_matches_exactly_its_block():
    rng = random.Random(7)
    for _ in range(200):
        html = "".join(_tag(rng) for _ in range(rng.randrange(60)))
        for block in shown(html):
            assert select(html, [block.selector], ()).counts[block.selector] == block.count
            watch = WatchSettings(include=(block.selector,))
            entry = read_page(html.encode(), content_type="text/html", url=URL, watch=watch)
            assert len((entry.page_text or "").replace("\n", "")) == block.length


def _tag(rng: random.Random) -> str:
    name = rng.choice(["div", "p", "ul", "li", "section", "table", "td", "span"])
    named = rng.choice(["", "", f" id={rng.choice('abc')}", f" class='{rng.choice('mno')} x'"])
    return rng.choice([f"<{name}{named}>", f"<{name}{named}>", f"</{name}>", "some words "])


def test_w4_m5_pages_of_any_kind_list_a_limited_number_of_blocks_in_time():
    nested = "<div class=a>x" * 15_000
    many = "".join(
        f"<div class=a><p class=k{chr(97 + n % 26)}>{n}</p></div>" for n in range(40_000)
    )
    named = "".join(
        f"<div id=part-{'abcdefghij'[n % 10] * (n // 10 + 1)}>{n}</div>" for n in range(90)
    )
    for html in (nested, many, named * 2, named + nested):
        started = time.process_time()
        assert len(shown(html)) <= MAX_BLOCKS
        assert time.process_time() - started < 20
    assert len(shown(named)) == MAX_BLOCKS
    data = b"<p>x</p>" * 300_000
    assert read_page_blocks(data, content_type="text/html", url=URL, watch=None) == []
