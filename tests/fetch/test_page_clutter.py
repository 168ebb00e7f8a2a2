"""What is left out of the text of a page, and what stays (W1)."""

import pytest

from headwater.fetch.page.page_document import read_page

URL = "https://example.org/page"
STORY = (
    "The river rose during the night and the lower meadows were flooded by the morning, "
    "so the farmers moved their cattle to the hills. Nobody was hurt, the council said, "
    "but the bridge at the mill will stay closed until engineers have looked at its piers. "
)
TEXT = f"<p>{STORY}</p><p>{STORY}</p><p>{STORY}</p>"
TEASERS = (
    "<div><h3><a href='/1'>Snow</a></h3><p>It fell in the north all day.</p></div>"
    "<div><h3><a href='/2'>Ice</a></h3><p>It froze in the north all day.</p></div>"
)
SECTION = "Files are shared with other people by name, and each of them gets a copy to change. "


def text_of(body: str) -> str:
    data = f"<!DOCTYPE html><html><head><title>T</title></head><body>{body}</body></html>".encode()
    return read_page(data, content_type="text/html; charset=utf-8", url=URL).body


def linked(*titles: str) -> str:
    return "".join(f"<li><a href='/{title}'>{title} in the north</a></li>" for title in titles)


@pytest.mark.parametrize(
    "section",
    [
        f"<section id='sharing-with-others'><h2>Sharing</h2><p>{SECTION * 2}</p></section>",
        f"<h2 id='related-work'>Related work</h2><p>{SECTION}</p>",
        f"<h4 id='sharing'>Sharing files</h4><p>{SECTION}</p>",
        f"<section class='section comments'><h2>Comments</h2><p>{SECTION * 4}</p></section>",
        f"<div id='menu'><h3>The menu</h3><p>{SECTION * 2}</p></div>",
        f"<section id='comments'><div id='comments-in-code'><p>{SECTION * 2}</p></div></section>",
        f"<section id='cookies'><h2>Cookies</h2><p>{SECTION * 2}</p></section>",
        f"<section id='informed-consent'><h2>Consent</h2><p>{SECTION * 2}</p></section>",
        f"<section id='gdpr-requests'><h2>Requests</h2><p>{SECTION * 20}</p></section>",
        f"<div id='cookies'><p>{SECTION * 2}</p><pre>get()<button>Copy</button></pre></div>",
        f"<div class='cookies'><h2>Cookies</h2><p>{SECTION * 4}</p></div>",
        f"<div class='menu'><h2>The menu of the evening</h2><p>{SECTION * 4}</p></div>",
        f"<div class='image-gallery'><h2>Paintings</h2><p>{SECTION * 4}</p></div>",
        f"<div class='sidebar'><p>{SECTION * 4}</p></div>",
    ],
)
def test_w1_a_section_about_a_subject_is_no_clutter(section: str):
    body = text_of(f"<article>{TEXT}{section}{TEXT}</article>")
    assert SECTION.strip() in body


@pytest.mark.parametrize(
    "clutter",
    [
        f"<div class='related'><ul>{linked('Snow', 'Ice', 'Hail')}</ul>left out</div>",
        f"<div id='sharing'><ul>{linked('Snow', 'Ice')}</ul>left out</div>",
        "<div id='share'>left out</div>",
        "<div class='share-buttons'>left out</div>",
        f"<div id='comments'><div class='comment'>{SECTION * 5} left out</div></div>",
        f"<div class='comments'><ol class='comment-list'><li>{SECTION * 5} left out</ol></div>",
        f"<aside>{SECTION * 5} left out</aside>",
        f"<div class='sidebar'>{SECTION * 2} left out</div>",
        f"<div class='sidebar'>left out <ul>{linked('Snow', 'Ice', 'Hail')}</ul></div>",
        f"<div class='cookies'>{SECTION * 2} left out</div>",
        f"<div id='cookie-notice'>{SECTION * 2} left out</div>",
        f"<div id='CookieConsent'>{SECTION * 2} left out</div>",
        f"<div id='cookies'>{SECTION * 5} left out <button>Accept</button></div>",
        "<p>Share</p><p class='date'>left out</p>",
    ],
)
def test_w1_clutter_is_recognised_by_its_names_and_its_content(clutter: str):
    body = text_of(f"<article>{TEXT}{TEXT}{clutter}</article>")
    assert STORY.strip() in body
    assert "left out" not in body
    assert "Snow" not in body


@pytest.mark.parametrize(
    "title",
    [
        *("Most popular", "You may also like", "Our latest stories", "Related articles"),
        *("More from this author", "Mehr zum Thema", "Lire aussi", "関連記事一覧"),
        "Самые популярные новости",
    ],
)
@pytest.mark.parametrize(
    "markup",
    [
        "<h3>{title}</h3><ul>{links}</ul>",
        "<div><div><h2>{title}</h2></div><ul>{links}</ul></div>",
        "<p>{title}:</p><ul>{links}</ul>",
        f"<h2>{{title}}</h2>{TEASERS}",
    ],
)
def test_w1_a_list_of_other_articles_is_left_out(title: str, markup: str):
    others = markup.format(title=title, links=linked("Snow", "Ice", "Hail"))
    text = text_of(f"<article>{TEXT}</article>")
    assert text_of(f"<article>{TEXT}{others}</article>") == text
    more = f"<h2>Afterwards</h2><p>{SECTION}</p>"
    body = text_of(f"<article>{TEXT}{others}{more}</article>")
    assert body == f"{text} Afterwards {SECTION}".strip()


def test_w1_text_behind_a_list_of_other_articles_stays():
    others = f"<h3>Read also</h3><ul>{linked('Snow', 'Ice', 'Hail')}</ul>"
    body = text_of(f"<article>{TEXT}{others}<p>It is over.</p>{TEXT}</article>")
    assert "It is over." in body
    assert "Snow" not in body


def test_w1_a_page_that_is_a_list_of_articles_keeps_it():
    items = "".join(f"<h3><a href='/{n}'>Story {n}</a></h3><p>Snow fell.</p>" for n in range(9))
    assert "Story 8" in text_of(f"<div><h2>Latest news</h2>{items}</div>")


@pytest.mark.parametrize(
    "content",
    [
        f"<p>These places were flooded:</p><ul>{linked('Mill', 'Ford')}</ul>",
        f"<h2>References</h2><ol>{linked('Mill', 'Ford')}</ol>",
        f"<p>Some.</p><ul>{linked('Mill', 'Ford')}<li>and all the lower meadows on the way</ul>",
        f"<h2>Related projects</h2><ul>{linked('Mill', 'Ford')}</ul>",
        f"<h2>More information</h2><ul>{linked('Mill', 'Ford')}</ul>",
    ],
)
def test_w1_items_of_one_link_stay_in_a_list_that_is_content(content: str):
    body = text_of(f"<article>{TEXT}{content}</article>")
    assert "Mill in the north" in body
    assert "Ford in the north" in body


def test_w1_a_list_of_links_without_introduction_is_left_out():
    body = text_of(f"<article>{TEXT}<ul>{linked('Mill', 'Ford')}</ul></article>")
    assert "Mill" not in body


def test_w1_a_lead_in_the_header_of_an_article_stays_and_its_metadata_does_not():
    header = f"<header><h1>Flood</h1><p>{SECTION * 2}</p><p>By Jane, 3 May</p></header>"
    body = text_of(f"<article>{header}{TEXT}</article>")
    assert body.startswith(f"Flood {SECTION}")
    assert "Jane" not in body


@pytest.mark.parametrize(
    "piece",
    [
        *("<h2>Related<li>", "<div class=related><a>Related</a>", "<p>Related"),
        *("<div class=cookie>a<button>b</button>", "<div class=menu>"),
    ],
)
def test_m5_many_names_of_clutter_take_linear_time(piece: str):
    body = text_of(f"<article>{TEXT}{piece * 50_000}</article>")
    assert STORY.strip() in body
