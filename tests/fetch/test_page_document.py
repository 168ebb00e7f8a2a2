"""Parsing a page into an entry (W1-W3)."""

import pytest
import trafilatura
from bench.scores.pages import score, token_f1
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import NoContent
from headwater.fetch.page.author import marked_author
from headwater.fetch.page.html_blocks import HtmlPage
from headwater.fetch.page.page_document import read_page

URL = "https://example.org/page"
STORY = (
    "The river rose during the night and the lower meadows were flooded by the morning, "
    "so the farmers moved their cattle to the hills. Nobody was hurt, the council said, "
    "but the bridge at the mill will stay closed until engineers have looked at its piers. "
)
OTHER = "A second text that is about something else entirely, and that is rather short. "


def read(html, *, content_type="text/html; charset=utf-8"):
    return read_page(html.encode("utf-8"), content_type=content_type, url=URL)


def page(body, head="<title>Title</title>"):
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>"


def test_w1_a_single_article_gives_its_text():
    entry = read(
        page(
            "<nav>Home About</nav><header>Site name</header>"
            f"<article><h1>Flood</h1><p>{STORY}</p><p>{OTHER}</p></article>"
            "<aside>Weather</aside><footer>Imprint</footer>"
        )
    )
    assert entry.body == f"Flood {STORY}{OTHER}".strip()


def test_w1_w5_the_text_of_a_page_has_a_line_for_every_block_and_every_row():
    entry = read(
        page(
            f"<article><h1>Flood</h1><p>{STORY}</p><ul><li>Mill <b>closed</b></li>"
            "<li>Bridge<br>open</li></ul>"
            "<table><tr><th><b>Level</b></th><td><p>3 m</p></td></tr><tr><td>Rain</td></tr>"
            "<tr><td><p>Mill</p><p>Weir</p></td><td>dry</td></tr></table></article>"
        )
    )
    lines = ["Flood", STORY.strip(), "Mill closed", "Bridge", "open", "Level\t3 m", "Rain"]
    lines += ["Mill", "Weir", "dry"]  # a layout rather than a table
    assert entry.page_text == "\n".join(lines)
    assert entry.body == " ".join(lines).replace("\t", " ")


def test_w1_a_short_only_article_counts_unless_it_is_a_teaser_beside_the_story():
    article = "<article>Short news.</article>"
    assert read(page(f"<div><p>Hardly longer.</p></div>{article}")).body == "Short news."
    assert read(page(f"<div><p>{STORY}</p></div>{article}")).body == STORY.strip()
    enough = f"<article><p>{STORY}</p></article>"
    assert read(page(enough + f"<div><p>{OTHER}</p></div>" * 20)).body == STORY.strip()


def test_w1_of_several_articles_the_longest_counts():
    articles = f"<article>{OTHER}</article><article><p>{STORY}</p></article>"
    assert read(page(articles)).body == STORY.strip()


def test_w1_of_several_short_articles_the_block_with_the_most_text_counts():
    hints = "<article>One hint.</article><article>Another hint.</article>"
    entry = read(page(f"<div>{hints}</div><div id='main'><p>{STORY}</p><p>{STORY}</p></div>"))
    assert entry.body == f"{STORY}{STORY}".strip()


def test_w1_articles_much_shorter_than_the_page_are_ignored():
    hints = f"<article><p>{STORY}</p></article><article><p>{OTHER}</p></article>"
    story = "".join(f"<p>Part {number}. {STORY}</p>" for number in range(12))
    entry = read(page(f"<main><div>{story}</div></main><div>{hints}</div>"))
    assert entry.body.count("Part") == 12
    assert OTHER.strip() not in entry.body


def test_w1_without_an_article_the_block_with_the_most_text_counts():
    entry = read(
        page(
            "<div id='top'><a href='/'>Home</a> <a href='/b'>Blog</a></div>"
            f"<div id='content'><p>{STORY}</p><p>{STORY}</p></div>"
            "<div id='bottom'><p>Imprint and contact</p></div>"
        )
    )
    assert entry.body == f"{STORY}{STORY}".strip()


AROUND = (
    "<header><p>16:00:41</p></header><nav><a href='/'>Home</a></nav>{}"
    "<div class='cookie-banner'>We use cookies.<button>Agree</button></div>"
    "<aside>Our newsletter</aside><footer>Imprint</footer><script>run()</script>"
)
PRICES = "<table><tr><th>Item</th><th>Price</th></tr><tr><td>Tea</td><td>3 EUR</td></tr></table>"


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (
            f"<h1>Prices</h1>{PRICES}<p>Page generated at 16:00:41</p>",
            ["Prices", "Item\tPrice", "Tea\t3 EUR", "Page generated at 16:00:41"],
        ),
        (
            f"<h1>Tea</h1><p>{STORY}</p><p>Price: <b>25 EUR</b></p><p>In stock: 4</p>{PRICES}",
            ["Tea", STORY.strip(), "Price: 25 EUR", "In stock: 4", "Item\tPrice", "Tea\t3 EUR"],
        ),
        (
            "<h1>Status</h1><p>All systems operational.</p><p>Checked at 16:00:41 today</p>",
            ["Status", "All systems operational.", "Checked at 16:00:41 today"],
        ),
        (
            "<h1>Shifts</h1><ul><li>Monday: two places are free</li><li>Friday</li></ul>",
            ["Shifts", "Monday: two places are free", "Friday"],
        ),
        (
            "<div><h2>Mail</h2><div>Mail is late since noon</div></div><div><h2>Web</h2>Up</div>",
            ["Mail", "Mail is late since noon", "Web", "Up"],
        ),
    ],
    ids=["prices", "product", "status", "list", "sections"],
)
@pytest.mark.parametrize("element", ["main", "div", "body"])
def test_w1_all_content_of_a_short_page_counts(element, content, lines):
    around = AROUND.format(content if element == "body" else f"<{element}>{content}</{element}>")
    assert (read(page(around)).page_text or "").split("\n") == lines


def test_w1_all_short_parts_of_main_count_beside_a_description():
    parts = "<div class='price'>25 EUR</div><div class='stock'>In stock: 4</div>"
    entry = read(page(AROUND.format(f"<main><div><p>{STORY}</p></div>{parts}</main>")))
    assert entry.page_text == f"{STORY.strip()}\n25 EUR\nIn stock: 4"


def test_w1_several_short_articles_of_main_count_together():
    cards = "".join(f"<article><h2>Tea {n}</h2><p>{n} EUR</p></article>" for n in (3, 4))
    entry = read(page(AROUND.format(f"<main><h1>Shop</h1>{cards}</main>")))
    assert entry.page_text == "Shop\nTea 3\n3 EUR\nTea 4\n4 EUR"


def test_w1_a_longer_text_counts_without_the_rest_of_main():
    story = f"<div><p>{STORY}</p><p>{STORY}</p></div>"
    entry = read(page(f"<main><div><p>{OTHER}</p></div>{story}</main>"))
    assert entry.page_text == f"{STORY.strip()}\n{STORY.strip()}"


@pytest.mark.parametrize(
    "clutter",
    [
        "<nav>CLUTTER</nav>",
        "<header><p>CLUTTER</p></header>",
        "<footer>CLUTTER</footer>",
        "<aside><p>CLUTTER</p></aside>",
        "<script>CLUTTER</script>",
        "<style>CLUTTER</style>",
        "<noscript>CLUTTER</noscript>",
        "<template>CLUTTER</template>",
        "<form><label>CLUTTER</label></form>",
        "<button>CLUTTER</button>",
        "<p hidden>CLUTTER</p>",
        "<p style='display: none'>CLUTTER</p>",
        "<div class='cookie-banner'>CLUTTER</div>",
        "<div id='CookieConsent'>CLUTTER</div>",
        "<div class='social-share'>CLUTTER</div>",
        "<section class='relatedPosts'>CLUTTER</section>",
        "<div id='comments'><p>CLUTTER</p></div>",
        "<p class='byline'>CLUTTER</p>",
        "<article>CLUTTER</article>",
    ],
)
def test_w1_boilerplate_is_left_out(clutter):
    body = read(page(f"<article><p>{STORY}</p>{clutter}<p>{OTHER}</p></article>")).body
    assert body == f"{STORY}{OTHER}".strip()


def test_w1_headlines_of_a_header_stay():
    header = "<header role='banner'><h1>One</h1><p>Site</p><h2>Two</h2><h3>Three</h3></header>"
    body = read(page(f"<article>{header}<p>{STORY}</p></article>")).body
    assert body == f"One Two Three {STORY}".strip()


def test_w1_a_cookie_banner_is_not_the_block_with_the_most_text():
    banner = f"<div class='cookie-notice'><p>{OTHER}</p></div>"
    assert read(page(f"{banner}<div><p>Only this is said here.</p></div>")).body == (
        "Only this is said here."
    )


def test_w1_the_block_with_most_of_the_text_is_kept_whatever_its_class():
    body = read(page(f"<article><div class='comment widget promo'>{STORY}</div></article>")).body
    assert body == STORY.strip()


@pytest.mark.parametrize("name", ["elementor-widget", "overflow-hidden", "post tag-news"])
def test_w1_common_class_names_of_content_are_kept(name):
    parts = "".join(f"<div class='{name}'><p>{number}. {STORY}</p></div>" for number in range(4))
    assert read(page(f"<article>{parts}</article>")).body.count("flooded") == 4


def test_w1_quoted_messages_stay_in_a_social_embed():
    quote = "<div class='social-embed'><blockquote>Rain again.</blockquote></div>"
    assert "Rain again." in read(page(f"<article><p>{STORY}</p>{quote}</article>")).body


def test_w1_a_long_article_loses_lines_that_are_only_a_link():
    link = "<p><a href='/other'>Another story</a></p>"
    body = read(page(f"<article><p>{STORY}</p><p>{STORY}</p>{link}</article>")).body
    assert "Another story" not in body
    assert "Another story" in read(page(f"<article><p>{OTHER}</p>{link}</article>")).body


def test_w1_if_the_library_fails_the_longest_block_is_used(monkeypatch):
    def fails(*_, **__):
        raise RecursionError

    monkeypatch.setattr(trafilatura, "bare_extraction", fails)
    body = f"<div><p>{OTHER}</p></div><div><p>{STORY}</p></div>"
    assert read(page(body)).body == STORY.strip()


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        ("<title> A &amp;\n B </title>", "", "A & B"),
        ("<title></title><meta property='og:title' content='Shared'>", "<h1>H</h1>", "Shared"),
        ("", "<h1>Head <b>line</b></h1>", "Head line"),
        ("", "<svg><title>Icon</title></svg><h1>Headline</h1>", "Headline"),
        ("<title>" + "x" * 2000 + "</title>", "", "x" * 1000),
        ("<title>a\0b\u0085c</title>", "", "ab c"),
        ("", "", ""),
    ],
)
def test_w2_title_is_the_title_else_og_title_else_h1(head, body, title):
    assert read(page(f"{body}<p>{STORY}</p>", head)).title == title


@pytest.mark.parametrize(
    ("head", "author"),
    [
        ("<meta name='author' content='Jane Doe'>", "Jane Doe"),
        ("<META CONTENT='Jane &amp; Joe' NAME='Author'>", "Jane & Joe"),
        ("<meta property='article:author' content='Joe'>", "Joe"),
        (
            "<meta property='article:author' content='Joe'><meta name='author' content='Jane'>",
            "Jane",
        ),
        (
            "<meta name='author' content='  '><meta property='article:author' content='Joe'>",
            "Joe",
        ),
        ("<meta name='author' content=' '><meta name='author' content='Jane'>", "Jane"),
        ("<meta name='author' content='" + "x" * 900 + "'>", "x" * 500),
        ("<meta name='author' content=''>", None),
        ("", None),
    ],
)
def test_w2_author_is_the_first_meta_that_is_not_blank(head, author):
    assert read(page(f"<p>{STORY}</p>", head)).author == author


SPOKEN = "<span class='screen-reader-text'>Author</span>"
JSON_LD = '<script type="application/ld+json">{}</script>'


@pytest.mark.parametrize(
    ("markup", "author"),
    [
        ("<meta name='DC.Creator' content='Jane Doe'>", "Jane Doe"),
        (JSON_LD.format('{"@type": "Article", "author": {"name": "Jane Doe"}}'), "Jane Doe"),
        (
            JSON_LD.format('{"@graph": [{}, {"author": [{"name": "Jane"}, {"name": "Joe"}]}]}'),
            "Jane",
        ),
        (JSON_LD.format('// <![CDATA[\n{"author": "Jane"}\n// ]]>'), "Jane"),
        (JSON_LD.format('{"author": '), None),
        (JSON_LD.format('{"author": {"name": ["x", {}]}}'), "x"),
        ("<span itemprop='author'><b itemprop='name'>Jane Doe</b>, Editor</span>", "Jane Doe"),
        ("<a class='url fn' rel='author' href='/jane'>Jane Doe</a>", "Jane Doe"),
        ("<p class='byline'>By Jane Doe</p>", "Jane Doe"),
        ("<p class='byline'>x</p><a rel='author'>Jane</a>", "Jane"),
        ("<div class='comment-author vcard'>Troll</div>", None),
        ("<p>Written by Jane Doe in a hurry</p>", None),  # prose is not searched
        ("<a rel='author'>" + "x" * 700 + "</a>", None),
        (
            "<meta property='article:author' content='https://example.org/j'><a rel='author'>J</a>",
            "J",
        ),
        (
            "<meta property='article:author' content='https://example.org/jane'>",
            "https://example.org/jane",
        ),
        ("<meta name='author' content='Ada'><a rel='author'>Jane</a>", "Ada"),
        ("<meta property='og:article:author' content='Jane Doe'>", "Jane Doe"),
        (f"<span class='author'>{SPOKEN} <a href='/j'>Jane</a></span>", "Jane"),
        (f"<a rel='author'>{SPOKEN}Jane Doe</a>", "Jane Doe"),
        ("<span class='author'>Author:</span>", None),
        ("<span class='byline'>Posted by</span> <a rel='author' href='/j'>Jane</a>", "Jane"),
        ("<meta name='author' content='Author'>", None),
        (JSON_LD.format('{"author": {"name": "About the author"}}'), None),
        ("<a rel='author'>wordpressadmin</a>", None),
        ("<meta name='author' content='admin'>", "admin"),
        ("<h1 class='vcard author'>My site</h1><p class='vcard author'>Jane</p>", "Jane"),
        ("<a rel='author'>Byron Guest</a>", "Byron Guest"),
    ],
)
def test_w2_without_a_meta_author_the_marked_author_of_the_page_counts(markup, author):
    assert read(page(f"{markup}<p>{STORY}</p>")).author == author


@pytest.mark.parametrize(
    "markup",
    [
        "<a rel=author " * 200_000,
        "<a rel='author'>" * 200_000,
        "<script type='application/ld+json'>" * 100_000,
        JSON_LD.format('{"author":' * 20_000),
        JSON_LD.format('{"@graph":[' * 5_000 + "]}" * 5_000),
        "<a " + "author " * 500_000,
    ],
    ids=lambda markup: markup[:20],
)
def test_m5_the_search_for_an_author_is_bounded(markup):
    assert marked_author(HtmlPage(), markup) is None


def test_w2_a_page_has_its_own_url_and_neither_id_nor_date():
    entry = read(page(f"<p>{STORY}</p>"))
    assert (entry.id, entry.url, entry.published_at) == (None, URL, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   \n",
        b"<html><body></body></html>",
        b"<html><body><div id='root'></div><script>app()</script></body></html>",
        b"<body><noscript>Please enable JavaScript</noscript></body>",
        b"<nav>Home</nav><footer>Imprint</footer>",
    ],
)
def test_w3_a_page_without_text_is_a_one_line_error(data):
    with pytest.raises(NoContent, match=r"\Ahttps://example\.org/page has no text[^\n]*\Z"):
        read_page(data, url=URL)


def test_u6_the_message_names_the_page_without_its_secrets():
    with pytest.raises(NoContent) as caught:
        read_page(b"", url="https://me:pw@example.org/?token=abc")
    assert "pw" not in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ("<p>Grüße, 日本".encode(), "text/html; charset=utf-8"),
        ("<p>Grüße, 日本".encode(), None),
        ("<meta charset='gbk'><p>Grüße, 日本".encode(), None),  # the bytes say otherwise
        ("<p>Grüße, 日本".encode("utf-16"), None),
        ("\ufeff<p>Grüße, 日本".encode(), "text/html; charset=iso-8859-1"),
        ("<meta charset=gb18030><p>Grüße, 日本".encode("gb18030"), None),
        ("<meta charset=utf-8><p>Grüße, 日本".encode("gb18030"), "text/html; charset=gb18030"),
    ],
)
def test_r1_the_charset_of_a_page_is_detected(data, content_type):
    assert read_page(data, content_type=content_type, url=URL).body == "Grüße, 日本"


def test_r1_a_page_that_declares_no_charset_and_is_no_utf8_is_windows_1252():
    assert read_page("<p>“Grüße” – 5 €".encode("cp1252"), url=URL).body == "“Grüße” – 5 €"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 200_000 + STORY,
        "<article>" * 200_000 + STORY,
        "<ul><li>" * 100_000 + STORY,
        "<dl>" * 10_000 + "<div>" * 10_000 + "<dd>" * 10_000 + STORY,
        "<b></i>" * 200_000 + STORY,
        "<p " + " ".join(f"a{number}=1" for number in range(100_000)) + f">{STORY}",
        f"<p>{STORY}" * 30_000,
        "x<br>" * 500_000,
        "<" * 5_000_000,
    ],
    ids=["div", "article", "list", "terms", "inline", "attributes", "paragraphs", "lines", "lt"],
)
def test_m5_a_hostile_page_takes_linear_time(html):
    assert read(html).body


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["<a x='", "<!--", "<script>", "<title>", "<div class='a ", "\0"])
def test_m5_five_megabytes_without_text_are_no_content(piece):
    with pytest.raises(NoContent):
        read(piece * (5_000_000 // len(piece)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from(
                b"<article>|</article>|<div class='meta'>|</div>|<p>|<table>|<td>|<li>|</ul>|<h1>"
                b"|<header>|<meta name=author content=|<title>|</title>|<a href=x>|</a>|<svg>|<nav>"
                b"|text of it |&#|<!--|<meta charset=utf-16>|<html>|</body>|\xed\xa0".split(b"|")
            ),
        ),
        max_size=40,
    ).map(b"".join)
)
def test_h4_any_bytes_give_an_entry_or_no_content(data):
    try:
        entry = read_page(data, url=URL)
    except NoContent:
        return
    assert entry == read_page(data, url=URL)
    assert entry.body == " ".join(entry.body.split())
    for text in (entry.body, entry.title, entry.author or ""):
        assert text.encode("utf-8").decode("utf-8") == text
        assert "\0" not in text


@pytest.mark.corpus
def test_w1_main_text_of_real_pages_is_found(corpus):
    result = score(corpus)
    assert result.authors_right >= 25, result.authors_right  # the others are not marked
    assert result.authors_lenient >= 0.93
    assert result.mean_f1 >= 0.975, result.worst
    assert result.snippets_right >= 0.9 * result.snippets


def test_the_score_counts_words_as_often_as_they_occur():
    assert token_f1("a b b", "a b c") == pytest.approx(2 / 3)
    assert token_f1("", "") == 1.0


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR words that a page might have", "image/png"),
        (b"%PDF-1.7 words", "application/pdf"),
        (b"\x7fELF\0\0\0 words and more words", None),
    ],
)
def test_w3_a_file_that_is_no_page_is_a_one_line_error(data, content_type):
    with pytest.raises(NoContent, match="not a page"):
        read_page(data, content_type=content_type, url="http://example.org/file")


def test_w1_a_page_in_utf_16_is_no_binary_file():
    page_bytes = f"<article><p>{STORY}</p></article>".encode("utf-16")
    assert STORY.strip() in read_page(page_bytes, url="http://example.org/").body
