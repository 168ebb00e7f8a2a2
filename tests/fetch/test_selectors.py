"""Selecting elements of a page by CSS selectors (W4, W7)."""

from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.css_selectors import Compound, parse_selectors
from headwater.errors import NoContent, SelectorUnmatched
from headwater.fetch.page.page_document import read_page
from headwater.fetch.page.selectors import select, selected_html
from headwater.rules.admission import content_hash, entry_hash
from headwater.watch_settings import WatchSettings

URL = "https://example.org/prices"
PAGE = """<!doctype html><html><head><title>Prices</title><base href="/shop/"></head><body>
<nav id="menu"><a href="/">Home</a></nav>
<main><h1>Prices</h1><p class="clock">Updated 3 min ago</p>
<table id="list"><tr class="item"><td>Bread</td><td class="price">2 €</td></tr>
<tr class="item sold"><td><a href="tea">Tea</a></td><td class="price">5 €</td></tr></table>
<p>Taxes are <span class="note">not</span> included.</p></main>
<footer>Imprint</footer></body></html>"""


def read(html=PAGE, *, include=(), exclude=(), ignore=()):
    watch = WatchSettings(tuple(include), tuple(exclude), tuple(ignore))
    return read_page(html.encode(), content_type="text/html", url=URL, watch=watch)


@pytest.mark.parametrize(
    ("include", "exclude", "text"),
    [
        (["h1"], [], "Prices"),
        (["footer", "h1"], [], "Prices\nImprint"),
        (["tr.item"], [".sold"], "Bread\t2 €"),
        (["#list .price"], [], "2 €\n5 €"),
        (["main > p"], [".clock"], "Taxes are not included."),
        (["main > p"], [".clock, .note"], "Taxes are included."),
        (["body > main td[class=price]", "nav"], [".sold td"], "Home\n2 €"),
        (["main"], ["table"], "Prices\nUpdated 3 min ago\nTaxes are not included."),
        (["table"], ["main .sold"], "Bread\t2 €"),
        (["tr", "td", "#list"], [".sold"], "Bread\t2 €"),
    ],
)
def test_w4_exclude_is_removed_then_include_is_kept_in_document_order(include, exclude, text):
    entry = read(include=include, exclude=exclude)
    assert entry.page_text == text
    assert entry.body == " ".join(text.split())
    assert entry.title == "Prices"


def test_w4_without_include_the_main_text_is_what_is_left():
    story = "The river rose during the night and the meadows were flooded by the morning. " * 4
    html = f"<nav>Home</nav><article><p>{story}</p><p class='intro'>Buy boots.</p></article>"
    assert read(html, exclude=[".intro"]).page_text == story.strip()
    assert read(html, exclude=[".none"]).page_text == f"{story.strip()}\nBuy boots."


def test_w4_t1_markdown_has_the_selected_parts_with_absolute_links():
    entry = read(include=["table", "p"], exclude=[".clock"])
    assert "| Bread | 2 € |\n| [Tea](https://example.org/shop/tea) | 5 € |" in entry.markdown
    assert "Updated" not in entry.markdown
    assert read(include=["td"]).markdown == (
        "Bread\n\n2 €\n\n[Tea](https://example.org/shop/tea)\n\n5 €"
    )


@pytest.mark.parametrize(
    ("include", "exclude"),
    [([".none"], []), ([".none", "main > td"], []), (["td"], ["table"]), (["h1"], ["*"])],
)
def test_w7_an_include_that_matches_nothing_is_an_error_that_names_it(include, exclude):
    with pytest.raises(SelectorUnmatched, match=include[0]):
        read(include=include, exclude=exclude)


def test_w7_of_several_includes_one_is_enough():
    assert read(include=[".none", "h1"]).body == "Prices"


def test_w3_a_selected_element_without_text_is_no_content():
    with pytest.raises(NoContent, match=r"what is watched of .* has no text"):
        read("<main>Text<hr></main>", include=["hr"])


def test_w4_ignored_lines_stay_in_the_text_but_not_in_the_hash():
    later = PAGE.replace("3 min", "4 min")
    watched = partial(read, include=["main"], ignore=["updated # min ago"])
    assert "Updated 3 min ago" in watched().body
    assert entry_hash(watched()) == entry_hash(watched(later))
    assert entry_hash(watched()) != entry_hash(watched(PAGE.replace("5 €", "6 €")))
    main = partial(read, include=["main"])
    assert entry_hash(main()) != entry_hash(main(later))
    assert entry_hash(main(ignore=["nothing"])) == content_hash(main().body)


@pytest.mark.parametrize(
    ("html", "selector", "text"),
    [
        ("<ul><li class=a>1<li>2<li class=a>3</ul>4", ".a", "1\n3"),
        ("<p class=a>1<p>2<div>3</div>", ".a", "1"),
        ("<p class=a>1<br>2<b>3</b></p>4", ".a", "1\n23"),
        ("<table><tr><td class=a>1<td>2<tr><td>3</table>4", ".a", "1"),
        ("<dl><dt class=a>1<dd>2</dl>", ".a", "1"),
        ("<div class=a><b>1</div>2</b>", ".a", "1"),
        ("<b class=a><div>1</b>2</div>3", "div", "12"),
        ("<div class=a><table><tr><td>1</div>2</td></tr></table></div>3", ".a", "1\n2"),
        ("<DIV CLASS=a>1</DIV>2", "div.a", "1"),
        ("<p class=A>1</p><p class=a>2</p>", ".a", "2"),
        ("<p data-x='a&amp;b'>1</p>2", "[DATA-X='a&b']", "1"),
        ("<svg><path class=a /><text>1</text></svg><p>2</p>", "path text, p", "2"),
        ("<p class=a>1</body></html><p>2", "body p", "1\n2"),
        ("<html><head><body><p>1</p>", "head p, body > p", "1"),
        ("<script><p class=a>1</p></script><p class=a>2</p>", ".a", "2"),
        ("<p class=a>1", ".a", "1"),
        ("<i>1</i><i class=a>2</i><i class=a>3</i>", ".a", "23"),
        ("<p class=md:flex>1</p>2", r".md\:flex", "1"),
    ],
)
def test_w4_elements_end_where_a_browser_ends_them(html, selector, text):
    html = html if "<body" in html else f"<body>{html}"
    assert read(html, include=[selector]).page_text == text


@dataclass
class Element:
    """A tree whose elements the reference matches one by one."""

    tag: str
    id: str
    classes: list[str]
    children: list["Element"] = field(default_factory=list)
    parent: "Element | None" = None

    def html(self) -> str:
        inside = "".join(child.html() for child in self.children)
        return f'<{self.tag} id="{self.id}" class="{" ".join(self.classes)}">{inside}</{self.tag}>'

    def all(self) -> list["Element"]:
        return [self, *(one for child in self.children for one in child.all())]

    def matches(self, compounds: tuple[Compound, ...]) -> bool:
        last = compounds[-1]
        is_match = last.tag in ("", self.tag) and set(last.classes) <= set(self.classes)
        if not is_match or any(id_ != self.id for id_ in last.ids):
            return False
        if len(compounds) == 1:
            return True
        above = self.parent
        while above is not None:
            if above.matches(compounds[:-1]):
                return True
            above = None if last.is_child else above.parent
        return False


def with_parents(element: Element) -> Element:
    for child in element.children:
        child.parent = element
        with_parents(child)
    return element


_tags = st.sampled_from(["div", "section", "b"])
_ids, _classes = st.sampled_from("xyz"), st.lists(st.sampled_from("abc"), max_size=2)
_trees = st.recursive(
    st.builds(Element, _tags, _ids, _classes),
    lambda children: st.builds(Element, _tags, _ids, _classes, st.lists(children, max_size=4)),
    max_leaves=12,
).map(with_parents)
_compounds = st.sampled_from(["div", "b", "*", ".a", ".b.c", "#x", "section.a", "div#y", "*.c"])
_selectors = st.lists(
    st.lists(_compounds, min_size=1, max_size=4).flatmap(
        lambda parts: st.lists(
            st.sampled_from([" ", " > "]), min_size=len(parts), max_size=len(parts)
        ).map(lambda joints: "".join(j + p for j, p in zip(["", *joints], parts, strict=False)))
    ),
    min_size=1,
    max_size=3,
).map(", ".join)  # fmt: skip


@given(_trees, _selectors)
def test_w4_one_pass_finds_what_matching_each_element_finds(tree, selector):
    wanted = parse_selectors(selector)
    matching = [one for one in tree.all() if any(one.matches(each) for each in wanted)]
    found = select(tree.html(), [selector], [])
    assert found.counts[selector] == len(matching)
    outermost = [one for one in matching if not any(has(other, one) for other in matching)]
    assert len(found.include) == len(outermost)


def has(outer: Element, inner: Element) -> bool:
    above = inner.parent
    while above is not None and above is not outer:
        above = above.parent
    return above is outer


@given(st.text("<>/divpb a=\"'.#x1&;", max_size=60), st.sampled_from(["p", "div b", ".x", "[a]"]))
def test_m5_any_markup_keeps_its_length(html, selector):
    for only_include in (True, False):
        selection = select(html, [selector], ["b"])
        assert len(selected_html(html, selection, only_include=only_include)) == len(html)


@pytest.mark.parametrize(
    "html",
    ["<b>" * 300_000, "<div class=a><i>" * 100_000, "<div><i>" + "<b>" * 50_000 + "</i>" * 200_000,
     "<ul><li class=a>x" * 60_000, "<table><tr><td class=a>" * 40_000, "<p class=a>x</p>" * 60_000],
)  # fmt: skip
def test_m5_selecting_is_linear_for_any_nesting(html):
    selection = select(html, [".a " * 40 + "b, * > * > i"] * 20, [".a .a"] * 20)
    assert len(selected_html(html, selection, only_include=True)) == len(html)
